// The depthwise algorithm: each channel by itself, its taps unrolled, all of them or those of a row.
//
// Applies to a Conv or ConvTranspose of as many groups as input channels, each of one output channel or of a few, all
// sizes fixed, with few taps and output phases, or of one phase with few taps along each axis.
// Multiplications: those of the definition; where rows of taps are a loop, taps that read padding are left out, along
// all axes but the innermost in any case, and along that where it is known which do (unrolls_row()). Error: a sum of
// `taps` products in the order of the taps. 8-bit products are exact: by themselves, or several taps summed by
// an instruction that takes pairs of 16 bits or fours of 8, for which the rows (or positions) that they read are
// interleaved.
#pragma once

#include <Halide.h>

#include <optional>
#include <vector>

#include "algorithms/depthwise/packing.h"
#include "algorithms/depthwise/schedule.h"
#include "axes/axis_map.h"
#include "expressions/epilogue.h"
#include "expressions/operands.h"
#include "expressions/zero_point_compensation.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln::depthwise {

// Rows of positions and channels, with what is ahead of x's position 0.
struct MergedRows {
    int before = 0;                         // so many numbers
    std::optional<ChannelCopies> of_lanes;  // of a period
};

// What an instruction reads that sums several taps: over (lane, c, positions..., n, group), what the lane-th tap of a
// group reads. On the dotted axis the position is the output's, q. Where rows of taps are a loop, all groups whose
// first tap reads a position share what is gathered there: over (lane, c, positions..., n).
struct GatheredTaps {
    size_t axis = 0;     // of those taps
    int group_rows = 1;  // how many of its outputs a group of taps serves
    Halide::Var lane{"lane"}, group{"group"};
    Halide::Func taps;
    std::optional<ZeroPointCompensation> compensation;  // of each channel, whose sums start below zero by as much
};

// Sums that are a stage of their own, over (c, q..., n), of lane and taps, groups of them on a dotted axis, or of taps
// alone.
struct TapSums {
    Halide::RDom r;
    Halide::Func sums;
};

// Channels-first planes, transposed in registers: x with channels innermost, the sums that are made of it, and blocks
// of those as y has them.
struct TransposedPlanes {
    Halide::Func x, x_block;
    Halide::Func sums, y_block;
};

// The stages of the kernel, not scheduled. Dimensions: c, then the spatial axes innermost first, then the batch n.
struct DepthwiseStages {
    Halide::Var c{"c"}, n{"n"};
    std::vector<Halide::Var> q, phase;  // output positions are q * phases + phase
    std::vector<AxisMap> axes;
    int outputs_of_group = 1;           // which `padded` holds each its own input channel for
    std::vector<AxisMap::Range> reads;  // of each axis of `padded`
    // x widened, or 8-bit where taps are gathered, with what stands for 0 around it: (c, positions..., n) or, of merged
    // rows, (position and channel, other positions..., n).
    Halide::Func padded;
    // Whether it is a copy: x lies otherwise than y, or is widened first, or rows are vectors. Else it is inlined.
    bool copies = false;
    std::optional<Halide::RDom> inside;  // where it is x, written over zeros: rows are vectors
    std::optional<MergedRows> merged_rows;
    std::optional<TransposedPlanes> transposed;
    std::optional<GatheredTaps> gathered;
    std::optional<TapSums> tap_sums;  // where taps are gathered, or rows of them a loop
    Halide::Func tiled;               // what is computed a tile at a time: y, or the sums that y is transposed from
    Halide::Func y;                   // (c, q and, where there are several, phase of each axis, n)
};

// Whether what an instruction reads is gathered for each position of x.
bool gathers_positions(const DepthwiseSchedule &schedule);

// Whether sums leave out the taps that read padding on axis `a`, rather than add up zeros.
bool skips_padding(const Problem &problem, const DepthwiseSchedule &schedule, const std::vector<AxisMap> &axes,
                   size_t a);

DepthwiseStages depthwise(const Problem &problem, const DepthwiseSchedule &schedule, const Operands &operands);

// input.cpp: `padded`.
void define_input(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                  const Operands &operands);

// sum.cpp: the sums of all phases, the first axis' fastest.
std::vector<Halide::Expr> define_sums(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                                      const Operands &operands);

// Whether sums start at the bias: an instruction that sums onto a number takes the bias as that.
bool starts_at_bias(const Problem &problem, const DepthwiseSchedule &schedule, const Operands &operands);

// Where a merged row's output lies in it.
Halide::Expr merged_position(const DepthwiseStages &s, const Problem &problem);

void schedule_depthwise(DepthwiseStages &stages, const Problem &problem, const DepthwiseSchedule &schedule);

}  // namespace kiln::depthwise
