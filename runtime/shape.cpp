// The formulas of shapes and pads.
#include "shape.h"

namespace kiln {
namespace {

// Rounds down, where C++ rounds towards zero. The divisor is positive.
Checked floor_divide(Checked dividend, Checked divisor) {
    if (dividend.open() || divisor.open() || dividend.overflowed() || divisor.overflowed()) return dividend + divisor;
    const int64_t quotient = dividend.value() / divisor.value();
    return dividend.value() % divisor.value() < 0 ? quotient - 1 : quotient;
}

}  // namespace

Checked effective_kernel(Checked kernel, Checked dilation) {
    return (kernel - 1) * dilation + 1;
}

Checked conv_out(const AxisSizes &axis, Checked pad_begin, Checked pad_end) {
    const Checked slack = axis.in + pad_begin + pad_end - effective_kernel(axis.kernel, axis.dilation);
    return floor_divide(slack, axis.stride) + 1;
}

Checked conv_out_rounded_up(const AxisSizes &axis, Checked pad_begin, Checked pad_end) {
    const Checked slack = axis.in + pad_begin + pad_end - effective_kernel(axis.kernel, axis.dilation);
    return floor_divide(slack + axis.stride - 1, axis.stride) + 1;
}

Checked conv_same_out(const AxisSizes &axis) {
    return floor_divide(axis.in - 1, axis.stride) + 1;
}

Checked conv_total_pad(const AxisSizes &axis, Checked out) {
    return (out - 1) * axis.stride + effective_kernel(axis.kernel, axis.dilation) - axis.in;
}

Checked conv_same_total_pad(const AxisSizes &axis) {
    if (axis.in.open() && axis.stride.value() == 1) return effective_kernel(axis.kernel, axis.dilation) - 1;
    return conv_total_pad(axis, conv_same_out(axis));
}

Checked transposed_natural(const AxisSizes &axis, Checked output_padding) {
    return axis.stride * (axis.in - 1) + output_padding + effective_kernel(axis.kernel, axis.dilation);
}

Checked transposed_same_total_pad(const AxisSizes &axis, Checked output_padding) {
    return output_padding + effective_kernel(axis.kernel, axis.dilation) - axis.stride;
}

Checked end_pad(const Problem &problem, int axis) {
    const AxisSizes sizes = {problem.in[axis], problem.kernel[axis], problem.stride[axis], problem.dilation[axis]};
    const Checked total = problem.traits().transposed ? transposed_natural(sizes, 0) - problem.out[axis]
                                                      : conv_total_pad(sizes, problem.out[axis]);
    return total - problem.pad_begin[axis];
}

bool stride_matters(const Problem &problem, int axis) {
    const int64_t steps = problem.traits().transposed ? problem.in[axis] : problem.out[axis];
    return steps == open_size || steps > 1;
}

Pads split(Checked total, Extra extra) {
    if (total.open()) return {total, total};
    if (total.overflowed() || total.value() < 0) return {0, total};
    const int64_t less = total.value() / 2, more = total.value() - less;
    return extra == Extra::at_begin ? Pads{more, less} : Pads{less, more};
}

Checked at_least_zero(Checked a) {
    return !a.open() && !a.overflowed() && a.value() < 0 ? Checked(0) : a;
}

Pads conv_same_pads(const AxisSizes &axis, Extra extra) {
    const Checked k_eff = effective_kernel(axis.kernel, axis.dilation);
    if (axis.in.open() && !k_eff.overflowed() && k_eff.value() == 1) return {0, 0};
    return split(at_least_zero(conv_same_total_pad(axis)), extra);
}

}  // namespace kiln
