// The same attributes under every dialect and profile. What is expected was worked out by hand from the documents.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "layer_builder.h"

namespace kiln::test {
namespace {

using List = std::vector<int64_t>;

// What an axis becomes; no values where the layer is invalid.
struct Axis {
    std::optional<int64_t> out;
    int64_t begin = 0, end = 0;
};
const Axis invalid;

bool operator==(const Axis &a, const Axis &b) {
    return a.out == b.out && a.begin == b.begin && a.end == b.end;
}
std::ostream &operator<<(std::ostream &stream, const Axis &axis) {
    if (!axis.out) return stream << "invalid";
    return stream << *axis.out << " with pads " << axis.begin << ", " << axis.end;
}

Axis axis_of(const LayerBuilder &layer) {
    Resolution resolution;
    const Status status = layer.resolve(&resolution);
    if (!status.ok()) {
        EXPECT_EQ(status.code(), StatusCode::invalid_argument) << status.message();
        return invalid;
    }
    return {resolution.problem.out[0], resolution.pads_begin[0], resolution.pads_end[0]};
}

// One axis; what is not said is left out of the layer.
struct Attributes {
    int64_t in, kernel, stride = 1, dilation = 1;
    List pads = {};  // begin and end
    const char *auto_pad = nullptr;
    List output_padding = {}, output_shape = {};
};

LayerBuilder with_lists(LayerBuilder layer, const Attributes &a, bool has_pads) {
    if (has_pads && !a.pads.empty()) layer = layer.list("pads", a.pads);
    if (!a.output_padding.empty()) layer = layer.list("output_padding", a.output_padding);
    if (!a.output_shape.empty()) layer = layer.list("output_shape", a.output_shape);
    return a.auto_pad != nullptr ? layer.auto_pad(a.auto_pad) : layer;
}

LayerBuilder onnx_of(const LayerBuilder &layer, const Attributes &a) {
    return with_lists(layer.list("strides", {a.stride}).list("dilations", {a.dilation}), a, true);
}

LayerBuilder onednn_of(const Attributes &a) {
    const List begin = a.pads.empty() ? List{} : List{a.pads[0]}, end = a.pads.empty() ? List{} : List{a.pads[1]};
    return with_lists(onednn({1, a.in, 1}, {a.kernel, 1, 1}, {a.stride}, begin, end, {a.dilation}), a, false);
}

struct TransposedRow {
    const char *what;
    Attributes attributes;
    Axis opset_1, opset_11, ort, onednn;  // ms-nhwc is opset 1, 22 is opset 11; ort is the same in every opset
};

const TransposedRow transposed_rows[] = {
    {"no attributes", {3, 3}, {5}, {5}, {5}, {5}},
    {"pads", {3, 3, 2, 1, {1, 0}}, {6, 1, 0}, {6, 1, 0}, {6, 1, 0}, {6, 1, 0}},
    {"VALID", {3, 3, 2, 1, {}, "VALID"}, {7}, {7}, {7}, {7}},
    {"an input of nothing", {0, 3}, {2}, {2}, {2}, {2}},
    // output_padding
    {"below stride", {3, 3, 2, 2, {}, nullptr, {1}}, {10}, {10}, {10}, {10}},
    {"not below stride or dilation", {3, 3, 2, 1, {}, nullptr, {2}}, {9}, invalid, invalid, {9}},
    {"below dilation, not stride", {3, 3, 1, 3, {}, nullptr, {2}}, {11}, {11}, invalid, {11}},
    // output_shape: an odd total's extra
    {"odd total", {3, 3, 1, 1, {}, nullptr, {}, {4}}, {4, 0, 1}, {4, 1, 0}, {4, 1, 0}, {4, 1, 0}},
    {"odd total, UPPER", {3, 3, 1, 1, {}, "SAME_UPPER", {}, {4}}, {4, 1, 0}, {4, 0, 1}, {4, 0, 1}, {4, 0, 1}},
    {"odd total, LOWER", {3, 3, 1, 1, {}, "SAME_LOWER", {}, {4}}, {4, 0, 1}, {4, 1, 0}, {4, 1, 0}, {4, 1, 0}},
    {"odd total, VALID", {3, 3, 1, 1, {}, "VALID", {}, {4}}, {4, 0, 1}, {4, 1, 0}, {4, 1, 0}, {4, 1, 0}},
    {"even total", {3, 3, 1, 1, {}, nullptr, {}, {3}}, {3, 1, 1}, {3, 1, 1}, {3, 1, 1}, {3, 1, 1}},
    {"pads too, ignored", {3, 3, 1, 1, {3, 3}, nullptr, {}, {3}}, {3, 1, 1}, {3, 1, 1}, {3, 1, 1}, {3, 1, 1}},
    {"a surplus", {3, 3, 3, 1, {}, nullptr, {}, {11}}, {11, 0, -2}, {11, 0, -2}, {11, 0, -2}, {11, -1, -1}},
    {"a surplus of stride", {3, 3, 3, 1, {}, nullptr, {}, {12}}, {12, 0, -3}, {12, 0, -3}, invalid, {12, -2, -1}},
    {"rank + 2 sizes", {3, 3, 1, 1, {}, nullptr, {}, {1, 1, 4}}, invalid, invalid, invalid, invalid},
    // SAME
    {"UPPER", {3, 3, 2, 1, {}, "SAME_UPPER"}, {6, 0, 1}, {6, 0, 1}, {6, 0, 1}, {6, 0, 1}},
    {"LOWER", {3, 3, 2, 1, {}, "SAME_LOWER"}, {6, 1, 0}, {6, 1, 0}, {6, 1, 0}, {6, 1, 0}},
    {"UPPER, k_eff below stride", {3, 1, 3, 1, {}, "SAME_UPPER"}, {9, 0, -2}, {9, 0, -2}, {7}, {7}},
    {"LOWER, k_eff below stride", {3, 1, 3, 1, {}, "SAME_LOWER"}, {9, 0, -2}, {9, 0, -2}, {7}, {7}},
    {"UPPER and output_padding", {3, 3, 2, 1, {}, "SAME_UPPER", {1}}, {6, 1, 1}, {6, 1, 1}, {6, 1, 1}, {7, 0, 1}},
    {"LOWER, dilation", {4, 2, 1, 2, {}, "SAME_LOWER"}, {4, 1, 1}, {4, 1, 1}, {4, 1, 1}, {4, 1, 1}},
    // pads with auto_pad
    {"VALID and pads", {3, 3, 2, 1, {1, 1}, "VALID"}, invalid, invalid, invalid, {7}},
    {"UPPER and pads", {3, 3, 2, 1, {1, 1}, "SAME_UPPER"}, invalid, invalid, invalid, {6, 0, 1}},
    {"lower case", {3, 3, 2, 1, {}, "same_upper"}, invalid, invalid, invalid, {6, 0, 1}},
};

TEST(DialectDifferences, ConvTranspose) {
    for (const TransposedRow &row : transposed_rows) {
        SCOPED_TRACE(row.what);
        const Attributes &a = row.attributes;
        const LayerBuilder onnx = onnx_of(conv_transpose({1, 1, a.in}, {1, 1, a.kernel}), a);
        const LayerBuilder nhwc = onnx_of(ms_nhwc({1, a.in, 1}, {1, 1, a.kernel}), a);
        EXPECT_EQ(axis_of(onnx.opset(1)), row.opset_1);
        EXPECT_EQ(axis_of(onnx.opset(10)), row.opset_1);
        EXPECT_EQ(axis_of(nhwc), row.opset_1);
        EXPECT_EQ(axis_of(onnx.opset(11)), row.opset_11);
        EXPECT_EQ(axis_of(onnx.opset(22)), row.opset_11);
        for (const int opset : {1, 11, 22}) EXPECT_EQ(axis_of(onnx.opset(opset).ort()), row.ort);
        EXPECT_EQ(axis_of(nhwc.ort()), row.ort);
        EXPECT_EQ(axis_of(onednn_of(a)), row.onednn);
    }
}

struct ConvRow {
    const char *what;
    Attributes attributes;
    const char *padding_mode;  // TensorRT's word
    Axis onnx, ort, tensorrt;  // the same in every opset
};

const ConvRow conv_rows[] = {
    {"no attributes", {5, 3}, nullptr, {3}, {3}, {3}},
    {"pads", {5, 3, 2, 1, {1, 2}}, nullptr, {3, 1, 2}, {3, 1, 2}, {3, 1, 2}},
    {"dilation", {9, 3, 1, 2}, nullptr, {5}, {5}, {5}},
    {"VALID", {8, 3, 2, 1, {}, "VALID"}, "EXPLICIT_ROUND_DOWN", {3}, {3}, {3}},
    {"rounded down", {8, 3, 2}, "EXPLICIT_ROUND_DOWN", {3}, {3}, {3}},
    {"rounded up", {8, 3, 2}, "EXPLICIT_ROUND_UP", {3}, {3}, {4}},
    {"UPPER", {8, 3, 2, 1, {}, "SAME_UPPER"}, "SAME_UPPER", {4, 0, 1}, {4, 0, 1}, {4, 0, 1}},
    {"LOWER", {8, 3, 2, 1, {}, "SAME_LOWER"}, "SAME_LOWER", {4, 1, 0}, {4, 1, 0}, {4, 1, 0}},
    {"UPPER, inputs skipped", {12, 1, 4, 1, {}, "SAME_UPPER"}, "SAME_UPPER", {3}, {3, -1, -2}, {3}},
    {"LOWER, inputs skipped", {12, 1, 4, 1, {}, "SAME_LOWER"}, "SAME_LOWER", {3}, {3, 0, -3}, {3}},
    {"UPPER, dilation", {5, 3, 1, 2, {}, "SAME_UPPER"}, "SAME_UPPER", {5, 2, 2}, invalid, {5, 2, 2}},
    {"UPPER and pads", {8, 3, 2, 1, {5, 5}, "SAME_UPPER"}, "SAME_UPPER", invalid, invalid, {4, 0, 1}},
    {"too small", {2, 3, 2}, nullptr, invalid, invalid, invalid},
    {"too small, rounded up", {2, 3, 2}, "EXPLICIT_ROUND_UP", invalid, invalid, invalid},
};

TEST(DialectDifferences, Conv) {
    for (const ConvRow &row : conv_rows) {
        SCOPED_TRACE(row.what);
        const Attributes &a = row.attributes;
        const LayerBuilder onnx = onnx_of(conv({1, 1, a.in}, {1, 1, a.kernel}), a);
        for (const int opset : {1, 11, 22}) {
            EXPECT_EQ(axis_of(onnx.opset(opset)), row.onnx);
            EXPECT_EQ(axis_of(onnx.opset(opset).ort()), row.ort);
        }
        LayerBuilder layer =
            convolution({1, 1, a.in}, {1, 1, a.kernel}).list("stride_nd", {a.stride}).list("dilation_nd", {a.dilation});
        if (!a.pads.empty()) layer = layer.list("pre_padding", {a.pads[0]}).list("post_padding", {a.pads[1]});
        if (row.padding_mode != nullptr) layer = layer.text("padding_mode", row.padding_mode);
        EXPECT_EQ(axis_of(layer), row.tensorrt);
    }
}

Rule rule_of(const LayerBuilder &layer) {
    Resolution resolution;
    const Status status = layer.resolve(&resolution);
    EXPECT_TRUE(status.ok()) << status.message();
    return resolution.rules[0];
}

// What explain tells people.
TEST(DialectDifferences, AreTheRulesTheyAreSaidToBe) {
    const LayerBuilder odd = conv_transpose({1, 1, 3}, {1, 1, 3}).list("output_shape", {4});
    EXPECT_EQ(rule_of(odd), Rule::output_shape_other);
    EXPECT_EQ(rule_of(odd.opset(1)), Rule::output_shape_other_first);
    EXPECT_EQ(rule_of(odd.opset(1).ort()), Rule::output_shape_other);
    EXPECT_EQ(rule_of(odd.auto_pad("SAME_UPPER")), Rule::output_shape_upper);
    EXPECT_EQ(rule_of(odd.auto_pad("SAME_UPPER").opset(1)), Rule::output_shape_upper_first);
    EXPECT_EQ(rule_of(conv_transpose({1, 1, 3}, {1, 1, 3}).list("output_shape", {6})), Rule::output_shape_surplus);
    EXPECT_EQ(rule_of(onednn({1, 3, 1}, {3, 1, 1}).list("output_shape", {6})), Rule::output_shape_split_surplus);
    EXPECT_EQ(rule_of(onednn({1, 3, 1}, {3, 1, 1}).auto_pad("same_lower")), Rule::onednn_same_lower);
    const LayerBuilder same = conv_transpose({1, 1, 3}, {1, 1, 1}).list("strides", {3}).auto_pad("SAME_UPPER");
    EXPECT_EQ(rule_of(same), Rule::transposed_same_surplus);
    EXPECT_EQ(rule_of(same.ort()), Rule::transposed_same_ort);
    EXPECT_EQ(rule_of(conv_transpose({1, 1, 3}, {1, 1, 3}).auto_pad("SAME_UPPER")), Rule::transposed_same_upper);
    EXPECT_EQ(rule_of(conv_transpose({1, 1, 3}, {1, 1, 3})), Rule::transposed_pads);
    const LayerBuilder skips = conv({1, 1, 12}, {1, 1, 1}).list("strides", {4}).auto_pad("SAME_UPPER");
    EXPECT_EQ(rule_of(skips), Rule::conv_same_skips);
    EXPECT_EQ(rule_of(skips.ort()), Rule::conv_same_skips_ort);
    EXPECT_EQ(rule_of(convolution({1, 1, 8}, {1, 1, 3}).text("padding_mode", "EXPLICIT_ROUND_UP")),
              Rule::conv_pads_round_up);
    EXPECT_EQ(rule_of(convolution({1, 1, 8}, {1, 1, 3}).text("padding_mode", "SAME_LOWER")), Rule::conv_same_lower);
}

}  // namespace
}  // namespace kiln::test
