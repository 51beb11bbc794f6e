// The direct algorithm: every output is the plain sum of its products, phase by phase.
//
// Applies to every Conv and ConvTranspose. Multiplications: those of the definition (a ConvTranspose's zeros between
// inputs are never multiplied; taps in the padding are skipped on all axes but the innermost). Error: a sum of
// in_channels / groups * taps products in the order of the loops.
#pragma once

#include <Halide.h>

#include <vector>

#include "algorithms/algorithm.h"
#include "algorithms/schedule_text.h"
#include "axes/axis_map.h"
#include "expressions/arithmetic.h"
#include "expressions/zero_point_compensation.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln::dense {

// The numbers a schedule of the direct algorithm is made of.
struct DirectSchedule {
    int lanes = 8;                // of a vector: output channels, or pixels along the innermost axis
    int vectors = 1;              // a register tile is vectors of those
    int pixels = 1;               //   by pixels along the innermost axis, where lanes are channels
    int rows = 1;                 //   by rows along the next one
    int unroll = 1;               // of the sum over input channels
    int dot = 1;                  // neighbouring input channels that one lane of an instruction sums: is_dot()
    bool panels_outside = false;  // whether a panel of weights sweeps the whole image, or each row all panels
    bool parallel = false;        // whether the caller's threads share the outermost loop
    int chunk = 0;     // where panels are outside, how much of the image, in turns of its outermost loop, all of them
                       // sweep before they sweep the next part; 0: all of it
    int channels = 0;  // where not 0, lanes are pixels, and a tile is of so many channels: has_row_lanes()
    int joined = 0;    // where not 0, rows of x that those vectors run along end to end: joins_rows()
    int ahead = 0;  // steps of the sum before which such vectors' part of x is fetched, each step's on its own, where
                    // rows are not joined; 0: when it is read
    // Not in the text: where sums are matrix tiles (tiles.h), the pixels of one, and how many steps of the sum an
    // instruction takes; else 0.
    int tile_pixels = 0, tile_steps = 0;
    bool pixel_lanes = false;     // and whether a row of such a tile is pixels of one channel (tiles.h)
    bool f16_accumulate = false;  // nor this: whether products are summed in f16 at first (f16_accumulate.h)

    int panel() const { return channels > 0 ? channels : lanes * vectors; }
    int width() const { return channels > 0 ? lanes * vectors : pixels; }  // of a tile, along the innermost axis

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless a tile fits into the problem's image.
    void check(const Problem &problem) const;
};

// What the kernel and its pack function both know of the packed weights.
struct PackedWeights {
    int panel;   // output channels of a panel
    int panels;  // the last is filled up with zeros
    int depth;   // input channels of a group
    int dot;     // neighbouring input channels that one lane sums
    std::vector<AxisMap> axes;
    int tile_steps = 1;          // that one instruction takes
    bool lanes_outside = false;  // whether those steps lie side by side within a lane

    int steps() const { return round_up(ceil_div(depth, dot), tile_steps); }  // of the sum over input channels
    // [dot][panel lane][steps][taps...][panels][phases...], the innermost first; with lanes outside,
    // [dot][tile_steps][panel lane][steps / tile_steps][taps...] and so on.
    std::vector<int> extents() const;
    // The first of those indices, of output channel c's product of `pair` and `step`.
    std::vector<Halide::Expr> at(const Halide::Expr &c, const Halide::Expr &pair, const Halide::Expr &step) const;
};
PackedWeights packed_weights(const Problem &problem, const DirectSchedule &schedule);

// The weights as a kernel reads them, from w as Implementation::pack gets it.
Halide::Func pack(const Problem &problem, const PackedWeights &packed, const Halide::Func &w);

