// What a kernel of the direct algorithm does ahead of its sums (copies of x, what sums start from) and after them (y's
// elements picked, or its rows transposed).
#include <algorithm>
#include <numeric>

#include "algorithms/direct/schedule_cpu.h"
#include "expressions/arithmetic.h"
#include "lowering/amx/matrix_tiles.h"
#include "moves/image_copy.h"
#include "moves/parallel_split.h"
#include "moves/tail_strategy.h"
#include "moves/transpose_block.h"

namespace kiln {
namespace {

using Halide::Func;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// Once a run, ahead of everything else.
void schedule_compensation(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const Var panel("panel"), vector("vector");
    auto &[compensation, zero_point, r] = *s.compensation;
    zero_point.compute_root().bound(zero_point.args()[0], 0, schedule.dot_width).store_in(Halide::MemoryType::Stack);
    const int channels = round_up(channels_in_panels(problem, schedule), schedule.panel());
    const int lanes = schedule.has_row_lanes() ? schedule.panel() : schedule.lanes;
    compensation.compute_root().bound(s.c, 0, channels).vectorize(s.c, lanes);
    if (s.splits_groups) {
        compensation.bound(s.g, 0, static_cast<int>(problem.groups));
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        compensation.bound(s.phase[a], 0, s.axes[a].phases);
    }
    Halide::Stage sum = compensation.update();
    const auto *amx = schedule.with<AmxLanes>();
    if (amx != nullptr && amx->pixel_lanes) {  // a channel's weights of several steps are the vector
        const Var lane("lane");
        const RVar steps("steps"), step("step");
        Func lanes = sum.split(r[1], steps, step, amx->steps).rfactor(step, lane);
        lanes.compute_root().bound(lane, 0, amx->steps).reorder_storage({lane, s.c}).vectorize(lane);
        std::vector<VarOrRVar> order = {r[0], lane, steps};
        for (size_t a = 0; a < s.axes.size(); a++) {
            order.push_back(r[static_cast<int>(a) + 2]);
        }
        order.push_back(s.c);
        lanes.update().reorder(order).atomic().vectorize(r[0]).vectorize(lane);
        return;
    }
    std::vector<VarOrRVar> order = {r[0], s.c, vector};
    for (size_t d = 1; d < s.axes.size() + 2; d++) {
        order.push_back(r[static_cast<int>(d)]);
    }
    order.push_back(panel);
    sum.split(s.c, panel, s.c, schedule.panel(), TailStrategy::RoundUp);
    sum.split(s.c, vector, s.c, lanes).reorder(order);
    sum.atomic().vectorize(r[0]).vectorize(s.c).unroll(vector);
}

// Once a run, for whole panels.
void schedule_accumulator_init(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    Func &init = *s.accumulator_init;
    init.compute_root().bound(s.c, 0, round_up(channels_in_panels(problem, schedule), schedule.panel()));
    if (s.splits_groups) {
        init.bound(s.g, 0, static_cast<int>(problem.groups));
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        init.bound(s.phase[a], 0, s.axes[a].phases);
    }
    const Var innermost = init.args()[0];
    if (innermost.name() != s.c.name()) {
        init.bound(innermost, 0, tile_lanes);
    }
    init.vectorize(innermost, innermost.name() != s.c.name() ? tile_lanes : schedule.lanes);
}

void vectorize_channels(Func &f, const Var &c, int64_t channels, int most) {
    const int lanes = lanes_within(channels, most, true);
    f.bound(c, 0, static_cast<int>(channels));
    if (lanes > 1) {
        f.vectorize(c, lanes);
    }
}

// Whether threads share a copy: of a batch they share images, each with its own.
bool shares_copies(const Problem &problem, const DirectSchedule &schedule) {
    return schedule.parallel && problem.batch == 1;
}

void schedule_transposed_input(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    auto &[copy, block] = *s.transposed_input;
    const std::vector<Var> at = copy.args();
    const int channels = static_cast<int>(problem.in_channels);
    compute_ahead(copy, at.back(), problem.batch, s.y, s.n);
    copy.bound(at[0], 0, channels);
    for (size_t a = 0; a < s.axes.size(); a++) {
        copy.bound(at[a + 1], 0, s.axes[a].in);
    }
    const int wide = lanes_within(channels, 16), narrow = lanes_within(s.axes[0].in, 16);
    const Var blocks("blocks");
    schedule_transpose(copy, block, at[0], at[1], wide, narrow, Var("block"), blocks, TailStrategy::ShiftInwards);
    if (shares_copies(problem, schedule) && s.axes.size() == 1) {
        share_loops(copy, {{blocks, ceil_div(s.axes[0].in, narrow)}});
    } else if (shares_copies(problem, schedule)) {
        copy.parallel(at[at.size() - 2]);
    }
}

// Whole registers: the sums' lanes are of four bytes. Of one or two output channels they are no measure for a copy.
int copied_lanes(const Func &copy, const DirectSchedule &schedule) {
    constexpr int few = 4, of_few = 8;
    const int lanes = schedule.lanes < few ? of_few : schedule.lanes;
    return std::max(1, lanes * 4 / copy.types()[0].bytes());
}

// A copy's rows are contiguous, those of all its channels one after the other.
void store_in_planes(Func &copy) {
    std::vector<Var> order = copy.args();
    std::swap(order[0], order[1]);
    copy.reorder_storage(order).reorder({order.begin(), order.end()});
}

// Rows by the remainders of their positions. Quotient 0 begins a vector, so that taps whose inputs have an output's own
// quotient read whole lines.
void schedule_remainders(const DirectStages &s, const DirectSchedule &schedule) {
    constexpr int most_unrolled = 4;
    const PaddedInput &input = *s.padded_input;
    const AxisMap &row = s.axes[0];
    const AxisMap::Range range = row.reads();
    Func copy = input.stored;
    const std::vector<Var> at = copy.args();
    const Var quotient = at[1], remainder = at.back();
    const int before = round_up(ceil_div(std::max(0, -range.first), row.stride), schedule.lanes);
    const int behind = round_up(std::max(range.last, row.in - 1) / row.stride + 1, schedule.lanes);
    copy.bound(quotient, -before, before + behind).bound(remainder, 0, row.stride);
    copy.vectorize(quotient, schedule.lanes);
    if (row.in < row.stride) {
        return;
    }
    const RVar lane = input.quotients[0], vector = input.quotients[1];
    std::vector<VarOrRVar> order = {lane, vector, at[0]};
    order.insert(row.stride <= most_unrolled ? order.begin() + 1 : order.begin() + 2, remainder);
    order.insert(order.end(), at.begin() + 2, at.end() - 1);
    // No two lanes write the same element, which Halide cannot prove.
    Halide::Stage update = copy.update().reorder(order).allow_race_conditions().vectorize(lane);
    if (row.stride <= most_unrolled) {
        update.unroll(remainder);
    }
}

// So many numbers beyond a flat row are read by sums of joined taps.
int joined_beyond(const Problem &problem, const DirectSchedule &schedule) {
    return schedule.joins_taps() ? packed_weights(problem, schedule).beyond() : 0;
}

// How many positions of the axes but the row's a tile, or a row of them, copies: stated, since those that Halide finds
// leave out what lies in the padding, and so differ from row to row.
void bound_copied_rows(Func &copy, const std::vector<Var> &at, const DirectStages &s, const DirectSchedule &schedule) {
    for (size_t a = 1; a < s.axes.size(); a++) {
        copy.bound_extent(at[a + 1], s.axes[a].extent_of(a == 1 ? schedule.rows : 1));
    }
}

// Rows that several rows of tiles read, or what several tiles of one row do, are copied by each of them, which takes
// little beside their products, and leaves them in the first cache.
void copy_rows(const DirectStages &s, const Problem &problem, const DirectSchedule &schedule, const Var &tile_rows) {
    const PaddedInput &input = *s.padded_input;
    Func copy = input.stored;
    const std::vector<Var> at = input.padded.args();
    const AxisMap::Range range = s.axes[0].reads();
    const int width = range.last - range.first + 1, channels = input.rows_are_flat ? s.input_channels : 1;
    if (input.in_planes) {
        store_in_planes(copy);
        if (schedule.panels_outside && problem.groups > 1 && is_panel_in_group(problem, schedule)) {
            // A panel's rows of tiles read its group's channels alone.
            copy.bound_extent(at[0], static_cast<int>(problem.in_channels / problem.groups));
        } else {
            copy.bound(at[0], 0, s.input_channels);
        }
    }
    copy.compute_at(s.product, tile_rows);
    if (input.is_separated) {
        schedule_remainders(s, schedule);
    } else if (s.axes.size() > 1) {
        copy.bound(at[1], range.first * channels, width * channels + joined_beyond(problem, schedule));
    } else {
        copy.bound_extent(at[1], s.axes[0].extent_of(schedule.width()) * channels);
    }
    bound_copied_rows(copy, at, s, schedule);
    if (!input.is_separated) {
        copy.vectorize(at[1], copied_lanes(copy, schedule), TailStrategy::GuardWithIf);
    }
}

// A copy ahead of everything else. Its bounds are stated: Halide's own would be wider where phases are involved, and
// reach outside the input.
void copy_input(const DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    const bool flat = s.padded_input->rows_are_flat;
    Func copy = s.padded_input->stored;
    const std::vector<Var> at = s.padded_input->padded.args();
    const bool by_remainder = s.padded_input->is_separated;
    compute_ahead(copy, at[rank + 1], problem.batch, s.y, s.n);
    int rows = 1;
    for (size_t a = by_remainder ? 1 : 0; a < rank; a++) {
        AxisMap::Range range = s.axes[a].reads();
        if (!s.pads[a]) {
            range = {std::clamp(range.first, 0, s.axes[a].in - 1), std::clamp(range.last, 0, s.axes[a].in - 1)};
        }
        rows = std::max(range.last - range.first, 0) + 1;
        const int width = a == 0 && flat ? s.input_channels : 1;
        const int beyond = a == 0 ? joined_beyond(problem, schedule) : 0;
        copy.bound(at[a + 1], range.first * width, rows * width + beyond);
    }
    const int lanes = copied_lanes(copy, schedule);
    if (s.padded_input->in_planes) {
        store_in_planes(copy);
        copy.bound(at[0], 0, s.input_channels);
    }
    if (by_remainder) {
        schedule_remainders(s, schedule);
    } else if (flat || s.padded_input->in_planes) {
        copy.vectorize(at[1], lanes, TailStrategy::GuardWithIf);
    } else {
        vectorize_channels(copy, at[0], s.input_channels, lanes);
    }
    if (shares_copies(problem, schedule) && (rank > 1 || !flat)) {
        share_loops(copy, {rank == 1 && s.padded_input->in_planes ? SharedLoop{at[0], s.input_channels}
                                                                  : SharedLoop{at[rank], rows}});
        for (int k = 0; k < copy.num_update_definitions(); k++) {
            copy.update(k).parallel(rank == 1 ? at[0] : at[rank]);
        }
    }
}

// Channels of channels-last x that a lane sums lie side by side already, and are copied together, all of a
// vector's positions ahead of the next vector's.
void interleave_pixels(Halide::Stage update, const Halide::RDom &rows, const Var &product, const Var &step,
                       bool is_parallel) {
    std::vector<VarOrRVar> order = {product, RVar(rows[0]), step};
    for (int d = 1; d < rows.dimensions(); d++) {
        order.emplace_back(RVar(rows[d]));
    }
    // No two lanes write the same element, which Halide cannot prove.
    update.reorder(order).allow_race_conditions().vectorize(product).unroll(RVar(rows[0]));
    if (is_parallel) {
        update.parallel(order.back());
    }
}

// Neighbouring channels' rows side by side, by update k: a vector of each is stored at once. `together`: of so many of
// the outermost axis' rows, or of one row's vectors, all steps are copied ahead of the next ones; 0: of all.
void interleave_rows(const DirectStages &s, const Problem &problem, const DirectSchedule &schedule, int k,
                     int together) {
    auto [interleaved, stride, domains] = *s.interleaved_input;
    const Halide::RDom &rows = domains[static_cast<size_t>(k)];
    const std::vector<Var> at = interleaved.args();
    const Var product = at[0], step = at[s.axes.size() + 1];
    Halide::Stage update = interleaved.update(k);
    if (problem.x_layout == Layout::nxc) {
        interleave_pixels(update, rows, product, step, shares_copies(problem, schedule));
        return;
    }
    std::vector<VarOrRVar> order = {RVar(rows[0]), product};
    for (int d = 1; d < rows.dimensions(); d++) {
        order.emplace_back(RVar(rows[d]));
    }
    order.emplace_back(step);
    if (together > 0) {
        const RVar row = rows[rows.dimensions() - 1], block("together");
        update.split(row, block, row, together, TailStrategy::GuardWithIf);
        order.emplace_back(block);
    }
    order.emplace_back(s.n);
    // No two lanes write the same element, which Halide cannot prove.
    update.reorder(order).allow_race_conditions().vectorize(RVar(rows[0])).unroll(product);
    if (shares_copies(problem, schedule)) {
        update.parallel(order[order.size() - 2]);
    }
}

// x's channels that a lane sums, side by side.
void schedule_interleaved_input(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    auto &[interleaved, stride, rows] = *s.interleaved_input;
    const std::vector<Var> at = interleaved.args();
    const Var product = at[0], step = at[rank + 1];
    compute_ahead(interleaved, s.n, problem.batch, s.y, s.n);
    interleaved.bound(product, 0, schedule.dot_width).bound(step, 0, s.input_channels / schedule.dot_width);
    for (size_t a = 0; a < rank; a++) {
        AxisMap::Range range = s.pads[a] ? s.axes[a].reads() : s.axes[a].reads_clamped();
        if (a == 0) {
            range = {-ceil_div(-range.first, stride), (range.last + stride) / stride - 1};
        }
        interleaved.bound(at[a + 1], range.first, range.last - range.first + 1);
    }
    if (stride > 1) {
        interleaved.bound(at.back(), 0, stride);
    }
    // For row lanes threads copy positions that they then read, a few at a time of all planes: lines of planes that are
    // a power of two apart share sets.
    const bool by_rows = has_row_lanes_of_dots(problem, schedule) && schedule.parallel;
    const int copied = rank > 1 ? s.axes.back().in : ceil_div(s.axes[0].in, tile_lanes);  // rows, or vectors of one
    const int copied_together = std::clamp(ceil_div(copied, 8), 1, rank > 1 ? 8 : 256);
    const Var bytes("bytes"), together("together");
    const int vector_bytes = 64 / (4 / schedule.dot_width);
    interleaved.fuse(product, at[1], bytes);
    if (by_rows) {
        const Var row = rank > 1 ? at[rank] : bytes;
        interleaved.split(row, together, row, copied_together * (rank > 1 ? 1 : vector_bytes),
                          TailStrategy::GuardWithIf);
        std::vector<VarOrRVar> order = {bytes};
        order.insert(order.end(), at.begin() + static_cast<int>(rank) + 3, at.end());  // the remainder, if there is one
        order.insert(order.end(), at.begin() + 2, at.begin() + static_cast<int>(rank) + 1);
        order.insert(order.end(), {step, together, s.n});
        interleaved.reorder(order);
    }
    interleaved.vectorize(bytes, vector_bytes, TailStrategy::GuardWithIf);
    if (shares_copies(problem, schedule)) {
        interleaved.parallel(by_rows ? together : step);
    }
    for (size_t k = 0; k < rows.size(); k++) {
        interleave_rows(s, problem, schedule, static_cast<int>(k), by_rows ? copied_together : 0);
    }
}

// Ahead of everything else. Groups whose channels are of one line of x are copied together.
void schedule_rows_of_groups(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    const PackedWeights packed = packed_weights(problem, schedule);
    auto &[copy, channels] = *s.rows_of_groups;
    const std::vector<Var> at = copy.args();
    const auto groups = static_cast<int>(problem.groups);
    compute_ahead(copy, s.n, problem.batch, s.y, s.n);
    copy.bound(s.g, 0, groups);
    for (size_t a = 0; a < rank; a++) {
        const AxisMap::Range range = a == 0 || s.pads[a] ? s.axes[a].reads() : s.axes[a].reads_clamped();
        const int extent = range.last - range.first + 1, width = a == 0 ? channels : 1;
        copy.bound(at[a], range.first * width, extent * width + (a == 0 ? round_up(packed.beyond(), channels) : 0));
    }
    const Var position("position"), vector("vector"), group("group");
    const int lanes = line_bytes / copy.types()[0].bytes();
    const int together = largest_divisor(groups, std::max(1, lanes / channels));
    copy.split(at[0], position, at[0], channels, TailStrategy::RoundUp);
    copy.split(at[0], vector, at[0], std::gcd(channels, lanes), TailStrategy::RoundUp);
    copy.split(s.g, s.g, group, together, TailStrategy::RoundUp);
    std::vector<VarOrRVar> order = {at[0], vector, group, position};
    order.insert(order.end(), at.begin() + 1, at.end());
    copy.reorder(order).vectorize(at[0]).unroll(vector).unroll(group);
    if (shares_copies(problem, schedule)) {
        share_loops(copy, {{s.g, groups / together}});
    }
}

// For each row of tiles or, of one long row, each tile: of each position all panels, as they follow each other in x.
void schedule_interleaved_groups(DirectStages &s, const Problem &problem, const DirectSchedule &schedule,
                                 const Var &tile_rows) {
    const size_t rank = s.axes.size();
    auto &[rows, block, groups, channels] = *s.interleaved_groups;
    const std::vector<Var> at = rows.args();
    const Var channel = at[0], panel = at[rank + 1];
    rows.compute_at(s.product, tile_rows).bound(channel, 0, channels);
    rows.bound(panel, 0, static_cast<int>(problem.out_channels) / schedule.panel());
    const AxisMap::Range range = s.axes[0].reads();
    if (rank > 1) {
        rows.bound(at[1], range.first, range.last - range.first + 1);
    } else {
        rows.bound_extent(at[1], s.axes[0].extent_of(schedule.width()));
    }
    bound_copied_rows(rows, at, s, schedule);
    const Var vector("vector");
    // Vectors of as many groups as they have lanes are interleaved at once, of which fewer shuffles are made.
    const int lanes = channels % schedule.lanes == 0 && groups < schedule.lanes ? schedule.lanes : channels;
    std::vector<VarOrRVar> order = {channel, vector, panel};
    order.insert(order.end(), at.begin() + 1, at.begin() + static_cast<int>(rank) + 1);
    rows.split(channel, vector, channel, lanes).reorder(order).vectorize(channel).unroll(vector);
    block.compute_at(rows, panel).store_in(Halide::MemoryType::Stack).bound(channel, 0, channels);
    block.split(channel, vector, channel, lanes).vectorize(channel).unroll(vector);
}

void schedule_transposed_output(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const Var blocks("blocks"), channels("channels");
    const int narrow = transposed_block_channels(problem), all_channels = static_cast<int>(problem.out_channels);
    schedule_transpose(s.y, *s.transposed_block, s.y.args()[1], s.c, transposed_positions, narrow, blocks, channels,
                       tail(all_channels, narrow));
    if (!schedule.parallel) {
        return;
    }
    if (problem.batch > 1) {
        s.y.parallel(s.n);
        return;
    }
    std::vector<SharedLoop> loops;
    for (size_t a = s.axes.size(); a-- > 1;) {
        loops.push_back({s.y.args()[a + 1], s.axes[a].out});
    }
    if (all_channels % narrow == 0) {  // else two threads would write what two blocks have in common
        loops.push_back({channels, all_channels / narrow});
    }
    const Var run("run");
    s.y.split(blocks, run, blocks, 1);  // the loop that blocks are transposed in stays one
    loops.push_back({run, ceil_div(s.axes[0].out, transposed_positions)});
    share_loops(s.y, loops);
}

}  // namespace

void schedule_copies(DirectStages &s, const Problem &problem, const DirectSchedule &schedule, const Var &tile_rows) {
    if (s.accumulator_init) {
        schedule_accumulator_init(s, problem, schedule);
    }
    if (s.compensation) {
        schedule_compensation(s, problem, schedule);
    }
    if (s.transposed_input) {
        schedule_transposed_input(s, problem, schedule);
    }
    if (s.interleaved_input) {
        schedule_interleaved_input(s, problem, schedule);
    }
    if (s.interleaved_groups) {
        schedule_interleaved_groups(s, problem, schedule, tile_rows);
    }
    if (s.rows_of_groups) {
        schedule_rows_of_groups(s, problem, schedule);
    }
    if (s.padded_input && s.padded_input->by_tile_rows) {
        copy_rows(s, problem, schedule, tile_rows);
    } else if (s.padded_input) {
        copy_input(s, problem, schedule);
    }
    if (s.picks_from_product()) {
        compute_ahead(s.product, s.n, problem.batch, s.y, s.n);
    }
    if (s.transposed_block) {
        schedule_transposed_output(s, problem, schedule);
    } else if (s.picks_from_product()) {
        vectorize_channels(s.y, s.c, channels_in_panels(problem, schedule), schedule.lanes);
    }
}

}  // namespace kiln
