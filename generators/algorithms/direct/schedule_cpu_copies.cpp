// What a kernel of the direct algorithm does ahead of its sums (copies of x, what sums start from) and after them (y's
// elements picked, or its rows turned).
#include <algorithm>

#include "algorithms/direct/direct.h"
#include "algorithms/direct/schedule_cpu.h"
#include "expressions/arithmetic.h"
#include "moves/parallel_split.h"
#include "moves/tail_strategy.h"
#include "moves/transpose_block.h"

namespace kiln::dense {
namespace {

using Halide::Func;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// Once a run, ahead of everything else.
void schedule_surplus(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const Var panel("panel"), vector("vector");
    Func &zero_point = s.surplus.zero_point;
    zero_point.compute_root().bound(zero_point.args()[0], 0, schedule.dot).store_in(Halide::MemoryType::Stack);
    const int panels = ceil_div(static_cast<int>(problem.out_channels), schedule.panel());
    s.surplus.sum.compute_root().bound(s.c, 0, panels * schedule.panel()).vectorize(s.c, schedule.lanes);
    for (size_t a = 0; a < s.axes.size(); a++) {
        s.surplus.sum.bound(s.phase[a], 0, s.axes[a].phases);
    }
    Halide::Stage sum = s.surplus.sum.update();
    if (schedule.pixel_lanes) {  // a channel's weights of several steps are the vector
        const Var lane("lane");
        const RVar steps("steps"), step("step");
        Func lanes = sum.split(s.all[1], steps, step, schedule.tile_steps).rfactor(step, lane);
        lanes.compute_root().bound(lane, 0, schedule.tile_steps).reorder_storage({lane, s.c}).vectorize(lane);
        std::vector<VarOrRVar> order = {s.all[0], lane, steps};
        for (size_t a = 0; a < s.axes.size(); a++) {
            order.push_back(s.all[static_cast<int>(a) + 2]);
        }
        order.push_back(s.c);
        lanes.update().reorder(order).atomic().vectorize(s.all[0]).vectorize(lane);
        return;
    }
    std::vector<VarOrRVar> order = {s.all[0], s.c, vector};
    for (size_t d = 1; d < s.axes.size() + 2; d++) {
        order.push_back(s.all[static_cast<int>(d)]);
    }
    order.push_back(panel);
    sum.split(s.c, panel, s.c, schedule.panel(), TailStrategy::RoundUp);
    sum.split(s.c, vector, s.c, schedule.lanes).reorder(order);
    sum.atomic().vectorize(s.all[0]).vectorize(s.c).unroll(vector);
}

// Once a run, for whole panels.
void schedule_start(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    s.start.compute_root().bound(s.c, 0, round_up(static_cast<int>(problem.out_channels), schedule.panel()));
    for (size_t a = 0; a < s.axes.size(); a++) {
        s.start.bound(s.phase[a], 0, s.axes[a].phases);
    }
    if (schedule.pixel_lanes) {
        s.start.bound(s.start.args()[0], 0, schedule.lanes);
    }
    s.start.vectorize(s.start.args()[0], schedule.lanes);
}

void vectorize_channels(Func &f, const Var &c, int64_t channels, int most) {
    const int lanes = lanes_within(channels, most, true);
    f.bound(c, 0, static_cast<int>(channels));
    if (lanes > 1) {
        f.vectorize(c, lanes);
    }
}

// The copy of x with channels innermost.
void schedule_turned(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const std::vector<Var> at = s.turned.args();
    const int channels = static_cast<int>(problem.in_channels), batch = static_cast<int>(problem.batch);
    s.turned.compute_root().bound(at[0], 0, channels).bound(at.back(), 0, batch);
    for (size_t a = 0; a < s.axes.size(); a++) {
        s.turned.bound(at[a + 1], 0, s.axes[a].in);
    }
    const int wide = lanes_within(channels, 16), narrow = lanes_within(s.axes[0].in, 16);
    schedule_transpose(s.turned, s.squares, at[0], at[1], wide, narrow, Var("square"), Var("squares"),
                       TailStrategy::ShiftInwards);
    if (schedule.parallel && (batch > 1 || s.axes.size() > 1)) {
        s.turned.parallel(at[batch > 1 ? at.size() - 1 : at.size() - 2]);
    }
}

// Rows that several rows of tiles read are copied by each of them, which takes little beside their products, and leaves
// them in the first cache.
void copy_rows(const DirectStages &s, Func copy, const DirectSchedule &schedule) {
    const std::vector<Var> at = s.padded.args();
    const AxisMap::Range range = s.axes[0].reads();
    const int width = range.last - range.first + 1, channels = s.flat.defined() ? s.channels : 1;
    if (!s.flat.defined()) {
        std::vector<Var> order = at;
        std::swap(order[0], order[1]);
        copy.bound(at[0], 0, s.channels).reorder_storage(order).reorder({order.begin(), order.end()});
    }
    copy.compute_at(s.product, Var("rows")).bound(at[1], range.first * channels, width * channels);
    // Stated, since those that Halide finds leave out what lies in the padding, and so differ from row to row.
    for (size_t a = 1; a < s.axes.size(); a++) {
        copy.bound_extent(at[a + 1], s.axes[a].extent_of(a == 1 ? schedule.rows : 1));
    }
    copy.vectorize(at[1], schedule.lanes * 4 / copy.types()[0].bytes(), TailStrategy::GuardWithIf);
}

// A copy ahead of everything else. Its bounds are stated: Halide's own would be wider where phases are involved, and
// reach outside the input.
void schedule_padded(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    const bool flat = s.flat.defined();
    Func copy = flat ? s.flat : s.padded;
    const std::vector<Var> at = s.padded.args();
    if (s.copies_rows) {
        copy_rows(s, copy, schedule);
        return;
    }
    copy.compute_root();
    int rows = 1;
    for (size_t a = 0; a < rank; a++) {
        AxisMap::Range range = s.axes[a].reads();
        if (!s.pads[a]) {
            range = {std::clamp(range.first, 0, s.axes[a].in - 1), std::clamp(range.last, 0, s.axes[a].in - 1)};
        }
        rows = std::max(range.last - range.first, 0) + 1;
        const int width = a == 0 && flat ? s.channels : 1;
        copy.bound(at[a + 1], range.first * width, rows * width);
    }
    copy.bound(at[rank + 1], 0, static_cast<int>(problem.batch));
    // Whole registers: the sums' lanes are of four bytes.
    const int lanes = schedule.lanes * 4 / copy.types()[0].bytes();
    if (flat) {
        copy.vectorize(at[1], lanes, TailStrategy::GuardWithIf);
    } else {
        vectorize_channels(copy, at[0], s.channels, lanes);
    }
    if (schedule.parallel && (rank > 1 || problem.batch > 1 || !flat)) {
        const auto images = static_cast<int>(problem.batch);
        share_loops(copy, {problem.batch > 1 ? SharedLoop{at[rank + 1], images} : SharedLoop{at[rank], rows}});
    }
}

// Neighbouring channels' rows side by side: a vector of each is stored at once.
void schedule_pairs(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    const std::vector<Var> at = s.padded.args();
    const Var pair = at[0], step = at[rank + 1];
    s.padded.compute_root().bound(pair, 0, schedule.dot).bound(step, 0, s.channels / schedule.dot);
    s.padded.bound(s.n, 0, static_cast<int>(problem.batch));
    for (size_t a = 0; a < rank; a++) {
        const AxisMap::Range range = s.pads[a] ? s.axes[a].reads() : s.axes[a].reads_inside();
        s.padded.bound(at[a + 1], range.first, range.last - range.first + 1);
    }
    const Var bytes("bytes");
    s.padded.fuse(pair, at[1], bytes).vectorize(bytes, 64 / (4 / schedule.dot), TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = {RVar(s.inside[0]), pair};
    for (size_t d = 1; d <= rank; d++) {
        order.push_back(RVar(s.inside[static_cast<int>(d)]));
    }
    order.insert(order.end(), {step, s.n});
    Halide::Stage update = s.padded.update();
    // No two lanes write the same element, which Halide cannot prove.
    update.reorder(order).allow_race_conditions().vectorize(RVar(s.inside[0])).unroll(pair);
    if (schedule.parallel) {
        s.padded.parallel(problem.batch > 1 ? s.n : step);
        update.parallel(problem.batch > 1 ? s.n : step);
    }
}

void schedule_turned_output(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    const Var squares("squares"), channels("channels");
    const Var outermost = rank > 1 ? s.y.args()[rank] : channels;
    schedule_transpose(s.y, s.turned_y, s.y.args()[1], s.c, turned_positions, turned_channels, squares, channels,
                       TailStrategy::RoundUp);
    if (schedule.parallel) {
        s.y.parallel(problem.batch > 1 ? s.n : outermost);
    }
}

}  // namespace

void schedule_copies(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    if (s.start.defined()) {
        schedule_start(s, problem, schedule);
    }
    if (s.surplus.sum.defined()) {
        schedule_surplus(s, problem, schedule);
    }
    if (s.turned.defined()) {
        schedule_turned(s, problem, schedule);
    }
    if (s.inside.defined()) {
        schedule_pairs(s, problem, schedule);
    } else if (s.padded.defined() && !(s.turned.defined() && s.padded.name() == s.turned.name())) {
        schedule_padded(s, problem, schedule);
    }
    if (s.y.name() != s.product.name()) {
        s.product.compute_root();
    }
    if (s.turned_y.defined()) {
        schedule_turned_output(s, problem, schedule);
    } else if (s.y.name() != s.product.name()) {
        vectorize_channels(s.y, s.c, problem.out_channels, schedule.lanes);
    }
}

}  // namespace kiln::dense
