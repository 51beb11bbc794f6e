// From a layer's shapes to its problem's sizes.
#include "semantics/sizes.h"

#include <cinttypes>
#include <cstdio>

#include "semantics/attributes.h"
#include "semantics/checks.h"

namespace kiln {
namespace {

// A size for a message; "?" where it is open.
struct SizeText {
    char data[24];
};
SizeText text_of(int64_t size) {
    SizeText text = {"?"};
    if (size != open_size) std::snprintf(text.data, sizeof text.data, "%" PRId64, size);
    return text;
}

Status check_group_divides(const Terms &terms, const char *tensor, int dimension, int64_t channels, int64_t group) {
    if (channels % group == 0) return {};
    return Status::invalid_argument("%s is %" PRId64 ": it does not divide %s[%d], which is %" PRId64, terms.group,
                                    group, tensor, dimension, channels);
}

Status times_group(const Terms &terms, int dimension, int64_t size, int64_t group, int64_t *channels) {
    const Checked product = Checked(size) * group;
    if (product.overflowed()) {
        return Status::invalid_argument("%s is %" PRId64 ": times w[%d], %" PRId64 ", it does not fit 64 bits",
                                        terms.group, group, dimension, size);
    }
    *channels = product.value();
    return {};
}

// w holds all output channels, and the input channels of a group.
Status conv_channels(const Layer &layer, const Terms &terms, Problem *problem) {
    const int64_t channels = layer.x.sizes[terms.x_channel], of_group = layer.w.sizes[terms.w_in];
    KILN_RETURN_IF_ERROR(times_group(terms, terms.w_in, of_group, problem->groups, &problem->in_channels));
    if (channels != open_size && channels != problem->in_channels) {
        return Status::invalid_argument(
            "x[%d] is %" PRId64 ": w[%d] and %s, %" PRId64 " and %" PRId64 ", ask for %" PRId64 " channels",
            terms.x_channel, channels, terms.w_in, terms.group, of_group, problem->groups, problem->in_channels);
    }
    problem->out_channels = layer.w.sizes[terms.w_out];
    return check_group_divides(terms, "w", terms.w_out, problem->out_channels, problem->groups);
}

// w holds all input channels, and the output channels of a group.
Status conv_transpose_channels(const Layer &layer, const Terms &terms, Problem *problem) {
    const int64_t channels = layer.x.sizes[terms.x_channel];
    problem->in_channels = layer.w.sizes[terms.w_in];
    if (channels != open_size && channels != problem->in_channels) {
        return Status::invalid_argument("x[%d] is %" PRId64 ", but w[%d] is %" PRId64 ": both are the input channels",
                                        terms.x_channel, channels, terms.w_in, problem->in_channels);
    }
    KILN_RETURN_IF_ERROR(check_group_divides(terms, "x", terms.x_channel, problem->in_channels, problem->groups));
    return times_group(terms, terms.w_out, layer.w.sizes[terms.w_out], problem->groups, &problem->out_channels);
}

}  // namespace

Status read_shapes(const Layer &layer, const Terms &terms, Operator op, Problem *problem) {
    KILN_RETURN_IF_ERROR(check_input_shape(layer, terms.x_channel));
    KILN_RETURN_IF_ERROR(check_filter_shape(layer));
    problem->op = op;
    if (layer.mask && !problem->traits().deformable) {
        return Status::invalid_argument("mask is given: only DeformConv has one");
    }
    problem->rank = layer.x.rank - 2;
    problem->x_type = problem->w_type = problem->y_type = layer.dtype;
    problem->batch = layer.x.sizes[0];
    for (int axis = 0; axis < problem->rank; axis++) {
        problem->in[axis] = layer.x.sizes[terms.x_spatial + axis];
        problem->kernel[axis] = layer.w.sizes[terms.w_spatial + axis];
    }
    return {};
}

Status read_steps(const Layer &layer, const Terms &terms, Problem *problem) {
    problem->stride.fill(1);
    problem->dilation.fill(1);
    KILN_RETURN_IF_ERROR(read_integer(layer, terms.group, 1, &problem->groups));
    KILN_RETURN_IF_ERROR(read_axes(layer, terms.strides, problem->rank, 1, &problem->stride));
    return read_axes(layer, terms.dilations, problem->rank, 1, &problem->dilation);
}

Status read_channels(const Layer &layer, const Terms &terms, Problem *problem) {
    return problem->traits().has_input_channels_first() ? conv_transpose_channels(layer, terms, problem)
                                                        : conv_channels(layer, terms, problem);
}

AxisSizes sizes_of(const Problem &problem, int axis) {
    return {problem.in[axis], problem.kernel[axis], problem.stride[axis], problem.dilation[axis]};
}

Status store_axis(const Layer &layer, const Terms &terms, int axis, Checked out, Pads pads, Rule rule,
                  Resolution *resolution) {
    Problem &p = resolution->problem;
    const int x_axis = terms.x_spatial + axis, w_axis = terms.w_spatial + axis;
    if (out.overflowed() || pads.begin.overflowed() || pads.end.overflowed()) {
        return Status::invalid_argument(
            "the output size of spatial axis %d does not fit 64 bits: x[%d] is %s, w[%d] %" PRId64 ", %s[%d] %" PRId64
            ", %s[%d] %" PRId64,
            axis, x_axis, text_of(p.in[axis]).data, w_axis, p.kernel[axis], terms.strides, axis, p.stride[axis],
            terms.dilations, axis, p.dilation[axis]);
    }
    if (!is_output_size(layer, p.in[axis], out.value())) {
        return Status::invalid_argument(
            "the output size of spatial axis %d would be %" PRId64 ": x[%d] is %" PRId64 ", w[%d] %" PRId64
            ", %s[%d] %" PRId64 ", %s[%d] %" PRId64 ", pads %" PRId64 " and %" PRId64,
            axis, out.value(), x_axis, p.in[axis], w_axis, p.kernel[axis], terms.strides, axis, p.stride[axis],
            terms.dilations, axis, p.dilation[axis], pads.begin.value(), pads.end.value());
    }
    p.out[axis] = out.value();
    p.pad_begin[axis] = resolution->pads_begin[axis] = pads.begin.value();
    resolution->pads_end[axis] = pads.end.value();
    resolution->rules[axis] = rule;
    return {};
}

void store_y(const Terms &terms, Resolution *resolution) {
    const Problem &problem = resolution->problem;
    resolution->y.rank = problem.rank + 2;
    resolution->y.sizes[0] = problem.batch;
    resolution->y.sizes[terms.x_channel] = problem.out_channels;
    for (int axis = 0; axis < problem.rank; axis++) {
        resolution->y.sizes[terms.x_spatial + axis] = problem.out[axis];
    }
}

}  // namespace kiln
