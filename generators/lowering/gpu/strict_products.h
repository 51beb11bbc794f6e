// Products of float32 in CUDA kernels that are rounded by themselves.
#pragma once

#include <Halide.h>

namespace kiln {

// A custom lowering pass: what is strict_float multiplies by the intrinsic of an instruction that says how it rounds.
// Halide tells LLVM that products may be joined with sums to fused ones, strict or not, and so does LLVM ptxas.
class RoundStrictProducts : public Halide::Internal::IRMutator {
  public:
    using IRMutator::mutate;

  protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Call *op) override;
};

}  // namespace kiln
