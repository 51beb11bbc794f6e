// The operators of the dialects: one function each, in the dialect's own file. resolve.cpp lists them.
#pragma once

#include "kiln/layer.h"

namespace kiln {

// Each fills the problem's operator, types, sizes and begin pads, y, and the document's pads. What is the same in every
// dialect (layouts, the fused epilogue, the filter's strides, the canonical form) is resolve.cpp's.
Status resolve_onnx_conv(const Layer &layer, Resolution *resolution);
Status resolve_onnx_conv_transpose(const Layer &layer, Resolution *resolution);
Status resolve_onnx_deform_conv(const Layer &layer, Resolution *resolution);
Status resolve_onnx_conv_integer(const Layer &layer, Resolution *resolution);
Status resolve_onnx_qlinear_conv(const Layer &layer, Resolution *resolution);
Status resolve_ms_nhwc_conv_transpose(const Layer &layer, Resolution *resolution);
Status resolve_onednn_graph_conv_transpose(const Layer &layer, Resolution *resolution);
Status resolve_tensorrt_convolution(const Layer &layer, Resolution *resolution);

// The order of the filter's dimensions that the layer's filter_format says, in letters.
std::string_view onednn_graph_filter_order(const Layer &layer);

}  // namespace kiln
