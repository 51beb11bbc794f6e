// The depthwise algorithm's packed weights.
#include "algorithms/depthwise/packing.h"

#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "expressions/weights.h"

namespace kiln::depthwise {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

std::vector<int> packed_extents(const Problem &problem, const DepthwiseSchedule &schedule) {
    schedule.check(problem);
    const std::vector<AxisMap> axes = axis_maps(problem);
    std::vector<int> extents = tap_extents(axes, schedule);
    std::vector<int> phases = each(axes, &AxisMap::phases);
    phases[dotted_axis(axes, schedule)] *= rows_of_group(axes, schedule);
    extents.insert(extents.end(), phases.begin(), phases.end());
    if (schedule.has_row_lanes()) {
        extents.push_back(static_cast<int>(problem.out_channels));
    } else {
        extents.insert(extents.begin(), schedule.has_merged_rows()
                                            ? schedule.period(problem)
                                            : round_up(problem.out_channels, schedule.lanes * schedule.vectors));
    }
    extents.insert(extents.begin(), schedule.dot_width());
    return extents;
}

Halide::Type packed_type(const Problem &problem, const DepthwiseSchedule &schedule) {
    return schedule.dot_width() == 4 ? Halide::Int(8) : operand_type(problem);
}

Func pack(const Problem &problem, const DepthwiseSchedule &schedule, const Func &w) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const Var c("c"), lane("lane");
    const std::vector<Var> j = vars("j", axes.size()), phase = vars("phase", axes.size());
    std::vector<Var> order = j;
    order.insert(order.end(), phase.begin(), phase.end());
    order.insert(schedule.has_row_lanes() ? order.end() : order.begin(), c);
    order.insert(order.begin(), lane);
    const size_t dotted = dotted_axis(axes, schedule);
    const bool shifted = rows_of_group(axes, schedule) > 1;
    const int channels = static_cast<int>(problem.out_channels), fold = channels / static_cast<int>(problem.groups);
    const Expr channel = schedule.has_merged_rows() ? c % channels : Expr(c);
    std::vector<Expr> at = weight_at(problem, {channel, channel / fold, channel % fold}, 0, 1);
    Halide::Region bounds = weight_bounds(problem);
    for (size_t a = axes.size(); a-- > 0;) {
        const Expr tap = a == dotted ? j[a] * schedule.dot_width() + lane : Expr(j[a]);
        at.push_back(a == dotted && shifted ? tap - phase[a] * axes[a].stride : axes[a].tap(phase[a], tap));
        bounds.emplace_back(0, axes[a].kernel);
    }
    Func result("packed");
    const Expr zero = Halide::Internal::make_zero(w.type());
    result(order) = Halide::BoundaryConditions::constant_exterior(w, zero, bounds)(at);
    return result;
}

size_t dotted_axis(const std::vector<AxisMap> &axes, const DepthwiseSchedule &schedule) {
    return axes.size() > 1 && axes[1].taps > 1 && !schedule.sums<TapsInLoop>() ? 1 : 0;
}

std::vector<int> tap_extents(const std::vector<AxisMap> &axes, const DepthwiseSchedule &schedule) {
    std::vector<int> extents = each(axes, &AxisMap::taps);
    int &dotted = extents[dotted_axis(axes, schedule)];
    dotted = ceil_div(dotted, schedule.dot_width());
    return extents;
}

int rows_of_group(const std::vector<AxisMap> &axes, const DepthwiseSchedule &schedule) {
    const AxisMap &axis = axes[dotted_axis(axes, schedule)];
    if (dotted_axis(axes, schedule) == 0 || axis.tap_step != 1 || axis.taps > schedule.dot_width()) {
        return 1;
    }
    const int rows = (schedule.dot_width() - axis.taps) / axis.stride + 1;
    return schedule.rows % rows == 0 ? rows : 1;
}

std::vector<int> each(const std::vector<AxisMap> &axes, int AxisMap::*number) {
    std::vector<int> result;
    for (const AxisMap &axis : axes) {
        result.push_back(axis.*number);
    }
    return result;
}

}  // namespace kiln::depthwise
