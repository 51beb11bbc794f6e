// The kn2row algorithm's schedule for processors: rows of y one after the other, each from the rows of its products.
#include "algorithms/direct/schedule_cpu.h"

#include <algorithm>

#include "algorithms/kn2row/kn2row.h"
#include "expressions/arithmetic.h"
#include "moves/image_copy.h"
#include "moves/tail_strategy.h"
#include "moves/transpose_block.h"

namespace kiln {
namespace {

using Halide::RVar;
using Halide::Stage;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// Returns the innermost loop around a row of y.
Var schedule_output(Kn2rowStages &s, const Problem &problem, const Kn2rowSchedule &schedule) {
    const Var vectors("vectors");
    s.y.bound(s.c, 0, static_cast<int>(problem.out_channels)).bound(s.n, 0, static_cast<int>(problem.batch));
    for (size_t a = 0; a < s.axes.size(); a++) {
        s.y.bound(s.q[a], 0, s.axes[a].phase_extent);
        if (s.axes[a].phases > 1) {
            s.y.bound(s.phase[a], 0, s.axes[a].phases);
        }
    }
    const int lanes = lanes_within(s.axes[0].phase_extent, schedule.lanes);
    s.y.split(s.q[0], vectors, s.q[0], lanes, tail(s.axes[0].phase_extent, lanes)).vectorize(s.q[0]);
    std::vector<VarOrRVar> order = {s.q[0]};
    // What lies side by side in y is stored together.
    const bool channels_last = problem.y_layout == Layout::nxc;
    if (channels_last) {
        order.emplace_back(s.c);
        s.y.unroll(s.c);
    }
    if (s.axes[0].phases > 1) {
        order.push_back(s.phase[0]);
        s.y.unroll(s.phase[0]);
    }
    order.push_back(vectors);
    if (!channels_last) {
        order.emplace_back(s.c);
    }
    const size_t inside = order.size();
    for (size_t a = 1; a < s.axes.size(); a++) {
        if (s.axes[a].phases > 1) {
            order.push_back(s.phase[a]);
        }
        order.push_back(s.q[a]);
    }
    order.emplace_back(s.n);
    s.y.reorder(order);
    if (schedule.parallel) {
        s.y.parallel(problem.batch > 1 || s.axes.size() == 1 ? s.n : s.q.back());
    }
    return order[inside].var;
}

// Whole vectors ahead of a row and behind it: what is inside lies where lines of a cache begin.
void schedule_shifted(Kn2rowStages &s, const Problem &problem, const Kn2rowSchedule &schedule, const Var &around_row) {
    const AxisMap::Range reads = s.axes[0].reads();
    const int ahead = round_up(std::max(-reads.first, 0), schedule.lanes);
    const int behind = std::max(reads.last, s.axes[0].in - 1) + 1;
    const int channels = static_cast<int>(kn2row_products(problem).out_channels);
    const Var panel("panel");
    const RVar vector("vector"), lane("lane");
    s.shifted.compute_at(s.y, around_row);
    s.shifted.bound(s.position, -ahead, ahead + round_up(behind, schedule.lanes));
    s.shifted.bound(s.channel, 0, round_up(channels, schedule.channels));
    const int last = s.shifted.num_update_definitions() - 1;
    for (int zeros = 0; zeros < last; zeros++) {
        s.shifted.update(zeros).unscheduled();
    }
    Stage tiles = s.shifted.update(last);
    tiles.split(s.tiles[0], vector, lane, schedule.lanes);
    tiles.split(s.channel, panel, s.channel, schedule.channels, TailStrategy::RoundUp);
    tiles.reorder(lane, vector, s.channel, panel, s.tiles[1]).allow_race_conditions();
    tiles.vectorize(lane).unroll(vector).unroll(s.channel);
    s.products.acc.compute_at(s.shifted, panel).store_in(Halide::MemoryType::Register);
    schedule_row_sum(s.products, schedule.direct());
}

// All of an image.
void schedule_copied(Kn2rowStages &s, const Problem &problem, const Kn2rowSchedule &schedule) {
    auto &[rows, block] = *s.copied;
    const std::vector<Var> at = rows.args();
    const int channels = static_cast<int>(problem.in_channels);
    compute_ahead(rows, at.back(), problem.batch, s.y, s.n);
    rows.bound(at[0], 0, channels);
    for (size_t a = 0; a < s.axes.size(); a++) {
        rows.bound(at[a + 1], 0, s.axes[a].in);
    }
    std::vector<Var> order = at;
    std::swap(order[0], order[1]);
    rows.reorder_storage(order);
    if (problem.x_layout == Layout::nxc) {
        const int wide = lanes_within(s.axes[0].in, 16), narrow = lanes_within(channels, 16);
        schedule_transpose(rows, block, at[1], at[0], wide, narrow, Var("block"), Var("blocks"),
                           TailStrategy::ShiftInwards);
    } else {
        rows.reorder(std::vector<VarOrRVar>(order.begin(), order.end()))
            .vectorize(at[1], schedule.lanes, TailStrategy::ShiftInwards);
    }
    if (schedule.parallel && problem.batch == 1 && s.axes.size() > 1) {
        rows.parallel(at[at.size() - 2]);
    }
}

}  // namespace

void schedule_kn2row(Kn2rowStages &s, const Problem &problem, const Kn2rowSchedule &schedule) {
    const Var around_row = schedule_output(s, problem, schedule);
    schedule_shifted(s, problem, schedule, around_row);
    if (s.copied) {
        schedule_copied(s, problem, schedule);
    }
}

}  // namespace kiln
