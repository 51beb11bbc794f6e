// Finding which lanes a mask has, and storing runs of them by powers of two.
#include "lowering/lanes/partial_stores.h"

#include <optional>
#include <vector>

#include "lowering/lanes/lanes_mutator.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

class StoreWhole : public LanesMutator {
  protected:
    using LanesMutator::visit;

    Stmt visit(const Store *op) override {
        const auto *ramp = op->index.as<Ramp>();
        if (is_const_one(op->predicate) || ramp == nullptr || !ramp->base.type().is_scalar() ||
            !is_const_one(ramp->stride)) {
            return IRMutator::visit(op);
        }
        const std::optional<std::vector<bool>> stored = known_lanes(op->predicate);
        return stored ? store_parts(op, ramp->base, *stored) : IRMutator::visit(op);
    }

  private:
    // Which lanes a mask has; nothing where that depends on more than constants.
    std::optional<std::vector<bool>> known_lanes(const Expr &mask) const {
        std::vector<bool> result;
        for (int i = 0; i < mask.type().lanes(); i++) {
            const Expr is_stored = lane(mask, i);
            if (!is_const(is_stored)) {
                return std::nullopt;
            }
            result.push_back(is_const_one(is_stored));
        }
        return result;
    }

    // The value is one name's, whose lanes are stored a run after the other.
    static Stmt store_parts(const Store *op, const Expr &base, const std::vector<bool> &stored) {
        const int lanes = static_cast<int>(stored.size());
        const std::string name = unique_name("stored");
        const Expr value = Variable::make(op->value.type(), name);
        std::vector<Stmt> parts;
        for (int first = 0; first < lanes;) {
            int run = 0;
            while (first + run < lanes && stored[first + run]) {
                run++;
            }
            int part = 1;
            while (2 * part <= run) {
                part *= 2;
            }
            if (run > 0) {
                const Expr index = part == 1 ? base + first : Ramp::make(base + first, 1, part);
                parts.push_back(Store::make(op->name,
                                            part == lanes ? value : Shuffle::make_slice(value, first, 1, part),
                                            simplify(index), op->param, const_true(part), ModulusRemainder()));
            }
            first += part;
        }
        return parts.empty() ? Evaluate::make(0) : LetStmt::make(name, op->value, Block::make(parts));
    }
};

}  // namespace

Stmt store_known_lanes_whole(const Stmt &statement) {
    return StoreWhole().mutate(statement);
}

}  // namespace kiln
