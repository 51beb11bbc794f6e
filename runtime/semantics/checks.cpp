// Checks of a layer's types and shapes.
#include "semantics/checks.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace kiln {
namespace {

struct TypeFacts {
    DType type;
    const char *name;
    const char *dialects;  // those that list it
};

constexpr TypeFacts type_facts[] = {
    {DType::f64, "float64", "onnx, ms-nhwc"},
    {DType::f32, "float32", "every dialect"},
    {DType::f16, "float16", "every dialect"},
    {DType::bf16, "bfloat16", "onnx from opset 22 on, onednn-graph, tensorrt"},
    {DType::s8, "int8", "tensorrt, onnx QLinearConv and ConvInteger, onnx Conv and ConvTranspose with a quantization"},
    {DType::u8, "uint8", "onnx QLinearConv and ConvInteger, onnx Conv and ConvTranspose with a quantization"},
    {DType::s32, "int32", "no dialect"},
};

const TypeFacts &facts(DType type) {
    for (const TypeFacts &row : type_facts) {
        if (row.type == type) return row;
    }
    return type_facts[0];
}

// "float32, float16"; holds itself.
struct TypeList {
    char data[64];
};
TypeList join(const Types &types) {
    TypeList list = {""};
    size_t at = 0;
    for (const DType type : types) {
        at += static_cast<size_t>(
            std::snprintf(list.data + at, sizeof list.data - at, "%s%s", at > 0 ? ", " : "", document_name(type)));
    }
    return list;
}

Status check_size(const char *name, const Shape &shape, int dimension, int64_t least) {
    const int64_t size = shape.sizes[dimension];
    if (size == open_size || size >= least) return {};
    return Status::invalid_argument("%s[%d] is %" PRId64 ": it must be %s", name, dimension, size,
                                    least == 0 ? "0 or more" : "positive");
}

}  // namespace

const char *document_name(DType type) {
    return facts(type).name;
}

Status check_dtype(const Layer &layer, const char *what, const Types &types) {
    if (std::find(types.begin(), types.end(), layer.dtype) != types.end()) return {};
    return Status::invalid_argument("dtype is %s: %s takes %s (%s is taken by %s)", document_name(layer.dtype), what,
                                    join(types).data, document_name(layer.dtype), facts(layer.dtype).dialects);
}

Status check_type(const char *key, DType type, const char *what, const Types &types) {
    if (std::find(types.begin(), types.end(), type) != types.end()) return {};
    return Status::invalid_argument("%s is %s: of %s it may be %s", key, document_name(type), what, join(types).data);
}

Status check_input_shape(const Layer &layer, int channel) {
    const Shape &x = layer.x;
    if (x.rank > max_rank) {
        return Status::unsupported("x has %d dimensions: at most %d are possible", x.rank, max_rank);
    }
    if (x.rank < 3) {
        return Status::invalid_argument(
            "x has %d dimensions: a batch, channels and at least one spatial dimension are needed", x.rank);
    }
    for (int d = 0; d < x.rank; d++) {
        KILN_RETURN_IF_ERROR(check_size("x", x, d, d == channel ? 1 : 0));
    }
    return {};
}

Status check_filter_shape(const Layer &layer) {
    const Shape &w = layer.w;
    if (w.rank != layer.x.rank) {
        return Status::invalid_argument("w has %d dimensions, but x has %d: they must be equal", w.rank, layer.x.rank);
    }
    for (int d = 0; d < w.rank; d++) {
        if (w.sizes[d] == open_size) return Status::unsupported("w[%d] is open: the filter's sizes must be known", d);
        KILN_RETURN_IF_ERROR(check_size("w", w, d, 1));
    }
    return {};
}

bool is_output_size(const Layer &layer, int64_t in, int64_t out) {
    if (out == open_size || out > 0) return true;
    const bool has_profiles = layer.dialect == Dialect::onnx || layer.dialect == Dialect::ms_nhwc;
    if (has_profiles && layer.profile == Profile::ort) return false;
    return out == 0 && (in == 0 || in == open_size);
}

}  // namespace kiln
