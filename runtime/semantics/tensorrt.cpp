// TensorRT IConvolutionLayer.
#include <cinttypes>

#include "problem_fields.h"
#include "semantics/attributes.h"
#include "semantics/checks.h"
#include "semantics/dialects.h"
#include "semantics/quantized.h"
#include "semantics/sizes.h"

namespace kiln {
namespace {

constexpr char op_name[] = "tensorrt Convolution";
constexpr std::string_view attributes[] = {"dilation_nd",     "kernel_size_nd", "num_groups",
                                           "num_output_maps", "padding_mode",   "padding_nd",
                                           "post_padding",    "pre_padding",    "stride_nd"};
constexpr std::string_view padding_modes[] = {"EXPLICIT_ROUND_DOWN", "EXPLICIT_ROUND_UP", "SAME_UPPER", "SAME_LOWER"};
enum class PaddingMode : uint8_t { round_down, round_up, same_upper, same_lower };  // in the order of the names
constexpr DType types[] = {DType::f32, DType::f16, DType::bf16, DType::s8};
constexpr DType w_types[] = {DType::s8};
constexpr DType y_types[] = {DType::s8, DType::f32};
constexpr int most_axes = 3;

constexpr Terms terms = {1, 2, 0, 1, 2, "stride_nd", "dilation_nd", "num_groups"};

struct Padding {
    PaddingMode mode = PaddingMode::round_down;
    Axes begin{}, end{};
};

// padding_nd says both sides at once, where neither pre_padding nor post_padding is given.
Status read_padding(const Layer &layer, int rank, Padding *padding) {
    size_t mode = 0;
    Axes both{};
    KILN_RETURN_IF_ERROR(read_word(layer, "padding_mode", padding_modes, &mode));
    padding->mode = static_cast<PaddingMode>(mode);
    KILN_RETURN_IF_ERROR(read_axes(layer, "padding_nd", rank, 0, &both));
    if (find_attribute(layer, "pre_padding") == nullptr && find_attribute(layer, "post_padding") == nullptr) {
        padding->begin = padding->end = both;
    }
    KILN_RETURN_IF_ERROR(read_axes(layer, "pre_padding", rank, 0, &padding->begin));
    return read_axes(layer, "post_padding", rank, 0, &padding->end);
}

// A kernel is a flat list of weights to TensorRT: where the attributes tell its shape, w may have another one of as
// many elements (the document prints one without channels). `filter` becomes the layer with w as the attributes tell
// it.
Status read_filter(const Layer &layer, Layer *filter) {
    const int rank = layer.x.rank - 2;
    const bool told =
        find_attribute(layer, "num_output_maps") != nullptr && find_attribute(layer, "kernel_size_nd") != nullptr;
    *filter = layer;
    if (layer.w.rank == layer.x.rank || layer.w.rank > max_rank || !told || layer.x.sizes[1] == open_size) return {};
    int64_t maps = 1, groups = 1;
    Axes kernel{};
    KILN_RETURN_IF_ERROR(read_integer(layer, "num_output_maps", 1, &maps));
    KILN_RETURN_IF_ERROR(read_integer(layer, "num_groups", 1, &groups));
    KILN_RETURN_IF_ERROR(read_axes(layer, "kernel_size_nd", rank, 1, &kernel));
    Checked given = 1, needed = Checked(maps) * (layer.x.sizes[1] / groups);
    filter->w = {layer.x.rank, {maps, layer.x.sizes[1] / groups}};
    for (int d = 0; d < layer.w.rank; d++) {
        given = given * layer.w.sizes[d];
    }
    for (int axis = 0; axis < rank; axis++) {
        filter->w.sizes[2 + axis] = kernel[axis];
        needed = needed * kernel[axis];
    }
    if (given.overflowed() || needed.overflowed() || given.value() != needed.value()) {
        return Status::invalid_argument("w has %" PRId64
                                        " elements: num_output_maps, x[1], num_groups and "
                                        "kernel_size_nd ask for %" PRId64,
                                        given.value(), needed.value());
    }
    return {};
}

// What the attributes say of the filter is what its shape says.
Status check_filter_attributes(const Layer &layer, const Problem &problem) {
    int64_t maps = problem.out_channels;
    Axes kernel = problem.kernel;
    KILN_RETURN_IF_ERROR(read_integer(layer, "num_output_maps", 1, &maps));
    KILN_RETURN_IF_ERROR(read_axes(layer, "kernel_size_nd", problem.rank, 1, &kernel));
    if (maps != problem.out_channels) {
        return Status::invalid_argument("num_output_maps is %" PRId64 ", but w[0] is %" PRId64, maps,
                                        problem.out_channels);
    }
    for (int axis = 0; axis < problem.rank; axis++) {
        if (kernel[axis] == problem.kernel[axis]) continue;
        return Status::invalid_argument("kernel_size_nd[%d] is %" PRId64 ", but w[%d] is %" PRId64, axis, kernel[axis],
                                        2 + axis, problem.kernel[axis]);
    }
    return {};
}

// The document's M < DK: rounding up must not make an output of a kernel that does not fit.
Status check_fits(const Problem &problem, int axis, Pads pads) {
    const Checked padded = Checked(problem.in[axis]) + pads.begin + pads.end;
    const Checked kernel = effective_kernel(problem.kernel[axis], problem.dilation[axis]);
    if (padded.open() || padded.overflowed() || kernel.overflowed() || padded.value() >= kernel.value()) return {};
    return Status::invalid_argument("x[%d] with its padding is %" PRId64 ": the dilated kernel, %" PRId64
                                    " (w[%d] %" PRId64 ", dilation_nd[%d] %" PRId64 "), does not fit",
                                    2 + axis, padded.value(), kernel.value(), 2 + axis, problem.kernel[axis], axis,
                                    problem.dilation[axis]);
}

Status convolution_axis(const Layer &layer, const Padding &padding, int axis, Resolution *resolution) {
    const AxisSizes sizes = sizes_of(resolution->problem, axis);
    Pads pads = {padding.begin[axis], padding.end[axis]};
    Checked out = 0;
    Rule rule = Rule::none;
    switch (padding.mode) {
        case PaddingMode::round_down:
            out = conv_out(sizes, pads.begin, pads.end);
            rule = Rule::conv_pads;
            break;
        case PaddingMode::round_up:
            out = conv_out_rounded_up(sizes, pads.begin, pads.end);
            rule = Rule::conv_pads_round_up;
            break;
        case PaddingMode::same_upper:
        case PaddingMode::same_lower: {
            const bool upper = padding.mode == PaddingMode::same_upper;
            const Checked total = conv_same_total_pad(sizes);
            const bool skips = !total.open() && !total.overflowed() && total.value() < 0;
            out = conv_same_out(sizes);
            pads = conv_same_pads(sizes, upper ? Extra::at_end : Extra::at_begin);
            rule = skips ? Rule::conv_same_skips : upper ? Rule::conv_same_upper : Rule::conv_same_lower;
            break;
        }
    }
    KILN_RETURN_IF_ERROR(check_fits(resolution->problem, axis, pads));
    return store_axis(layer, terms, axis, out, pads, rule, resolution);
}

}  // namespace

Status resolve_tensorrt_convolution(const Layer &given, Resolution *resolution) {
    Problem &problem = resolution->problem;
    Padding padding;
    Layer layer;
    KILN_RETURN_IF_ERROR(check_dtype(given, op_name, types));
    KILN_RETURN_IF_ERROR(check_names(given, attributes));
    KILN_RETURN_IF_ERROR(check_input_shape(given, terms.x_channel));
    if (given.x.rank - 2 > most_axes) {
        return Status::unsupported("x has %d dimensions: tensorrt Convolution has at most %d spatial ones",
                                   given.x.rank, most_axes);
    }
    KILN_RETURN_IF_ERROR(read_filter(given, &layer));
    KILN_RETURN_IF_ERROR(read_shapes(layer, terms, Operator::conv, &problem));
    KILN_RETURN_IF_ERROR(read_padding(layer, problem.rank, &padding));
    KILN_RETURN_IF_ERROR(read_steps(layer, terms, &problem));
    KILN_RETURN_IF_ERROR(read_channels(layer, terms, &problem));
    KILN_RETURN_IF_ERROR(check_filter_attributes(layer, problem));
    for (int axis = 0; axis < problem.rank; axis++) {
        KILN_RETURN_IF_ERROR(convolution_axis(layer, padding, axis, resolution));
    }
    store_y(terms, resolution);
    if (!is_8_bit(layer.dtype)) return {};
    KILN_RETURN_IF_ERROR(read_quantization(layer, {op_name, w_types, y_types, false}, &problem));
    problem.bias_type = DType::f32;
    return {};
}

}  // namespace kiln
