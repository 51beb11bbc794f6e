// The direct algorithm's register tiles of row lanes: their vectors run along channels-first rows, or along rows
// flattened end to end.
#include "algorithms/direct/schedule_cpu.h"
#include "expressions/arithmetic.h"
#include "lowering/prefetch.h"
#include "moves/tail_strategy.h"

namespace kiln {

using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

SumSteps schedule_row_sum(DirectStages &s, const DirectSchedule &schedule) {
    const TileLoops tile = tile_loops(s, schedule, true);
    s.acc.bound_extent(s.c, schedule.panel()).bound_extent(tile.along, schedule.width());
    s.acc.reorder_storage({tile.along, s.c});
    const SumSteps steps = schedule_tile_sum(s.acc, tile, {loops_from(s.r, 1), schedule.unroll});
    const auto *row = schedule.with<RowLanes>();
    if (row != nullptr && row->prefetch_distance > 0 && !s.padded_input) {  // copies are near
        // By each step, between its products: as many at once as several steps read are no faster than none.
        prefetch(s.acc.update(), s.input, steps.innermost, row->prefetch_distance);
    }
    return steps;
}

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
    if (schedule.parallel) {
        s.y.parallel(problem.batch > 1 ? VarOrRVar(s.n) : order[order.size() - 2]);
    }

    Halide::Func &copy = rows_of_x.end_to_end, &sums = rows_of_x.sums;
    copy.compute_at(s.y, rows).reorder_storage(position, s.c).reorder(position, s.c);
    copy.bound_extent(s.c, static_cast<int>(problem.in_channels)).bound_extent(position, positions);
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

}  // namespace kiln
