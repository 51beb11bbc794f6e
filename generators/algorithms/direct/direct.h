// The direct algorithm: every output is the plain sum of its products, phase by phase.
//
// Applies to every Conv and ConvTranspose. Multiplications: those of the definition (a ConvTranspose's zeros between
// inputs are never multiplied; taps in the padding are skipped, on the innermost axis where channels-last x is read
// where it is). Error: a sum of in_channels / groups * taps products in the order of the loops.
#pragma once

#include <Halide.h>

#include <optional>
#include <vector>

#include "algorithms/direct/packing.h"
#include "algorithms/direct/schedule.h"
#include "axes/axis_map.h"
#include "expressions/operands.h"
#include "expressions/zero_point_compensation.h"
#include "kiln/problem.h"
#include "lowering/prefetch/prefetch.h"
#include "moves/sliced_sum.h"
#include "moves/tile_sum.h"
#include "targets/target_model.h"

namespace kiln {

// A copy of channels-first x, widened, with channels innermost, by blocks that are transposed in registers.
struct TransposedInput {
    Halide::Func copy, block;
};

// x, or its transposed copy, widened and with what stands for 0 around it.
struct PaddedInput {
    Halide::Func padded;
    // What is stored of it: itself or, where channels are no whole vectors, rows whose positions and channels are one
    // dimension: (row, the other axes, n).
    Halide::Func stored;
    bool rows_are_flat = false;
    bool in_planes = false;  // whether rows of channels-first x are copied as they are
    // Or, where it is not 1, by the remainders of positions by so much, so that those which neighbouring outputs read
    // lie side by side: over (c, quotient, the other axes, n, remainder). Its update writes whole vectors of x over
    // `quotients`: lane, vector.
    int row_stride = 1;
    bool is_separated = false;  // whether it is written so: with a stride of 1 all have the remainder 0
    Halide::RDom quotients;
    bool by_tile_rows =
        false;  // whether a row of tiles copies the rows that it reads, rather than all before the first
};

// x for row lanes of dot products, channels-first x for matrix tiles and, of few channels, for other dot products, over
// (product, the spatial axes, step, n): neighbouring channels of a pixel lie side by side. Of strided rows, for matrix
// tiles and row lanes, over (..., n, remainder):
// positions by their remainders, the first axis being their quotients, so that those that neighbouring outputs read lie
// side by side. Its updates, one a remainder, write them over `rows` of x.
struct InterleavedInput {
    Halide::Func interleaved;
    int row_stride = 1;
    std::vector<Halide::RDom> rows;
};

// Rows of x for matrix tiles whose rows are pixels, over (row, the other axes, group, n): a row has the positions of
// one group with its channels innermost, as one dimension, with what stands for 0 around the image. In x a pixel's
// lines have other groups' channels too, and those of many channels fall into few sets of a cache; and here the
// channels of neighbouring positions are neighbouring products of a sum of all taps along the row.
struct RowsOfGroups {
    Halide::Func rows;
    int channels = 1;  // of a group
};

// Rows of x for panels whose groups lie lane by lane, over (channel, the spatial axes, panel, n): a position's channels
// of a panel's groups, the first of each, then the second of each, with what stands for 0 around the image. `block`:
// the same as x has them, in registers.
struct InterleavedGroups {
    Halide::Func rows, block;
    int groups = 2, channels = 2;  // of a panel
};

// Rows of x end to end, over (c, position, q of the other axes, n), where vectors run along them, and sums of rows end
// to end, over (c, position, phase of each axis, q of the others, n), of which y takes its rows.
struct FlattenedRows {
    Halide::Var position{"position"};
    std::optional<Halide::Func> end_to_end;
    Halide::Func sums;
};

// Sums in f16 over (c, q and phase of each axis, n, block of input channels, tap of each axis) of a block's products.
struct F16Sums {
    Halide::Func sums;
    Halide::RDom block;
};

// The axis whose taps slices of a sum may be of, where input channels are few: the one that has the most.
size_t sliced_axis(const std::vector<AxisMap> &axes);

// schedule_gpu.cpp: how many elements of x side by side a GPU's thread may load at once in a step of its sum, of
// neighbouring input channels or of neighbouring positions; 1 where it loads one by one.
struct StepVector {
    int channels = 1, positions = 1;
};
StepVector gpu_step_vector(const Problem &problem, const DirectSchedule &schedule, bool copies_x);

// The stages of the kernel, not scheduled. Dimensions: c, then the spatial axes innermost first, then the batch n.
// Where groups have panels of their own, c is a channel of the group, and the group g follows it.
struct DirectStages {
    Halide::Var c{"c"}, g{"g"}, n{"n"};
    bool splits_groups = false;
    bool interleaves_channels = false;  // whether row lanes store y's channels together
    std::vector<Halide::Var> q, phase;  // output positions are q * phases + phase
    // Of a sum's partial sums, where it is of several: the last dimension of acc.
    Halide::Var part{"part"};
    int partial_sums = 1;
    // Or, where a GPU's threads share a sum: `part` is then its slice.
    std::optional<SlicedSum> sliced;
    std::vector<AxisMap> axes;
    Halide::RDom r;  // dot and step of the input channel, taps
    // How many channels of the input are read: more than it has, where pairs or grouped panels reach beyond it.
    int input_channels = 0;
    std::vector<bool> pads;       // of each axis: whether the input goes beyond x there; else padding is skipped
    bool skips_row_ends = false;  // whether it is along rows, even where the input has it
    bool keeps_loops = false;     // whether loops go over what is skipped too, and ask: keeps_loops() of a GPU
    StepVector step_vector;

