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

// What channels have of their own (bias, scale, slope), copied to where vectors read it whole: of lanes that are other
// channels than neighbours, or reach beyond the last.
struct ChannelCopies {
    Operands operands;                 // with the copies in place of the originals
    std::vector<Halide::Func> copies;  // to be scheduled
};
// The copies are over `at`; `channel` is whose they are there.
ChannelCopies copy_channel_operands(const Operands &operands, const Halide::Var &at, const Halide::Expr &channel);

}  // namespace kiln
