// Output sizes and pads of ONNX's and ms-nhwc's ConvTranspose, by their documents (profile spec) or as ONNX Runtime
// computes them where that differs (profile ort).
#include <cinttypes>

#include "semantics/onnx.h"

namespace kiln {
namespace {

// The attributes that only ConvTranspose has.
struct OutputAttributes {
    Axes padding{}, shape{};
    bool has_shape = false;
};

// Versions 11 and later bound output_padding by stride or dilation; ONNX Runtime by the stride, in every version.
Status check_output_padding(const Layer &layer, const OnnxOperator &op, const Problem &problem,
                            const Axes &output_padding) {
    const bool ort = layer.profile == Profile::ort;
    for (int axis = 0; axis < problem.rank && (ort || op.version >= 11); axis++) {
        const int64_t padding = output_padding[axis], stride = problem.stride[axis], dilation = problem.dilation[axis];
        const int64_t bound = ort || stride > dilation ? stride : dilation;
        if (padding >= bound) {
            return Status::invalid_argument("output_padding[%d] is %" PRId64 ": it must be below %s, %" PRId64, axis,
                                            padding, ort ? "strides" : "the larger of strides and dilations", bound);
        }
        if (ort && padding > 0 && problem.in[axis] == 0) {
            return Status::invalid_argument("output_padding[%d] is %" PRId64
                                            ": ONNX Runtime takes none where x[%d] is 0",
                                            axis, padding, op.terms.x_spatial + axis);
        }
    }
    return {};
}

Status read_output_attributes(const Layer &layer, const OnnxOperator &op, const Problem &problem, OutputAttributes *a) {
    KILN_RETURN_IF_ERROR(read_axes(layer, "output_padding", problem.rank, 0, &a->padding));
    KILN_RETURN_IF_ERROR(check_output_padding(layer, op, problem, a->padding));
    a->has_shape = find_attribute(layer, "output_shape") != nullptr;
    return read_axes(layer, "output_shape", problem.rank, 0, &a->shape);
}

// ONNX Runtime wants an input, and no more zeros behind the output than a stride less one.
Status check_ort_output_shape(const OnnxOperator &op, const AxisSizes &sizes, int64_t out, int axis) {
    if (sizes.in.value() == 0) {
        return Status::invalid_argument("x[%d] is 0: ONNX Runtime takes no empty input with output_shape",
                                        op.terms.x_spatial + axis);
    }
    const Checked natural = transposed_natural(sizes, 0), surplus = Checked(out) - natural;
    if (surplus.value() < sizes.stride.value()) return {};
    return Status::invalid_argument("output_shape[%d] is %" PRId64
                                    ": ONNX Runtime takes less than strides[%d], %" PRId64 ", more than the %" PRId64
                                    " that the input reaches",
                                    axis, out, axis, sizes.stride.value(), natural.value());
}

// Version 1's equation puts an odd total's extra the other way round than later ones.
Rule output_shape_rule(const Layer &layer, const OnnxOperator &op, const OnnxAttributes &a, Checked total) {
    if (!total.open() && total.value() < 0) return Rule::output_shape_surplus;
    const bool upper = a.auto_pad == AutoPad::same_upper;
    if (op.version == 1 && layer.profile == Profile::spec) {
        return upper ? Rule::output_shape_upper_first : Rule::output_shape_other_first;
    }
    return upper ? Rule::output_shape_upper : Rule::output_shape_other;
}

Status output_shape_axis(const Layer &layer, const OnnxOperator &op, const OnnxAttributes &a,
                         const OutputAttributes &output, int axis, Resolution *resolution) {
    const AxisSizes sizes = sizes_of(resolution->problem, axis);
    const Checked natural = transposed_natural(sizes, output.padding[axis]), total = natural - output.shape[axis];
    if (layer.profile == Profile::ort && !natural.overflowed()) {
        KILN_RETURN_IF_ERROR(check_ort_output_shape(op, sizes, output.shape[axis], axis));
    }
    const Rule rule = output_shape_rule(layer, op, a, total);
    const bool at_end = rule == Rule::output_shape_upper || rule == Rule::output_shape_other_first;
    return store_axis(layer, op.terms, axis, output.shape[axis], split(total, at_end ? Extra::at_end : Extra::at_begin),
                      rule, resolution);
}

// out = in * stride; ONNX Runtime pads no less than nothing, so its output is smaller where k_eff < stride.
Status same_axis(const Layer &layer, const OnnxOperator &op, const OnnxAttributes &a, const OutputAttributes &output,
                 int axis, Resolution *resolution) {
    const AxisSizes sizes = sizes_of(resolution->problem, axis);
    Checked total = transposed_same_total_pad(sizes, output.padding[axis]), out = sizes.in * sizes.stride;
    Rule rule = a.auto_pad == AutoPad::same_upper ? Rule::transposed_same_upper : Rule::transposed_same_lower;
    if (!total.overflowed() && total.value() < 0) {
        rule = Rule::transposed_same_surplus;
        if (layer.profile == Profile::ort) {
            rule = Rule::transposed_same_ort;
            total = 0;
            out = transposed_natural(sizes, output.padding[axis]);
        }
    }
    return store_axis(layer, op.terms, axis, out, split(total, a.same_extra()), rule, resolution);
}

Status conv_transpose_axis(const Layer &layer, const OnnxOperator &op, const OnnxAttributes &a,
                           const OutputAttributes &output, int axis, Resolution *resolution) {
    if (output.has_shape) return output_shape_axis(layer, op, a, output, axis, resolution);
    if (a.is_same()) return same_axis(layer, op, a, output, axis, resolution);
    const Pads pads = {a.pads_begin[axis], a.pads_end[axis]};
    const Checked natural = transposed_natural(sizes_of(resolution->problem, axis), output.padding[axis]);
    return store_axis(layer, op.terms, axis, natural - pads.begin - pads.end, pads, Rule::transposed_pads, resolution);
}

}  // namespace

Status resolve_conv_transpose(const Layer &layer, const OnnxOperator &op, Resolution *resolution) {
    OnnxAttributes a;
    OutputAttributes output;
    KILN_RETURN_IF_ERROR(read_onnx_layer(layer, op, &a, &resolution->problem));
    KILN_RETURN_IF_ERROR(read_output_attributes(layer, op, resolution->problem, &output));
    for (int axis = 0; axis < resolution->problem.rank; axis++) {
        KILN_RETURN_IF_ERROR(conv_transpose_axis(layer, op, a, output, axis, resolution));
    }
    store_y(op.terms, resolution);
    return {};
}

}  // namespace kiln
