#include "lowering/gpu/strict_products.h"

namespace kiln {

using namespace Halide::Internal;
using Halide::Expr;

Expr RoundStrictProducts::visit(const Call *op) {
    if (!op->is_intrinsic(Call::strict_mul) || op->type.element_of() != Halide::Float(32)) {
        return IRMutator::visit(op);
    }
    // The intrinsic takes two numbers: the compiler calls it for each lane.
    return Call::make(op->type, "llvm.nvvm.mul.rn.f", mutate(op->args), Call::PureExtern);
}

}  // namespace kiln
