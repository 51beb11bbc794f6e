// Rounding to bfloat16 by AVX-512's instruction for it, for which Halide has no expression: its own cast is integer
// arithmetic, six instructions.
#pragma once

#include <Halide.h>

namespace kiln {

// Whether a target has it.
bool has_bf16_instruction(const Halide::Target &target);

// The bfloat16 nearest to the float32 v, subnormal numbers taken for 0. What is lowered goes through
// use_bf16_instruction() then.
Halide::Expr to_bf16(const Halide::Expr &v);

// The same, subnormal numbers being what they are, and as bits: by arithmetic on those of v.
Halide::Expr bf16_bits(const Halide::Expr &v);

// The lowered statement with those roundings as instructions, of a target that has them.
Halide::Internal::Stmt use_bf16_instruction(const Halide::Internal::Stmt &statement);

}  // namespace kiln
