// What is done to a finished sum before it is stored.
#pragma once

#include <Halide.h>

#include <vector>

#include "kiln/problem.h"

namespace kiln {

// activation(sum + bias[c] + residual[at]), `at` being the output's coordinates, channel first; bias and residual are
// read only where the problem has them.
Halide::Expr epilogue(const Problem &problem, Halide::Expr sum, const Halide::Func &bias, const Halide::Func &residual,
                      const std::vector<Halide::Expr> &at);

}  // namespace kiln
