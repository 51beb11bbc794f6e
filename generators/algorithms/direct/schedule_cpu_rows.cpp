// The direct algorithm's register tiles of row lanes, whose vectors run along channels-first rows or along rows
// flattened end to end, and those of channel lanes whose positions are of flattened rows.
#include "algorithms/direct/schedule_cpu.h"
#include "expressions/arithmetic.h"
#include "lowering/prefetch/prefetch.h"
#include "moves/parallel_split.h"
#include "moves/tail_strategy.h"

namespace kiln {

using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

SumSteps schedule_row_sum(DirectStages &s, const DirectSchedule &schedule) {
    const TileLoops tile = tile_loops(s, schedule, true);
    s.acc.bound_extent(s.c, schedule.panel()).bound_extent(tile.along, schedule.width());
    s.acc.reorder_storage({tile.along, s.c});
    const SumSteps steps =
        schedule_tile_sum(s.acc, tile, {loops_from(s.r, 1), schedule.unroll, s.r[0], schedule.dot_width});
    const auto *row = schedule.with<RowLanes>();
    if (row != nullptr && row->prefetch_distance > 0 && !s.padded_input) {  // copies are near
        // By each step, between its products: as many at once as several steps read are no faster than none.
        prefetch(s.acc.update(), s.input, steps.innermost, row->prefetch_distance);
    }
    return steps;
}

namespace {

// How far apart channels of a copy begin that have so many elements: a line further where few sets of the caches would
// have all of them. A transposed convolution by 2x2 taps, of 128 to 64 channels from 64x64, by 16 rows together takes
// 4.6 ms on a Zen 3 in place of 9.0. Less than a quarter of a page apart, lines that follow each other are worth more.
int elements_apart(int elements, int bytes) {
    constexpr int crowded_bytes = 1024;
    return elements * bytes % crowded_bytes == 0 ? elements + line_bytes / bytes : elements;
}

}  // namespace

SumSteps schedule_flattened_rows(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    FlattenedRows &rows_of_x = *s.flattened_rows;
    const size_t rank = s.axes.size();
    const Var position = rows_of_x.position;
    const Var panel("panel"), rows("rows"), vectors("vectors"), tile("tile");
    const int channels = channels_in_panels(problem, schedule), width = s.axes[0].phase_extent;
    const int lanes = lanes_within(width, schedule.lanes), rows_together = schedule.flattened_rows();
    const int positions = width * rows_together;
    bound_product(s, problem, channels);
    s.y.split(s.c, panel, s.c, schedule.panel(),
              channels % schedule.panel() == 0 ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    s.y.split(s.q[1], rows, s.q[1], rows_together, tail(s.axes[1].phase_extent, rows_together));
    s.y.split(s.q[0], vectors, s.q[0], lanes, tail(width, lanes)).vectorize(s.q[0]);
    std::vector<VarOrRVar> order = {s.q[0]};
    if (s.axes[0].phases > 1) {
        s.y.unroll(s.phase[0]);
        order.push_back(s.phase[0]);
    }
    order.insert(order.end(), {vectors, s.q[1], s.c});
    const size_t inside = order.size();
    for (size_t a = 1; a < rank; a++) {
        if (s.axes[a].phases > 1) {
            order.push_back(s.phase[a]);
        }
    }
    order.push_back(panel);
    if (s.splits_groups) {
        order.push_back(s.g);
    }
    order.push_back(rows);
    order.insert(order.end(), s.q.begin() + 2, s.q.end());
    order.push_back(s.n);
    s.y.reorder(order);
    const bool is_shared_by_rows = schedule.parallel && problem.batch == 1;
    if (schedule.parallel) {
        s.y.parallel(problem.batch > 1 ? VarOrRVar(s.n) : order[order.size() - 2]);
    }

    Halide::Func &copy = *rows_of_x.end_to_end, &sums = rows_of_x.sums;
    const int pieces = rank > 2 ? s.axes.back().phase_extent : ceil_div(s.axes[1].phase_extent, rows_together);
    if (is_shared_by_rows && SharedWork(problem.flops()).within(pieces).is_shared()) {
        s.y.parallel(panel);
        copy.parallel(s.c);
    }
    copy.compute_at(s.y, rows).reorder_storage(position, s.c).reorder(position, s.c);
    copy.bound_extent(s.c, static_cast<int>(problem.in_channels)).bound_extent(position, positions);
    copy.align_storage(position, elements_apart(positions, copy.type().bytes()));
    copy.vectorize(position, schedule.lanes, tail(positions, schedule.lanes));
    sums.compute_at(Halide::LoopLevel(s.y, order[inside])).reorder_storage(position, s.c);
    sums.bound_extent(s.c, schedule.panel()).bound_extent(position, positions);
    sums.split(position, tile, position, schedule.width(), tail(positions, schedule.width()));
    order = unroll_tile(sums, tile_loops(s, schedule, true));
    order.insert(order.end(), {tile, s.phase[0]});
    sums.reorder(order);

    s.acc.compute_at(sums, tile).store_in(Halide::MemoryType::Register);
    return schedule_row_sum(s, schedule);
}

SumSteps schedule_row_blocks(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const int channels = static_cast<int>(problem.out_channels), block = schedule.with<BlockedRowLanes>()->block;
    const Var position = s.q[0], blocks("blocks"), vectors("vectors"), panel("panel"), tile("tile");
    bound_product(s, problem, channels);
    s.y.split(position, blocks, position, block, tail(s.axes[0].phase_extent, block));
    s.y.split(position, vectors, position, schedule.lanes).vectorize(position);
    s.y.reorder(position, vectors, s.c, blocks, s.n);
    if (schedule.parallel) {
        s.y.parallel(problem.batch > 1 ? s.n : blocks);
    }
    s.acc.compute_at(s.y, blocks).store_in(Halide::MemoryType::Stack);
    s.acc.bound_extent(s.c, round_up(channels, schedule.panel())).bound_extent(position, block);
    s.acc.reorder_storage({position, s.c}).vectorize(position, schedule.lanes);
    // A tile's sums are in registers for a step alone.
    Halide::Stage update = s.acc.update();
    update.split(position, tile, position, schedule.width()).split(s.c, panel, s.c, schedule.panel());
    std::vector<VarOrRVar> order = unroll_tile(update, tile_loops(s, schedule, true));
    const Halide::RVar steps("steps"), of_step("of_step");
    update.split(s.r[1], steps, of_step, schedule.unroll).unroll(of_step);
    order.insert(order.end(), {of_step, tile, panel, steps});
    const std::vector<Halide::RVar> taps = loops_from(s.r, 2);
    order.insert(order.end(), taps.begin(), taps.end());
    update.reorder(order);
    return {steps, of_step};
}

SumSteps schedule_tiles_across_rows(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    FlattenedRows &rows_of_y = *s.flattened_rows;
    const Var panel("panel"), rows("rows"), tile("tile");
    const int channels = channels_in_panels(problem, schedule), height = s.axes[1].phase_extent;
    const int rows_together = schedule.flattened_rows(), positions = s.axes[0].phase_extent * rows_together;
    bound_product(s, problem, channels);
    s.y.split(s.c, panel, s.c, schedule.panel(),
              channels % schedule.panel() == 0 ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    s.y.split(s.q[1], rows, s.q[1], rows_together, tail(height, rows_together));
    std::vector<VarOrRVar> order = unroll_tile(s.y, {s.c, schedule.lanes});
    order.insert(order.end(), {s.q[0], s.q[1]});
    std::vector<SharedLoop> panels = {{panel, ceil_div(channels, schedule.panel())}};
    if (s.splits_groups) {
        panels.push_back({s.g, static_cast<int>(problem.groups)});
    }
    std::vector<SharedLoop> loops = {{rows, ceil_div(height, rows_together)}};
    for (size_t a = 2; a < s.axes.size(); a++) {
        loops.push_back({s.q[a], s.axes[a].phase_extent});
    }
    loops.insert(schedule.panels_outside ? loops.end() : loops.begin(), panels.begin(), panels.end());
    loops.push_back({s.n, static_cast<int>(problem.batch)});
    const VarOrRVar innermost = loops.front().var;
    for (const SharedLoop &loop : loops) {
        order.push_back(loop.var);
    }
    s.y.reorder(order);
    if (schedule.parallel && problem.batch > 1) {
        s.y.parallel(s.n);
    } else if (schedule.parallel) {
        loops.pop_back();
        share_loops(s.y, {loops.rbegin(), loops.rend() - 1}, pieces_worth(problem.flops()));
    }
    Halide::Func &sums = rows_of_y.sums;
    sums.compute_at(Halide::LoopLevel(s.y, innermost));
    sums.bound_extent(s.c, schedule.panel()).bound_extent(rows_of_y.position, positions);
    sums.split(rows_of_y.position, tile, rows_of_y.position, schedule.width(), tail(positions, schedule.width()));
    order = unroll_tile(sums, tile_loops(s, schedule, false));
    order.push_back(tile);
    sums.reorder(order);
    s.acc.compute_at(sums, tile).store_in(Halide::MemoryType::Register);
    const SumLoops steps = {loops_from(s.r, 1), schedule.unroll, s.r[0], schedule.dot_width};
    const SumSteps result = schedule_tile_sum(s.acc, tile_loops(s, schedule, true), steps, TailStrategy::RoundUp);
    schedule_copies(s, problem, schedule, rows);
    return result;
}

}  // namespace kiln
