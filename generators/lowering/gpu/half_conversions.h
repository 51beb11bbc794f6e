// float16 in CUDA kernels.
#pragma once

#include <Halide.h>

namespace kiln {

// A custom lowering pass: vectors of float32 are made float16 lane by lane, by the instruction's intrinsic. LLVM
// stores what it takes for a truncated vector as the bits of its float32 lanes, halves of neighbours over each other.
class ConvertHalvesByLanes : public Halide::Internal::IRMutator {
  public:
    using IRMutator::mutate;

  protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Cast *op) override;
};

}  // namespace kiln
