// ONNX Conv, DeformConv, ConvInteger and QLinearConv, by their documents (profile spec) or as ONNX Runtime computes
// them where that differs (profile ort). ConvTranspose is in onnx_conv_transpose.cpp.
#include "semantics/onnx.h"

#include <cinttypes>
#include <cstdio>

#include "problem_fields.h"
#include "semantics/dialects.h"
#include "semantics/quantized.h"

namespace kiln {
namespace {

constexpr std::string_view conv_attributes[] = {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"};
constexpr std::string_view conv_transpose_attributes[] = {"auto_pad",       "dilations",    "group", "kernel_shape",
                                                          "output_padding", "output_shape", "pads",  "strides"};
constexpr std::string_view deform_conv_attributes[] = {"dilations",    "group", "kernel_shape",
                                                       "offset_group", "pads",  "strides"};
constexpr std::string_view auto_pads[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};  // in the order of AutoPad

constexpr DType floats_of_1[] = {DType::f64, DType::f32, DType::f16};
constexpr DType floats_of_22[] = {DType::f64, DType::f32, DType::f16, DType::bf16};
constexpr DType integers[] = {DType::s8, DType::u8};
constexpr DType sums[] = {DType::s32};
constexpr DType integers_and_float[] = {DType::s8, DType::u8, DType::f32};

// An operator's name with its version: "Conv-22"; holds itself.
struct VersionName {
    char data[32];
};

// The newest of `versions`, which rise, that is not newer than the layer's opset.
template <size_t count>
Status find_version(const Layer &layer, const int (&versions)[count], int *version, VersionName *name) {
    const int size = static_cast<int>(layer.op.size());
    if (layer.opset < versions[0]) {
        return Status::invalid_argument("opset is %d: %.*s exists from opset %d on", layer.opset, size, layer.op.data(),
                                        versions[0]);
    }
    for (const int candidate : versions) {
        if (candidate <= layer.opset) *version = candidate;
    }
    std::snprintf(name->data, sizeof name->data, "%.*s-%d", size, layer.op.data(), *version);
    return {};
}

Status read_auto_pad(const Layer &layer, AutoPad *auto_pad) {
    size_t index = 0;
    KILN_RETURN_IF_ERROR(read_word(layer, "auto_pad", auto_pads, &index));
    *auto_pad = static_cast<AutoPad>(index);
    if (*auto_pad == AutoPad::notset || find_attribute(layer, "pads") == nullptr) return {};
    return Status::invalid_argument("auto_pad is %s: pads cannot be given with it", auto_pads[index].data());
}

Status check_kernel_shape(const Layer &layer, const Problem &problem) {
    Axes kernel_shape = problem.kernel;
    KILN_RETURN_IF_ERROR(read_axes(layer, "kernel_shape", problem.rank, 1, &kernel_shape));
    for (int axis = 0; axis < problem.rank; axis++) {
        if (kernel_shape[axis] == problem.kernel[axis]) continue;
        return Status::invalid_argument("kernel_shape[%d] is %" PRId64 ", but w[%d] is %" PRId64, axis,
                                        kernel_shape[axis], 2 + axis, problem.kernel[axis]);
    }
    return {};
}

// Conv and ConvTranspose are no 8-bit operators by themselves: only a quantisation makes them so.
bool is_quantized(const Layer &layer, const OnnxOperator &op) {
    return is_8_bit(layer.dtype) && op.y_types.count > 0 && layer.y_dtype != DType::s32;
}

// A negative total means that the stride skips inputs. The document's pads are never negative; ONNX Runtime leaves out
// almost half of those inputs at the beginning.
Pads ort_same_pads(const OnnxAttributes &a, Checked total) {
    if (total.open() || total.overflowed() || total.value() >= 0) return split(total, a.same_extra());
    const int64_t begin = (total.value() + (a.auto_pad == AutoPad::same_upper ? 1 : 2)) / 2;
    return {begin, total - begin};
}

Status same_axis(const Layer &layer, const OnnxOperator &op, const OnnxAttributes &a, int axis,
                 Resolution *resolution) {
    const bool ort = layer.profile == Profile::ort;
    const AxisSizes sizes = sizes_of(resolution->problem, axis);
    if (ort && sizes.dilation.value() != 1) {
        return Status::invalid_argument("dilations[%d] is %" PRId64
                                        ": ONNX Runtime takes no dilation with auto_pad SAME",
                                        axis, sizes.dilation.value());
    }
    const Checked total = conv_same_total_pad(sizes);
    const bool skips = !total.open() && !total.overflowed() && total.value() < 0;
    const Rule rule = skips                               ? (ort ? Rule::conv_same_skips_ort : Rule::conv_same_skips)
                      : a.auto_pad == AutoPad::same_upper ? Rule::conv_same_upper
                                                          : Rule::conv_same_lower;
    const Pads pads = ort ? ort_same_pads(a, total) : conv_same_pads(sizes, a.same_extra());
    return store_axis(layer, op.terms, axis, conv_same_out(sizes), pads, rule, resolution);
}

// Output sizes and pads.
Status conv_axes(const Layer &layer, const OnnxOperator &op, const OnnxAttributes &a, Resolution *resolution) {
    for (int axis = 0; axis < resolution->problem.rank; axis++) {
        if (a.is_same()) {
            KILN_RETURN_IF_ERROR(same_axis(layer, op, a, axis, resolution));
            continue;
        }
        const Pads pads = {a.pads_begin[axis], a.pads_end[axis]};
        const Checked out = conv_out(sizes_of(resolution->problem, axis), pads.begin, pads.end);
        KILN_RETURN_IF_ERROR(store_axis(layer, op.terms, axis, out, pads, Rule::conv_pads, resolution));
    }
    store_y(op.terms, resolution);
    return {};
}

Status resolve_conv(const Layer &layer, const OnnxOperator &op, Resolution *resolution) {
    OnnxAttributes a;
    KILN_RETURN_IF_ERROR(read_onnx_layer(layer, op, &a, &resolution->problem));
    return conv_axes(layer, op, a, resolution);
}

}  // namespace

Status read_onnx_layer(const Layer &layer, const OnnxOperator &op, OnnxAttributes *a, Problem *problem) {
    const bool quantized = is_quantized(layer, op);
    if (!quantized) KILN_RETURN_IF_ERROR(check_dtype(layer, op.name, op.types));
    KILN_RETURN_IF_ERROR(read_shapes(layer, op.terms, op.op, problem));
    KILN_RETURN_IF_ERROR(check_names(layer, op.attributes));
    KILN_RETURN_IF_ERROR(read_auto_pad(layer, &a->auto_pad));
    KILN_RETURN_IF_ERROR(check_kernel_shape(layer, *problem));
    KILN_RETURN_IF_ERROR(read_steps(layer, op.terms, problem));
    KILN_RETURN_IF_ERROR(read_begin_end(layer, "pads", problem->rank, &a->pads_begin, &a->pads_end));
    KILN_RETURN_IF_ERROR(read_channels(layer, op.terms, problem));
    return is_8_bit(layer.dtype) ? read_quantization(layer, {op.name, integers, op.y_types, true}, problem) : Status();
}

Status resolve_onnx_conv(const Layer &layer, Resolution *resolution) {
    int version = 0;
    VersionName name;
    KILN_RETURN_IF_ERROR(find_version(layer, {1, 11, 22}, &version, &name));
    const Types types = version >= 22 ? Types(floats_of_22) : Types(floats_of_1);
    return resolve_conv(layer, {Operator::conv, name.data, version, {}, conv_attributes, types, integers_and_float},
                        resolution);
}

Status resolve_onnx_conv_transpose(const Layer &layer, Resolution *resolution) {
    int version = 0;
    VersionName name;
    KILN_RETURN_IF_ERROR(find_version(layer, {1, 11, 22}, &version, &name));
    Terms terms;
    terms.w_in = 0;
    terms.w_out = 1;
    const Types types = version >= 22 ? Types(floats_of_22) : Types(floats_of_1);
    return resolve_conv_transpose(
        layer,
        {Operator::conv_transpose, name.data, version, terms, conv_transpose_attributes, types, integers_and_float},
        resolution);
}

Status resolve_onnx_deform_conv(const Layer &layer, Resolution *resolution) {
    int version = 0;
    VersionName name;
    KILN_RETURN_IF_ERROR(find_version(layer, {19, 22}, &version, &name));
    const Types types = version >= 22 ? Types(floats_of_22) : Types(floats_of_1);
    KILN_RETURN_IF_ERROR(resolve_conv(
        layer, {Operator::deform_conv, name.data, version, {}, deform_conv_attributes, types, {}}, resolution));
    Problem &problem = resolution->problem;
    KILN_RETURN_IF_ERROR(read_integer(layer, "offset_group", 1, &problem.offset_groups));
    if (problem.in_channels % problem.offset_groups == 0) return {};
    return Status::invalid_argument("offset_group is %" PRId64 ": it does not divide x[1], which is %" PRId64,
                                    problem.offset_groups, problem.in_channels);
}

Status resolve_onnx_conv_integer(const Layer &layer, Resolution *resolution) {
    int version = 0;
    VersionName name;
    KILN_RETURN_IF_ERROR(find_version(layer, {10}, &version, &name));
    if (layer.bias) return Status::invalid_argument("bias is given: ConvInteger has none");
    return resolve_conv(layer, {Operator::conv, name.data, version, {}, conv_attributes, integers, sums}, resolution);
}

Status resolve_onnx_qlinear_conv(const Layer &layer, Resolution *resolution) {
    int version = 0;
    VersionName name;
    KILN_RETURN_IF_ERROR(find_version(layer, {10}, &version, &name));
    return resolve_conv(layer, {Operator::conv, name.data, version, {}, conv_attributes, integers, integers},
                        resolution);
}

}  // namespace kiln
