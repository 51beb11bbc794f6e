// Sums that a block's threads keep in registers while the block goes through a loop.
#pragma once

#include <Halide.h>

#include "expressions/lets.h"

namespace kiln {

// A custom lowering pass. A Func that a block computes and stores in registers, by loops over threads of its own, is
// an array of the whole block's elements to Halide, of which each thread has its own copy and accesses a part: at
// indices that are a term of the thread's number, the same at all accesses, plus a constant. The array becomes that
// part, at the constants alone, which registers can hold. Throws Halide::InternalError where an access is not so.
//
// `by_lanes`: vectors of floating-point numbers are loaded and stored lane by lane. LLVM's backend for CUDA has a loop
// carry those accessed as vectors in pairs of registers, and ptxas moves each number at the loop's end.
class KeepThreadsRegisters : public LetsMutator {
  public:
    explicit KeepThreadsRegisters(bool by_lanes = false) : by_lanes_(by_lanes) {}

    using IRMutator::mutate;

  protected:
    using LetsMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::Allocate *op) override;

  private:
    const bool by_lanes_;
};

}  // namespace kiln
