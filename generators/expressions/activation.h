// The activations that kernels compute behind their sums.
#pragma once

#include <Halide.h>

#include "expressions/sizes.h"
#include "kiln/problem.h"

namespace kiln {

// The problem's activation at v, a float32 or float64; where the epilogue is open, that which the run says.
Halide::Expr activate(const Problem &problem, const Sizes &sizes, const Halide::Expr &v);

}  // namespace kiln
