// Rounding to bfloat16 by AVX-512's instruction for it.
#include "lowering/instructions/bf16_instruction.h"

#include <string>

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::UInt;

constexpr const char *marker = "kiln_bf16_bits";

// A function of Halide's own runtime for AVX-512, of 32 lanes, which takes other vectors by parts; from 9 lanes on it
// finds it. Fewer lanes, filled up, take longer than by arithmetic on their bits.
constexpr const char *instruction = "vcvtne2ps2bf16";
constexpr int fewest_lanes = 9;

class UseInstruction : public IRMutator {
  protected:
    using IRMutator::visit;
    Expr visit(const Call *op) override {
        if (op->name != marker) {
            return IRMutator::visit(op);
        }
        const Expr v = mutate(op->args[0]);
        if (op->type.lanes() < fewest_lanes) {
            return bf16_bits(v);
        }
        return Call::make(op->type, instruction, {v}, Call::PureExtern);
    }
};

}  // namespace

bool has_bf16_instruction(const Halide::Target &target) {
    return target.features_any_of({Halide::Target::AVX512_Zen4, Halide::Target::AVX512_SapphireRapids});
}

// Rounds half to even.
Expr bf16_bits(const Expr &v) {
    const Expr bits = Halide::reinterpret(UInt(32, v.type().lanes()), v);
    const auto constant = [&bits](int value) { return make_const(bits.type(), value); };
    const Expr rounded = (bits + constant(0x7fff) + ((bits >> constant(16)) & constant(1))) >> constant(16);
    const Expr is_nan = (bits & constant(0x7fffffff)) > constant(0x7f800000);
    return Halide::cast(UInt(16, v.type().lanes()), Halide::select(is_nan, constant(0x7fc0), rounded));
}

Expr to_bf16(const Expr &v) {
    return Halide::reinterpret(Halide::BFloat(16), Call::make(UInt(16), marker, {v}, Call::PureExtern));
}

Halide::Internal::Stmt use_bf16_instruction(const Halide::Internal::Stmt &statement) {
    return UseInstruction().mutate(statement);
}

}  // namespace kiln
