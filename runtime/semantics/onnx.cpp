// ONNX Conv and ConvTranspose: opsets 1, 11 and 22, by their documents (profile spec) or as ONNX Runtime computes them
// where that differs (profile ort).
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "semantics/attributes.h"
#include "semantics/checks.h"
#include "semantics/dialects.h"
#include "shape.h"

namespace kiln {
namespace {

constexpr std::string_view conv_names[] = {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"};
constexpr std::string_view conv_transpose_names[] = {"auto_pad",       "dilations",    "group", "kernel_shape",
                                                     "output_padding", "output_shape", "pads",  "strides"};
constexpr std::string_view auto_pad_names[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
enum class AutoPad : uint8_t { notset, same_upper, same_lower, valid };  // in the order of the names

constexpr DType types_of_1[] = {DType::f64, DType::f32, DType::f16};
constexpr DType types_of_22[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

// A layer's attributes, with the documents' defaults.
struct OnnxAttributes {
    int version = 1;  // the operator's: 1, 11 or 22
    AutoPad auto_pad = AutoPad::notset;
    int64_t group = 1;
    Axes strides{}, dilations{}, pads_begin{}, pads_end{};
    Axes output_padding{}, output_shape{};
    bool has_output_shape = false;

    bool is_same() const { return auto_pad == AutoPad::same_upper || auto_pad == AutoPad::same_lower; }
};

Status read_version(const Layer &layer, int *version) {
    if (layer.opset < 1) {
        return Status::invalid_argument("opset is %d: %.*s exists from opset 1 on", layer.opset,
                                        static_cast<int>(layer.op.size()), layer.op.data());
    }
    *version = layer.opset >= 22 ? 22 : layer.opset >= 11 ? 11 : 1;
    return {};
}

Status check_type(const Layer &layer, int version) {
    char what[32];
    std::snprintf(what, sizeof what, "%.*s-%d", static_cast<int>(layer.op.size()), layer.op.data(), version);
    return version >= 22 ? check_dtype(layer, what, types_of_22, std::size(types_of_22))
                         : check_dtype(layer, what, types_of_1, std::size(types_of_1));
}

Status read_auto_pad(const Layer &layer, AutoPad *auto_pad) {
    std::string_view text = auto_pad_names[0];
    KILN_RETURN_IF_ERROR(read_text(layer, "auto_pad", &text));
    const int size = static_cast<int>(text.size());
    const auto *found = std::find(std::begin(auto_pad_names), std::end(auto_pad_names), text);
    if (found == std::end(auto_pad_names)) {
        return Status::invalid_argument("auto_pad is %.*s: it may be %s", size, text.data(), join(auto_pad_names).data);
    }
    *auto_pad = static_cast<AutoPad>(found - auto_pad_names);
    if (*auto_pad == AutoPad::notset || find_attribute(layer, "pads") == nullptr) return {};
    return Status::invalid_argument("auto_pad is %.*s: pads cannot be given with it", size, text.data());
}

Status check_kernel_shape(const Layer &layer, int rank) {
    if (find_attribute(layer, "kernel_shape") == nullptr) return {};
    Axes kernel_shape{};
    KILN_RETURN_IF_ERROR(read_axes(layer, "kernel_shape", rank, 1, &kernel_shape));
    for (int axis = 0; axis < rank; axis++) {
        if (kernel_shape[axis] == layer.w.sizes[2 + axis]) continue;
        return Status::invalid_argument("kernel_shape[%d] is %" PRId64 ", but w[%d] is %" PRId64, axis,
                                        kernel_shape[axis], 2 + axis, layer.w.sizes[2 + axis]);
    }
    return {};
}

// Everything but what only one of the operators has.
Status read_attributes(const Layer &layer, const Names &names, OnnxAttributes *a) {
    const int rank = layer.x.rank - 2;
    a->strides.fill(1);
    a->dilations.fill(1);
    KILN_RETURN_IF_ERROR(check_names(layer, names));
    KILN_RETURN_IF_ERROR(read_auto_pad(layer, &a->auto_pad));
    KILN_RETURN_IF_ERROR(check_kernel_shape(layer, rank));
    KILN_RETURN_IF_ERROR(read_integer(layer, "group", 1, &a->group));
    KILN_RETURN_IF_ERROR(read_axes(layer, "strides", rank, 1, &a->strides));
    KILN_RETURN_IF_ERROR(read_axes(layer, "dilations", rank, 1, &a->dilations));
    return read_begin_end(layer, "pads", rank, &a->pads_begin, &a->pads_end);
}

// Version, types, shapes and attributes; and what of the problem follows from them directly.
Status read_layer(const Layer &layer, Operator op, const Names &names, OnnxAttributes *a, Problem *problem) {
    KILN_RETURN_IF_ERROR(read_version(layer, &a->version));
    KILN_RETURN_IF_ERROR(check_type(layer, a->version));
    KILN_RETURN_IF_ERROR(check_input_shape(layer, 1));
    KILN_RETURN_IF_ERROR(check_filter_shape(layer));
    KILN_RETURN_IF_ERROR(read_attributes(layer, names, a));
    if (layer.mask) return Status::invalid_argument("mask is given: only DeformConv has one");
    problem->op = op;
    problem->rank = layer.x.rank - 2;
    problem->x_type = problem->w_type = problem->y_type = layer.dtype;
    problem->batch = layer.x.sizes[0];
    problem->groups = a->group;
    for (int axis = 0; axis < problem->rank; axis++) {
        problem->in[axis] = layer.x.sizes[2 + axis];
        problem->kernel[axis] = layer.w.sizes[2 + axis];
        problem->stride[axis] = a->strides[axis];
        problem->dilation[axis] = a->dilations[axis];
    }
    return {};
}

Status check_group_divides(const char *name, int64_t channels, int64_t group) {
    if (channels % group == 0) return {};
    return Status::invalid_argument("group is %" PRId64 ": it does not divide %s, which is %" PRId64, group, name,
                                    channels);
}

Status times_group(int64_t size, int64_t group, int64_t *channels) {
    const Checked product = Checked(size) * group;
    if (product.overflowed()) {
        return Status::invalid_argument("group is %" PRId64 ": times w[1], %" PRId64 ", it does not fit 64 bits", group,
                                        size);
    }
    *channels = product.value();
    return {};
}

// x [N][C]..., w [M][C / group]...
Status conv_channels(const Layer &layer, Problem *problem) {
    const int64_t channels = layer.x.sizes[1];
    KILN_RETURN_IF_ERROR(times_group(layer.w.sizes[1], problem->groups, &problem->in_channels));
    if (channels != open_size && channels != problem->in_channels) {
        return Status::invalid_argument("x[1] is %" PRId64 ": w[1] and group, %" PRId64 " and %" PRId64
                                        ", ask for %" PRId64 " channels",
                                        channels, layer.w.sizes[1], problem->groups, problem->in_channels);
    }
    problem->out_channels = layer.w.sizes[0];
    return check_group_divides("w[0]", problem->out_channels, problem->groups);
}

// x [N][C]..., w [C][M / group]...
Status conv_transpose_channels(const Layer &layer, Problem *problem) {
    const int64_t channels = layer.x.sizes[1];
    problem->in_channels = layer.w.sizes[0];
    if (channels != open_size && channels != problem->in_channels) {
        return Status::invalid_argument("x[1] is %" PRId64 ", but w[0] is %" PRId64 ": both are the input channels",
                                        channels, problem->in_channels);
    }
    KILN_RETURN_IF_ERROR(check_group_divides("x[1]", problem->in_channels, problem->groups));
    return times_group(layer.w.sizes[1], problem->groups, &problem->out_channels);
}

AxisSizes sizes_of(const Problem &problem, int axis) {
    return {problem.in[axis], problem.kernel[axis], problem.stride[axis], problem.dilation[axis]};
}

// Where the odd one of a SAME total goes, by the text of auto_pad.
Extra same_extra(AutoPad auto_pad) {
    return auto_pad == AutoPad::same_upper ? Extra::at_end : Extra::at_begin;
}

// The result of an axis, once it is known to make sense.
Status store_axis(const Layer &layer, int axis, Checked out, Pads pads, Resolution *resolution) {
    Problem &p = resolution->problem;
    if (out.overflowed() || pads.begin.overflowed() || pads.end.overflowed()) {
        return Status::invalid_argument("the output size of spatial axis %d does not fit 64 bits: x[%d] is %" PRId64
                                        ", w[%d] %" PRId64 ", strides[%d] %" PRId64 ", dilations[%d] %" PRId64,
                                        axis, axis + 2, p.in[axis], axis + 2, p.kernel[axis], axis, p.stride[axis],
                                        axis, p.dilation[axis]);
    }
    if (!is_output_size(layer, p.in[axis], out.value())) {
        return Status::invalid_argument("the output size of spatial axis %d would be %" PRId64 ": x[%d] is %" PRId64
                                        ", w[%d] %" PRId64 ", strides[%d] %" PRId64 ", dilations[%d] %" PRId64
                                        ", pads %" PRId64 " and %" PRId64,
                                        axis, out.value(), axis + 2, p.in[axis], axis + 2, p.kernel[axis], axis,
                                        p.stride[axis], axis, p.dilation[axis], pads.begin.value(), pads.end.value());
    }
    p.out[axis] = out.value();
    p.pad_begin[axis] = resolution->pads_begin[axis] = pads.begin.value();
    resolution->pads_end[axis] = pads.end.value();
    return {};
}

// The total pad of SAME_UPPER and SAME_LOWER. It depends on the input's size unless the stride is 1 or the kernel a
// point.
Status conv_same_total(const Layer &layer, const AxisSizes &sizes, int axis, Checked *total) {
    const bool ort = layer.profile == Profile::ort;
    const Checked k_eff = effective_kernel(sizes.kernel, sizes.dilation);
    if (ort && sizes.dilation.value() != 1) {
        return Status::invalid_argument("dilations[%d] is %" PRId64
                                        ": ONNX Runtime takes no dilation with auto_pad SAME",
                                        axis, sizes.dilation.value());
    }
    *total = sizes.in.open() ? k_eff - 1 : conv_total_pad(sizes, conv_same_out(sizes));
    if (!sizes.in.open() || sizes.stride.value() == 1 || (k_eff.value() == 1 && !ort)) return {};
    return Status::unsupported("x[%d] is open: with auto_pad SAME and strides[%d] %" PRId64 " its pads depend on it",
                               axis + 2, axis, sizes.stride.value());
}

// A negative total means that the stride skips inputs. The document's pads are never negative; ONNX Runtime leaves out
// almost half of those inputs at the beginning.
Pads conv_same_pads(const Layer &layer, const OnnxAttributes &a, Checked total) {
    if (total.overflowed() || total.value() >= 0) return split(total, same_extra(a.auto_pad));
    if (layer.profile != Profile::ort) return {0, 0};
    const int64_t begin = (total.value() + (a.auto_pad == AutoPad::same_upper ? 1 : 2)) / 2;
    return {begin, total - begin};
}

Status conv_axis(const Layer &layer, const OnnxAttributes &a, int axis, Resolution *resolution) {
    const AxisSizes sizes = sizes_of(resolution->problem, axis);
    if (!a.is_same()) {
        const Pads pads = {a.pads_begin[axis], a.pads_end[axis]};
        return store_axis(layer, axis, conv_out(sizes, pads.begin, pads.end), pads, resolution);
    }
    Checked total = 0;
    KILN_RETURN_IF_ERROR(conv_same_total(layer, sizes, axis, &total));
    return store_axis(layer, axis, conv_same_out(sizes), conv_same_pads(layer, a, total), resolution);
}

// ConvTranspose-11 and later bound output_padding by stride or dilation; ONNX Runtime by the stride, in every version.
Status check_output_padding(const Layer &layer, const OnnxAttributes &a, int rank) {
    const bool ort = layer.profile == Profile::ort;
    for (int axis = 0; axis < rank && (ort || a.version >= 11); axis++) {
        const int64_t padding = a.output_padding[axis], stride = a.strides[axis], dilation = a.dilations[axis];
        const int64_t bound = ort || stride > dilation ? stride : dilation;
        if (padding >= bound) {
            return Status::invalid_argument("output_padding[%d] is %" PRId64 ": it must be below %s, %" PRId64, axis,
                                            padding, ort ? "strides" : "the larger of strides and dilations", bound);
        }
        if (ort && padding > 0 && layer.x.sizes[2 + axis] == 0) {
            return Status::invalid_argument(
                "output_padding[%d] is %" PRId64 ": ONNX Runtime takes none where x[%d] is 0", axis, padding, axis + 2);
        }
    }
    return {};
}

Status read_conv_transpose_attributes(const Layer &layer, OnnxAttributes *a) {
    const int rank = layer.x.rank - 2;
    KILN_RETURN_IF_ERROR(read_axes(layer, "output_padding", rank, 0, &a->output_padding));
    KILN_RETURN_IF_ERROR(check_output_padding(layer, *a, rank));
    a->has_output_shape = find_attribute(layer, "output_shape") != nullptr;
    return read_axes(layer, "output_shape", rank, 0, &a->output_shape);
}

// The documents' equations: ConvTranspose-1 puts the extra of an odd total the other way round.
Extra output_shape_extra(const Layer &layer, const OnnxAttributes &a) {
    const bool upper = a.auto_pad == AutoPad::same_upper;
    const bool reversed = a.version == 1 && layer.profile == Profile::spec;
    return upper != reversed ? Extra::at_end : Extra::at_begin;
}

// ONNX Runtime wants an input, and no more zeros behind the output than a stride less one.
Status check_ort_output_shape(const OnnxAttributes &a, const AxisSizes &sizes, int axis) {
    if (sizes.in.value() == 0) {
        return Status::invalid_argument("x[%d] is 0: ONNX Runtime takes no empty input with output_shape", axis + 2);
    }
    const Checked surplus = Checked(a.output_shape[axis]) - transposed_natural(sizes, 0);
    if (surplus.value() < sizes.stride.value()) return {};
    return Status::invalid_argument(
        "output_shape[%d] is %" PRId64 ": ONNX Runtime takes less than strides[%d], %" PRId64 ", more than the %" PRId64
        " that the input reaches",
        axis, a.output_shape[axis], axis, sizes.stride.value(), transposed_natural(sizes, 0).value());
}

Status explicit_output_axis(const Layer &layer, const OnnxAttributes &a, int axis, Resolution *resolution) {
    const AxisSizes sizes = sizes_of(resolution->problem, axis);
    if (sizes.in.open()) {
        return Status::unsupported("x[%d] is open: with output_shape its pads depend on it", axis + 2);
    }
    const Checked natural = transposed_natural(sizes, a.output_padding[axis]), out = a.output_shape[axis];
    if (layer.profile == Profile::ort && !natural.overflowed()) {
        KILN_RETURN_IF_ERROR(check_ort_output_shape(a, sizes, axis));
    }
    return store_axis(layer, axis, out, split(natural - out, output_shape_extra(layer, a)), resolution);
}

// out = in * stride; ONNX Runtime pads no less than nothing, so its output is smaller where k_eff < stride.
Status same_output_axis(const Layer &layer, const OnnxAttributes &a, int axis, Resolution *resolution) {
    const AxisSizes sizes = sizes_of(resolution->problem, axis);
    const Checked output_padding = a.output_padding[axis];
    Checked total = transposed_same_total_pad(sizes, output_padding), out = sizes.in * sizes.stride;
    if (layer.profile == Profile::ort) {
        total = at_least_zero(total);
        out = transposed_natural(sizes, output_padding) - total;
    }
    return store_axis(layer, axis, out, split(total, same_extra(a.auto_pad)), resolution);
}

Status conv_transpose_axis(const Layer &layer, const OnnxAttributes &a, int axis, Resolution *resolution) {
    if (a.has_output_shape) return explicit_output_axis(layer, a, axis, resolution);
    if (a.is_same()) return same_output_axis(layer, a, axis, resolution);
    const Pads pads = {a.pads_begin[axis], a.pads_end[axis]};
    const Checked natural = transposed_natural(sizes_of(resolution->problem, axis), a.output_padding[axis]);
    return store_axis(layer, axis, natural - pads.begin - pads.end, pads, resolution);
}

// y [N][M][out...]
void store_y(Resolution *resolution) {
    const Problem &problem = resolution->problem;
    resolution->y.rank = problem.rank + 2;
    resolution->y.sizes[0] = problem.batch;
    resolution->y.sizes[1] = problem.out_channels;
    for (int axis = 0; axis < problem.rank; axis++) {
        resolution->y.sizes[2 + axis] = problem.out[axis];
    }
}

}  // namespace

Status resolve_onnx_conv(const Layer &layer, Resolution *resolution) {
    OnnxAttributes a;
    KILN_RETURN_IF_ERROR(read_layer(layer, Operator::conv, conv_names, &a, &resolution->problem));
    KILN_RETURN_IF_ERROR(conv_channels(layer, &resolution->problem));
    for (int axis = 0; axis < resolution->problem.rank; axis++) {
        KILN_RETURN_IF_ERROR(conv_axis(layer, a, axis, resolution));
    }
    store_y(resolution);
    return {};
}

Status resolve_onnx_conv_transpose(const Layer &layer, Resolution *resolution) {
    OnnxAttributes a;
    KILN_RETURN_IF_ERROR(read_layer(layer, Operator::conv_transpose, conv_transpose_names, &a, &resolution->problem));
    KILN_RETURN_IF_ERROR(read_conv_transpose_attributes(layer, &a));
    KILN_RETURN_IF_ERROR(conv_transpose_channels(layer, &resolution->problem));
    for (int axis = 0; axis < resolution->problem.rank; axis++) {
        KILN_RETURN_IF_ERROR(conv_transpose_axis(layer, a, axis, resolution));
    }
    store_y(resolution);
    return {};
}

}  // namespace kiln
