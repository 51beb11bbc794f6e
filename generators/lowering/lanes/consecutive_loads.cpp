// Proving it lane by lane.
#include "lowering/lanes/consecutive_loads.h"

#include <algorithm>
#include <vector>

#include "lowering/lanes/lanes_mutator.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

class LoadDensely : public LanesMutator {
  protected:
    using LanesMutator::visit;

    Expr visit(const Load *op) override {
        if (op->type.is_scalar() || op->index.as<Ramp>() != nullptr || !is_const_one(op->predicate) ||
            !are_consecutive(lanes_of(op->index))) {
            return IRMutator::visit(op);
        }
        return dense(op, op->type, extract_lane(op->index, 0));
    }

    Expr visit(const Shuffle *op) override {
        const Load *load = op->is_interleave() && op->vectors.size() > 1 ? only_load(op->vectors) : nullptr;
        if (load == nullptr) {
            return IRMutator::visit(op);
        }
        std::vector<Expr> indices;
        for (const Expr &element : lanes_of(op)) {
            indices.push_back(element.as<Load>()->index);
        }
        return are_consecutive(indices) ? dense(load, op->type, extract_lane(op, 0).as<Load>()->index)
                                        : IRMutator::visit(op);
    }

  private:
    static Expr dense(const Load *like, const Halide::Type &type, const Expr &first) {
        return Load::make(type, like->name, Ramp::make(first, 1, type.lanes()), like->image, like->param,
                          const_true(type.lanes()), ModulusRemainder());
    }

    // A load, where vectors are loads without masks from one tensor, or slices of such; else null.
    static const Load *only_load(const std::vector<Expr> &vectors) {
        const Load *first = nullptr;
        for (const Expr &vector : vectors) {
            const auto *slice = vector.as<Shuffle>();
            const auto *load = (slice != nullptr && slice->is_slice() ? slice->vectors[0] : vector).as<Load>();
            if (load == nullptr || !is_const_one(load->predicate) || (first != nullptr && load->name != first->name)) {
                return nullptr;
            }
            first = load;
        }
        return first;
    }

    std::vector<Expr> lanes_of(const Expr &vector) const {
        std::vector<Expr> result;
        for (int i = 0; i < vector.type().lanes(); i++) {
            result.push_back(lane(vector, i));
        }
        return result;
    }

    static bool are_consecutive(const std::vector<Expr> &indices) {
        return std::all_of(indices.begin() + 1, indices.end(), [&, i = 0](const Expr &index) mutable {
            return is_const(simplify(index - indices[0]), ++i);
        });
    }
};

}  // namespace

Stmt load_consecutive_lanes_densely(const Stmt &statement) {
    return LoadDensely().mutate(statement);
}

}  // namespace kiln
