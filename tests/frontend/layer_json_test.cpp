#include <filesystem>

#include "layers/npy.h"
#include "testing.h"

namespace kiln::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;

LayerSpec layer(const char *text, const std::string &folder = "/") {
    return layer_from_json(json::parse(text), folder);
}

TEST(LayerJson, Defaults) {
    const LayerSpec conv = layer(R"({"operator": "Conv", "x": [1, 64, "?", "?"], "w": [32, 64, 3, 3]})");
    EXPECT_EQ(conv.op, "Conv");
    EXPECT_EQ(conv.dialect, Dialect::onnx);
    EXPECT_EQ(conv.opset, 22);
    EXPECT_EQ(conv.profile, Profile::spec);
    EXPECT_EQ(conv.dtype, DType::f32);
    EXPECT_EQ(conv.accuracy, Accuracy::normal);
    EXPECT_EQ(shown(conv.x), "[1, 64, ?, ?]");
    EXPECT_EQ(shown(conv.w), "[32, 64, 3, 3]");
    EXPECT_FALSE(conv.bias || conv.mask || conv.residual);
    EXPECT_EQ(conv.x_layout, Layout::ncx);
    EXPECT_TRUE(conv.attributes.empty());
}

TEST(LayerJson, EveryKey) {
    const Files files;
    const float zeros[4] = {};
    write_npy(files.path("w.npy"), "f4", {4, 1, 1, 1}, zeros);
    write_npy(files.path("b.npy"), "f4", {4}, zeros);
    const LayerSpec up = layer(R"({"name": "up1", "operator": "ConvTranspose", "dialect": "onnx", "opset": 11,
        "profile": "ort", "dtype": "bfloat16", "x": [1, 4, 2, 2], "w": [4, 1, 1, 1], "bias": true, "residual": [1, 4, 2, 2],
        "layouts": {"x": "NXC", "y": "NCX", "w": "XOI"}, "activation": "Clip", "activation_params": [0, 6.5],
        "accuracy": "strict", "optimize": "size", "weights": "w.npy", "bias_values": "b.npy", "strides": [2, 2], "group": 4,
        "auto_pad": "SAME_UPPER"})",
                               files.folder());
    EXPECT_EQ(up.name, "up1");
    EXPECT_EQ(up.opset, 11);
    EXPECT_EQ(up.profile, Profile::ort);
    EXPECT_EQ(up.dtype, DType::bf16);
    EXPECT_TRUE(up.bias && up.residual);
    EXPECT_EQ(shown(up.residual_shape), "[1, 4, 2, 2]");
    EXPECT_EQ(up.x_layout, Layout::nxc);
    EXPECT_EQ(up.y_layout, Layout::ncx);
    EXPECT_EQ(up.w_layout, "XOI");
    EXPECT_EQ(up.activation, "Clip");
    EXPECT_EQ(up.activation_params, (std::vector<double>{0, 6.5}));
    EXPECT_EQ(up.accuracy, Accuracy::strict);
    EXPECT_EQ(up.optimize, Goal::size);
    EXPECT_EQ(up.weights_file, files.path("w.npy"));
    EXPECT_EQ(up.bias_file, files.path("b.npy"));
    EXPECT_EQ(up.attributes.size(), 3u);
}

TEST(LayerJson, ViewHoldsWhatTheLayerDoes) {
    const LayerSpec conv = layer(R"({"operator": "Conv", "x": [1, 4, 2, 2], "w": [4, 4, 1, 1], "strides": [2, 3],
        "group": 4, "auto_pad": "VALID", "pads": [0.5, 1], "activation": "Relu", "activation_params": [1]})");
    const LayerSpec::View view = conv.view();
    EXPECT_EQ(view.layer.op, "Conv");
    EXPECT_EQ(view.layer.activation, "Relu");
    ASSERT_EQ(view.layer.attribute_count, 4u);
    for (size_t i = 0; i < 4; ++i) {
        const Attribute &attribute = view.layer.attributes[i];
        if (attribute.name == "strides") {
            ASSERT_EQ(attribute.count, 2u);
            EXPECT_TRUE(attribute.is_list);
            EXPECT_EQ(attribute.ints[1], 3);
        } else if (attribute.name == "group") {
            EXPECT_FALSE(attribute.is_list);
            EXPECT_EQ(*attribute.ints, 4);
        } else if (attribute.name == "auto_pad") {
            EXPECT_EQ(attribute.text, "VALID");
        } else {
            EXPECT_EQ(attribute.name, "pads");
            EXPECT_EQ(attribute.kind, Attribute::Kind::floats);
            EXPECT_EQ(attribute.floats[0], 0.5);
        }
    }
}

