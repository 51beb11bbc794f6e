// The direct algorithm's packed weights: what the kernel and its pack function both know of them.
#pragma once

#include <Halide.h>

#include <vector>

#include "algorithms/direct/schedule.h"
#include "axes/axis_map.h"
#include "expressions/arithmetic.h"
#include "kiln/problem.h"

namespace kiln {

struct PackedWeights {
    int panel;     // output channels of a panel
    int panels;    // of a group where those have panels of their own, else of all channels; the last is filled up with
                   // zeros
    int groups;    // that have panels of their own; else 1
    int channels;  // output channels of such a group, or all
    int reduction_channels;  // input channels of a group
    int dot_width;           // neighbouring input channels that one lane sums
    std::vector<AxisMap> axes;
    int joined_taps = 1;         // of the innermost axis, which are one sum with their channels: then all of them
    int tile_steps = 1;          // that one instruction takes
    bool lanes_outside = false;  // whether those steps lie side by side within a lane
    int interleaved_groups = 1;  // of a panel, which lie in it lane by lane

    int steps() const {
        return round_up(ceil_div(reduction_channels * joined_taps, dot_width), tile_steps);
    }  // of the sum over input channels
    // How many numbers the last step takes that are of no channel and tap.
    int beyond() const { return steps() * dot_width - reduction_channels * joined_taps; }
    int taps(size_t axis) const { return axis == 0 ? axes[0].taps / joined_taps : axes[axis].taps; }  // of other sums
    // [dot_width][panel lane][steps][taps...][panels of all groups][phases...], the innermost first; with lanes
    // outside, [dot_width][tile_steps][panel lane][steps / tile_steps][taps...] and so on.
    std::vector<int> extents() const;
    // Where the product of output channel c of group g (0 unless groups have panels of their own), `product` of a lane,
    // `step` and these taps lies, of one of these phases.
    std::vector<Halide::Expr> at(const Halide::Expr &c, const Halide::Expr &g, const Halide::Expr &product,
                                 const Halide::Expr &step, const std::vector<Halide::Expr> &taps,
                                 const std::vector<Halide::Var> &phases) const;
};
PackedWeights packed_weights(const Problem &problem, const DirectSchedule &schedule);

// The weights as a kernel reads them, from w as Implementation::pack gets it.
Halide::Func pack(const Problem &problem, const PackedWeights &packed, const Halide::Func &w);

}  // namespace kiln
