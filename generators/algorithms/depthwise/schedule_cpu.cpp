// The depthwise algorithm's schedule for processors: what its numbers mean.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "algorithms/depthwise/depthwise.h"
#include "expressions/arithmetic.h"
#include "moves/image_copy.h"
#include "moves/parallel_split.h"
#include "moves/tail_strategy.h"
#include "moves/tile_sum.h"
#include "moves/transpose_block.h"

namespace kiln::depthwise {
namespace {

using Halide::Func;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

constexpr int strip_bytes = 24000;  // of merged rows that are copied together

// Positions first, then the channel: how planes lie.
std::vector<Var> plane_order(const std::vector<Var> &at) {
    std::vector<Var> order(at.begin() + 1, at.end());
    order.insert(order.end() - 1, at[0]);
    return order;
}

// Whether rows that are shorter than a vector are stored under a mask alone, and read whole from a copy as wide: of
// vectors with strides LLVM loads what a mask says element by element. 3x3 of 116 channels with stride 2 at 28x28 takes
// .0400 ms on a Zen 4 by masked loads.
bool masks_stores_alone(const DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule) {
    const AxisMap &row = s.axes[0];
    return schedule.has_row_lanes() && schedule.vectors == 1 && schedule.lanes > row.phase_extent && row.phases == 1 &&
           row.stride > 1 && !s.gathered && !problem.residual && !problem.open_epilogue;
}

// The loops around a tile of y that others are scheduled by.
struct LoopsAroundTile {
    Var innermost, rows;
    SharedLoop outermost;  // over the image, or over channels
};

// Splits y into tiles.
LoopsAroundTile schedule_tile(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule) {
    const Var block("block"), vector("vector"), tile("tile"), rows("rows");
    const int channels = static_cast<int>(problem.out_channels), width = schedule.lanes * schedule.vectors;
    std::vector<VarOrRVar> inside;
    if (masks_stores_alone(s, problem, schedule)) {  // whose loop cannot be split again
        s.tiled.split(s.q[0], tile, s.q[0], width, TailStrategy::PredicateStores).vectorize(s.q[0]);
        inside = {s.q[0]};
    } else if (schedule.has_row_lanes()) {
        s.tiled.split(s.q[0], tile, s.q[0], width,
                      width > s.axes[0].phase_extent ? TailStrategy::GuardWithIf : tail(s.axes[0].phase_extent, width));
        s.tiled.split(s.q[0], vector, s.q[0], schedule.lanes).vectorize(s.q[0]).unroll(vector);
        inside = {s.q[0], vector};
    } else {
        const TailStrategy beyond = s.tap_sums ? TailStrategy::ShiftInwards : TailStrategy::GuardWithIf;
        s.tiled.split(s.c, block, s.c, width, channels % width == 0 ? TailStrategy::RoundUp : beyond);
        s.tiled.split(s.c, vector, s.c, schedule.lanes).vectorize(s.c).unroll(vector);
        s.tiled.split(s.q[0], tile, s.q[0], schedule.pixels(), tail(s.axes[0].phase_extent, schedule.pixels()))
            .unroll(s.q[0]);
        inside = {s.c, vector, s.q[0]};
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        if (s.axes[a].phases > 1) {
            s.tiled.unroll(s.phase[a]);
            inside.insert(schedule.has_row_lanes() ? inside.begin() + 1 : inside.end(), s.phase[a]);
        }
    }
    if (schedule.unrolls_row(problem)) {
        s.tiled.unroll(tile);
    }
    const int tile_width = schedule.has_row_lanes() ? width : schedule.pixels();
    std::vector<SharedLoop> loops = {{tile, ceil_div(s.axes[0].phase_extent, tile_width)}};
    if (s.axes.size() > 1) {
        // Rows that share what is gathered stay together.
        const int group_rows = s.gathered ? s.gathered->group_rows : 1;
        const bool rows_divide = group_rows == 1 || s.axes[1].phase_extent % schedule.rows == 0;
        s.tiled.split(s.q[1], rows, s.q[1], schedule.rows,
                      rows_divide ? tail(s.axes[1].phase_extent, schedule.rows) : TailStrategy::GuardWithIf);
        s.tiled.unroll(s.q[1]);
        inside.push_back(s.q[1]);
        loops.push_back({rows, ceil_div(s.axes[1].phase_extent, schedule.rows)});
    }
    for (size_t a = 2; a < s.axes.size(); a++) {
        loops.push_back({s.q[a], s.axes[a].phase_extent});
    }
    const SharedLoop channel =
        schedule.has_row_lanes() ? SharedLoop{s.c, channels} : SharedLoop{block, ceil_div(channels, width)};
    const bool channels_outside = schedule.has_row_lanes() || schedule.with<ChannelLanes>()->channels_outside;
    loops.insert(channels_outside ? loops.end() : loops.begin(), channel);
    std::vector<VarOrRVar> order = inside;
    for (const SharedLoop &loop : loops) {
        order.push_back(loop.var);
    }
    order.emplace_back(s.n);
    s.tiled.reorder(order);
    return {loops.front().var.var, rows, loops.back()};
}

// Images are the pieces that threads share, or of one image the iterations of y's outermost loop.
void share_images(DepthwiseStages &s, const Problem &problem, const SharedLoop &outermost) {
    if (problem.batch > 1) {
        s.y.parallel(s.n);
    } else {
        share_loops(s.y, {outermost}, pieces_worth(problem.flops()));
    }
}

// How many positions of an axis are gathered for `outputs` of them.
int gathered_extent(const DepthwiseStages &s, size_t a, int outputs) {
    return a == s.gathered->axis ? outputs / s.gathered->group_rows : s.axes[a].extent_of(outputs);
}

// Of the vectors that are gathered along a row.
int gathered_lanes(const DepthwiseStages &s, const DepthwiseSchedule &schedule) {
    return lanes_around(gathered_extent(s, 0, s.axes[0].phase_extent), 4 * schedule.lanes);
}

// The sums of a vector, one position after the other, from what is gathered for a tile or, along rows, for all of a
// row.
void schedule_dotted_sum(DepthwiseStages &s, const DepthwiseSchedule &schedule, const Var &around_tile) {
    auto &[r, sums] = *s.tap_sums;
    const size_t rank = s.axes.size();
    const Var along = schedule.has_row_lanes() ? s.q[0] : s.c;
    sums.compute_at(s.tiled, schedule.has_row_lanes() ? (rank > 1 ? s.q[1] : around_tile) : s.q[0]);
    sums.store_in(Halide::MemoryType::Register);
    schedule_tile_sum(sums, {along, schedule.lanes}, {loops_from(r, 1), 1, r[0], schedule.dot_width()});
    for (int a = 0; a < static_cast<int>(rank); a++) {
        sums.update().unroll(r[a + 1]);
    }
}

// What those read.
void schedule_gathered(DepthwiseStages &s, const DepthwiseSchedule &schedule, const LoopsAroundTile &loops) {
    GatheredTaps &gathered = *s.gathered;
    const Var lane = gathered.lane, group = gathered.group;
    const size_t rank = s.axes.size();
    Func &f = gathered.taps;
    const std::vector<Var> at = f.args();  // lane, c, positions, n, group
    f.store_in(Halide::MemoryType::Stack).bound(lane, 0, schedule.dot_width()).unroll(lane).unroll(group);
    f.bound(group, 0, ceil_div(s.axes[gathered.axis].taps, schedule.dot_width()));
    if (schedule.has_row_lanes()) {
        f.compute_at(s.y, rank > 1 ? loops.rows : s.c).reorder(lane, group, at[2]);
        f.reorder_storage(lane, at[2], s.c);
        f.vectorize(at[2], gathered_lanes(s, schedule), TailStrategy::RoundUp);
        return;
    }
    f.compute_at(s.tiled, loops.innermost).reorder(lane, s.c, group, at[2]);
    f.bound_extent(s.c, schedule.lanes * schedule.vectors).vectorize(s.c);
    f.bound_extent(at[2], gathered_extent(s, 0, schedule.pixels())).unroll(at[2]);
    if (rank > 1) {
        f.bound_extent(at[3], gathered_extent(s, 1, schedule.rows)).unroll(at[3]);
    }
}

// The sums of a tile in registers, which a row's taps pass one after the other: what neighbouring outputs read is
// loaded once.
void schedule_sum_in_loop(DepthwiseStages &s, const DepthwiseSchedule &schedule, const Var &around_tile) {
    auto &[r, sums] = *s.tap_sums;
    sums.compute_at(s.tiled, around_tile).store_in(Halide::MemoryType::Register);
    schedule_tile_sum(sums, {s.c, schedule.lanes, {}, {s.q[0]}}, {loops_from(r, 1), 1, r[0], schedule.dot_width()},
                      TailStrategy::RoundUp);
    sums.update().unroll(r[1]);
}

// Bytes of what is gathered of an image for a tile's channels.
int64_t gathered_bytes(const DepthwiseStages &s, const DepthwiseSchedule &schedule) {
    int64_t bytes = schedule.lanes * schedule.vectors * static_cast<int64_t>(sizeof(int));
    for (const AxisMap &axis : s.axes) {
        bytes *= axis.extent_of(axis.phase_extent);
    }
    return bytes;
}

// What those read of an image, a tile's channels at a time. Where that is more than second caches hold well, only the
// rows that a row of outputs reads are kept, or the images that an image of a volume does, of which the next ones find
// all but the last; of a row alone the positions of a tile, unless all of it is unrolled: 5x5 of 64 channels at 160x160
// takes .47 ms in place of .73, 31 taps of 64 at 20000 .25 and .47; but by AVX2's vectors 5x5 of 32 at 112x112, whose
// image is .8 MB, .185 and .159, 19 taps of 512 at 1600 .30 and .24.
void schedule_gathered_positions(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                                 const LoopsAroundTile &loops) {
    constexpr int64_t most_bytes = 1 << 20, most_of_row = 1 << 18;
    Func &f = s.gathered->taps;
    const Var lane = s.gathered->lane, channels = loops.outermost.var.var;
    const std::vector<Var> at = f.args();  // lane, c, positions, n
    f.bound(lane, 0, schedule.dot_width()).unroll(lane);
    f.bound_extent(s.c, schedule.lanes * schedule.vectors).vectorize(s.c);
    const size_t rank = s.axes.size();
    if (gathered_bytes(s, schedule) <= (rank == 1 ? most_of_row : most_bytes) ||
        (rank == 1 && schedule.unrolls_row(problem))) {
        f.compute_at(s.tiled, channels);
        return;
    }
    const AxisMap &axis = s.axes[rank - 1];
    const int reach = rank > 1 ? axis.extent_of(1)
                               : axis.extent_of(schedule.pixels()) + schedule.dot_width() * std::abs(axis.tap_step);
    const auto kept = static_cast<int>(std::bit_ceil(static_cast<unsigned>(reach)));  // a place is a mask away
    f.store_at(s.tiled, channels).fold_storage(at[rank + 1], kept);
    f.compute_at(s.tiled, rank == 1 ? loops.innermost : rank == 2 ? loops.rows : s.q[rank - 1]);
}

// Once a run, ahead of everything else.
void schedule_compensation(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule) {
    auto &[compensation, zero_point, r] = *s.gathered->compensation;
    zero_point.compute_root().bound(zero_point.args()[0], 0, schedule.dot_width());
    zero_point.store_in(Halide::MemoryType::Stack);
    const int channels = static_cast<int>(problem.out_channels);
    const int lanes = schedule.has_row_lanes() ? 1 : schedule.lanes;
    compensation.compute_root().bound(s.c, 0, channels);
    compensation.vectorize(s.c, lanes, tail(channels, lanes));
    Halide::Stage sum = compensation.update();
    const Var block("block");
    sum.split(s.c, block, s.c, lanes, channels % lanes == 0 ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = {r[0], s.c};
    for (size_t a = 0; a < s.axes.size(); a++) {
        order.push_back(r[static_cast<int>(a) + 1]);
    }
    order.push_back(block);
    sum.reorder(order).atomic().vectorize(r[0]).vectorize(s.c);
}

// Rows of positions and channels, vector by vector; strips of them are copied with zeros at their ends.
void schedule_merged(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule) {
    const Var merged("merged"), vector("vector"), period("period"), rows("rows"), strip("strip");
    const size_t rank = s.axes.size();
    const int row = s.axes[0].phase_extent * static_cast<int>(problem.out_channels), lanes = schedule.lanes;
    const int repeats = schedule.period(problem);
    s.y.fuse(s.c, s.q[0], merged);
    s.y.split(merged, vector, merged, lanes, row % lanes == 0 ? TailStrategy::RoundUp : TailStrategy::PredicateStores);
    s.y.split(vector, period, vector, repeats / lanes, TailStrategy::GuardWithIf).vectorize(merged);
    std::vector<VarOrRVar> order = {merged, vector, period};
    Var place = s.n;
    if (rank > 1) {
        const int height = s.axes[1].phase_extent, of_row = row * static_cast<int>(sizeof(float));
        const int tiles = std::max(1, strip_bytes / of_row / schedule.rows);
        const int together = std::min(height, tiles * schedule.rows);
        s.y.split(s.q[1], strip, s.q[1], together, tail(height, together));
        s.y.split(s.q[1], rows, s.q[1], schedule.rows, tail(together, schedule.rows)).unroll(s.q[1]);
        order = {merged, s.q[1], vector, period, rows, strip};
        order.insert(order.end(), s.q.begin() + 2, s.q.end());
        place = strip;
    }
    order.emplace_back(s.n);
    s.y.reorder(order);
    if (schedule.parallel) {
        s.y.parallel(problem.batch > 1 || rank == 1 ? s.n : rank > 2 ? s.q[rank - 1] : strip);
    }
    const int beyond = (s.reads[0].last + 1 - s.axes[0].phase_extent) * static_cast<int>(problem.out_channels);
    const Var at = s.padded.args()[0];
    s.padded.compute_at(s.y, place)
        .bound(at, 0, round_up(s.merged_rows->before + round_up(row, repeats) + beyond, lanes));
    s.padded.vectorize(at, lanes, TailStrategy::RoundUp);
    s.padded.update().vectorize(RVar((*s.inside)[0]), lanes, TailStrategy::GuardWithIf);
    for (Func &copy : s.merged_rows->of_lanes->copies) {
        copy.compute_root().bound(copy.args()[0], 0, repeats);
    }
}

// The copy of x, ahead of everything else or, along rows, a plane at a time, which stays in a cache.
void schedule_copy(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule) {
    const size_t rank = s.axes.size();
    const auto channels = static_cast<int>(problem.out_channels);
    const std::vector<Var> at = s.padded.args();
    const int lanes = schedule.lanes;
    // Along rows in whole vectors, and as far as the last of those reads that are gathered.
    const int wide = !schedule.has_row_lanes() ? 1 : s.gathered ? gathered_lanes(s, schedule) : lanes;
    const int gathered = s.gathered ? gathered_extent(s, 0, s.axes[0].phase_extent) : 0;
    const int beyond =
        (round_up(gathered, wide) - gathered) * (dotted_axis(s.axes, schedule) == 0 ? s.axes[0].stride : 1);
    for (size_t a = 0; a < rank; a++) {
        const AxisMap::Range range = s.reads[a];
        int extent = std::max(range.last - range.first, 0) + 1;
        if (a == 0 && masks_stores_alone(s, problem, schedule)) {
            extent = std::max(extent, s.axes[0].extent_of(lanes));
        }
        s.padded.bound(at[a + 1], range.first, a == 0 ? round_up(extent + beyond, wide) : extent);
    }
    if (schedule.has_row_lanes()) {
        const std::vector<Var> order = plane_order(at);
        s.padded.compute_at(s.y, s.c).reorder_storage(order).reorder({order.begin(), order.end()});
        s.padded.vectorize(at[1], wide, TailStrategy::RoundUp);
        const int width = s.axes[0].in, whole = lanes_within(width, wide, true);
        s.padded.update().vectorize(RVar((*s.inside)[0]), 2 * whole >= lanes ? whole : lanes,
                                    TailStrategy::GuardWithIf);
        return;
    }
    compute_ahead(s.padded, at[rank + 1], problem.batch, s.y, s.n);
    s.padded.bound(at[0], 0, channels);
    if (s.outputs_of_group > 1) {  // vectors of input channels, interleaved with themselves
        const Var copy("copy");
        const int groups = channels / s.outputs_of_group, group_lanes = lanes_within(groups, lanes);
        s.padded.split(at[0], at[0], copy, s.outputs_of_group).reorder(copy, at[0]).unroll(copy);
        s.padded.vectorize(at[0], group_lanes, tail(groups, group_lanes));
    } else {
        s.padded.vectorize(at[0], lanes, channels % lanes == 0 ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    }
    if (schedule.parallel && problem.batch == 1) {
        s.padded.parallel(at[rank]);
    }
}

// y a tile's channels at a time, which all stages pass: planes of x transposed, their sums, and those transposed back.
void schedule_transposed(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule) {
    auto &[x, x_block, sums, y_block] = *s.transposed;
    const int channels = static_cast<int>(problem.out_channels), width = schedule.lanes * schedule.vectors;
    const Var panel("panel"), across("across"), channel_blocks("channel_blocks"), blocks("blocks"), block("block");
    s.y.split(s.c, panel, s.c, width, tail(channels, width));
    schedule_transpose(s.y, y_block, s.q[0], s.c, lanes_within(s.axes[0].phase_extent, 16), schedule.lanes, across,
                       channel_blocks, TailStrategy::RoundUp);
    std::vector<VarOrRVar> order = {s.q[0], s.c, across, channel_blocks};
    order.insert(order.end(), s.q.begin() + 1, s.q.end());
    order.insert(order.end(), {panel, s.n});
    s.y.reorder(order);

    sums.compute_at(s.y, panel).bound_extent(s.c, width);
    const std::vector<Var> at = x.args();
    x.compute_at(s.y, panel).bound_extent(at[0], width);
    for (size_t a = 0; a < s.axes.size(); a++) {
        sums.bound(s.q[a], 0, s.axes[a].phase_extent);
        x.bound(at[a + 1], 0, s.axes[a].in);
    }
    schedule_transpose(x, x_block, at[0], at[1], schedule.lanes, lanes_within(s.axes[0].in, 16), blocks, block,
                       TailStrategy::ShiftInwards);
    if (schedule.parallel) {
        share_images(s, problem, {panel, ceil_div(channels, width)});
    }
}

}  // namespace

void schedule_depthwise(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule) {
    s.y.bound(s.c, 0, static_cast<int>(problem.out_channels)).bound(s.n, 0, static_cast<int>(problem.batch));
    for (size_t a = 0; a < s.axes.size(); a++) {
        s.y.bound(s.q[a], 0, s.axes[a].phase_extent);
        if (s.axes[a].phases > 1) {
            s.y.bound(s.phase[a], 0, s.axes[a].phases);
        }
    }
    if (s.merged_rows) {
        schedule_merged(s, problem, schedule);
        return;
    }
    const LoopsAroundTile loops = schedule_tile(s, problem, schedule);
    if (s.transposed) {
        schedule_transposed(s, problem, schedule);
    } else if (schedule.parallel) {
        share_images(s, problem, loops.outermost);
    }
    if (schedule.sums<TapsInLoop>()) {
        schedule_sum_in_loop(s, schedule, loops.innermost);
        if (s.gathered) {
            schedule_gathered_positions(s, problem, schedule, loops);
        }
    } else if (s.gathered) {
        schedule_dotted_sum(s, schedule, loops.innermost);
        schedule_gathered(s, schedule, loops);
    }
    if (s.gathered && s.gathered->compensation) {
        schedule_compensation(s, problem, schedule);
    }
    if (s.copies) {
        schedule_copy(s, problem, schedule);
    }
}

}  // namespace kiln::depthwise
