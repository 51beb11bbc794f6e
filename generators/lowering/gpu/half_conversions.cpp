#include "lowering/gpu/half_conversions.h"

namespace kiln {

using namespace Halide::Internal;
using Halide::Expr;

Expr ConvertHalvesByLanes::visit(const Cast *op) {
    if (op->type.element_of() != Halide::Float(16) || op->type.is_scalar() ||
        op->value.type().element_of() != Halide::Float(32)) {
        return IRMutator::visit(op);
    }
    // The intrinsic takes one number: the compiler calls it for each lane.
    const Expr bits =
        Call::make(Halide::UInt(16, op->type.lanes()), "llvm.nvvm.f2h.rn", {mutate(op->value)}, Call::PureExtern);
    return Halide::reinterpret(op->type, bits);
}

}  // namespace kiln
