// What inputs and outputs share of the Winograd algorithm's schedule for processors: transforms of tiles, and blocks
// that are transposed from one layout to the other.
#include <algorithm>

#include "algorithms/winograd/schedule_cpu.h"
#include "expressions/vars.h"
#include "moves/parallel_split.h"
#include "moves/tail_strategy.h"

namespace kiln {

using Halide::Func;
using Halide::MemoryType;
using Halide::Stage;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

namespace {

// Beyond so many points a tile's transform no longer fits the code and the registers it takes unrolled.
constexpr int most_unrolled_points = 36;

bool goes_by_rows(const WinogradShape &shape, int tail_mask) {
    int points = 1;
    for (size_t a = 0; a < shape.axes.size(); a++) {
        points *= shape.tile_class(tail_mask, a).points;
    }
    return points > most_unrolled_points && shape.axes.size() > 1;
}

// The loops over tiles of the first axes, the outermost first.
std::vector<SharedLoop> tile_loops(const WinogradShape &shape, const UpdateLoops &r, size_t axes, int tail_mask) {
    const size_t rank = shape.axes.size();
    std::vector<SharedLoop> loops = {{r.loop(3 * rank), shape.images}};
    for (size_t a = axes; a-- > 0;) {
        loops.push_back({r.loop(rank + 2 * a + 1), shape.axes[a].dilation_phases});
        loops.push_back({r.loop(rank + 2 * a), shape.tile_class(tail_mask, a).count});
    }
    return loops;
}

// One axis' step of a tile's transform, in registers or, `by_rows`, row by row through memory.
void schedule_step(const WinogradStages::Step &of_axis, const WinogradStages &s,
                   const WinogradStages::Transform &transform, const Func &target, int lanes, bool by_rows,
                   const Var &vector) {
    Func step = of_axis.f;
    const size_t axis = of_axis.axis, rank = s.shape.axes.size();
    const std::vector<Var> at = step.args();
    // All points or outputs of this axis together, which read the same vectors.
    std::vector<VarOrRVar> order = {s.c, at[1 + axis]};
    for (size_t a = 0; a < rank; a++) {
        if (a != axis) {
            order.emplace_back(at[1 + a]);
        }
    }
    step.reorder(order).vectorize(s.c).bound_extent(s.c, lanes);
    // Where loops over tiles are one, Halide does not see that all of this is one position's.
    for (size_t d = 1 + rank; d < at.size(); d++) {
        step.bound_extent(at[d], 1);
    }
    // Of a tile that is clipped, too, so that all are of one size; rows of outputs, one after the other, are one.
    const bool is_row = by_rows && axis == 0;
    for (size_t a = 0; a < rank && s.shape.clipped_tail && target.name() == s.y.name(); a++) {
        if (a == 0 || !is_row) {
            step.bound(at[1 + a], 0, a < axis ? s.shape.axes[a].points : s.shape.axes[a].outputs);
        }
    }
    for (size_t a = 0; a < rank; a++) {
        if (a == axis || !by_rows) {
            step.unroll(at[1 + a]);
        }
    }
    if (is_row) {
        step.compute_at(target, transform.r.loop(1)).store_in(MemoryType::Register);
    } else {
        step.compute_at(target, vector);
        if (!by_rows) {
            step.store_in(MemoryType::Register);
        }
    }
}

}  // namespace

int power_of_two(int n) {
    int power = 1;
    while (2 * power <= n) {
        power *= 2;
    }
    return power;
}

void bound(const WinogradStages &s, Func &f, const Var &var, int begin, int count) {
    if (s.has(var)) {
        f.bound(var, begin, count);
    }
}

Var schedule_transpose(Func &to, Func &block, const Var &fast, int fast_extent, int wide, const Var &dense,
                       int dense_extent, int narrow, const std::vector<VarOrRVar> &around) {
    const Var fast_outer("fast_outer"), dense_outer("dense_outer");
    wide = std::min(wide, power_of_two(fast_extent));
    narrow = std::min(narrow, power_of_two(dense_extent));
    std::vector<VarOrRVar> order = {fast, dense, fast_outer, dense_outer};
    append(order, around);
    std::vector<Var> storage = {fast, dense};
    for (const Var &var : to.args()) {
        if (var.name() != fast.name() && var.name() != dense.name()) {
            order.push_back(var);
            storage.push_back(var);
        }
    }
    to.split(fast, fast_outer, fast, wide, tail(fast_extent, wide));
    to.split(dense, dense_outer, dense, narrow, tail(dense_extent, narrow));
    to.reorder(order).vectorize(fast).unroll(dense);
    block.compute_at(to, fast_outer).store_in(MemoryType::Stack).reorder_storage(storage);
    block.bound_extent(fast, wide).bound_extent(dense, narrow).vectorize(dense).unroll(fast);
    return dense_outer;
}

void vectorize_channels(Func &f, const Var &c, int channels, int lanes) {
    const int width = std::min(lanes, power_of_two(channels));
    f.vectorize(c, width, tail(channels, width));
}

void schedule_transform(Func &target, int update, const WinogradStages &s, const WinogradStages::Transform &transform,
                        size_t axes, int lanes, const TransformLoops &loops) {
    const size_t rank = s.shape.axes.size();
    const Var vector("vector");
    const bool by_rows = goes_by_rows(axes < rank ? s.shape.plane() : s.shape, transform.tail_mask);
    Stage stage = target.update(update);
    const bool whole = target.name() != s.y.name() || s.shape.columns % lanes == 0;
    stage.split(s.c, vector, s.c, lanes, whole ? TailStrategy::RoundUp : TailStrategy::PredicateStores);
    const bool groups_outermost = target.name() == s.y.name() && s.shape.group_chunks > 1;
    if (loops.panel_vectors > 0) {
        stage.split(vector, panel_of_y, vector, loops.panel_vectors);
    } else if (groups_outermost) {
        stage.split(vector, groups_of_y, vector, s.shape.group_columns / lanes);
    }
    std::vector<SharedLoop> shared = tile_loops(s.shape, transform.r, axes, transform.tail_mask);
    std::vector<VarOrRVar> order = {s.c};
    for (size_t a = 0; a < axes; a++) {
        order.emplace_back(transform.r.loop(a));
    }
    order.emplace_back(vector);
    append(order, loops.between);
    if (const int parts = loops.of_tiles.even_parts(iterations_of(shared), loops.vectors); parts > 1) {
        const Var part("part");
        stage.split(vector, part, vector, loops.vectors / parts, TailStrategy::RoundUp);
        order.emplace_back(part);
        shared.push_back({part, parts});
    }
    for (size_t d = axes; d < transform.r.size(); d++) {
        if (d == s.shape.loop_of_parts() && loops.panel_vectors > 0) {
            order.emplace_back(panel_of_y);
        }
        if (d == s.shape.loop_of_images()) {
            append(order, loops.phases);
        }
        if (transform.r.has(d)) {
            order.emplace_back(transform.r.loop(d));
        }
    }
    if (groups_outermost) {
        order.emplace_back(groups_of_y);
    }
    stage.reorder(order).vectorize(s.c).unroll(transform.r.loop(0));
    for (size_t a = 1; a < axes && !by_rows; a++) {
        stage.unroll(transform.r.loop(a));
    }
    if (loops.shares_panels) {
        stage.parallel(panel_of_y);
    }
    if (loops.of_tiles.is_shared()) {
        share_loops(stage.allow_race_conditions(), shared, loops.of_tiles);
    }
    for (const WinogradStages::Step &step : transform.steps) {
        schedule_step(step, s, transform, target, lanes, by_rows, vector);
    }
}

void bound_columns(Func &f, const WinogradStages &s, const WinogradSchedule &schedule, int all) {
    if (schedule.by_panel || s.shape.group_chunks > 1) {
        f.bound_extent(s.c, schedule.by_panel ? s.shape.panel : s.shape.group_columns);
    } else {
        f.bound(s.c, 0, all);
    }
}

}  // namespace kiln
