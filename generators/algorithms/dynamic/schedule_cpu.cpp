// The schedule of kernels whose sizes are open, for processors: which numbers to take where nobody tuned them, what
// tuning may make of them, and what they mean.
#include <algorithm>

#include "algorithms/dynamic/dynamic.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "moves/tile_sum.h"
#include "targets/register_tile.h"

namespace kiln {

using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

DynamicSchedule default_dynamic_schedule(const Problem &problem, const TargetModel &target) {
    const bool one_group = problem.groups == 1 || problem.groups == open_size;
    const bool known = problem.out_channels != open_size && problem.groups != open_size;
    const bool depthwise = known && !one_group && problem.out_channels == problem.groups;
    const int64_t channels = !known                   ? target.lanes(32)
                             : one_group || depthwise ? problem.out_channels
                                                      : problem.out_channels / problem.groups;
    DynamicSchedule best;
    best.lanes = lanes_around(channels, target.lanes(sum_type(problem).bits()));
    while (known && !one_group && !depthwise && channels % best.lanes != 0) {
        best.lanes /= 2;  // a panel stays within its group, so that its input is one broadcast
    }
    if (problem.in_channels != open_size && problem.groups != open_size) {
        const int dot_width = products_per_lane(problem);
        best.unroll = largest_divisor(ceil_div(static_cast<int>(problem.in_channels / problem.groups), dot_width), 4);
    }
    double best_score = 0;
    // Where nothing is known of the channels, one vector of them wastes least.
    for (int vectors = 1; vectors <= (known ? 4 : 1); vectors++) {
        const int panel = vectors * best.lanes;
        if (known && !one_group && !depthwise && channels % panel != 0) {
            continue;
        }
        // Images are rarely narrower than eight pixels; wider tiles waste more at their right edge.
        for (int pixels = 1; pixels <= (known ? 14 : 8); pixels++) {
            if (vectors * pixels + vectors + 1 > target.vector_registers) {
                continue;
            }
            const double fit = tile_fit(static_cast<int>(channels), panel) * tile_fit(56, pixels);
            const double score = tile_rate(vectors, pixels, target) * fit;
            if (score > best_score) {
                best_score = score;
                best.vectors = vectors;
                best.pixels = pixels;
            }
        }
    }
    best.parallel = true;
    return best;
}

ScheduleSpace dynamic_space(const Problem &problem, const TargetModel &target) {
    const bool whole = problem.groups == 1 || problem.groups == open_size || problem.out_channels == open_size ||
                       problem.groups == problem.out_channels;  // a panel may reach beyond its group, or there is none
    const int64_t out_of_group = whole ? 0 : problem.out_channels / problem.groups;
    const bool knows_channels = problem.in_channels != open_size && problem.groups != open_size;
    const int steps = knows_channels
                          ? ceil_div(static_cast<int>(problem.in_channels / problem.groups), products_per_lane(problem))
                          : 1;
    const int most_lanes = target.lanes(sum_type(problem).bits());
    return {{{"lanes", halves(most_lanes, most_lanes / 2)},
             {"vectors", whole_range(1, 4)},
             {"pixels", whole_range(1, 14)},
             {"unroll", divisors_among(steps, {1, 2, 3, 4})}},
            [=, &target](const ScheduleNumbers &n) {
                return registers_of_tile(n["vectors"], n["pixels"], target) <= target.vector_registers &&
                       (whole || out_of_group % (n["lanes"] * n["vectors"]) == 0);
            }};
}

namespace {

// The loop variable of axis a's q, or of its phase, in the stage that writes y: a reduction's where the axis has
// several phases.
VarOrRVar output_loop(const DynamicStages &s, size_t axis, bool phase) {
    int next = 0;
    for (size_t a = 0; a < axis; a++) {
        next += is_one(s.axes[a].phases) ? 0 : 2;
    }
    if (is_one(s.axes[axis].phases)) {
        return s.q[axis];
    }
    return RVar((*s.out)[next + (phase ? 1 : 0)]);
}

// Splits y into register tiles. Returns the innermost loop around one.
VarOrRVar schedule_output(DynamicStages &s, const Problem &problem, const DynamicSchedule &schedule) {
    const bool phased = s.out.has_value();
    Halide::Stage y = phased ? Halide::Stage(s.y.update()) : Halide::Stage(s.y);
    const Var panel("panel"), vector("vector");
    const bool whole =
        problem.out_channels != open_size && !s.splits_groups && problem.out_channels % schedule.panel() == 0;
    y.split(s.c, panel, s.c, schedule.panel(), whole ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    y.split(s.c, vector, s.c, schedule.lanes);
    std::vector<VarOrRVar> order = {s.c, vector};
    VarOrRVar tile = Var("tile"), pixel = s.q[0];
    if (is_one(s.axes[0].phases)) {
        y.split(s.q[0], Var(tile.name()), s.q[0], schedule.pixels, TailStrategy::GuardWithIf);
    } else {
        const RVar outer("tile"), inner("pixel");
        y.split((*s.out)[0], outer, inner, schedule.pixels, TailStrategy::GuardWithIf);
        tile = outer;
        pixel = inner;
    }
    order.insert(order.end(), {pixel, tile, panel});
    VarOrRVar outermost = s.n;
    for (size_t a = 0; a < s.q.size(); a++) {
        if (!is_one(s.axes[a].phases)) {
            order.push_back(output_loop(s, a, true));
        }
    }
    for (size_t a = 1; a < s.q.size(); a++) {
        outermost = output_loop(s, a, false);
        order.push_back(outermost);
    }
    if (s.splits_groups) {
        order.push_back(s.g);
    }
    order.push_back(s.n);
    y.reorder(order).vectorize(s.c).unroll(vector);
    if (schedule.parallel) {
        if (phased) {
            y.allow_race_conditions();  // no two iterations write the same element, which Halide cannot prove
        }
        y.parallel(outermost);
    }
    return tile;
}

void schedule_open_sum(DynamicStages &s, const Problem &problem, const DynamicSchedule &schedule,
                       const VarOrRVar &tile) {
    const TileLoops tile_loops = {s.c, schedule.lanes, {}, {s.q[0]}};
    const Halide::LoopLevel around(s.y, tile);
    store_tile(s.sums, around, tile_loops);
    s.sums.bound_extent(s.c, schedule.panel()).bound_extent(s.q[0], schedule.pixels);
    s.acc.compute_at(around);
    s.acc.store_in(Halide::MemoryType::Register);
    s.acc.bound_extent(s.c, schedule.panel()).bound_extent(s.q[0], schedule.pixels);
    schedule_tile_sum(s.acc, tile_loops, {loops_from(s.r, 1), schedule.unroll, s.r[0], products_per_lane(problem)});
}

}  // namespace

void schedule_dynamic(DynamicStages &s, const Problem &problem, const DynamicSchedule &schedule, const Sizes &sizes) {
    schedule_open_sum(s, problem, schedule, schedule_output(s, problem, schedule));
    const std::vector<Var> at = s.padded.args();
    s.padded.compute_root();
    for (size_t d = 0; d < at.size(); d++) {
        s.padded.bound(at[d], s.padded_min[d], s.padded_extent[d]);
    }
    s.padded.vectorize(at[0], schedule.lanes, TailStrategy::GuardWithIf);
    if (schedule.parallel) {
        s.padded.parallel(at[at.size() > 3 ? at.size() - 2 : at.size() - 1]);
    }
    if (s.x_is_empty) {
        s.padded.specialize(*s.x_is_empty);
    }
    if (problem.x_layout == Layout::open) {
        s.padded.specialize(sizes.x_is_nxc);
    }
}

}  // namespace kiln
