// Schedules of the depthwise algorithm for processors.
#include <algorithm>
#include <numeric>

#include "algorithms/depthwise/depthwise.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "moves/tail_strategy.h"

namespace kiln::depthwise {
namespace {

using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

constexpr int most_tile_products = 128;
constexpr int most_merged_channels = 5;
constexpr int strip_bytes = 24000;  // of merged rows that are copied together
constexpr int least_rolled_taps = 20;
constexpr int least_turned_taps = 40;  // of images with rows of whole vectors

// Positions first, then the channel: how planes lie.
std::vector<Var> plane_order(const std::vector<Var> &at) {
    std::vector<Var> order(at.begin() + 1, at.end());
    order.insert(order.end() - 1, at[0]);
    return order;
}

// Splits y into tiles; returns the loops around one, the innermost first.
std::vector<VarOrRVar> schedule_tile(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule) {
    const Var block("block"), vector("vector"), tile("tile"), rows("rows");
    const int channels = static_cast<int>(problem.out_channels), width = schedule.lanes * schedule.vectors;
    std::vector<VarOrRVar> inside;
    if (schedule.along_row) {
        s.y.split(s.q[0], tile, s.q[0], width,
                  width > s.axes[0].phase_extent ? TailStrategy::GuardWithIf : tail(s.axes[0].phase_extent, width));
        s.y.split(s.q[0], vector, s.q[0], schedule.lanes).vectorize(s.q[0]).unroll(vector);
        inside = {s.q[0], vector};
    } else {
        const TailStrategy beyond = s.sum.defined() ? TailStrategy::ShiftInwards : TailStrategy::GuardWithIf;
        s.y.split(s.c, block, s.c, width, channels % width == 0 ? TailStrategy::RoundUp : beyond);
        s.y.split(s.c, vector, s.c, schedule.lanes).vectorize(s.c).unroll(vector);
        s.y.split(s.q[0], tile, s.q[0], schedule.pixels, tail(s.axes[0].phase_extent, schedule.pixels)).unroll(s.q[0]);
        inside = {s.c, vector, s.q[0]};
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        if (s.axes[a].phases > 1) {
            s.y.unroll(s.phase[a]);
            inside.insert(schedule.along_row ? inside.begin() + 1 : inside.end(), s.phase[a]);
        }
    }
    std::vector<VarOrRVar> image = {tile};
    if (s.axes.size() > 1) {
        // Rows that share what is gathered stay together.
        const bool shifts = s.group_rows == 1 || s.axes[1].phase_extent % schedule.rows == 0;
        s.y.split(s.q[1], rows, s.q[1], schedule.rows,
                  shifts ? tail(s.axes[1].phase_extent, schedule.rows) : TailStrategy::GuardWithIf);
        s.y.unroll(s.q[1]);
        inside.push_back(s.q[1]);
        image.push_back(rows);
    }
    for (size_t a = 2; a < s.axes.size(); a++) {
        image.push_back(s.q[a]);
    }
    std::vector<VarOrRVar> loops = image;
    const Var channel = schedule.along_row ? s.c : block;
    loops.insert(schedule.along_row || schedule.channels_outside ? loops.end() : loops.begin(), channel);
    loops.push_back(s.n);
    std::vector<VarOrRVar> order = inside;
    order.insert(order.end(), loops.begin(), loops.end());
    s.y.reorder(order);
    return loops;
}

// How far the taps of an axis reach.
int reach(const AxisMap &axis) {
    return (axis.taps - 1) * std::abs(axis.tap_step);
}

// How many positions of an axis are gathered for `outputs` of them.
int gathered_extent(const DepthwiseStages &s, size_t a, int outputs) {
    return a == s.dotted ? outputs / s.group_rows : s.axes[a].extent_of(outputs);
}

// Of the vectors that are gathered along a row.
int gathered_lanes(const DepthwiseStages &s, const DepthwiseSchedule &schedule) {
    return lanes_around(gathered_extent(s, 0, s.axes[0].phase_extent), 4 * schedule.lanes);
}

// The sums of a vector, one position after the other, from what is gathered for a tile or, along rows, for all of a
// row.
void schedule_dotted_sum(DepthwiseStages &s, const DepthwiseSchedule &schedule, const VarOrRVar &around_tile) {
    const Var vector("vector"), rows("rows");
    const size_t rank = s.axes.size();
    const Var wide = schedule.along_row ? s.q[0] : s.c;
    const auto vectorize = [&](Halide::Stage stage) { stage.vectorize(wide).unroll(vector); };
    s.sum.compute_at(s.y, schedule.along_row ? (rank > 1 ? s.q[1] : around_tile.var) : s.q[0]);
    s.sum.store_in(Halide::MemoryType::Register);
    s.sum.split(wide, vector, wide, schedule.lanes);
    vectorize(s.sum);
    Halide::Stage sum = s.sum.update();
    sum.split(wide, vector, wide, schedule.lanes);
    std::vector<VarOrRVar> order = {s.r[0], wide, vector};
    for (size_t a = 0; a < rank; a++) {
        order.push_back(s.r[static_cast<int>(a) + 1]);
        sum.unroll(s.r[static_cast<int>(a) + 1]);
    }
    sum.reorder(order).atomic().vectorize(s.r[0]);
    vectorize(sum);

    const std::vector<Var> at = s.gathered.args();  // lane, c, positions, n, group
    s.gathered.store_in(Halide::MemoryType::Stack).bound(s.lane, 0, schedule.dot).unroll(s.lane).unroll(s.group);
    s.gathered.bound(s.group, 0, ceil_div(s.axes[s.dotted].taps, schedule.dot));
    if (schedule.along_row) {
        s.gathered.compute_at(s.y, rank > 1 ? rows : s.c).reorder(s.lane, s.group, at[2]);
        s.gathered.reorder_storage(s.lane, at[2], s.c);
        s.gathered.vectorize(at[2], gathered_lanes(s, schedule), TailStrategy::RoundUp);
        return;
    }
    s.gathered.compute_at(s.y, around_tile.var).reorder(s.lane, s.c, s.group, at[2]);
    s.gathered.bound_extent(s.c, schedule.lanes * schedule.vectors).vectorize(s.c);
    s.gathered.bound_extent(at[2], gathered_extent(s, 0, schedule.pixels)).unroll(at[2]);
    if (rank > 1) {
        s.gathered.bound_extent(at[3], gathered_extent(s, 1, schedule.rows)).unroll(at[3]);
    }
}

// The sums of a tile in registers, which a row's taps pass one after the other: what neighbouring outputs read is
// loaded once.
void schedule_rolled_sum(DepthwiseStages &s, const DepthwiseSchedule &schedule, const VarOrRVar &around_tile) {
    const Var vector("vector");
    const auto unroll_tile = [&](Halide::Stage stage) { stage.vectorize(s.c).unroll(vector).unroll(s.q[0]); };
    s.sum.compute_at(s.y, around_tile.var).store_in(Halide::MemoryType::Register);
    s.sum.split(s.c, vector, s.c, schedule.lanes, TailStrategy::RoundUp);
    unroll_tile(s.sum);
    Halide::Stage sum = s.sum.update();
    sum.split(s.c, vector, s.c, schedule.lanes);
    std::vector<VarOrRVar> order = {s.c, vector, s.q[0]};
    for (size_t a = 0; a < s.axes.size(); a++) {
        order.push_back(s.r[static_cast<int>(a)]);
    }
    sum.reorder(order).unroll(s.r[0]);
    unroll_tile(sum);
}

// Once a run, ahead of everything else.
void schedule_surplus(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule) {
    Halide::Func &zero_point = s.surplus.zero_point;
    zero_point.compute_root().bound(zero_point.args()[0], 0, schedule.dot).store_in(Halide::MemoryType::Stack);
    const int channels = static_cast<int>(problem.out_channels);
    const int lanes = schedule.along_row ? 1 : schedule.lanes;
    s.surplus.sum.compute_root().bound(s.c, 0, channels);
    s.surplus.sum.vectorize(s.c, lanes, tail(channels, lanes));
    Halide::Stage sum = s.surplus.sum.update();
    const Var block("block");
    sum.split(s.c, block, s.c, lanes, channels % lanes == 0 ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = {s.all[0], s.c};
    for (size_t a = 0; a < s.axes.size(); a++) {
        order.push_back(s.all[static_cast<int>(a) + 1]);
    }
    order.push_back(block);
    sum.reorder(order).atomic().vectorize(s.all[0]).vectorize(s.c);
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
    s.padded.compute_at(s.y, place).bound(at, 0, round_up(s.row_start + round_up(row, repeats) + beyond, lanes));
    s.padded.vectorize(at, lanes, TailStrategy::RoundUp);
    s.padded.update().vectorize(s.inside, lanes, TailStrategy::GuardWithIf);
    if (s.lane_bias.defined()) {
        s.lane_bias.compute_root().bound(s.lane_bias.args()[0], 0, repeats);
    }
}

}  // namespace

DepthwiseSchedule default_depthwise_schedule(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int lanes = target.lanes(sum_type(problem).bits()), width = axes[0].phase_extent;
    const int height = axes.size() > 1 ? axes[1].phase_extent : 1;
    int phases = 1;
    for (const AxisMap &axis : axes) {
        phases *= axis.phases;
    }
    DepthwiseSchedule schedule;
    // Vectors along rows need rows; short ones go by channels, through a copy that turns x. Of float32 they may be part
    // of a vector.
    const bool masks = problem.x_type == DType::f32 && problem.y_type == DType::f32;
    schedule.along_row = problem.x_layout == Layout::ncx && problem.y_layout == Layout::ncx && width >= (masks ? 5 : 8);
    // Sums of many taps that share what they read (`rolled`, below) are worth that copy, where rows are short or taps
    // many enough: 7x7 of 768 channels at 7x7 takes .051 ms in place of .189, of 96 at 56x56 .43 in place of .78.
    const bool rolls = problem.rank == 2 && rolls_taps(problem) && problem.taps() >= least_rolled_taps;
    if (rolls && problem.out_channels >= lanes && (width < 8 || problem.taps() >= least_turned_taps)) {
        schedule.along_row = false;
    }
    schedule.parallel = problem.flops() > 1e6;
    // Sums in flight hide an addition's latency; those beyond a third of the registers crowd out what they share.
    // Where there are many taps, longer code than this no longer keeps what outputs share in registers.
    const int most = std::max(1, most_tile_products / static_cast<int>(problem.taps()));
    const int registers = target.vector_registers / 4;
    const int sums = std::max(1, (schedule.along_row ? registers : std::min(registers, most)) / phases);
    const int dot = target.signed_dot ? 1 : target.int8_products;
    // Of fewer channels than a vector all are one, a part of it under a mask (3 of 4 take 44% less time than 2 and 1).
    const bool part = masks && !target.lane_indexed_fma && problem.out_channels < lanes;
    const int channel_lanes =
        part ? lanes_around(problem.out_channels, lanes) : lanes_within(problem.out_channels, lanes);
    // One or two channels are no vector.
    if (problem.is_quantized() && dot > 1 && problem.taps() > 1 && (schedule.along_row || channel_lanes >= 4)) {
        schedule.dot = sums_taps(problem, dot) ? dot : sums_taps(problem, 2) ? 2 : 1;
    }
    // Rows of few channels fill whole vectors, but are copied, and weights repeat after many lanes: of 16 lanes, 3
    // channels take 60% less time than under a mask, 5 46% and 7 40% more; of 8, 42%, 8% and 27% more.
    schedule.merged = part && allows_merged(problem) && problem.out_channels <= most_merged_channels &&
                      width * problem.out_channels >= std::lcm(lanes, problem.out_channels);
    if (schedule.merged) {
        schedule.lanes = lanes;
        schedule.rows = std::min({height, sums, 7});
        return schedule;
    }
    if (schedule.along_row) {
        schedule.lanes = masks && width < lanes ? lanes_around(width, lanes) : lanes_within(width, lanes);
        schedule.rows = std::min(height, std::min(sums, schedule.dot > 1 ? 8 : 7));
        if (axes[0].phases > 1) {
            // The rows of phases that take turns are woven: halves of vectors to whole ones (T4 takes 9% less time),
            // and several at a time make Halide slow (1.6 s for two), and nothing faster.
            schedule.lanes = std::max(schedule.lanes / 2, std::min(schedule.lanes, 8));
            schedule.rows = 1;
        }
        return schedule;
    }
    schedule.lanes = channel_lanes;
    if (schedule.dot > 1) {
        // Elements of channels-first y are written one by one, which long unrolled code makes no faster.
        const bool scatters = problem.y_layout == Layout::ncx;
        // Rows share fours of bytes, and two vectors their interleaving; pairs of 16 bits gain by neither.
        const bool shares = schedule.dot == 4 && !scatters;
        schedule.vectors = 2 * schedule.lanes <= problem.out_channels && shares ? 2 : 1;
        int columns = std::max((16 - reach(axes[0]) - 1) / axes[0].step + 1, 1);
        if (columns < width && axes[0].taps <= 3) {  // longer parts of a row are no faster, and slow to compile
            columns = std::min(columns, 8);
        }
        schedule.pixels = ceil_div(width, ceil_div(width, scatters ? 2 : columns));
        schedule.rows = shares ? std::min(height, 2) : 1;
        schedule.channels_outside = true;
        return schedule;
    }
    // Of many taps a row's at a time, for as much of a row of outputs as leaves registers to their weights, a vector of
    // channels after the other, so that the rows it reads stay in the first cache: 7x7 of 768 channels at 7x7 takes
    // .016 ms in place of .077.
    if (rolls && schedule.lanes <= problem.out_channels) {
        const int most_pixels = (target.vector_registers - 2) / 2;
        schedule.pixels = ceil_div(width, ceil_div(width, most_pixels));
        const int vectors = 2 * schedule.lanes <= problem.out_channels ? 2 : 1;
        schedule.vectors = schedule.pixels * vectors <= most_pixels ? vectors : 1;
        schedule.rolled = schedule.channels_outside = true;
        return schedule;
    }
    // Tall tiles read rows of x fewer times. With strides that pays where the image is large (C7 takes 7% less time,
    // half its size 20% more).
    schedule.pixels = std::min({width, sums, axes[0].step > 1 && width < 28 ? 7 : 2});
    schedule.rows = std::min(height, std::max(1, sums / schedule.pixels));
    return schedule;
}

void schedule_depthwise(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule) {
    const size_t rank = s.axes.size();
    const auto channels = static_cast<int>(problem.out_channels), batch = static_cast<int>(problem.batch);
    s.y.bound(s.c, 0, channels).bound(s.n, 0, batch);
    for (size_t a = 0; a < rank; a++) {
        s.y.bound(s.q[a], 0, s.axes[a].phase_extent);
        if (s.axes[a].phases > 1) {
            s.y.bound(s.phase[a], 0, s.axes[a].phases);
        }
    }
    if (schedule.merged) {
        schedule_merged(s, problem, schedule);
        return;
    }
    const std::vector<VarOrRVar> loops = schedule_tile(s, problem, schedule);
    // The outermost image loop, or the channels of planes.
    const Var shared = batch > 1 ? s.n : loops[loops.size() - 2].var;
    if (schedule.parallel) {
        s.y.parallel(shared);
    }
    if (schedule.rolled) {
        schedule_rolled_sum(s, schedule, loops.front());
    } else if (s.sum.defined()) {
        schedule_dotted_sum(s, schedule, loops.front());
    }
    if (s.surplus.sum.defined()) {
        schedule_surplus(s, problem, schedule);
    }
    if (!s.copies) {
        return;
    }
    const std::vector<Var> at = s.padded.args();
    const int lanes = schedule.lanes;
    // Along rows in whole vectors, and as far as the last of those reads that are gathered.
    const int wide = !schedule.along_row ? 1 : s.sum.defined() ? gathered_lanes(s, schedule) : lanes;
    const int gathered = s.sum.defined() ? gathered_extent(s, 0, s.axes[0].phase_extent) : 0;
    const int beyond = (round_up(gathered, wide) - gathered) * (s.dotted == 0 ? s.axes[0].step : 1);
    for (size_t a = 0; a < rank; a++) {
        const AxisMap::Range range = s.reads[a];
        const int extent = std::max(range.last - range.first, 0) + 1;
        s.padded.bound(at[a + 1], range.first, a == 0 ? round_up(extent + beyond, wide) : extent);
    }
    if (schedule.along_row) {  // a plane at a time, which stays in a cache
        const std::vector<Var> order = plane_order(at);
        s.padded.compute_at(s.y, s.c).reorder_storage(order).reorder({order.begin(), order.end()});
        s.padded.vectorize(at[1], wide, TailStrategy::RoundUp);
        const int width = s.axes[0].in, whole = lanes_within(width, wide, true);
        s.padded.update().vectorize(s.inside[0], 2 * whole >= lanes ? whole : lanes, TailStrategy::GuardWithIf);
        return;
    }
    s.padded.compute_root().bound(at[0], 0, channels).bound(at[rank + 1], 0, batch);
    if (s.fold > 1) {  // vectors of input channels, interleaved with themselves
        const Var copy("copy");
        const int groups = channels / s.fold, wide = lanes_within(groups, lanes);
        s.padded.split(at[0], at[0], copy, s.fold).reorder(copy, at[0]).unroll(copy);
        s.padded.vectorize(at[0], wide, tail(groups, wide));
    } else {
        s.padded.vectorize(at[0], lanes, channels % lanes == 0 ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    }
    if (schedule.parallel) {
        s.padded.parallel(at[batch > 1 ? rank + 1 : rank]);
    }
}

}  // namespace kiln::depthwise
