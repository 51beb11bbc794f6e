// The weights of a sum's taps.
#pragma once

#include <Halide.h>

#include <vector>

#include "axes/axis_map.h"
#include "expressions/weights.h"
#include "kiln/problem.h"

namespace kiln {

// w's number for an output channel, input channel `k` of its group, which has `reduction_channels`, and so many taps of
// these phases; zero outside w: of a panel's empty lanes, of channels that fill up a vector, and beyond the taps of a
// phase that has fewer.
Halide::Expr weight_or_zero(const Problem &problem, const Halide::Func &w, const OutputChannel &out,
                            const Halide::Expr &k, int reduction_channels, const std::vector<AxisMap> &axes,
                            const std::vector<Halide::Expr> &taps, const std::vector<Halide::Var> &phases);

}  // namespace kiln
