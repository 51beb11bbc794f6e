// Types, scales and zero points of a layer with 8-bit x.
#pragma once

#include "kiln/layer.h"
#include "semantics/checks.h"

namespace kiln {

// What an operator takes.
struct QuantizedOperator {
    const char *name;  // as messages show it: "QLinearConv-10"
    Types w_types, y_types;
    bool has_zero_points;
};

// Checks the layer's quantisation, and sets the types and zero points of its problem, whose channels are known.
Status read_quantization(const Layer &layer, const QuantizedOperator &op, Problem *problem);

}  // namespace kiln