TEST(LayerJson, LayoutsFollowTheDialect) {
    EXPECT_EQ(
        layer(R"({"operator": "ConvTranspose", "dialect": "ms-nhwc", "x": [1, 2, 2, 4], "w": [4, 1, 1, 1]})").y_layout,
        Layout::nxc);
    EXPECT_EQ(layer(R"({"operator": "ConvTranspose", "dialect": "onednn-graph", "input": [1, 2, 2, 4],
                        "filter": [1, 1, 4, 1]})")
                  .x_layout,
              Layout::nxc);
    EXPECT_EQ(layer(R"({"operator": "ConvTranspose", "dialect": "onednn-graph", "input": [1, 4, 2, 2],
                        "filter": [1, 1, 4, 1], "data_format": "NCX"})")
                  .x_layout,
              Layout::ncx);
    EXPECT_EQ(layer(R"({"operator": "Convolution", "dialect": "tensorrt", "input": [1, 4, 2, 2], "kernel": [1, 4, 1, 1],
                        "layouts": {"x": "NXC"}})")
                  .x_layout,
              Layout::nxc);
}

struct BadLayer {
    const char *json;
    const char *message;
    const char *key;
};

// Each is put behind `"operator": "Conv", `.
const BadLayer bad_layers[] = {
    {R"("x": [1, 4, 2, 2], "w": [4, 4, 1, 1], "stride": [1, 1])", "unknown key stride: did you mean strides?",
     "stride"},
    {R"("x": [1, 4, 2, 2], "w": [4, 4, 1, 1], "byas": true)", "unknown key byas: did you mean bias?", "byas"},
    {R"("w": [4, 4, 1, 1])", "x is missing", "x"},
    {R"("x": [1, 4, 2, 2])", "w is missing", "w"},
    {R"("x": 4, "w": [4, 4, 1, 1])", "x is 4: a shape is needed", "x"},
    {R"("x": [], "w": [4, 4, 1, 1])", "x is []: a shape has at least one size", "x"},
    {R"("x": [1,1,1,1,1,1,1,1,1,1,1], "w": [1])", "a shape has at most 10 sizes", "x"},
    {R"("x": [1, -4, 2, 2], "w": [1])", "x[1] is -4: a size is a whole number", "x"},
    {R"("x": [1, 1.5, 2, 2], "w": [1])", "x[1] is 1.5", "x"},
    {R"("x": [1, "any", 2, 2], "w": [1])", "x[1] is \"any\"", "x"},
    {R"("x": [1], "input": [1], "w": [1])", "x is given twice", nullptr},
    {R"("x": [1], "w": [1], "name": "2nd")", "name is \"2nd\": a name is a C identifier", "name"},
    {R"("x": [1], "w": [1], "name": 2)", "name is 2: a text is needed", "name"},
    {R"("x": [1], "w": [1], "dialect": "onxx")", "did you mean onnx?", "dialect"},
    {R"("x": [1], "w": [1], "dtype": "float")", "dtype is \"float\": it may be float64, float32", "dtype"},
    {R"("x": [1], "w": [1], "profile": "or")", "did you mean ort?", "profile"},
    {R"("x": [1], "w": [1], "opset": 0)", "opset is 0: a positive number is needed", "opset"},
    {R"("x": [1], "w": [1], "opset": "11")", "opset is \"11\": a whole number is needed", "opset"},
    {R"("x": [1], "w": [1], "opset": 99999999999)", "opset is 99999999999", "opset"},
    {R"("x": [1], "w": [1], "bias": 1)", "bias is 1: true, false or a shape is needed", "bias"},
    {R"("x": [1], "w": [1], "offset": true)", "only DeformConv has one, not Conv", "offset"},
    {R"("x": [1], "w": [1], "layouts": "NXC")", "layouts is \"NXC\": a table", "layouts"},
    {R"("x": [1], "w": [1], "layouts": {"x": "NHWC"})", "layouts.x is \"NHWC\": it may be NCX, NXC, ?", "layouts.x"},
    {R"("x": [1], "w": [1], "layouts": {"w": "OXX"})", "layouts.w is \"OXX\": it has the letters O, I and X once",
     "layouts"},
    {R"("x": [1], "w": [1], "layouts": {"z": "NCX"})", "layouts has an unknown key \"z\"", "layouts"},
    {R"("x": [1], "w": [1], "accuracy": "high")", "accuracy is \"high\"", "accuracy"},
    {R"("x": [1], "w": [1], "optimize": "small")", "optimize is \"small\": it may be speed, size", "optimize"},
    {R"("x": [1], "w": [1], "activation_params": 6)", "activation_params is 6: a list of numbers", "activation_params"},
    {R"("x": [1], "w": [1], "activation_params": [0, "6"])", "activation_params[1] is \"6\"", "activation_params[1]"},
    {R"("x": [1], "w": [1], "weights": "no.npy")", "there is no file /nowhere/no.npy", "weights"},
    {R"("x": [1], "w": [1], "strides": [2, "2"])", "strides[1] is \"2\": a number is needed", "strides[1]"},
    {R"("x": [1], "w": [1], "strides": true)", "strides is true: a number, a list of numbers or a text", "strides"},
    {R"("x": [1], "w": [1], "strides": [true])", "strides[0] is true", "strides[0]"},
    {R"("x": [1], "w": [1], "group": 18446744073709551615)", "it does not fit 64 bits", "group"},
    {R"("x": [1], "w": [1], "quantization": {"x_skale": 1})", "did you mean x_scale?", "quantization"},
    {R"("x": [1], "w": [1], "quantization": 1)", "quantization is 1: a table with x_scale", "quantization"},
    {R"("x": [1], "w": [1], "quantization": {"x_scale": "1"})", "quantization.x_scale is \"1\": a number is needed",
     "quantization.x_scale"},
    {R"("x": [1], "w": [1], "quantization": {"w_scale": []})", "quantization.w_scale is []: one number", nullptr},
    {R"("x": [1], "w": [1], "quantization": {"w_zero_point": []})", "quantization.w_zero_point is []", nullptr},
    {R"("x": [1], "w": [1], "quantization": {"w_scale": [1, true]})", "quantization.w_scale[1] is true", nullptr},
    {R"("x": [1], "w": [1], "quantization": {"x_zero_point": 1.5})", "quantization.x_zero_point is 1.5: a whole number",
     nullptr},
    {R"("x": [1], "w": [1], "quantization": {"w_zero_point": [1, "?"]})", "quantization.w_zero_point[1] is \"?\"",
     nullptr},
    {R"("x": [1], "w": [1], "quantization": {"y_dtype": "float16"})",
     "quantization.y_dtype is \"float16\": it may be int8", nullptr},
    {R"("x": [1], "w": [1], "quantization": {"w_dtype": "int4"})", "it may be int8, uint8; did you mean int8?",
     nullptr},
    {R"("problem": "conv1d-f32-n1-c1-i5-m1-o3-k3-s1-d1-p0,0-g1-ncx,ncx")", "operator is given beside problem",
     "operator"},
};

