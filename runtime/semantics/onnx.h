// What the operators of the ONNX documents have in common, and ms-nhwc's with them.
#pragma once

#include "semantics/attributes.h"
#include "semantics/checks.h"
#include "semantics/sizes.h"

namespace kiln {

// An operator in one version, by its document.
struct OnnxOperator {
    Operator op;
    const char *name;  // as messages show it: "ConvTranspose-11"
    int version;
    Terms terms;
    Names attributes;
    Types types;    // of x
    Types y_types;  // of y where x is 8-bit; none where the operator is never quantised
};

enum class AutoPad : uint8_t { notset, same_upper, same_lower, valid };

// The attributes that only these documents have, with their defaults.
struct OnnxAttributes {
    AutoPad auto_pad = AutoPad::notset;
    Axes pads_begin{}, pads_end{};

    bool is_same() const { return auto_pad == AutoPad::same_upper || auto_pad == AutoPad::same_lower; }
    Extra same_extra() const { return auto_pad == AutoPad::same_upper ? Extra::at_end : Extra::at_begin; }
};

// Types, shapes and attributes; and what of the problem follows from them directly.
Status read_onnx_layer(const Layer &layer, const OnnxOperator &op, OnnxAttributes *attributes, Problem *problem);

// All of a ConvTranspose.
Status resolve_conv_transpose(const Layer &layer, const OnnxOperator &op, Resolution *resolution);

}  // namespace kiln