// The stages of the kernel, not scheduled. Dimensions: c, then the spatial axes innermost first, then the batch n.
struct DirectStages {
    Halide::Var c{"c"}, n{"n"};
    std::vector<Halide::Var> q, phase;  // output positions are q * phases + phase
    Halide::RDom r;                     // dot and step of the input channel, taps
    Halide::RDom all;                   // the same, padding included
    std::vector<bool> pads;             // of each axis: whether `padded` goes beyond x there; else padding is skipped
    int channels = 0;     // of the input that are read: more than it has, where pairs or grouped panels reach beyond it
    Halide::Func padded;  // the input with channels innermost, zeros around it and widened; undefined where x will
                          //   do
    // The copy that `padded` is a view of where channels are no whole vectors: (a row's positions and their channels,
    // the other axes, n); else undefined.
    Halide::Func flat;
    bool copies_rows = false;  // whether a row of tiles copies the rows that it reads, rather than all before the first
    // Channels-first x, widened, with channels innermost, and the squares it is turned by (transpose_block.h);
    // undefined where products or `padded` read x itself.
    Halide::Func turned, squares;
    Halide::Func input;  // what products read: padded or x
    // Over (c, phase of each axis): every sum starts below zero by as much; undefined where that is nothing.
    ZeroPointCompensation surplus;
    // What the sums of matrix tiles start from: bias less surplus. Over (c, phase of each axis); of pixel lanes over
    // (lane, c, phase of each axis), all lanes alike. Undefined but for matrix tiles.
    Halide::Func start;
    // (c, q and phase of each axis, n, block of input channels, tap of each axis): the sum of a block's products in
    // f16; undefined but for the f16_accumulate algorithm.
    Halide::Func part;
    Halide::RDom in_block;
    // Where rows are joined, `padded` is a copy of some, end to end, over (c, position, q of the other axes, n), and
    // this their sums, (c, position, phase of each axis, q of the others, n), of which y takes its rows; else
    // undefined.
    Halide::Var position{"position"};
    Halide::Func joined;
    Halide::Func acc;      // (c, q and phase of each axis, n)
    Halide::Func product;  // the finished sums, a register tile at a time: y itself, over (c, q and, where there
                           //   are several, phase of each axis, n), unless phases have unequal sizes or rows of y
                           //   are turned
    // The finished numbers of a register tile of all phases, of channels-first rows in which y's phases take turns;
    // undefined but for matrix tiles of pixel lanes.
    Halide::Func apart;
    Halide::RDom inside;    // the update of `padded` where rows of pixels are put side by side in it (pair_channels)
    Halide::Func turned_y;  // y before its epilogue, where squares of it are turned from channels last; else undefined
    Halide::Func y;
    std::vector<AxisMap> axes;
};

// Whether vectors may be pixels, so that rows of x are read where they are and rows of y written whole, while weights
// are broadcast: float32, channels-first x and y, stride 1 and no padding along the innermost axis, whose phases all
// have as many taps. Those phases' vectors are woven to rows.
bool has_row_lanes(const Problem &problem);

// Whether rows of x may be joined besides: every output phase is a pointwise product, so that neither rows' ends nor
// their length matter to its sums.
bool joins_rows(const Problem &problem);

// The squares that are turned from channels last to channels first.
inline constexpr int turned_positions = 16, turned_channels = 8;
inline constexpr int crowding_bytes = 2048;  // apart, a vector's channels fall into two sets of a first cache

// The phases of each axis of y, the innermost first, where all have as many outputs; else 1.
std::vector<int> whole_phases(const Problem &problem);

// In how many phases direct() sees each axis of y on a processor (Implementation::output_phases); on a GPU
// whole_phases().
std::vector<int> output_phases(const Problem &problem, const DirectSchedule &schedule);

// `copies_x`: `padded` is there even where x would do, and goes beyond x on every axis.
DirectStages direct(const Problem &problem, const DirectSchedule &schedule, const Operands &operands,
                    const TargetModel &target, bool copies_x = false);

// What the direct algorithm is compiled with where nobody tuned it.
DirectSchedule default_direct_schedule(const Problem &problem, const TargetModel &target);

// The steps before which x's vectors are fetched then.
int default_ahead(const Problem &problem);

// What may be tuned of it.
ScheduleSpace direct_space(const Problem &problem, const TargetModel &target);

// An estimate of what a call costs with everything in caches, in cycles.
double direct_cycles(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target);

void schedule_direct(DirectStages &stages, const Problem &problem, const DirectSchedule &schedule);

// The sums of a register tile alone, inside the loop `around_tile` of the product.
void schedule_sum(DirectStages &stages, const DirectSchedule &schedule, const Halide::Var &around_tile);

// After schedule_direct(), of targets whose products take a lane of a register (schedule_neon.cpp).
bool stages_inputs(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target);
void stage_inputs(DirectStages &stages, const DirectSchedule &schedule);

}  // namespace kiln::dense
