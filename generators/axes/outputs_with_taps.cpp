// Which outputs of strided ConvTransposes have taps, and the smaller problem of them alone.
#include "axes/outputs_with_taps.h"

#include <algorithm>
#include <numeric>

#include "expressions/arithmetic.h"

namespace kiln {
namespace {

using Halide::Expr;

// Outputs o of which o + pad is no multiple of what stride and dilation share have no taps.
void leave_out_steps(Problem &p, int axis, OutputsWithTaps &outputs) {
    const int64_t dilation = p.kernel[axis] == 1 ? p.stride[axis] : p.dilation[axis];  // of one tap, any
    const int64_t step = std::gcd(p.stride[axis], dilation);
    const int64_t begin = floor_mod(-p.pad_begin[axis], step);
    if (step == 1 || begin >= p.out[axis]) {
        return;
    }
    outputs.are_all = false;
    outputs.step = static_cast<int>(step);
    outputs.begin = static_cast<int>(begin);
    p.stride[axis] /= step;
    p.dilation[axis] = p.kernel[axis] == 1 ? 1 : dilation / step;
    p.pad_begin[axis] = (begin + p.pad_begin[axis]) / step;
    p.out[axis] = (p.out[axis] - 1 - begin) / step + 1;
}

// Of a kernel that is smaller than its stride, outputs o of which (o + pad) % stride is none of its taps have none.
void leave_out_gaps(Problem &p, int axis, OutputsWithTaps &outputs) {
    const int64_t run = p.kernel[axis], period = p.stride[axis], pad = p.pad_begin[axis];
    const auto with_taps_ahead = [&](int64_t o) {  // of output o
        return floor_div(o + pad, period) * run + std::min(floor_mod(o + pad, period), run);
    };
    const int64_t first = with_taps_ahead(0), count = with_taps_ahead(p.out[axis]) - first;
    if (p.dilation[axis] != 1 || run >= period || count == 0) {
        return;
    }
    outputs.are_all = false;
    outputs.run = static_cast<int>(run);
    outputs.period = static_cast<int>(period);
    outputs.first = static_cast<int>(first);
    outputs.pad = static_cast<int>(pad);
    p.stride[axis] = run;
    p.pad_begin[axis] = first;
    p.out[axis] = count;
}

// How many outputs there are up to the last that some input is in.
int64_t outputs_of_inputs(const Problem &p, int axis) {
    const int64_t end = (p.in[axis] - 1) * p.stride[axis] + p.effective_kernel(axis) - p.pad_begin[axis];
    return end > 0 ? std::min(end, p.out[axis]) : p.out[axis];
}

// Whether phases are whole without the outputs behind that one, which output padding adds, and are not with them.
bool ends_of_phases(const Problem &p, int axis) {
    return p.out[axis] % p.stride[axis] != 0 && outputs_of_inputs(p, axis) % p.stride[axis] == 0;
}

}  // namespace

Expr OutputsWithTaps::output(const Expr &quotient, const Expr &phase) const {
    if (run == period) {
        return (quotient * phases + phase) * step + begin;
    }
    const Expr at = phase + first;  // in one run or the next
    return (quotient * period + at / run * period + at % run - pad) * step + begin;
}

bool DenseOutputs::are_all() const {
    return std::all_of(axes.begin(), axes.end(), [](const OutputsWithTaps &axis) { return axis.are_all; });
}

DenseOutputs outputs_with_taps(const Problem &problem) {
    DenseOutputs dense = {problem, std::vector<OutputsWithTaps>(static_cast<size_t>(problem.rank))};
    if (!problem.traits().transposed || problem.has_open_sizes()) {
        return dense;
    }
    Problem &p = dense.problem;
    for (int axis = 0; axis < p.rank; axis++) {
        OutputsWithTaps &outputs = dense.axes[static_cast<size_t>(p.rank - 1 - axis)];
        leave_out_steps(p, axis, outputs);
        leave_out_gaps(p, axis, outputs);
        if (!outputs.are_all || ends_of_phases(p, axis)) {
            p.out[axis] = outputs_of_inputs(p, axis);
            outputs.are_all = false;
        }
        outputs.count = static_cast<int>(p.out[axis]);
        outputs.phases = static_cast<int>(p.stride[axis]);
    }
    if (dense.are_all()) {
        return dense;
    }
    for (int axis = 0; axis < p.rank; axis++) {
        p.out[axis] = round_up(p.out[axis], static_cast<int>(p.stride[axis]));
        p.pad_end[axis] =
            (p.in[axis] - 1) * p.stride[axis] + p.effective_kernel(axis) - p.pad_begin[axis] - p.out[axis];
    }
    return dense;
}

}  // namespace kiln
