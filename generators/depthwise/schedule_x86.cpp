// Schedules of the depthwise algorithm for x86.
#include <algorithm>

#include "common/arithmetic.h"
#include "common/types.h"
#include "depthwise/depthwise.h"

namespace kiln::depthwise {
namespace {

using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

TailStrategy tail(int extent, int factor) {
    return extent % factor == 0 ? TailStrategy::RoundUp : TailStrategy::ShiftInwards;
}

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
        s.y.split(s.q[0], tile, s.q[0], width, tail(s.axes[0].quotients, width));
        s.y.split(s.q[0], vector, s.q[0], schedule.lanes).vectorize(s.q[0]).unroll(vector);
        inside = {s.q[0], vector};
    } else {
        s.y.split(s.c, block, s.c, width, channels % width == 0 ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
        s.y.split(s.c, vector, s.c, schedule.lanes).vectorize(s.c).unroll(vector);
        s.y.split(s.q[0], tile, s.q[0], schedule.pixels, tail(s.axes[0].quotients, schedule.pixels)).unroll(s.q[0]);
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
        s.y.split(s.q[1], rows, s.q[1], schedule.rows, tail(s.axes[1].quotients, schedule.rows)).unroll(s.q[1]);
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

}  // namespace

DepthwiseSchedule default_depthwise_schedule(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int lanes = target.lanes(sum_type(problem).bits()), width = axes[0].quotients;
    const int height = axes.size() > 1 ? axes[1].quotients : 1;
    int phases = 1;
    for (const AxisMap &axis : axes) {
        phases *= axis.phases;
    }
    DepthwiseSchedule schedule;
    // Vectors along rows need rows; short ones go by channels, through a copy that turns x.
    schedule.along_row = problem.x_layout == Layout::ncx && problem.y_layout == Layout::ncx && width >= 8;
    schedule.parallel = problem.flops() > 1e6;
    // Sums in flight hide an addition's latency; those beyond a third of the registers crowd out what they share.
    const int sums = std::max(1, target.vector_registers / 4 / phases);
    if (schedule.along_row) {
        schedule.lanes = lanes_within(width, lanes);
        schedule.rows = std::min(height, std::min(sums, 7));
        return schedule;
    }
    schedule.lanes = lanes_within(problem.out_channels, lanes);
    schedule.pixels = std::min({width, sums, axes[0].step > 1 ? 7 : 2});
    schedule.rows = std::min(height, std::max(1, sums / schedule.pixels));
    return schedule;
}

void schedule_depthwise(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule) {
    const size_t rank = s.axes.size();
    const auto channels = static_cast<int>(problem.out_channels), batch = static_cast<int>(problem.batch);
    s.y.bound(s.c, 0, channels).bound(s.n, 0, batch);
    for (size_t a = 0; a < rank; a++) {
        s.y.bound(s.q[a], 0, s.axes[a].quotients);
        if (s.axes[a].phases > 1) {
            s.y.bound(s.phase[a], 0, s.axes[a].phases);
        }
    }
    const std::vector<VarOrRVar> loops = schedule_tile(s, problem, schedule);
    // The outermost image loop, or the channels of planes.
    const Var shared = batch > 1 ? s.n : loops[loops.size() - 2].var;
    if (schedule.parallel) {
        s.y.parallel(shared);
    }
    if (!s.copies) {
        return;
    }
    const std::vector<Var> at = s.padded.args();
    for (size_t a = 0; a < rank; a++) {
        const AxisMap::Range range = s.axes[a].reads();
        s.padded.bound(at[a + 1], range.first, std::max(range.last - range.first, 0) + 1);
    }
    const int lanes = schedule.lanes;
    if (schedule.along_row) {  // a plane at a time, which stays in a cache
        const std::vector<Var> order = plane_order(at);
        s.padded.compute_at(s.y, s.c).reorder_storage(order).reorder({order.begin(), order.end()});
        s.padded.vectorize(at[1], lanes, TailStrategy::GuardWithIf);
        return;
    }
    s.padded.compute_root().bound(at[0], 0, channels).bound(at[rank + 1], 0, batch);
    s.padded.vectorize(at[0], lanes, channels % lanes == 0 ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    if (schedule.parallel) {
        s.padded.parallel(at[batch > 1 ? rank + 1 : rank]);
    }
}

}  // namespace kiln::depthwise
