// What is strict_float, in kernels of GPUs.
#pragma once

#include <Halide.h>

namespace kiln {

// A custom lowering pass for CUDA: products are of an intrinsic whose instruction says how it rounds. Halide tells LLVM
// that products may be joined with sums to fused ones, strict or not, and so does LLVM ptxas.
class RoundStrictProducts : public Halide::Internal::IRMutator {
  public:
    using IRMutator::mutate;

  protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Call *op) override;
};

// One for OpenCL: comparisons, which round nothing, are plain ones. Its code generator fails at others of vectors.
class CompareStrictNumbers : public Halide::Internal::IRMutator {
  public:
    using IRMutator::mutate;

  protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Call *op) override;
};

}  // namespace kiln
