// A layer, as a user names it under the rules of a dialect, and its resolution to a problem.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kiln/problem.h"
#include "kiln/status.h"

namespace kiln {

enum class Dialect : uint8_t { onnx, ms_nhwc, onednn_graph, tensorrt };
// spec: the document's text. ort: what ONNX Runtime does where that differs (onnx and ms_nhwc).
enum class Profile : uint8_t { spec, ort };

// One attribute under its document's name. Views: what they point at must outlive the call.
struct Attribute {
    enum class Kind : uint8_t { ints, floats, text };
    std::string_view name;
    Kind kind = Kind::ints;
    bool is_list = false;  // false: one number, or a text
    const int64_t *ints = nullptr;
    const double *floats = nullptr;
    size_t count = 0;  // of ints or floats
    std::string_view text;

    static Attribute integer(std::string_view name, const int64_t *value) {
        return {name, Kind::ints, false, value, nullptr, 1, {}};
    }
    static Attribute list(std::string_view name, const int64_t *values, size_t count) {
        return {name, Kind::ints, true, values, nullptr, count, {}};
    }
    static Attribute string(std::string_view name, std::string_view value) {
        return {name, Kind::text, false, nullptr, nullptr, 0, value};
    }
};

// Sizes in some dimension order; open_size where left open.
struct Shape {
    int rank = 0;
    int64_t sizes[max_rank] = {};
};
bool operator==(const Shape &a, const Shape &b);

// What the numbers of 8-bit tensors stand for: (number - zero point) * scale.
struct Quantization {
    double x_scale = 1;
    int64_t x_zero_point = 0;
    const double *w_scale = nullptr;  // one, or one an output channel; null: 1
    size_t w_scale_count = 0;
    const int64_t *w_zero_point = nullptr;  // likewise; null: 0
    size_t w_zero_point_count = 0;
    double y_scale = 1;
    int64_t y_zero_point = 0;
};

struct Layer {
    std::string_view op;  // the dialect's own name: "Conv", "ConvTranspose", "DeformConv", "Convolution"
    Dialect dialect = Dialect::onnx;
    int opset = 22;  // onnx: the newest version of the operator not newer than this is meant
    Profile profile = Profile::spec;
    DType dtype = DType::f32;  // of x
    // Where x is 8-bit: the types of w and y, and what the numbers stand for. ONNX Conv and ConvTranspose are quantised
    // where y_dtype says so (not s32).
    DType w_dtype = DType::s8, y_dtype = DType::s32;
    Quantization quantization;
    Shape x, w;  // in the dialect's dimension order
    bool bias = false, mask = false, residual = false;
    const Attribute *attributes = nullptr;
    size_t attribute_count = 0;
    // How x and y lie in memory, whatever the dialect's dimension order.
    Layout x_layout = Layout::ncx, y_layout = Layout::ncx;
    // The filter's dimension order in memory: letters O, I and X, "" for the dialect's own.
    std::string_view w_layout;
    // Fused behind the operator, by the ONNX operator's name; "" for none.
    std::string_view activation;
    // Its parameters or, for PRelu, a slope for each output channel; none: they are known at run time alone.
    const double *activation_params = nullptr;
    size_t activation_param_count = 0;
    Accuracy accuracy = Accuracy::normal;
};

// Which rule of its document made an axis' output size and pads; k_eff is (kernel - 1) * dilation + 1.
enum class Rule : uint8_t {
    none,
    conv_pads,                // out = floor((in + pads - k_eff) / stride) + 1
    conv_pads_round_up,       // rounded up: the last outputs read zeros past the end pad
    conv_same_upper,          // out = ceil(in / stride), an odd total's extra at the end
    conv_same_lower,          // and at the beginning
    conv_same_skips,          // the same with a negative total, for the stride skips inputs: no pads
    conv_same_skips_ort,      // ONNX Runtime skips almost half of them at the beginning
    transposed_pads,          // out = natural - pads; natural = stride * (in - 1) + output_padding + k_eff
    transposed_same_upper,    // out = in * stride; total = natural - out, an odd one's extra at the end
    transposed_same_lower,    // and at the beginning
    transposed_same_surplus,  // the same with a negative total: never split, zeros at the end
    transposed_same_ort,      // ONNX Runtime makes a negative total 0, so out is smaller
    onednn_same_upper,        // total = max(k_eff - stride, 0) without output_padding, which is added to out
    onednn_same_lower,
    output_shape_upper,          // SAME_UPPER: an odd total's extra at the end
    output_shape_other,          // all else: at the beginning
    output_shape_upper_first,    // ConvTranspose-1 has it the other way round: SAME_UPPER at the beginning
    output_shape_other_first,    // all else: at the end
    output_shape_surplus,        // a negative total: never split, zeros at the end
    output_shape_split_surplus,  // oneDNN Graph's equation divides a negative total too
};

// What a layer means.
struct Resolution {
    Problem problem;
    Shape y;                        // in the dialect's dimension order
    Axes pads_begin{}, pads_end{};  // the document's own; the problem's may differ (problem.h)
    std::array<Rule, max_spatial_rank> rules{};
    // How the filter lies in memory, for kiln_pack_function: rank + 2 strides in elements; 0 where they depend on open
    // sizes.
    int64_t weight_strides[max_rank] = {};
};

// Resolves a layer by its dialect's document. The dialects' rules stand in runtime/semantics/, one file each.
// invalid_argument: an attribute or a shape is wrong; unsupported: it is right, but Kiln cannot.
Status resolve(const Layer &layer, Resolution *resolution);

// The `scale` of kiln_run_function for a quantised layer: out_channels factors, then y's scale; every operation in
// float32, in the order of problem.h. `scale` holds problem.out_channels + 1 numbers, and PRelu's slopes go behind
// them. invalid_argument: the number of w's scales fits neither.
Status output_scale(const Problem &problem, const Quantization &quantization, float *scale);

// The `zero_points` of kiln_pack_function, problem.out_channels of them.
Status weight_zero_points(const Problem &problem, const Quantization &quantization, int32_t *zero_points);

}  // namespace kiln
