// LLVM's intrinsics that Halide's code generators do not know, called by their own names.
#pragma once

#include <Halide.h>

#include <string>
#include <vector>

namespace kiln {

// "llvm.x86.avx2.pshuf.b", for example: one call of it, on vectors of the lanes that it takes. Other calls of functions
// by name Halide makes for each lane.
Halide::Expr llvm_intrinsic(const Halide::Type &type, const std::string &name,
                            const std::vector<Halide::Expr> &operands);

// a * b + c of float32, rounded once, for processors with an instruction for it: has_fused_products().
Halide::Expr fused_product(const Halide::Expr &a, const Halide::Expr &b, const Halide::Expr &c);
bool has_fused_products(const Halide::Target &target);

}  // namespace kiln
