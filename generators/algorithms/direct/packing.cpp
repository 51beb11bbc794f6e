// The direct algorithm's packed weights.
#include "algorithms/direct/packing.h"

#include "axes/interleaved_groups.h"
#include "axes/tap_weights.h"
#include "expressions/vars.h"

namespace kiln {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

PackedWeights packed_weights(const Problem &problem, const DirectSchedule &schedule) {
    const int panel = schedule.panel(), channels = channels_in_panels(problem, schedule);
    PackedWeights packed = {.panel = panel,
                            .panels = ceil_div(channels, panel),
                            .groups = schedule.panels_of_groups ? static_cast<int>(problem.groups) : 1,
                            .channels = channels,
                            .reduction_channels = static_cast<int>(problem.in_channels / problem.groups),
                            .dot_width = schedule.dot_width,
                            .axes = axis_maps(problem)};
    packed.interleaved_groups = schedule.interleaved_groups();
    packed.joined_taps = schedule.joins_taps() ? packed.axes[0].taps : 1;
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
    for (size_t a = 0; a < axes.size(); a++) {
        result.push_back(taps(a));
    }
    result.push_back(panels * groups);
    for (const AxisMap &axis : axes) {
        result.push_back(axis.phases);
    }
    return result;
}

std::vector<Expr> PackedWeights::at(const Expr &c, const Expr &g, const Expr &product, const Expr &step,
                                    const std::vector<Expr> &taps, const std::vector<Var> &phases) const {
    std::vector<Expr> result = {product, c % panel, step};
    if (lanes_outside) {
        result = {product, step % tile_steps, c % panel, step / tile_steps};
    }
    append(result, taps);
    result.push_back(groups > 1 ? g * panels + c / panel : c / panel);
    append(result, phases);
    return result;
}

Func pack(const Problem &problem, const PackedWeights &packed, const Func &w) {
    const size_t rank = packed.axes.size();
    const Var j0("pair"), lane("lane"), step("step"), steps("steps"), block("block");
    const std::vector<Var> j = vars("j", rank), phase = vars("phase", rank);
    const int out_of_group = static_cast<int>(problem.out_channels / problem.groups);
    const Expr of_group = block % packed.panels * packed.panel + lane;  // where groups have panels of their own
    const Expr channel = packed.groups > 1
                             ? block / packed.panels * packed.channels + of_group
                             : block * packed.panel + channel_of_column(lane, packed.panel, packed.interleaved_groups);
    const Expr k = (packed.lanes_outside ? steps * packed.tile_steps + step : Expr(step)) * packed.dot_width + j0;

    std::vector<Var> order = {j0, lane, step};
    if (packed.lanes_outside) {
        order = {j0, step, lane, steps};
    }
    const bool joins = packed.joined_taps > 1;
    std::vector<Expr> taps(j.begin(), j.end());
    if (joins) {
        taps[0] = k / packed.reduction_channels;
    }
    order.insert(order.end(), j.begin(), j.end());
    order.push_back(block);
    order.insert(order.end(), phase.begin(), phase.end());
    Func result("packed");
    const Expr zero = Halide::Internal::make_zero(w.type());
    const Expr value =
        weight_or_zero(problem, w, {channel, channel / out_of_group, channel % out_of_group},
                       joins ? k % packed.reduction_channels : k, packed.reduction_channels, packed.axes, taps, phase);
    // A transposed convolution's next input channel may be the next group's, and so may a panel's next output channel.
    const int reduction = packed.reduction_channels * packed.joined_taps;
    Expr is_weight = packed.steps() * packed.dot_width > reduction ? k < reduction : Expr();
    if (packed.groups > 1 && packed.panels * packed.panel > packed.channels) {
        const Expr is_channel = of_group < packed.channels;
        is_weight = is_weight.defined() ? is_weight && is_channel : is_channel;
    }
    result(order) = is_weight.defined() ? Halide::select(is_weight, value, zero) : value;
    return result;
}

}  // namespace kiln
