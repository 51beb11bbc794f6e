// Dot products of bytes by an instruction that Halide has but does not find by itself on the target.
#pragma once

#include <Halide.h>

namespace kiln {

// Sums of four neighbouring products of u8 by s8 become calls of `function` of Halide's runtime (x86_avx512.ll), which
// adds them to the lanes of a vector: FUNCTIONx8 takes eight lanes, FUNCTIONx4 four. Sums of other lanes stay as they
// are. `found` grows by one at least for each sum that is seen, of any lanes.
Halide::Internal::Stmt use_byte_dot(const Halide::Internal::Stmt &statement, const char *function, int &found);

}  // namespace kiln