TEST(LayerJson, BadLayers) {
    for (const BadLayer &bad : bad_layers) {
        const std::string text = std::string(R"({"operator": "Conv", )") + bad.json + "}";
        try {
            layer(text.c_str(), "/nowhere");
            ADD_FAILURE() << "accepted: " << text;
        } catch (const KeyError &error) {
            EXPECT_THAT(error.what(), HasSubstr(bad.message)) << text;
            if (bad.key) EXPECT_EQ(error.key, bad.key) << text;
        }
    }
}

TEST(LayerJson, Quantization) {
    const LayerSpec conv = layer(R"({"operator": "Conv", "dtype": "uint8", "x": [1, 4, 5, 5], "w": [2, 4, 3, 3],
        "quantization": {"x_scale": 0.5, "x_zero_point": 128, "w_scale": [0.25, 1], "w_zero_point": [0, 3], "y_scale": 2,
                         "y_zero_point": -7, "y_dtype": "int8", "w_dtype": "uint8"}})");
    EXPECT_EQ(conv.w_dtype, DType::u8);
    EXPECT_EQ(conv.y_dtype, DType::s8);
    const Problem problem = resolve(conv).problem;
    EXPECT_EQ(std::string(print(problem)),
              "conv2d-u8.u8.s8-n1-c4-i5x5-m2-o3x3-k3x3-s1x1-d1x1-p0x0,0x0-g1-xz128-yz~7-ncx,ncx-wz");
    EXPECT_EQ(conv.output_scale(problem), (std::vector<float>{0.5f * 0.25f / 2, 0.5f / 2, 2}));
    EXPECT_EQ(conv.weight_zero_points(problem), (std::vector<int32_t>{0, 3}));
}

