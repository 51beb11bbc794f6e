// Blocks that are transposed in registers.
#pragma once

#include <Halide.h>

namespace kiln {

// Where 2, 4, ... or 64 vectors of no more numbers than they are vectors are interleaved and stored, as copies from one
// layout to another do (moves/transpose_block.h): vectors of the result made by shuffles of two vectors each, as many
// for each as the vectors' length has bits, by what each processor has an instruction for. Halide interleaves all of
// them, of which LLVM 21 makes a shuffle for each vector that is read, eight of a block of 16 by 8 with AVX-512, where
// words and bytes take several instructions each, and moves besides. `leaves_y`: blocks that become 32-bit rows of y
// are left as they are (TargetModel::stores_wait).
Halide::Internal::Stmt transpose_by_pairs(const Halide::Internal::Stmt &statement, int vector_bits, bool leaves_y);

}  // namespace kiln
