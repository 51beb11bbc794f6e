#include "lowering/gpu/strict_floats.h"

#include <vector>

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

Expr CompareStrictNumbers::visit(const Call *op) {
    if (!op->is_intrinsic({Call::strict_lt, Call::strict_le, Call::strict_eq})) {
        return IRMutator::visit(op);
    }
    const std::vector<Expr> args = mutate(op->args);
    return op->is_intrinsic(Call::strict_lt)   ? LT::make(args[0], args[1])
           : op->is_intrinsic(Call::strict_le) ? LE::make(args[0], args[1])
                                               : EQ::make(args[0], args[1]);
}

}  // namespace kiln
