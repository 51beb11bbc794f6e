// What every dialect's file checks of a layer's types and shapes in the same way.
#pragma once

#include "kiln/layer.h"
#include "shape.h"

namespace kiln {

// "float32", as the documents write it
const char *document_name(DType type);

// A list of types that lives as long as the program.
struct Types {
    const DType *data = nullptr;
    size_t count = 0;
    constexpr Types() = default;
    template <size_t n>
    constexpr Types(const DType (&types)[n]) : data(types), count(n) {}
    const DType *begin() const { return data; }
    const DType *end() const { return data + count; }
};

// The layer's type is one of `types`. `what` names the operator in messages: "ConvTranspose-11".
Status check_dtype(const Layer &layer, const char *what, const Types &types);
// The same of another type; `key` names it in messages.
Status check_type(const char *key, DType type, const char *what, const Types &types);

// x has a batch, channels at dimension `channel`, and 1 to max_spatial_rank spatial dimensions; batch and spatial sizes
// may be 0 or open.
Status check_input_shape(const Layer &layer, int channel);
// w has as many dimensions as x, all of them known and positive.
Status check_filter_shape(const Layer &layer);

// Whether an output size makes sense: not negative, and not 0 unless the input is empty. ONNX Runtime takes no 0 at
// all.
bool is_output_size(const Layer &layer, int64_t in, int64_t out);

}  // namespace kiln
