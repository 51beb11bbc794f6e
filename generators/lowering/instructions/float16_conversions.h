// Conversions of float16 that lies in memory as its bits. Halide's own casts are taken for finite numbers in many
// places, and a processor's instructions hold for all: so neither Halide nor LLVM is shown what the conversions are
// until all else is lowered.
#pragma once

#include <Halide.h>

namespace kiln {

// The float32 that float16's bits are worth, infinities and NaN among them. What is lowered goes through
// lower_float16_conversions() then.
Halide::Expr float16_value(const Halide::Expr &bits);

// The bits of the float16 nearest to a float32, ties to even; NaN stays NaN.
Halide::Expr nearest_float16(const Halide::Expr &value);

// The lowered module with those as the target's instructions, or where it has none, as arithmetic on bits.
void lower_float16_conversions(Halide::Module &module);

}  // namespace kiln
