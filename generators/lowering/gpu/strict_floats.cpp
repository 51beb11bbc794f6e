#include "lowering/gpu/strict_floats.h"

#include <vector>

namespace kiln {

using namespace Halide::Internal;
using Halide::Expr;

// What epilogue.cpp adds to a number so that the last digit of the sum is worth 1.
constexpr double rounds_to_integers = 0x1.8p23;

Expr RoundStrictNumbers::visit(const Call *op) {
    if (!op->is_intrinsic(Call::strict_mul) || op->type.element_of() != Halide::Float(32)) {
        return IRMutator::visit(op);
    }
    // The intrinsic takes two numbers: the compiler calls it for each lane.
    return Call::make(op->type, "llvm.nvvm.mul.rn.f", mutate(op->args), Call::PureExtern);
}

Expr RoundStrictNumbers::visit(const Reinterpret *op) {
    const auto *sum = op->value.as<Call>();
    const bool rounds = op->type.element_of() == Halide::Int(32) && sum != nullptr &&
                        sum->is_intrinsic(Call::strict_add) && as_const_float(sum->args[1]) == rounds_to_integers;
    return rounds ? Call::make(op->type, "llvm.nvvm.f2i.rn", {mutate(sum->args[0])}, Call::PureExtern)
                  : IRMutator::visit(op);
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
