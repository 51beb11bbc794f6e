// The depthwise algorithm: each channel by itself, its taps unrolled.
//
// Applies to a Conv or ConvTranspose of as many groups as input channels, each of one output channel or of a few, all
// sizes fixed, with few taps and output phases. Multiplications: those of the definition, padding included. Error: a
// sum of `taps` products in the order of the taps. 8-bit products are exact: by themselves, or several taps summed by
// an instruction that takes pairs of 16 bits or fours of 8, for which the rows (or positions) that they read are
// interleaved.
#pragma once

#include <Halide.h>

#include <vector>

#include "algorithms/schedule_space.h"
#include "algorithms/schedule_text.h"
#include "axes/axis_map.h"
#include "expressions/operands.h"
#include "expressions/zero_point_compensation.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln::depthwise {

bool applies(const Problem &problem);

// The numbers a schedule of the depthwise algorithm is made of.
struct DepthwiseSchedule {
    int lanes = 8;                  // of a vector: channels, or positions along the innermost axis
    int vectors = 1;                // a tile is vectors of those
    int pixels = 1;                 //   by positions along the innermost axis, where lanes are channels
    int rows = 1;                   //   by rows along the next one
    int dot = 1;                    // neighbouring taps that one lane of an instruction sums: sums_taps()
    bool along_row = false;         // whether vectors run along the innermost axis
    bool channels_outside = false;  // whether a vector of channels sweeps the image, or each tile all channels
    bool parallel = false;
    bool merged = false;  // whether vectors run along rows whose positions and channels are one axis: allows_merged()
    bool rolled = false;  // whether rows of taps are a loop, rather than all taps one after the other: rolls_taps()

    // Of merged rows: after how many lanes, whole vectors of them, the channels repeat.
    int period(const Problem &problem) const;

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless a tile fits into the problem's image, and an instruction's sum its types.
    void check(const Problem &problem) const;
};

// Whether positions and channels of a row may be one axis, on which taps are whole channels apart: of channels-last
// float32 rows with as many outputs as inputs.
bool allows_merged(const Problem &problem);

// Whether one lane may sum the products of `dot` neighbouring taps: by 2 those of 16-bit integers, by 4 of u8 times s8.
bool sums_taps(const Problem &problem, int dot);

// Whether rows of taps may be a loop, in which the taps of one are unrolled: of sums of floats of a Conv whose image
// has rows.
bool rolls_taps(const Problem &problem);

// The packed weights, the innermost first: [dot][channels, filled up with zeros to whole vectors, or repeated through a
// period][taps...][phases...],
// or [dot][taps...][phases...][channels] where vectors run along a row; the taps of the dotted axis in groups of `dot`,
// filled up with zeros.
std::vector<int> packed_extents(const Problem &problem, const DepthwiseSchedule &schedule);
Halide::Type packed_type(const Problem &problem, const DepthwiseSchedule &schedule);
Halide::Func pack(const Problem &problem, const DepthwiseSchedule &schedule, const Halide::Func &w);

// The stages of the kernel, not scheduled. Dimensions: c, then the spatial axes innermost first, then the batch n.
struct DepthwiseStages {
    Halide::Var c{"c"}, n{"n"};
    std::vector<Halide::Var> q, phase;  // output positions are q * phases + phase
    std::vector<AxisMap> axes;
    Halide::Func padded;  // x widened (or 8-bit, where taps are dotted), with what stands for 0 around it, (c,
                          // positions..., n): inlined, or a copy
    bool copies =
        false;          // whether it is a copy: x lies otherwise than y, or is of a narrower type, or rows are vectors
    int row_start = 0;  // where rows are merged, `padded` is a copy over (position and channel, other positions..., n),
                        // with so many numbers ahead of x's position 0
    Halide::Func lane_bias;  // and this the bias of the lanes of a period
    int fold = 1;            // output channels of a group, which `padded` holds each its own input channel for
    std::vector<AxisMap::Range> reads;  // of each axis of `padded`
    Halide::RDom inside;                // where `padded` is x, vectors being along a row
    Halide::Func y;                     // (c, q and, where there are several, phase of each axis, n)
    // Where an instruction sums several taps; of these only r and sum where rows of taps are a loop; else undefined.
    size_t dotted = 0;   // the axis of those taps
    int group_rows = 1;  // how many of its outputs a group of taps serves
    Halide::Var lane{"lane"}, group{"group"};
    Halide::Func gathered;  // (lane, c, positions..., n, group): what the lane-th tap of a group reads; on the dotted
                            // axis the position is the output's, q
    Halide::RDom r, all;    // lane and taps, groups of them on the dotted axis; the same for `surplus`
    Halide::Func sum;       // (c, q..., n)
    ZeroPointCompensation
        surplus;  // of each channel, whose sums start below zero by as much; undefined where that is nothing
};

DepthwiseStages depthwise(const Problem &problem, const DepthwiseSchedule &schedule, const Operands &operands);
DepthwiseSchedule default_depthwise_schedule(const Problem &problem, const TargetModel &target);
ScheduleSpace space(const Problem &problem, const TargetModel &target);
void schedule_depthwise(DepthwiseStages &stages, const Problem &problem, const DepthwiseSchedule &schedule);

}  // namespace kiln::depthwise
