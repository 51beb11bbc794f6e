// How a lowered module becomes an object: which processor LLVM compiles it for, and what the result takes of the stack.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <string>

#include "targets/target_model.h"

namespace kiln {

// A target as pipelines are lowered for it: callers have validated what Halide would assert.
Halide::Target pipeline_target(const Halide::Target &target);

// What is known when it is compiled, as a number.
int64_t constant_value(const Halide::Expr &value);

// Has LLVM allocate registers by its basic means, in all that the process compiles; before it compiles anything. Unless
// HL_LLVM_ARGS says which allocator to use.
void use_basic_registers();

// Has LLVM make no vectors of neighbouring scalars, in all that the process compiles, likewise: of the addresses of
// several elements that a loop broadcasts it makes one, and takes that apart again in each step.
void keep_scalars();

// Compiles the module for `target`, which says more of the processor than Halide's own target can, and returns the
// bytes of the deepest frame among its functions. The assembly listing is written to `object_file` + ".s" where
// `lists` asks for it, or where it is needed. A process compiles for one target with an LlvmProcessor only: LLVM reads
// its options once, before it first compiles anything. Throws Halide::InternalError where LLVM compiled for another
// processor, and MaskedTernaryLogic (lowering/instructions/masked_ternary_logic.h).
int64_t compile_module(Halide::Module &module, const TargetModel &target, const std::string &object_file, bool lists);

// What functions are compiled for that call kernels, and that every processor of an architecture is to run: the
// TargetModel's name of it.
Halide::Target calling_target(const std::string &architecture);

// Compiles a module of such functions. Its constants are aligned to KILN_ALIGNMENT, as kernels ask of packed weights:
// Halide 21 aligns them to 32 bytes, and a vector of 64 bytes then lies in two lines of a cache.
void compile_callers(Halide::Module &module, const std::string &object_file);

}  // namespace kiln
