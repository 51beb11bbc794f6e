// Interleaved float64 numbers on 32-bit ARM. Halide 21 stores what is interleaved by vst2, vst3 and vst4, which 32-bit
// ARM has for elements of up to 32 bits: of wider ones LLVM aborts, or leaves the store out.
#pragma once

#include <Halide.h>

namespace kiln {

// The lowered statement, with numbers of 64 bits interleaved in registers before they are stored.
Halide::Internal::Stmt interleave_in_registers(const Halide::Internal::Stmt &statement);

}  // namespace kiln
