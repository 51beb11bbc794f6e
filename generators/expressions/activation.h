// The activations that kernels compute behind their sums.
#pragma once

#include <Halide.h>

#include "expressions/sizes.h"
#include "kiln/problem.h"

namespace kiln {

// An activation at v, a float32 or float64, with its parameters a and b.
Halide::Expr activation_formula(Activation activation, const Halide::Expr &v, const Halide::Expr &a,
                                const Halide::Expr &b);

// The problem's activation at v, a float32 or float64; where the epilogue is open, that which the run says.
Halide::Expr activate(const Problem &problem, const Sizes &sizes, const Halide::Expr &v);

}  // namespace kiln
