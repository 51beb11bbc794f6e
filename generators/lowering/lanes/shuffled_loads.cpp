// Finding the vectors that hold each lane.
#include "lowering/lanes/shuffled_loads.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

class ShuffleWholeVectors : public IRMutator {
  protected:
    using IRMutator::visit;

    Stmt visit(const Allocate *op) override {
        sizes_[op->name] = op->constant_allocation_size();
        Stmt result = IRMutator::visit(op);
        sizes_.erase(op->name);
        return result;
    }

    Expr visit(const Shuffle *op) override {
        const Load *load = op->vectors.size() == 1 ? op->vectors[0].as<Load>() : nullptr;
        const auto *ramp = load != nullptr ? load->index.as<Ramp>() : nullptr;
        if (ramp == nullptr || !is_const_one(ramp->stride) || load->type.lanes() % op->type.lanes() == 0) {
            return IRMutator::visit(op);
        }
        return shuffled(load, ramp->base, op->indices).value_or(op);
    }

    Expr visit(const Load *op) override {
        const auto *ramp = op->index.as<Ramp>();
        const std::optional<int64_t> stride = ramp != nullptr ? as_const_int(ramp->stride) : std::nullopt;
        if (!stride || *stride <= 1) {
            return IRMutator::visit(op);
        }
        std::vector<int> indices;
        for (int lane = 0; lane < ramp->lanes; lane++) {
            indices.push_back(static_cast<int>(lane * *stride));
        }
        return shuffled(op, ramp->base, indices).value_or(op);
    }

  private:
    // What lies so many elements behind `base`, of vectors that begin at multiples of their lanes; nothing unless those
    // are known and of an array of the function's own.
    std::optional<Expr> shuffled(const Load *load, const Expr &base, const std::vector<int> &from_base) const {
        const auto lanes = static_cast<int>(from_base.size());
        const auto size = sizes_.find(load->name);
        const std::optional<int64_t> begin = as_const_int(base);
        if (lanes == 1 || size == sizes_.end() || size->second == 0 || size->second % lanes != 0 || !begin ||
            !is_const_one(load->predicate)) {
            return std::nullopt;
        }
        std::vector<int> firsts, indices;
        for (const int distance : from_base) {
            const int place = static_cast<int>(*begin) + distance;
            const auto known = std::find(firsts.begin(), firsts.end(), place / lanes * lanes);
            indices.push_back(static_cast<int>(known - firsts.begin()) * lanes + place % lanes);
            if (known == firsts.end()) {
                firsts.push_back(place / lanes * lanes);
            }
        }
        std::vector<Expr> vectors;
        for (const int first : firsts) {
            vectors.push_back(Load::make(load->type.with_lanes(lanes), load->name, Ramp::make(first, 1, lanes),
                                         load->image, load->param, const_true(lanes), ModulusRemainder()));
        }
        return Shuffle::make(vectors, indices);
    }

    std::map<std::string, int> sizes_;  // of the arrays around, in elements: 0 where that is not known
};

}  // namespace

Stmt shuffle_whole_vectors(const Stmt &statement) {
    return ShuffleWholeVectors().mutate(statement);
}

}  // namespace kiln
