// Proving it lane by lane.
#include "lowering/lanes/consecutive_loads.h"

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
            !is_consecutive(op->index)) {
            return IRMutator::visit(op);
        }
        return Load::make(op->type, op->name, Ramp::make(extract_lane(op->index, 0), 1, op->type.lanes()), op->image,
                          op->param, op->predicate, ModulusRemainder());
    }

  private:
    bool is_consecutive(const Expr &index) const {
        const Expr first = lane(index, 0);
        for (int i = 1; i < index.type().lanes(); i++) {
            if (!is_const(simplify(lane(index, i) - first), i)) {
                return false;
            }
        }
        return true;
    }
};

}  // namespace

Stmt load_consecutive_lanes_densely(const Stmt &statement) {
    return LoadDensely().mutate(statement);
}

}  // namespace kiln