// Scales of 1 and zero points of 0; y as x, weights int8, unless said otherwise. ConvInteger gives sums.
TEST(LayerJson, QuantizationDefaults) {
    const auto problem = [](const std::string &text) {
        return std::string(
            print(resolve(layer(("{" + text + R"(, "x": [1, 4, 5], "w": [2, 4, 3]})").c_str())).problem));
    };
    EXPECT_THAT(problem(R"("operator": "Conv", "dtype": "uint8")"), HasSubstr("conv1d-u8.s8.u8-"));
    EXPECT_THAT(problem(R"("operator": "Conv", "dtype": "int8")"), HasSubstr("conv1d-s8-"));
    EXPECT_THAT(problem(R"("operator": "QLinearConv", "dtype": "uint8", "quantization": {"w_scale": 3})"),
                HasSubstr("conv1d-u8.s8.u8-"));
    EXPECT_THAT(problem(R"("operator": "ConvInteger", "dtype": "uint8", "quantization": {"x_zero_point": "?"})"),
                HasSubstr("g1-xz?-ncx"));
    EXPECT_THAT(problem(R"("operator": "Convolution", "dialect": "tensorrt", "dtype": "int8", "bias": true)"),
                HasSubstr("-biasf32"));
    // another dtype does not look at it: a variant may set dtype alone
    EXPECT_THAT(problem(R"("operator": "Conv", "quantization": {"x_scale": 3})"), HasSubstr("conv1d-f32-"));
}

TEST(LayerJson, ProblemsAsLayers) {
    const char *text = "convtranspose2d-f32-n?-c64-i?x9-m32-o?x19-k3x3-s2x2-d1x1-p0x0,?x0-g2-nxc,nxc-bias-relu";
    const LayerSpec up = layer((R"({"name": "up", "problem": ")" + std::string(text) + R"("})").c_str());
    EXPECT_EQ(up.name, "up");
    EXPECT_EQ(up.op, "ConvTranspose");
    EXPECT_EQ(shown(up.x), "[?, 64, ?, 9]");
    EXPECT_EQ(shown(up.w), "[64, 16, 3, 3]");
    EXPECT_TRUE(up.bias);
    const Resolution resolution = resolve(up);
    EXPECT_EQ(std::string(print(resolution.problem)), text);
    EXPECT_EQ(shown(resolution.y), "[?, 32, ?, 19]");
    EXPECT_EQ(resolution.weight_strides[0], 16 * 9);
    const LayerSpec any = layer(R"({"problem":
        "conv1d-u8.s8.u8-n?-c?-i?-m?-o?-k?-s?-d?-p?,?-g?-xz?-yz?-?,?-wz-epilogue?", "quantization": {"y_scale": 2}})");
    EXPECT_EQ(resolve(any).weight_strides[0], 0);  // not known yet
    EXPECT_EQ(any.y_dtype, DType::u8);
}

