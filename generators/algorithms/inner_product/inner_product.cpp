// The inner product algorithm's stages and which schedules are legal; schedule_cpu.cpp beside it schedules them.
#include "algorithms/inner_product/inner_product.h"

#include <cstdint>
#include <stdexcept>
#include <string>

#include "algorithms/direct/direct.h"
#include "algorithms/empty/empty.h"
#include "expressions/arithmetic.h"
#include "expressions/epilogue.h"
#include "expressions/types.h"
#include "expressions/vars.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

// A tile is all output channels' sums, which are to be registers; those of more fill vectors of output channels.
constexpr int most_channels = 24, least_lanes = 4;

// Whether the channels of each of a tensor's `positions` lie side by side, as those of one do in any layout.
bool is_channels_last(Layout layout, int64_t positions) {
    return layout == Layout::nxc || positions == 1;
}

// Where products at tap j of axis `a` read x. Leaves out of the sum's domain what is not there.
Expr position(InnerProductStages &s, size_t a, const Expr &j) {
    const AxisMap &axis = s.axes[a];
    const Expr in = s.q[a] * axis.stride + axis.offset(0) + j * axis.tap_step;
    if (!axis.reads_outside()) {
        return axis.within_reads(in);
    }
    if (a == 0) {
        return position_in_row(s.r, axis, in);
    }
    s.r.where(in >= 0 && in < axis.in);
    return Halide::clamp(in, 0, axis.in - 1);
}

}  // namespace

void InnerProductSchedule::list(ScheduleText &text) {
    text.number("lanes", lanes, 1, 64);
    text.number("pixels", pixels, 1, 64);
    text.number("unroll", unroll, 1, 64);
    text.flag("parallel", parallel);
}

void InnerProductSchedule::check(const Problem &problem) const {
    const int row = axis_maps(problem)[0].phase_extent;
    if (pixels > row) {
        throw std::invalid_argument("schedule: a tile of " + std::to_string(pixels) +
                                    " positions is larger than a row of " + std::to_string(row));
    }
    if (problem.in_channels % lanes != 0) {
        throw std::invalid_argument("schedule: \"lanes\" must divide the " + std::to_string(problem.in_channels) +
                                    " input channels");
    }
}

PackedWeights inner_product_weights(const Problem &problem, const InnerProductSchedule &schedule) {
    DirectSchedule panels;
    panels.lanes = static_cast<int>(problem.out_channels);
    panels.dot_width = schedule.lanes;
    return packed_weights(problem, panels);
}

bool inner_product_applies(const Problem &problem) {
    if (problem.traits().deformable || problem.has_open_sizes() || is_empty(problem) || problem.groups != 1 ||
        problem.is_quantized() || problem.out_channels > most_channels || problem.in_channels % least_lanes != 0 ||
        !is_channels_last(problem.x_layout, problem.x_elements() / (problem.batch * problem.in_channels)) ||
        !(problem.out_channels == 1 ||
          is_channels_last(problem.y_layout, problem.y_elements() / (problem.batch * problem.out_channels)))) {
        return false;
    }
    const std::vector<AxisMap> axes = axis_maps(problem);
    for (const AxisMap &axis : axes) {
        if (axis.phases > 1 || (axis.reads_outside() && axis.taps == 1)) {  // whose bounds Halide would not find
            return false;
        }
    }
    return true;
}

InnerProductStages inner_product(const Problem &problem, const InnerProductSchedule &schedule,
                                 const Operands &operands) {
    InnerProductStages s;
    s.axes = axis_maps(problem);
    s.q = vars("q", s.axes.size());
    const PackedWeights packed = inner_product_weights(problem, schedule);
    Halide::Region domain = {{0, packed.steps()}};
    for (const AxisMap &axis : s.axes) {
        domain.emplace_back(0, axis.taps);
    }
    s.r = RDom(domain, "r");
    std::vector<Expr> taps, x = {s.r[0] * schedule.lanes + s.lane};
    for (size_t a = 0; a < s.axes.size(); a++) {
        taps.emplace_back(s.r[static_cast<int>(a) + 1]);
        x.push_back(position(s, a, taps[a]));
    }
    x.emplace_back(s.n);
    std::vector<Var> at = {s.c};
    append(at, s.q);
    at.push_back(s.n);
    std::vector<Var> of_lane = at;
    of_lane.insert(of_lane.begin(), s.lane);
    std::vector<Expr> weight = packed.at(s.c, 0, s.lane, s.r[0], taps, {});
    weight.resize(weight.size() + s.axes.size(), 0);  // the only phase
    const Halide::Type sum = sum_type(problem);
    s.acc = Func("acc");
    s.acc(of_lane) = Halide::Internal::make_zero(sum);
    s.acc(of_lane) += Halide::cast(sum, operands.packed(weight)) * widen_x(problem, operands.sizes, operands.x(x));
    s.lanes = RDom(0, schedule.lanes, "lanes");
    std::vector<Expr> from(at.begin(), at.end());
    from.insert(from.begin(), s.lanes.x);
    s.sums = Func("sums");
    s.sums(at) = Halide::Internal::make_zero(sum);
    s.sums(at) += s.acc(from);
    const std::vector<Expr> same(at.begin(), at.end());
    s.y = Func("y");
    s.y(at) = epilogue(problem, s.sums(same), operands, same);
    return s;
}

}  // namespace kiln
