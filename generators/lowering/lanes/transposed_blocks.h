// Blocks that are transposed by AVX-512.
#pragma once

#include <Halide.h>

namespace kiln {

// Where 16 vectors of 2 to 16 numbers of 32 bits are interleaved and stored, as copies from one layout to another do
// (moves/transpose_block.h): vectors of the result made by shuffles of two vectors each, as many for each as the
// vectors' length has bits. Halide interleaves all of them, of which LLVM 21 makes a shuffle for each vector that is
// read, eight of a block of 16 by 8, and moves besides. Blocks that become rows of y are left as they are.
Halide::Internal::Stmt transpose_by_pairs(const Halide::Internal::Stmt &statement);

}  // namespace kiln
