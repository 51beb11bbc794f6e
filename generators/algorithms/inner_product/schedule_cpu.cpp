// The inner product algorithm's schedule for processors: a tile of a row's positions at a time.
#include <vector>

#include "algorithms/inner_product/inner_product.h"
#include "expressions/arithmetic.h"
#include "moves/parallel_split.h"
#include "moves/tail_strategy.h"
#include "moves/tile_sum.h"

namespace kiln {

using Halide::Var;
using Halide::VarOrRVar;

void schedule_inner_product(InnerProductStages &s, const Problem &problem, const InnerProductSchedule &schedule) {
    const Var run("run"), tile("tile"), position = s.q[0];
    const int channels = static_cast<int>(problem.out_channels), row = s.axes[0].phase_extent;
    s.y.bound(s.c, 0, channels).bound(s.n, 0, static_cast<int>(problem.batch));
    for (size_t a = 0; a < s.axes.size(); a++) {
        s.y.bound(s.q[a], 0, s.axes[a].phase_extent);
    }
    s.y.split(position, tile, position, schedule.pixels, tail(row, schedule.pixels));
    s.y.split(tile, run, tile, 1);  // sums are computed in a loop that is shared with no other
    std::vector<VarOrRVar> order = {s.c, position, tile, run};
    std::vector<SharedLoop> loops = {{run, ceil_div(row, schedule.pixels)}};
    for (size_t a = 1; a < s.axes.size(); a++) {
        loops.push_back({s.q[a], s.axes[a].phase_extent});
        order.emplace_back(s.q[a]);
    }
    order.emplace_back(s.n);
    s.y.reorder(order).vectorize(s.c).vectorize(position);
    if (schedule.parallel && problem.batch > 1) {
        s.y.parallel(s.n);
    } else if (schedule.parallel) {
        share_loops(s.y, {loops.rbegin(), loops.rend()}, pieces_worth(problem.flops()));
    }

    s.sums.compute_at(s.y, tile).store_in(Halide::MemoryType::Register);
    s.sums.bound_extent(s.c, channels).bound_extent(position, schedule.pixels);
    s.sums.vectorize(s.c).vectorize(position);
    s.sums.update().reorder(s.lanes.x, s.c, position).atomic();
    s.sums.update().vectorize(s.lanes.x).vectorize(s.c).vectorize(position);

    s.acc.compute_at(s.y, tile).store_in(Halide::MemoryType::Register);
    s.acc.bound_extent(s.lane, schedule.lanes).bound_extent(s.c, channels).bound_extent(position, schedule.pixels);
    schedule_tile_sum(s.acc, {s.lane, schedule.lanes, {}, {s.c, position}}, {loops_from(s.r, 0), schedule.unroll});
}

}  // namespace kiln
