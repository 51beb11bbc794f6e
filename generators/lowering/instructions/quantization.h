// Rounding float32 to 8-bit integers.
#pragma once

#include <Halide.h>

namespace kiln {

// saturate(round_half_even(v) + zero point), of an 8-bit type, whose range the zero point, an int32, is in. Of what is
// `above` it is known that v is 0 or more.
struct Quantization {
    Halide::Type type;
    Halide::Expr zero_point;
    bool above = false;

    [[nodiscard]] int least() const { return type.is_uint() ? 0 : -128; }  // of the type

    // By arithmetic, on any target.
    [[nodiscard]] Halide::Expr by_arithmetic(const Halide::Expr &v) const;
    // For targets that have instructions for it: what is lowered goes through lower_quantizations() then.
    [[nodiscard]] Halide::Expr by_instructions(const Halide::Expr &v) const;
};

// Whether a target converts to the nearest integers, and narrows these with saturation, by instructions that Halide has
// no expressions for.
bool has_quantizing_instructions(const Halide::Target &target);

// The lowered statement with such instructions. Up to four vectors that are stored one after the other are narrowed
// together, which takes fewer of them.
Halide::Internal::Stmt lower_quantizations(const Halide::Internal::Stmt &statement, const Halide::Target &target);

}  // namespace kiln
