// Vectors that are interleaved before they are stored, as each target can.
#pragma once

#include <Halide.h>

#include "targets/target_model.h"

namespace kiln {

// The lowered statement of a convolution or an operation, in which they are interleaved in registers where the target's
// stores cannot (f64_vectors), and blocks of them by pairs of vectors where it has instructions for that
// (lowering/lanes/transposed_blocks.h).
Halide::Internal::Stmt lower_interleaves(const Halide::Internal::Stmt &statement, const TargetModel &target);

}  // namespace kiln
