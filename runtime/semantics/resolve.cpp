// From a layer to a problem: the list of operators that the dialects have, and what is the same in all of them.
#include <cstdio>

#include "kiln/layer.h"
#include "semantics/dialects.h"
#include "semantics/epilogue.h"
#include "weight_layout.h"

namespace kiln {
namespace {

struct Row {
    Dialect dialect;
    std::string_view op;
    Status (*resolve)(const Layer &layer, Resolution *resolution);
    // The document's order of the filter's dimensions; null where that is kiln_pack_function's own.
    std::string_view (*filter_order)(const Layer &layer) = nullptr;
};

constexpr Row rows[] = {
    {Dialect::onnx, "Conv", resolve_onnx_conv},
    {Dialect::onnx, "ConvTranspose", resolve_onnx_conv_transpose},
    {Dialect::onnx, "DeformConv", resolve_onnx_deform_conv},
    {Dialect::onnx, "ConvInteger", resolve_onnx_conv_integer},
    {Dialect::onnx, "QLinearConv", resolve_onnx_qlinear_conv},
    {Dialect::ms_nhwc, "ConvTranspose", resolve_ms_nhwc_conv_transpose},
    {Dialect::onednn_graph, "ConvTranspose", resolve_onednn_graph_conv_transpose, onednn_graph_filter_order},
    {Dialect::tensorrt, "Convolution", resolve_tensorrt_convolution},
};

std::string_view filter_order(const Row &row, const Layer &layer) {
    if (!layer.w_layout.empty() || row.filter_order == nullptr) return layer.w_layout;
    return row.filter_order(layer);
}

const char *name_of(Dialect dialect) {
    switch (dialect) {
        case Dialect::onnx:
            return "onnx";
        case Dialect::ms_nhwc:
            return "ms-nhwc";
        case Dialect::onednn_graph:
            return "onednn-graph";
        case Dialect::tensorrt:
            return "tensorrt";
    }
    return "unknown";
}

const Row *find_row(const Layer &layer) {
    for (const Row &row : rows) {
        if (row.dialect == layer.dialect && row.op == layer.op) return &row;
    }
    return nullptr;
}

// "onnx Conv, onnx ConvTranspose"
Status unknown_operator(const Layer &layer) {
    char known[256] = "";
    size_t at = 0;
    for (const Row &row : rows) {
        const int size = std::snprintf(known + at, sizeof known - at, "%s%s %.*s", at > 0 ? ", " : "",
                                       name_of(row.dialect), static_cast<int>(row.op.size()), row.op.data());
        at += static_cast<size_t>(size);
        if (at >= sizeof known) break;
    }
    return Status::unsupported("operator %.*s of the dialect %s is not supported: supported are %s",
                               static_cast<int>(layer.op.size()), layer.op.data(), name_of(layer.dialect), known);
}

}  // namespace

bool operator==(const Shape &a, const Shape &b) {
    if (a.rank != b.rank) return false;
    for (int d = 0; d < a.rank; d++) {
        if (a.sizes[d] != b.sizes[d]) return false;
    }
    return true;
}

Status resolve(const Layer &layer, Resolution *resolution) {
    const Row *row = find_row(layer);
    if (row == nullptr) return unknown_operator(layer);
    Resolution result;
    KILN_RETURN_IF_ERROR(row->resolve(layer, &result));
    Problem &problem = result.problem;
    KILN_RETURN_IF_ERROR(resolve_activation(layer, &problem));
    problem.x_layout = layer.x_layout;
    problem.y_layout = layer.y_layout;
    problem.bias = layer.bias;
    problem.mask = layer.mask;
    problem.residual = layer.residual;
    problem.accuracy = layer.accuracy;
    problem = canonicalize(problem);
    KILN_RETURN_IF_ERROR(validate(problem));
    KILN_RETURN_IF_ERROR(weight_strides(problem, filter_order(*row, layer), result.weight_strides));
    *resolution = result;
    return {};
}

}  // namespace kiln