    Halide::Func input;  // what products read: x itself, or one of these copies of it
    std::optional<TransposedInput> transposed_input;
    std::optional<PaddedInput> padded_input;
    std::optional<InterleavedInput> interleaved_input;
    std::optional<RowsOfGroups> rows_of_groups;
    std::optional<InterleavedGroups> interleaved_groups;
    std::optional<FlattenedRows> flattened_rows;

    // Over (c, phase of each axis), of all weights: every sum starts below zero by as much. Where 8-bit products are
    // of a zero point other than 0.
    std::optional<ZeroPointCompensation> compensation;
    // What the sums of matrix tiles start from, bias less compensation: over (c, phase of each axis) or, with pixel
    // lanes, over (lane, c, phase of each axis), all lanes alike.
    std::optional<Halide::Func> accumulator_init;
    bool starts_from_bias = false;  // whether sums start from the bias, less compensation
    std::optional<F16Sums> f16_sums;
    // What a GPU's thread reads of the input in a step of its sum, over (channel of the input, acc's dimensions but c,
    // tap of each axis of the sum's domain): by vectors (gpu_step_vector()).
    std::optional<Halide::Func> operand;
    Halide::Func acc;  // (c, q and phase of each axis, n)

    // The finished sums, a register tile at a time: y itself, over (c, q and, where there are several, phase of each
    // axis, n), unless y picks its elements from them: phases have unequal sizes, or y is transposed.
    Halide::Func product;
    // The finished numbers of a register tile of all phases, of channels-first rows in which y's phases take turns: of
    // matrix tiles with pixel lanes.
    std::optional<Halide::Func> interleave_buffer;
    std::optional<Halide::Func> transposed_block;  // of y before its epilogue, where it is transposed
    Halide::Func y;

    // The dimensions of what each output channel has of its own, and their numbers where those are asked for.
    std::vector<Halide::Var> channel_vars() const {
        return splits_groups ? std::vector<Halide::Var>{c, g} : std::vector<Halide::Var>{c};
    }
    Halide::Expr group() const { return splits_groups ? Halide::Expr(g) : Halide::Expr(0); }
    // Whether a copy of x is made for each row of tiles or, of one long row, for each tile.
    bool copies_tile_rows() const { return interleaved_groups || (padded_input && padded_input->by_tile_rows); }
    bool picks_from_product() const { return y.name() != product.name(); }
    // Positions of a tile, along its row or the flattened rows.
    Halide::Var row_position() const { return flattened_rows ? flattened_rows->position : q[0]; }
};

// y's channel, as what channels have of their own is numbered.
Halide::Expr channel_of(const DirectStages &s, const Problem &problem);

// Whether sums leave out what is in the padding of axis `a`, one of those around rows: not where a tile spans several
// rows.
bool skips_padding(const DirectSchedule &schedule, const std::vector<AxisMap> &axes, size_t a);

// Whether they leave it out along rows as well, and products read x itself there, or transposed x: Halide parts the
// tiles at the ends of rows from those between, which ask nothing. To copy rows of 3 channels takes a sixth of the time
// of 16 channels of 3x3 at stride 2. Only of elements that are broadcast: of a vector a part would be outside.
bool reads_row_ends(const Problem &problem, const DirectSchedule &schedule, const std::vector<AxisMap> &axes,
                    const TargetModel &target);

// `copies_x`: a padded input is there even where x would do, and goes beyond x on every axis.
DirectStages direct(const Problem &problem, const DirectSchedule &schedule, const Operands &operands,
                    const TargetModel &target, bool copies_x = false);

// input.cpp: s.input and the copies of x that it may be. `type`: the type of what is multiplied.
void define_input(DirectStages &s, const Problem &problem, const DirectSchedule &schedule, const Operands &operands,
                  const TargetModel &target, Halide::Type type, bool copies_x);

// sum.cpp: s.acc and what it is made of. Returns y's element of it.
Halide::Expr define_sums(DirectStages &s, const Problem &problem, const DirectSchedule &schedule,
                         const PackedWeights &packed, const Operands &operands, Halide::Type type);

// `in`, a position of rows whose ends are read where they are, not from a padded copy: leaves those outside out of the
// sum's domain. Only what is marked as likely parts the first and the last tile from those between.
Halide::Expr position_in_row(Halide::RDom &r, const AxisMap &row, const Halide::Expr &in);

// Whether operands are 8-bit with a zero point other than 0: then it is summed like any other number, and what it adds
// is taken off again.
bool compensates_zero_point(const Problem &problem, Halide::Type type);
// That zero point or, where there is none, 0.
Halide::Expr zero_point(const Problem &problem, Halide::Type type);

// Whether the bias is a number of the type that products are summed in.
bool sums_bias(const Problem &problem, const Operands &operands);

// The sums' loops over input channels.
SumSteps schedule_direct(DirectStages &stages, const Problem &problem, const DirectSchedule &schedule);

// The sums of a register tile alone, inside the loop `around_tile` of the product.
SumSteps schedule_sum(DirectStages &stages, const DirectSchedule &schedule, const Halide::Var &around_tile);

// Has the sums of each tile fetch their share of the next panel of weights; after schedule_direct(). `steps`: the loop
// that it returned. shared_panel_prefetches(): those tiles.
void prefetch_panels(DirectStages &stages, const Problem &problem, const DirectSchedule &schedule,
                     const Halide::Func &packed, const Halide::RVar &steps);
SharedPrefetches shared_panel_prefetches(const Problem &problem, const DirectSchedule &schedule);

// After schedule_direct(), of targets whose products take a lane of a register (schedule_neon.cpp). `steps`: the loop
// over the sum's steps.
bool stages_inputs(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target);
void stage_inputs(DirectStages &stages, const DirectSchedule &schedule, const Halide::RVar &steps);

}  // namespace kiln
