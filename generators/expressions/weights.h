// Where a weight stands in w, whose channels lie as the operator's traits say (weight_layout).
#pragma once

#include <Halide.h>

#include <vector>

#include "kiln/problem.h"

namespace kiln {

// An output channel, its group, and its number in that.
struct OutputChannel {
    Halide::Expr channel, group, of_group;
};

// The first two coordinates in w of an output channel's weight for input channel `k` of its group, which has
// `reduction_channels`.
std::vector<Halide::Expr> weight_at(const Problem &problem, const OutputChannel &out, const Halide::Expr &k,
                                    const Halide::Expr &reduction_channels);

// Of these two coordinates. The problem's channels and groups are known.
Halide::Region weight_bounds(const Problem &problem);

}  // namespace kiln
