// What is done to a finished sum before it is stored.
#pragma once

#include <Halide.h>

#include <vector>

#include "expressions/operands.h"
#include "kiln/problem.h"

namespace kiln {

// y at `at`, the output's coordinates, channel first, from a sum of sum_type(): bias, residual, activation and rounding
// to y's type, by the formulas of problem.h.
Halide::Expr epilogue(const Problem &problem, const Halide::Expr &sum, const Operands &operands,
                      const std::vector<Halide::Expr> &at);

// The same where the first of `at` is not the channel itself.
Halide::Expr epilogue(const Problem &problem, const Halide::Expr &sum, const Operands &operands,
                      const std::vector<Halide::Expr> &at, const Halide::Expr &channel);

}  // namespace kiln
