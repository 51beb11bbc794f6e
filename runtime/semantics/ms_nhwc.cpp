// com.ms.internal.nhwc ConvTranspose-1: ONNX's ConvTranspose-1 with channels last and an activation.
#include <array>

#include "semantics/dialects.h"
#include "semantics/epilogue.h"
#include "semantics/onnx.h"

namespace kiln {
namespace {

constexpr std::string_view attributes[] = {"activation",   "activation_params", "auto_pad",     "dilations", "group",
                                           "kernel_shape", "output_padding",    "output_shape", "pads",      "strides"};
constexpr DType types[] = {DType::f64, DType::f32, DType::f16};

// The activation that the attributes say, in place of the layer's own key.
Status read_activation(const Layer &layer, Problem *problem) {
    Layer fused = layer;
    std::array<double, max_activation_params> params{};
    for (const std::string_view name : {"activation", "activation_params"}) {
        if (find_attribute(layer, name) == nullptr) continue;
        if (layer.activation.empty() && layer.activation_param_count == 0) continue;
        return Status::invalid_argument("%s is given twice: as an attribute, and as the layer's own key", name.data());
    }
    KILN_RETURN_IF_ERROR(read_text(layer, "activation", &fused.activation));
    KILN_RETURN_IF_ERROR(
        read_numbers(layer, "activation_params", params.data(), params.size(), &fused.activation_param_count));
    fused.activation_params = params.data();
    return resolve_activation(fused, problem);
}

}  // namespace

Status resolve_ms_nhwc_conv_transpose(const Layer &layer, Resolution *resolution) {
    Terms terms;
    terms.x_channel = layer.x.rank - 1;
    terms.x_spatial = 1;
    terms.w_in = 0;
    terms.w_out = 1;
    KILN_RETURN_IF_ERROR(resolve_conv_transpose(
        layer, {Operator::conv_transpose, "ms-nhwc ConvTranspose", 1, terms, attributes, types, {}}, resolution));
    const bool has_attribute =
        find_attribute(layer, "activation") != nullptr || find_attribute(layer, "activation_params") != nullptr;
    return has_attribute ? read_activation(layer, &resolution->problem) : Status();
}

}  // namespace kiln
