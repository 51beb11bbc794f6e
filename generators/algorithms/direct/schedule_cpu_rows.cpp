// The direct algorithm's register tiles whose vectors run along channels-first rows (has_row_lanes()), or along rows
// joined end to end.
#include "algorithms/direct/direct.h"
#include "algorithms/direct/schedule_cpu.h"
#include "expressions/arithmetic.h"
#include "lowering/prefetch.h"
#include "moves/reduction.h"
#include "moves/tail_strategy.h"

namespace kiln::dense {

using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

std::vector<VarOrRVar> schedule_row_lanes(Halide::Stage stage, const DirectStages &s, const DirectSchedule &schedule) {
    const Var vector("vector"), position = s.joined.defined() ? s.position : s.q[0];
    stage.split(position, vector, position, schedule.lanes).vectorize(position).unroll(vector).unroll(s.c);
    std::vector<VarOrRVar> order = {position};
    if (s.axes[0].phases > 1 && !s.joined.defined()) {
        stage.unroll(s.phase[0]);
        order.emplace_back(s.phase[0]);
    }
    order.insert(order.end(), {vector, s.c});
    return order;
}

void schedule_row_sum(DirectStages &s, const DirectSchedule &schedule) {
    const Var position = s.joined.defined() ? s.position : s.q[0];
    s.acc.bound_extent(s.c, schedule.channels).bound_extent(position, schedule.width());
    s.acc.reorder_storage({position, s.c});
    const auto schedule_tile = [&](Halide::Stage stage, bool sums) {
        std::vector<VarOrRVar> order = schedule_row_lanes(stage, s, schedule);
        if (s.axes.size() > 1 && !s.joined.defined()) {
            stage.unroll(s.q[1]);
            order.emplace_back(s.q[1]);
        }
        if (sums) {
            append_reduction(stage, s.r, 1, schedule.unroll, order);
        }
        stage.reorder(order);
    };
    schedule_tile(s.acc, false);
    schedule_tile(s.acc.update(), true);
    if (schedule.ahead > 0) {
        // By each step, between its products: as many at once as several steps read are no faster than none.
        prefetch(s.acc.update(), s.input, schedule.unroll > 1 ? unrolled_steps() : Halide::RVar(s.r[1]),
                 schedule.ahead);
    }
}

void schedule_joined(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    const Var panel("panel"), rows("rows"), vectors("vectors"), tile("tile");
    const int channels = static_cast<int>(problem.out_channels), width = s.axes[0].phase_extent;
    const int lanes = lanes_within(width, schedule.lanes), positions = width * schedule.joined;
    bound_product(s, problem, channels);
    s.y.split(s.c, panel, s.c, schedule.channels,
              channels % schedule.channels == 0 ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    s.y.split(s.q[1], rows, s.q[1], schedule.joined, tail(s.axes[1].phase_extent, schedule.joined));
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
    order.insert(order.end(), {panel, rows});
    order.insert(order.end(), s.q.begin() + 2, s.q.end());
    order.push_back(s.n);
    s.y.reorder(order);
    if (schedule.parallel) {
        s.y.parallel(problem.batch > 1 ? VarOrRVar(s.n) : order[order.size() - 2]);
    }

    s.padded.compute_at(s.y, rows).reorder_storage(s.position, s.c).reorder(s.position, s.c);
    s.padded.bound_extent(s.c, static_cast<int>(problem.in_channels)).bound_extent(s.position, positions);
    s.padded.vectorize(s.position, schedule.lanes, tail(positions, schedule.lanes));
    s.joined.compute_at(Halide::LoopLevel(s.y, order[inside])).reorder_storage(s.position, s.c);
    s.joined.bound_extent(s.c, schedule.channels).bound_extent(s.position, positions);
    s.joined.split(s.position, tile, s.position, schedule.width(), tail(positions, schedule.width()));
    order = schedule_row_lanes(s.joined, s, schedule);
    order.insert(order.end(), {tile, s.phase[0]});
    s.joined.reorder(order);

    s.acc.compute_at(s.joined, tile).store_in(Halide::MemoryType::Register);
    schedule_row_sum(s, schedule);
}

}  // namespace kiln::dense
