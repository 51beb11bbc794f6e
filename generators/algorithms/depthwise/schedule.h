// The numbers that a kernel of the depthwise algorithm is made by, and which of them are legal.
#pragma once

#include <variant>

#include "algorithms/schedule_space.h"
#include "algorithms/schedule_text.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln::depthwise {

// What the lanes of a tile's vectors are:
//
// channels, by positions along the innermost axis;
struct ChannelLanes {
    int pixels = 1;
    bool channels_outside = false;  // whether a vector of channels sweeps the image, or each tile all channels
    // Whether channels-first planes of x and y are transposed in registers, a tile's channels at a time: the rows of
    // taps are a loop then, or a lane sums several. Else x is copied element by element and y written so.
    bool transposed = false;
    // Whether vectors of outputs of groups that have several each spread what they read of x over their lanes; else a
    // copy of x has each channel as many times: can_spread().
    bool spread = false;
};
// positions along the innermost axis, of one channel;
struct RowLanes {};
// both: positions and channels of a row are one axis, on which taps are whole channels apart.
struct MergedRowLanes {};

// How the products of an output are summed:
//
// one after the other;
struct UnrolledTaps {};
// so too, but rows of taps are a loop, in which one lane of an instruction may sum so many neighbours of a row;
struct TapsInLoop {
    int dot_width = 1;
};
// or so many neighbouring taps by one lane, all of them unrolled.
struct DotTaps {
    int width = 2;
};

struct DepthwiseSchedule {
    int lanes = 8;    // of a vector
    int vectors = 1;  // a tile is vectors
    std::variant<ChannelLanes, RowLanes, MergedRowLanes> tile;
    int rows = 1;  //   by rows along the axis after the innermost
    std::variant<UnrolledTaps, TapsInLoop, DotTaps> taps;
    bool parallel = false;

    template <class Lanes>
    const Lanes *with() const {
        return std::get_if<Lanes>(&tile);
    }
    template <class Taps>
    bool sums() const {
        return std::holds_alternative<Taps>(taps);
    }
    bool has_row_lanes() const { return with<RowLanes>() != nullptr; }
    bool has_merged_rows() const { return with<MergedRowLanes>() != nullptr; }
    bool spreads() const { return with<ChannelLanes>() != nullptr && with<ChannelLanes>()->spread; }
    bool transposes() const { return with<ChannelLanes>() != nullptr && with<ChannelLanes>()->transposed; }
    int pixels() const { return with<ChannelLanes>() != nullptr ? with<ChannelLanes>()->pixels : 1; }
    int dot_width() const {
        return sums<DotTaps>()      ? std::get<DotTaps>(taps).width
               : sums<TapsInLoop>() ? std::get<TapsInLoop>(taps).dot_width
                                    : 1;
    }
    // Whether the tiles of a row are code of their own, so that it is known which of a tile's taps read the padding at
    // the row's ends, and these are left out: where there are two tiles at most, or more than the first and the last
    // read it, which Halide parts from those between anyway.
    bool unrolls_row(const Problem &problem) const;
    // Of merged rows: after how many lanes, whole vectors of them, the channels repeat.
    int period(const Problem &problem) const;

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless a tile fits into the problem's image, and an instruction's sum its types.
    void check(const Problem &problem) const;
};

bool applies(const Problem &problem);

// Whether taps are few enough for all of them to be unrolled.
bool unrolls_taps(const Problem &problem);

// cost.cpp: whether it is taken where nobody tuned.
bool is_profitable(const Problem &problem, const TargetModel &target);

// Whether rows may be merged: channels-last rows with as many outputs as inputs, of floats that are summed in float32.
bool merges_rows(const Problem &problem);

// Whether one lane may sum the products of `dot` neighbouring taps: by 2 those of 16-bit integers, by 4 of u8 times s8.
bool sums_taps(const Problem &problem, int dot);

// Whether planes may be transposed: channels-first x and y with as many outputs as inputs, whose rows of taps may be a
// loop, or whose products a lane may sum.
bool transposes_planes(const Problem &problem);

// Whether tiles may spread channels-last floats over the lanes of their groups' outputs: they begin at a group's first
// output each.
bool can_spread(const Problem &problem, const DepthwiseSchedule &schedule);

// Whether rows of taps may be a loop, or a single one all taps of a sum that stays in registers: of sums of one phase.
bool loops_over_taps(const Problem &problem);

DepthwiseSchedule default_depthwise_schedule(const Problem &problem, const TargetModel &target);
ScheduleSpace space(const Problem &problem, const TargetModel &target);

}  // namespace kiln::depthwise
