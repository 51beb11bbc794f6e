// Stores of a part of a vector that is known when the kernel is made, such as the last 2 channels of 34 or a row of 7
// positions. Where a processor has no masks of its own, AVX2's vmaskmovps is the instruction: on AMD's processors a
// dozen cycles or more for each, and no bytes are stored so at all, but one by one.
#pragma once

#include <Halide.h>

namespace kiln {

// The lowered statement, in which each store under a mask whose lanes are provably known is made of whole ones: of 7
// lanes 4, 2 and 1. What the mask leaves out is not written.
Halide::Internal::Stmt store_known_lanes_whole(const Halide::Internal::Stmt &statement);

}  // namespace kiln
