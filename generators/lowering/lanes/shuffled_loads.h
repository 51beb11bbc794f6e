// Vectors that are shuffled of what a function's own arrays hold.
#pragma once

#include <Halide.h>

namespace kiln {

// The lowered statement, in which vectors whose lanes lie here and there in an array of the function's own, as sums of
// interleaved groups do, are shuffled of vectors that it holds. Halide 21 shuffles them of a load from the first to the
// last of their places, and of 30 lanes, say, LLVM makes several of 16, 8, 4 and 2, which are taken out of registers
// and put together by several instructions a lane.
Halide::Internal::Stmt shuffle_whole_vectors(const Halide::Internal::Stmt &statement);

}  // namespace kiln