TEST(LayerJson, WhatStandsBesideAProblem) {
    const auto error = [](const std::string &more) {
        const std::string text =
            R"({"problem": "conv1d-s8-n1-c1-i5-m1-o3-k3-s1-d1-p0,0-g1-xz0-yz0-ncx,ncx", )" + more + "}";
        return error_of([&] { layer(text.c_str()); });
    };
    EXPECT_EQ(error(R"("name": "a", "quantization": {"x_scale": 2, "w_scale": 3, "y_scale": 4, "w_zero_point": 0})"),
              "");
    EXPECT_THAT(error(R"("x": [1, 1, 5])"), HasSubstr("x is given beside problem, which says all but name, weights"));
    EXPECT_THAT(error(R"("strides": [1])"), HasSubstr("strides is given beside problem"));
    EXPECT_THAT(error(R"("quantization": {"x_zero_point": 1})"),
                HasSubstr("quantization.x_zero_point is given beside"));
    const Files files;
    files.write("w.npy", "");
    EXPECT_EQ(error_of([&] {
                  layer(R"({"problem": "conv1d-f32-n1-c4-i?-m?-o?-k3-s1-d1-p0,?-g1-ncx,ncx", "weights": "w.npy"})",
                        files.folder());
              }),
              "weights is given, but problem leaves the filter's sizes open: [?, 4, 3]");
    EXPECT_THAT(error_of([] { layer(R"({"problem": "conv1d-f32-n1"})"); }), HasSubstr("problem: "));
    EXPECT_THAT(error_of([] { layer(R"({"problem": 1})"); }), HasSubstr("problem is 1: a text is needed"));
}

TEST(LayerJson, Identifiers) {
    for (const char *good : {"a", "_1", "C1_int8", "aB"}) EXPECT_TRUE(is_identifier(good)) << good;
    for (const char *bad : {"", "1a", "a-b", "a b", "\xc3\xa9", "a/b"}) {
        EXPECT_FALSE(is_identifier(bad)) << bad;
        EXPECT_TRUE(is_identifier(to_identifier(bad))) << bad;
    }
    EXPECT_EQ(to_identifier("my-net.v2"), "my_net_v2");
}

TEST(LayerJson, NamesThatMeetInTheHeader) {
    const auto error = [](std::vector<std::string> names) { return error_of([&] { check_layer_names(names); }); };
    EXPECT_EQ(error({"a", "b", "a_1"}), "");
    EXPECT_THAT(error({"a", "b", "a"}), HasSubstr("two layers are named a"));
    EXPECT_THAT(error({"c1", "C1"}), HasSubstr("c1 and C1, differ only in case"));
    EXPECT_THAT(error({"a_pack", "a"}), HasSubstr("cannot be named a_pack"));
    EXPECT_THAT(error({"a", "A_ARGS"}), HasSubstr("cannot be named A_ARGS"));
    EXPECT_THAT(error({"library"}), HasSubstr("cannot be named library"));
}

TEST(LayerJson, ResolveChecksOptionalShapes) {
    const char *text = R"({"name": "c", "operator": "Conv", "x": [1, 4, 5, 5], "w": [8, 4, 3, 3], "bias": [4]})";
    EXPECT_EQ(error_of([&] { resolve(layer(text)); }), "c: bias is [4]: it must be [8]");
    const char *residual = R"({"operator": "Conv", "x": [1, 4, 5, 5], "w": [8, 4, 3, 3], "residual": [1, 8, 5, 5]})";
    EXPECT_EQ(error_of([&] { resolve(layer(residual)); }), "residual is [1, 8, 5, 5]: it must be [1, 8, 3, 3]");
    const char *good =
        R"({"operator": "Conv", "x": [1, 4, 5, 5], "w": [8, 4, 3, 3], "bias": [8], "residual": [1, 8, 3, 3]})";
    EXPECT_EQ(shown(resolve(layer(good)).y), "[1, 8, 3, 3]");
}

TEST(LayerJson, ResolveNamesTheLayer) {
    const char *text = R"({"name": "c", "operator": "Conv", "x": [1, 4, 5, 5], "w": [8, 4, 3, 3], "strides": [-1, 1]})";
    EXPECT_EQ(error_of([&] { resolve(layer(text)); }), "c: strides[0] is -1: strides must be positive");
}

}  // namespace
}  // namespace kiln::tools
