// The dynamic depthwise algorithm's schedule for processors: which numbers to take where nobody tuned them, what tuning
// may make of them, and what they mean.
#include <algorithm>

#include "algorithms/dynamic_depthwise/dynamic_depthwise.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "moves/tail_strategy.h"
#include "moves/tile_sum.h"
#include "moves/transpose_block.h"
#include "targets/register_tile.h"

namespace kiln::dynamic_depthwise {

using Halide::Func;
using Halide::RVar;
using Halide::Stage;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

namespace {

// More products of a row of taps than these are not unrolled: kernels would be large and slow to compile.
constexpr int64_t most_unrolled = 256;

}  // namespace

DynamicDepthwiseSchedule default_schedule(const Problem &problem, const TargetModel &target) {
    DynamicDepthwiseSchedule schedule;
    const int channels = static_cast<int>(problem.out_channels);
    schedule.lanes = lanes_within(channels, target.lanes(sum_type(problem).bits()));
    // Images are most often seven pixels wide, or a multiple of that or of eight.
    schedule.pixels = std::min(7, most_positions(1, target));
    // Two vectors share what is done at a row's ends, where registers hold what their products read: that of strides is
    // too much, and strips end in whole blocks for one vector at a time.
    const int axis = problem.rank - 1;
    const int64_t products = problem.kernel[axis] * schedule.pixels;
    const int panel = 2 * schedule.lanes;
    const bool fits = problem.y_layout == Layout::nxc && problem.stride[axis] == 1 && 2 * products <= most_unrolled &&
                      registers_of_tile(2, schedule.pixels, target) <= target.vector_registers;
    const bool are_enough = panel <= channels && tile_fit(channels, panel) >= .9 * tile_fit(channels, schedule.lanes);
    schedule.vectors = fits && are_enough ? 2 : 1;
    schedule.rows = problem.rank == 1 ? 1024 : 32;
    schedule.parallel = true;
    return schedule;
}

ScheduleSpace space(const Problem &problem, const TargetModel &target) {
    const int most_lanes = lanes_within(problem.out_channels, target.lanes(sum_type(problem).bits()));
    const int64_t channels = problem.out_channels;
    return {{{"lanes", halves(most_lanes, std::max(most_lanes / 2, 1))},
             {"vectors", whole_range(1, 4)},
             {"pixels", whole_range(1, 14)},
             {"rows", problem.y_layout == Layout::ncx ? std::vector<int>{32, 64, 1024} : std::vector<int>{32}}},
            [=, &target](const ScheduleNumbers &n) {
                return registers_of_tile(n["vectors"], n["pixels"], target) <= target.vector_registers &&
                       n["lanes"] * n["vectors"] <= channels;
            }};
}

namespace {

// The sums of a tile in registers, inside the loop `tile`.
void schedule_sum(Stages &s, const Problem &problem, const DynamicDepthwiseSchedule &schedule,
                  const Halide::LoopLevel &tile) {
    s.acc.compute_at(tile).store_in(Halide::MemoryType::Register);
    s.acc.bound_extent(s.c, schedule.panel()).bound_extent(s.q[0], schedule.pixels);
    schedule_tile_sum(s.acc, {s.c, schedule.lanes, {}, {s.q[0]}}, {loops_from(s.r, 0)}, TailStrategy::RoundUp);
    if (problem.kernel[problem.rank - 1] * schedule.vectors * schedule.pixels <= most_unrolled) {
        s.acc.update().unroll(s.r[0]);
    }
}

// y a row at a time, of which all channels are passed before the next one.
void schedule_rows(Stages &s, const Problem &problem, const DynamicDepthwiseSchedule &schedule) {
    const Var panel("panel"), vector("vector"), tile("tile");
    s.y.split(s.c, panel, s.c, schedule.panel(), tail(static_cast<int>(problem.out_channels), schedule.panel()));
    s.y.split(s.c, vector, s.c, schedule.lanes).vectorize(s.c).unroll(vector);
    s.y.split(s.q[0], tile, s.q[0], schedule.pixels, TailStrategy::GuardWithIf).unroll(s.q[0]);
    std::vector<VarOrRVar> order = {s.c, vector, s.q[0], tile, panel};
    order.insert(order.end(), s.q.begin() + 1, s.q.end());
    const VarOrRVar outermost = order.back();
    order.emplace_back(s.n);
    s.y.reorder(order);
    if (schedule.parallel) {
        s.y.parallel(outermost);
    }
    schedule_sum(s, problem, schedule, {s.y, tile});
}

// A strip's sums, with channels innermost.
void schedule_sums_of_strip(Stages &s, const Problem &problem, const DynamicDepthwiseSchedule &schedule,
                            const Halide::LoopLevel &piece) {
    const Strips &strips = *s.strips;
    Func sums = strips.sums;
    sums.compute_at(piece).bound_extent(s.c, schedule.panel());
    sums.bound(strips.i, 0, Halide::max(strips.y_points, block_positions));
    const Var vector("vector");
    const RVar q0(strips.rows[0]), tile("tile");
    Stage update = sums.update();
    update.split(s.c, vector, s.c, schedule.lanes).vectorize(s.c).unroll(vector);
    update.split(q0, tile, q0, schedule.pixels, TailStrategy::GuardWithIf).unroll(q0);
    std::vector<VarOrRVar> order = {s.c, vector, q0, tile};
    for (const RVar &row : loops_from(strips.rows, 1)) {
        order.emplace_back(row);
    }
    update.reorder(order);
    schedule_sum(s, problem, schedule, {sums, tile});
}

// What a strip reads.
void schedule_x_of_strip(Stages &s, const DynamicDepthwiseSchedule &schedule, const Halide::LoopLevel &piece) {
    Strips &strips = *s.strips;
    strips.x.compute_at(piece).bound_extent(s.c, schedule.panel()).bound(strips.i, 0, strips.x_points);
    if (!Halide::Internal::is_const_one(strips.is_small_x)) {
        strips.x.specialize(strips.is_small_x);
        schedule_transpose(strips.x, strips.x_block, s.c, strips.i, schedule.lanes, block_positions, Var("x_blocks"),
                           Var("x_block"), TailStrategy::ShiftInwards);
    }
}

// y in strips of planes, a panel of channels at a time, which all stages pass.
void schedule_strips(Stages &s, const Problem &problem, const DynamicDepthwiseSchedule &schedule) {
    Strips &strips = *s.strips;
    const RVar position(strips.blocks[0]), channel(strips.blocks[1]), block(strips.blocks[2]), piece("piece");
    Stage y = s.y.update();
    y.allow_race_conditions();  // of no two iterations that write the same, but for the same number
    y.fuse(strips.blocks[4], strips.blocks[5], piece);
    if (schedule.parallel) {
        y.parallel(piece);
    }
    if (!Halide::Internal::is_const_one(strips.is_small_y)) {
        y.specialize(strips.is_small_y);
        y.vectorize(position).unroll(channel);
        strips.y_block.compute_at(Halide::LoopLevel(s.y, block)).store_in(Halide::MemoryType::Stack);
        strips.y_block.bound(strips.i, 0, block_positions).bound(s.c, 0, schedule.lanes);
        strips.y_block.reorder(s.c, strips.i).vectorize(s.c).unroll(strips.i);
    }
    schedule_sums_of_strip(s, problem, schedule, {s.y, piece});
    schedule_x_of_strip(s, schedule, {s.y, piece});
}

}  // namespace

void schedule_stages(Stages &s, const Problem &problem, const DynamicDepthwiseSchedule &schedule) {
    s.y.bound(s.c, 0, static_cast<int>(problem.out_channels));
    if (s.strips) {
        schedule_strips(s, problem, schedule);
    } else {
        schedule_rows(s, problem, schedule);
    }
}

}  // namespace kiln::dynamic_depthwise
