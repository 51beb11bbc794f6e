// The direct algorithm's packed weights.
#include "algorithms/direct/packing.h"

#include "expressions/vars.h"

namespace kiln::dense {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

PackedWeights packed_weights(const Problem &problem, const DirectSchedule &schedule) {
    const int panel = schedule.panel();
    PackedWeights packed = {panel, ceil_div(static_cast<int>(problem.out_channels), panel),
                            static_cast<int>(problem.in_channels / problem.groups), schedule.dot_width,
                            axis_maps(problem)};
    if (const auto *amx = schedule.with<AmxLanes>()) {
        packed.tile_steps = amx->steps;
        packed.lanes_outside = amx->pixel_lanes;
    }
    return packed;
}

std::vector<int> PackedWeights::extents() const {
    std::vector<int> result = {dot_width, panel, steps()};
    if (lanes_outside) {
        result = {dot_width, tile_steps, panel, steps() / tile_steps};
    }
    for (const AxisMap &axis : axes) {
        result.push_back(axis.taps);
    }
    result.push_back(panels);
    for (const AxisMap &axis : axes) {
        result.push_back(axis.phases);
    }
    return result;
}

std::vector<Expr> PackedWeights::at(const Expr &c, const Expr &pair, const Expr &step, const std::vector<Expr> &taps,
                                    const std::vector<Var> &phases) const {
    std::vector<Expr> result = {pair, c % panel, step};
    if (lanes_outside) {
        result = {pair, step % tile_steps, c % panel, step / tile_steps};
    }
    append(result, taps);
    result.push_back(c / panel);
    append(result, phases);
    return result;
}

Func pack(const Problem &problem, const PackedWeights &packed, const Func &w) {
    const size_t rank = packed.axes.size();
    const Var j0("pair"), lane("lane"), step("step"), steps("steps"), block("block");
    const std::vector<Var> j = vars("j", rank), phase = vars("phase", rank);
    const bool transposed = problem.op == Operator::conv_transpose;
    const int out_of_group = static_cast<int>(problem.out_channels / problem.groups);
    const Expr channel = block * packed.panel + lane;
    const Expr k = (packed.lanes_outside ? steps * packed.tile_steps + step : Expr(step)) * packed.dot_width + j0;

    std::vector<Var> order = {j0, lane, step};
    if (packed.lanes_outside) {
        order = {j0, step, lane, steps};
    }
    std::vector<Expr> at = {channel, k};
    // Outside these bounds, in the last panel's empty lanes and beyond an uneven phase's taps, weights are zero.
    Halide::Region bounds = {{0, static_cast<int>(problem.out_channels)}, {0, packed.depth}};
    if (transposed) {
        at = {channel / out_of_group * packed.depth + k, channel % out_of_group};
        bounds = {{0, static_cast<int>(problem.in_channels)}, {0, out_of_group}};
    }
    for (size_t a = rank; a-- > 0;) {
        at.push_back(packed.axes[a].tap(phase[a], j[a]));
        bounds.emplace_back(0, packed.axes[a].kernel);
    }
    order.insert(order.end(), j.begin(), j.end());
    order.push_back(block);
    order.insert(order.end(), phase.begin(), phase.end());
    Func result("packed");
    const Expr zero = Halide::Internal::make_zero(w.type());
    const Expr value = Halide::BoundaryConditions::constant_exterior(w, zero, bounds)(at);
    // A transposed convolution's next input channel may be the next group's.
    result(order) =
        packed.steps() * packed.dot_width > packed.depth ? Halide::select(k < packed.depth, value, zero) : value;
    return result;
}

}  // namespace kiln::dense
