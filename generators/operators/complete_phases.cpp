#include "operators/complete_phases.h"

#include <algorithm>

#include "algorithms/winograd/winograd.h"
#include "axes/axis_map.h"
#include "axes/output_vars.h"
#include "expressions/arithmetic.h"
#include "expressions/epilogue.h"

namespace kiln {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

bool adds_at_outputs(const Problem &problem) {
    return problem.residual || problem.open_epilogue;
}

void leave_epilogue_to_outputs(Problem &sums, const Problem &problem) {
    if (adds_at_outputs(problem)) {
        sums.y_type = problem.x_type == DType::f64 ? DType::f64 : DType::f32;
        sums.bias = sums.residual = sums.open_epilogue = false;
        sums.activation = Activation::none;
    }
}

// Not bounded along the axes: what a schedule rounds up goes beyond them.
void store_as_output(const Problem &problem, Func &sums, const SumsOrder &order_of_sums) {
    const auto &[phases, merged, groups] = order_of_sums;
    const std::vector<Var> at = sums.args();
    sums.compute_root().bound(at[0], 0, static_cast<int>(problem.out_channels) / groups * merged);
    sums.bound(at.back(), 0, static_cast<int>(problem.batch));
    std::vector<Var> order;
    size_t d = 1;
    if (groups > 1) {
        sums.bound(at[d++], 0, groups);
    }
    for (const int of_axis : phases) {
        const Var q = at[d++];
        if (of_axis > 1) {
            sums.bound(at[d], 0, of_axis);
            order.push_back(at[d++]);
        }
        order.push_back(q);
    }
    const bool channels_last = problem.y_layout == Layout::nxc || merged > 1;
    order.insert(channels_last ? order.begin() : order.end(), at.begin(), at.begin() + (groups > 1 ? 2 : 1));
    order.push_back(at.back());
    sums.reorder_storage(order);
}

Problem complete_phases(const Problem &problem) {
    if (!problem.traits().transposed || problem.has_open_sizes()) {
        return problem;
    }
    Problem completed = problem;
    for (int a = 0; a < problem.rank; a++) {
        completed.out[a] = round_up(problem.out[a], problem.stride[a]);
        completed.pad_end[a] -= completed.out[a] - problem.out[a];
    }
    if (completed.out == problem.out) {
        return problem;
    }
    leave_epilogue_to_outputs(completed, problem);
    return completed;
}

Problem complete_merged_phases(const Problem &problem) {
    constexpr int fewest_of_a_vector = 8;  // channels that fill vectors by themselves, where none are copied
    const Problem completed = complete_phases(problem);
    return problem.out_channels < fewest_of_a_vector && winograd_applies(completed) &&
                   merges_phases(completed, winograd_axes(completed))
               ? completed
               : problem;
}

Operands operands_of(const Problem &problem, const Problem &completed, const Operands &operands) {
    Operands result = operands;
    result.sizes = Sizes(completed);
    if (adds_at_outputs(problem)) {
        result.others = {};
        result.scale = result.slope = result.y_scale = Func();
    }
    return result;
}

Func crop_to_outputs(const Problem &problem, Func sums, const SumsOrder &order, const Operands &operands,
                     bool parallel) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const std::vector<int> &phases = order.phases;
    const int merged = order.merged;
    const OutputVars vars(axes.size());
    const int channels = static_cast<int>(problem.out_channels);
    std::vector<Expr> from = {vars.c};
    for (size_t a = 0; a < axes.size(); a++) {
        const Var &x = vars.position[a];
        if (a == 0 && (merged > 1 || (phases[a] > 1 && problem.y_layout == Layout::nxc))) {
            // Of the number of an element in its row, from which Halide finds that it lies as far on in a row of sums.
            const int of_phases = channels * std::max(merged, phases[a]);
            const Expr element = vars.c + x * channels;
            from[0] = merged > 1 ? element % of_phases : element % of_phases % channels;
            from.push_back(element / of_phases);
            if (merged == 1) {
                from.push_back(element % of_phases / channels);
            }
        } else if (phases[a] > 1) {
            from.push_back(x / phases[a]);
            from.push_back(x % phases[a]);
        } else {
            from.push_back(x);
        }
    }
    from.push_back(vars.n);
    const std::vector<Var> at = vars.all();
    Func y("y");
    const Expr value = sums(from);
    y(at) = adds_at_outputs(problem) ? epilogue(problem, value, operands, {at.begin(), at.end()}) : value;
    store_as_output(problem, sums, order);

    y.bound(vars.c, 0, channels).bound(vars.n, 0, static_cast<int>(problem.batch));
    for (size_t a = 0; a < axes.size(); a++) {
        y.bound(vars.position[a], 0, axes[a].out);
    }
    constexpr int most_lanes = 16;
    const Var &row = vars.position[0];
    if (problem.y_layout == Layout::nxc) {
        const Var element("element");
        const int elements = channels * axes[0].out;
        y.fuse(vars.c, row, element);
        y.vectorize(element, lanes_within(elements, most_lanes), Halide::TailStrategy::GuardWithIf);
    } else {
        std::vector<Var> loops(at.begin() + 1, at.end() - 1);
        loops.push_back(vars.c);
        loops.push_back(vars.n);
        y.reorder({loops.begin(), loops.end()});
        y.vectorize(row, lanes_within(axes[0].out, most_lanes), Halide::TailStrategy::GuardWithIf);
    }
    if (parallel && (problem.batch > 1 || axes.size() > 1)) {
        y.parallel(problem.batch > 1 ? vars.n : vars.position.back());
    }
    return y;
}

}  // namespace kiln
