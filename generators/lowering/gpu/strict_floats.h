// What is strict_float, in kernels of GPUs.
#pragma once

#include <Halide.h>

namespace kiln {

// A custom lowering pass for CUDA: products are of an intrinsic whose instruction says how it rounds. Halide tells LLVM
// that products may be joined with sums to fused ones, strict or not, and so does LLVM ptxas. Integers that are made by
// the last digits of a sum (epilogue.cpp) are made by the instruction for it: where a byte of a float32's bits was
// stored, ptxas 12.9 converted the number instead.
class RoundStrictNumbers : public Halide::Internal::IRMutator {
  public:
    using IRMutator::mutate;

  protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Call *op) override;
    Halide::Expr visit(const Halide::Internal::Reinterpret *op) override;
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
