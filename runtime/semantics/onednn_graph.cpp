// oneDNN Graph ConvTranspose-1.
#include "semantics/attributes.h"
#include "semantics/checks.h"
#include "semantics/dialects.h"
#include "semantics/sizes.h"

namespace kiln {
namespace {

constexpr std::string_view attributes[] = {"auto_pad",       "data_format",  "dilations",  "filter_format", "groups",
                                           "output_padding", "output_shape", "pads_begin", "pads_end",      "strides"};
constexpr std::string_view auto_pads[] = {"none", "same_upper", "same_lower", "valid"};  // in the order of AutoPad
enum class AutoPad : uint8_t { none, same_upper, same_lower, valid };
constexpr std::string_view data_formats[] = {"NXC", "NCX"};
// The document names XIO, its default, and OIX; the library's present schema XOI and IOX.
constexpr std::string_view filter_formats[] = {"XIO", "OIX", "XOI", "IOX"};
constexpr DType types[] = {DType::f32, DType::f16, DType::bf16};

struct GraphAttributes {
    AutoPad auto_pad = AutoPad::none;
    Axes pads_begin{}, pads_end{}, output_padding{}, output_shape{};
    bool has_output_shape = false;

    bool is_same() const { return auto_pad == AutoPad::same_upper || auto_pad == AutoPad::same_lower; }
    Extra extra() const { return auto_pad == AutoPad::same_upper ? Extra::at_end : Extra::at_begin; }
};

// Where a filter's letters put its dimensions; X stands for all spatial ones.
void set_filter_terms(std::string_view letters, int spatial_rank, Terms *terms) {
    int dimension = 0;
    for (const char letter : letters) {
        if (letter == 'O') terms->w_out = dimension;
        if (letter == 'I') terms->w_in = dimension;
        if (letter == 'X') terms->w_spatial = dimension;
        dimension += letter == 'X' ? spatial_rank : 1;
    }
}

Status read_terms(const Layer &layer, Terms *terms) {
    size_t data_format = 0, filter_format = 0;
    KILN_RETURN_IF_ERROR(read_word(layer, "data_format", data_formats, &data_format));
    KILN_RETURN_IF_ERROR(read_word(layer, "filter_format", filter_formats, &filter_format));
    terms->group = "groups";
    if (data_formats[data_format] == "NXC") {
        terms->x_channel = layer.x.rank - 1;
        terms->x_spatial = 1;
    }
    set_filter_terms(filter_formats[filter_format], layer.x.rank - 2, terms);
    return {};
}

Status read_attributes(const Layer &layer, int rank, GraphAttributes *a) {
    size_t auto_pad = 0;
    KILN_RETURN_IF_ERROR(read_word_of_any_case(layer, "auto_pad", auto_pads, &auto_pad));
    a->auto_pad = static_cast<AutoPad>(auto_pad);
    KILN_RETURN_IF_ERROR(read_axes(layer, "pads_begin", rank, 0, &a->pads_begin));
    KILN_RETURN_IF_ERROR(read_axes(layer, "pads_end", rank, 0, &a->pads_end));
    KILN_RETURN_IF_ERROR(read_axes(layer, "output_padding", rank, 0, &a->output_padding));
    a->has_output_shape = find_attribute(layer, "output_shape") != nullptr;
    return read_axes(layer, "output_shape", rank, 0, &a->output_shape);
}

// The document's equation as it stands: a division rounds towards zero, and a negative total is divided like any other.
Pads split_by_division(Checked total, Extra extra) {
    if (total.open() || total.overflowed()) return {total, total};
    const int64_t half = total.value() / 2;
    return extra == Extra::at_end ? Pads{half, total - half} : Pads{total - half, half};
}

Status output_shape_axis(const Layer &layer, const Terms &terms, const GraphAttributes &a, int axis,
                         Resolution *resolution) {
    const Checked natural = transposed_natural(sizes_of(resolution->problem, axis), a.output_padding[axis]);
    const Checked total = natural - a.output_shape[axis];
    const bool surplus = !total.open() && !total.overflowed() && total.value() < 0;
    const Rule rule = surplus                      ? Rule::output_shape_split_surplus
                      : a.extra() == Extra::at_end ? Rule::output_shape_upper
                                                   : Rule::output_shape_other;
    return store_axis(layer, terms, axis, a.output_shape[axis], split_by_division(total, a.extra()), rule, resolution);
}

// Without output_shape.
Status pads_axis(const Layer &layer, const Terms &terms, const GraphAttributes &a, int axis, Resolution *resolution) {
    const AxisSizes sizes = sizes_of(resolution->problem, axis);
    Pads pads = {0, 0};
    Rule rule = Rule::transposed_pads;
    if (a.is_same()) {
        pads = split(at_least_zero(transposed_same_total_pad(sizes, 0)), a.extra());
        rule = a.auto_pad == AutoPad::same_upper ? Rule::onednn_same_upper : Rule::onednn_same_lower;
    } else if (a.auto_pad == AutoPad::none) {
        pads = {a.pads_begin[axis], a.pads_end[axis]};
    }
    const Checked out = transposed_natural(sizes, a.output_padding[axis]) - pads.begin - pads.end;
    return store_axis(layer, terms, axis, out, pads, rule, resolution);
}

}  // namespace

std::string_view onednn_graph_filter_order(const Layer &layer) {
    size_t index = 0;
    return read_word(layer, "filter_format", filter_formats, &index).ok() ? filter_formats[index] : "";
}

Status resolve_onednn_graph_conv_transpose(const Layer &layer, Resolution *resolution) {
    Problem &problem = resolution->problem;
    Terms terms;
    GraphAttributes a;
    KILN_RETURN_IF_ERROR(check_dtype(layer, "onednn-graph ConvTranspose", types));
    KILN_RETURN_IF_ERROR(check_names(layer, attributes));
    for (const char *name : {"strides", "pads_begin", "pads_end", "dilations"}) {
        if (find_attribute(layer, name) == nullptr) {
            return Status::invalid_argument("%s is missing: onednn-graph ConvTranspose requires it", name);
        }
    }
    KILN_RETURN_IF_ERROR(read_terms(layer, &terms));
    KILN_RETURN_IF_ERROR(read_shapes(layer, terms, Operator::conv_transpose, &problem));
    KILN_RETURN_IF_ERROR(read_attributes(layer, problem.rank, &a));
    KILN_RETURN_IF_ERROR(read_steps(layer, terms, &problem));
    KILN_RETURN_IF_ERROR(read_channels(layer, terms, &problem));
    for (int axis = 0; axis < problem.rank; axis++) {
        KILN_RETURN_IF_ERROR(a.has_output_shape ? output_shape_axis(layer, terms, a, axis, resolution)
                                                : pads_axis(layer, terms, a, axis, resolution));
    }
    store_y(terms, resolution);
    return {};
}

}  // namespace kiln
