// What LLVM compiles a module for where Halide's features name no such processor.
#pragma once

#include <Halide.h>

#include <string>

#include "targets/target_model.h"

namespace kiln {

// Makes LLVM compile the module's functions for `processor` rather than for what Halide's features say. To be called
// before the process first compiles anything, for LLVM reads its options once: a process compiles kernels of one such
// target, one after the other. `file` is written, and read by each compilation of the process from then on.
void force_processor(const Halide::Module &module, const LlvmProcessor &processor, const std::string &file);

// Throws Halide::InternalError where the listing of such a module has registers of AVX-512: LLVM did not hear.
void check_without_avx512(const std::string &assembly_file);

}  // namespace kiln
