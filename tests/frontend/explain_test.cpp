#include "explain/explain.h"

#include "explain/rules.h"
#include "explain/translate.h"
#include "testing.h"

namespace kiln::tools {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

LayerSpec layer(const char *text) {
    return layer_from_json(json::parse(text), "/");
}

// The layer's attributes, as text, in order of name.
std::string attributes(const LayerSpec &layer) {
    json result = json::object();
    for (const auto &[name, value] : layer.attributes)
        std::visit([&, &key = name](const auto &held) { result[key] = held; }, value);
    return result.dump();
}

constexpr const char *up = R"({"operator": "ConvTranspose", "opset": 11, "x": [1, 4, 5, 6], "w": [4, 2, 3, 3],
    "strides": [2, 2], "pads": [0, 1, 2, 3], "group": 2, "kernel_shape": [3, 3]})";

TEST(Translate, OnnxToOneDnn) {
    const LayerSpec other = translate(layer(up), Dialect::onednn_graph);
    EXPECT_EQ(attributes(other), R"({"data_format":"NCX","dilations":[1,1],"filter_format":"IOX","groups":2,)"
                                 R"("pads_begin":[0,1],"pads_end":[2,3],"strides":[2,2]})");
    EXPECT_EQ(shown(other.x), "[1, 4, 5, 6]");
    EXPECT_EQ(shown(other.w), "[4, 2, 3, 3]");
}

TEST(Translate, OnnxToMsNhwc) {
    const LayerSpec other = translate(layer(up), Dialect::ms_nhwc);
    EXPECT_EQ(attributes(other), R"({"group":2,"pads":[0,1,2,3],"strides":[2,2]})");
    EXPECT_EQ(shown(other.x), "[1, 5, 6, 4]");
    EXPECT_EQ(shown(other.w), "[4, 2, 3, 3]");
}

TEST(Translate, OneDnnToOnnx) {
    const LayerSpec other =
        translate(layer(R"({"operator": "ConvTranspose", "dialect": "onednn-graph", "input": [1, 5, 6, 4],
        "filter": [3, 2, 4, 7], "strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 1], "pads_end": [2, 3]})"),
                  Dialect::onnx);
    EXPECT_EQ(attributes(other), R"({"dilations":[1,1],"pads":[0,1,2,3],"strides":[1,1]})");
    EXPECT_EQ(shown(other.x), "[1, 4, 5, 6]");
    EXPECT_EQ(shown(other.w), "[4, 7, 3, 2]");  // XIO to IOX
    EXPECT_EQ(other.w_layout, "XIO");           // where it lies in memory still
}

TEST(Translate, ConvToTensorRtAndBack) {
    const LayerSpec conv = layer(R"({"operator": "Conv", "x": [1, 4, 5, 6], "w": [8, 2, 3, 3], "group": 2,
        "pads": [0, 1, 2, 3], "auto_pad": "NOTSET"})");
    const LayerSpec other = translate(conv, Dialect::tensorrt);
    EXPECT_EQ(other.op, "Convolution");
    EXPECT_EQ(attributes(other), R"({"kernel_size_nd":[3,3],"num_groups":2,"num_output_maps":8,)"
                                 R"("padding_mode":"EXPLICIT_ROUND_DOWN","post_padding":[2,3],"pre_padding":[0,1]})");
    const LayerSpec back = translate(other, Dialect::onnx);
    EXPECT_EQ(back.op, "Conv");
    EXPECT_EQ(attributes(back), R"({"auto_pad":"NOTSET","group":2,"pads":[0,1,2,3]})");
}

TEST(Translate, WhatCannotBeSaid) {
    const auto error = [](const char *text, Dialect dialect) {
        return error_of([&] { translate(layer(text), dialect); });
    };
    EXPECT_EQ(error(up, Dialect::tensorrt), "tensorrt has no ConvTranspose");
    EXPECT_EQ(error(R"({"operator": "DeformConv", "x": [1], "w": [1]})", Dialect::ms_nhwc),
              "ms-nhwc has no DeformConv");
    EXPECT_EQ(error(R"({"operator": "Conv", "x": [1], "w": [1]})", Dialect::ms_nhwc), "ms-nhwc has no Conv");
    EXPECT_EQ(error(R"({"operator": "Conv", "x": [1], "w": [1]})", Dialect::onednn_graph), "onednn-graph has no Conv");
    EXPECT_EQ(error(R"({"operator": "QLinearConv", "x": [1], "w": [1]})", Dialect::tensorrt),
              "tensorrt has no QLinearConv");
    EXPECT_EQ(error(R"({"problem": "conv1d-f32-n1-c1-i5-m1-o3-k3-s1-d1-p0,0-g1-ncx,ncx"})", Dialect::tensorrt),
              "a problem is no dialect's");
    EXPECT_THAT(error(R"({"operator": "Conv", "x": [1], "w": [1], "pads": [1]})", Dialect::tensorrt),
                HasSubstr("pads is no"));
}

// Pads beside auto_pad: a contradiction to ONNX, nothing to the others.
TEST(Translate, PadsBesideAutoPad) {
    const LayerSpec onnx = layer(R"({"operator": "ConvTranspose", "x": [1, 1, 5], "w": [1, 1, 3], "pads": [1, 1],
        "auto_pad": "SAME_UPPER"})");
    EXPECT_EQ(attributes(translate(onnx, Dialect::ms_nhwc)), R"({"auto_pad":"SAME_UPPER","pads":[1,1]})");
    const LayerSpec onednn = translate(onnx, Dialect::onednn_graph);
    EXPECT_THAT(attributes(onednn), HasSubstr(R"("pads_begin":[1])"));
    EXPECT_THAT(attributes(translate(onednn, Dialect::onnx)), testing::Not(HasSubstr("pads")));
}

// Which TensorRT alone has: the others round down, and that is what a comparison shows.
TEST(Translate, RoundingUp) {
    const LayerSpec other = translate(layer(R"({"operator": "Convolution", "dialect": "tensorrt", "x": [1, 1, 8],
        "w": [1, 1, 3], "padding_mode": "EXPLICIT_ROUND_UP", "pre_padding": [1], "padding_nd": [7]})"),
                                      Dialect::onnx);
    EXPECT_EQ(attributes(other), R"({"auto_pad":"NOTSET","pads":[1,0]})");  // padding_nd does not count
}

// ms-nhwc has attributes for it, the others a key of the layer.
TEST(Translate, Activation) {
    const LayerSpec nhwc = layer(R"({"operator": "ConvTranspose", "dialect": "ms-nhwc", "x": [1, 5, 5, 1],
        "w": [1, 1, 3, 3], "activation": "Clip", "activation_params": [0, 6]})");
    EXPECT_EQ(translate(nhwc, Dialect::onnx).activation, "Clip");
    LayerSpec attributes = nhwc;
    attributes.activation.clear();
    attributes.activation_params.clear();
    attributes.attributes = {{"activation", "Clip"}, {"activation_params", std::vector<int64_t>{0, 6}}};
    const LayerSpec other = translate(attributes, Dialect::onednn_graph);
    EXPECT_EQ(other.activation, "Clip");
    EXPECT_EQ(other.activation_params, (std::vector<double>{0, 6}));
    EXPECT_EQ(resolve(other).problem, resolve(nhwc).problem);
}

TEST(Explain, ReadingsCoverEveryDialectAndProfile) {
    std::vector<std::string> names;
    for (const Reading &reading : all_readings(layer(up))) names.push_back(reading.name);
    EXPECT_THAT(names, ElementsAre("onnx 1 spec", "onnx 1 ort", "onnx 11 spec", "onnx 11 ort", "onnx 22 spec",
                                   "onnx 22 ort", "ms-nhwc spec", "ms-nhwc ort", "onednn-graph", "tensorrt"));
}

// An odd total with output_shape is split one way by opset 1's equation, the other way by opset 11's.
TEST(Explain, OpsetsThatSplitPadsDifferently) {
    const LayerSpec odd = layer(R"({"operator": "ConvTranspose", "opset": 11, "x": [1, 1, 3, 3], "w": [1, 1, 3, 3],
        "strides": [2, 2], "output_shape": [6, 6]})");
    const std::vector<Reading> readings = all_readings(odd);
    ASSERT_TRUE(readings[0].resolution) << readings[0].error;
    ASSERT_TRUE(readings[2].resolution) << readings[2].error;
    EXPECT_EQ(difference(*readings[0].resolution, *readings[2].resolution),
              "the same padding, split another way: begin 0,0 end 1,1, not begin 1,1 end 0,0");
    EXPECT_EQ(difference(*readings[2].resolution, *readings[2].resolution), "");
    EXPECT_THAT(
        rules_that_differ(*readings[0].resolution, *readings[2].resolution),
        ElementsAre("axes 0, 1: output_shape without SAME_UPPER, by ConvTranspose-1's equation: the extra of an "
                    "odd total pad goes to the end; ConvTranspose-11 has it the other way round"));
    EXPECT_THAT(rules_that_differ(*readings[2].resolution, *readings[2].resolution), ElementsAre());
}

// A dialect without the layer's type has an opinion on its sizes all the same.
TEST(Explain, TypesAreLeftAside) {
    const LayerSpec bf16 = layer(R"({"operator": "ConvTranspose", "dtype": "bfloat16", "x": [1, 1, 3], "w": [1, 1, 3],
        "output_shape": [4]})");
    const std::vector<Reading> readings = all_readings(bf16);
    ASSERT_TRUE(readings[0].resolution) << readings[0].error;
    EXPECT_EQ(readings[0].note, "bfloat16 is none of its types: sizes and pads are told as of float32");
    EXPECT_EQ(readings[0].resolution->pads_end[0], 1);
    EXPECT_EQ(readings[0].resolution->problem.x_type, DType::bf16);
    EXPECT_EQ(readings[4].note, "");
    EXPECT_EQ(difference(*readings[2].resolution, *readings[4].resolution), "");
    const LayerSpec int8 =
        layer(R"({"operator": "Conv", "dtype": "int8", "bias": true, "x": [1, 1, 3], "w": [1, 1, 3]})");
    const Reading tensorrt = all_readings(int8).back();
    ASSERT_TRUE(tensorrt.resolution) << tensorrt.error;
    EXPECT_EQ(difference(*tensorrt.resolution, resolve(int8)), "the bias is float32, not int32");
}

TEST(Explain, EveryRuleHasASentence) {
    for (int rule = static_cast<int>(Rule::conv_pads); rule <= static_cast<int>(Rule::output_shape_split_surplus);
         ++rule)
        EXPECT_GT(std::string(sentence(static_cast<Rule>(rule))).size(), 20u) << rule;
}

TEST(Explain, OperatorsOfOneDialect) {
    const auto names = [](const char *text) {
        std::string result;
        for (const Reading &reading : all_readings(layer(text)))
            if (reading.resolution) result += reading.name + "; ";
        return result;
    };
    EXPECT_EQ(names(R"({"operator": "DeformConv", "x": [1, 4, 5, 5], "w": [4, 4, 3, 3], "mask": true})"),
              "onnx 19 spec; onnx 19 ort; onnx 22 spec; onnx 22 ort; ");
    EXPECT_EQ(names(R"({"operator": "ConvInteger", "dtype": "uint8", "x": [1, 4, 5, 5], "w": [4, 4, 3, 3]})"),
              "onnx 10 spec; onnx 10 ort; ");
    EXPECT_EQ(names(R"({"problem": "conv1d-f32-n1-c1-i5-m1-o3-k3-s1-d1-p0,0-g1-ncx,ncx"})"), "");
}

TEST(Explain, OtherOutputsAreTold) {
    const auto resolution = [](const char *text) { return resolve(layer(text)); };
    const Resolution small = resolution(R"({"operator": "Conv", "x": [1, 1, 5, 5], "w": [1, 1, 3, 3]})");
    const Resolution large =
        resolution(R"({"operator": "Conv", "x": [1, 1, 5, 5], "w": [1, 1, 3, 3], "pads": [1, 1, 1, 1]})");
    const Resolution biased = resolution(R"({"operator": "Conv", "x": [1, 1, 5, 5], "w": [1, 1, 3, 3], "bias": true})");
    EXPECT_EQ(difference(large, small), "another output size: 5x5, not 3x3");
    EXPECT_THAT(difference(biased, small), HasSubstr("another problem: conv2d-f32"));
}

class ExplainFile : public testing::Test {
  protected:
    // What the command prints, its status, and what it says on stderr.
    void run(const std::string &content, bool json, bool all_dialects) {
        ExplainOptions options;
        options.spec = files_.write("net.toml", content);
        options.json = json;
        options.all_dialects = all_dialects;
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        status_ = explain_command(
            options, [](const Problem &problem, const std::string &target, Goal goal, const ExplainOptions &) {
                if (problem.rank == 1) throw Error("no algorithm for one dimension", StatusCode::unsupported);
                return Choice{"direct on " + target, 4096, goal == Goal::size ? "for size: little" : ""};
            });
        std::fflush(stdout);
        output_ = testing::internal::GetCapturedStdout();
        errors_ = testing::internal::GetCapturedStderr();
    }

    Files files_;
    int status_ = -1;
    std::string output_, errors_;
};

constexpr const char *good = R"(
[[layer]]
name = "c1"
operator = "Conv"
x = [1, 4, 8, 8]
w = [16, 4, 3, 3]
pads = [1, 1, 1, 1]
)";

TEST_F(ExplainFile, Text) {
    run(good, false, false);
    EXPECT_EQ(status_, 0);
    EXPECT_EQ(output_,
              "layer  operator  x             w              y              pads begin  end  kernel\n"
              "c1     Conv      [1, 4, 8, 8]  [16, 4, 3, 3]  [1, 16, 8, 8]  1,1         1,1  direct on host\n"
              "    conv2d-f32-n1-c4-i8x8-m16-o8x8-k3x3-s1x1-d1x1-p1x1,1x1-g1-ncx,ncx\n"
              "weights: 2.2 KB, packed 4.0 KB\n");
    EXPECT_EQ(errors_, "");
}

TEST_F(ExplainFile, Json) {
    run(std::string("[library]\ntargets = ['x86-64-avx2']\n") + good, true, true);
    EXPECT_EQ(status_, 0);
    const json answer = json::parse(output_);
    const json &first = answer.at("layers").at(0);
    EXPECT_EQ(first.at("name"), "c1");
    EXPECT_EQ(first.at("status"), "ok");
    EXPECT_EQ(first.at("output_shape"), json({1, 16, 8, 8}));
    EXPECT_EQ(first.at("pads_end"), json({1, 1}));
    EXPECT_EQ(first.at("kernel"), "direct on x86-64-avx2");
    EXPECT_EQ(first.at("dialects").size(), 10u);
    EXPECT_EQ(first.at("dialects").at(2).at("reading"), "onnx 11 spec");
    EXPECT_FALSE(first.at("dialects").at(2).contains("differs"));
}

TEST_F(ExplainFile, FailuresAreToldAndTheRestExplained) {
    const std::string bad = std::string(good) + R"(
[[layer]]
name = "negative"
operator = "Conv"
x = [1, 4, 8, 8]
w = [16, 4, 3, 3]
strides = [1, -2]
[[layer]]
name = "mistyped"
operator = "Conv"
shape = [1]
[[layer]]
name = "line"
operator = "Conv"
x = [1, 4, 8]
w = [16, 4, 3]
)";
    run(bad, false, false);
    EXPECT_EQ(status_, 1);
    EXPECT_THAT(output_, HasSubstr("c1     Conv"));
    EXPECT_THAT(output_, HasSubstr("negative\n    invalid_argument: strides[1] is -2"));
    EXPECT_THAT(errors_, HasSubstr("kiln: layer negative: invalid_argument: strides[1] is -2"));
    EXPECT_THAT(errors_, HasSubstr("kiln: layer mistyped: invalid_argument: "));
    EXPECT_THAT(errors_, HasSubstr("kiln: layer line: no algorithm for one dimension"));
    run(bad, true, false);
    const json answer = json::parse(output_);
    EXPECT_EQ(answer.at("layers").size(), 4u);
    EXPECT_EQ(answer.at("layers").at(1).at("code"), "invalid_argument");
    EXPECT_EQ(answer.at("layers").at(2).at("kernel_error"), "no algorithm for one dimension");
}

TEST_F(ExplainFile, DialectsAsText) {
    run(good, false, true);
    EXPECT_THAT(output_,
                HasSubstr("    the same under onnx 1 spec, onnx 1 ort, onnx 11 spec, onnx 11 ort, onnx 22 spec, "
                          "onnx 22 ort, tensorrt; ms-nhwc has no Conv, onednn-graph has no Conv\n"));
    EXPECT_THAT(output_, HasSubstr("every dialect that has a layer's operator makes the same of it"));
}

constexpr const char *odd = R"(
[[layer]]
name = "up"
operator = "ConvTranspose"
opset = 13
x = [1, 1, 3, 4]
w = [1, 1, 3, 4]
strides = [2, 2]
output_shape = [6, 8]
)";

// Where dialects differ: the numbers are marked, and a sentence says why.
TEST_F(ExplainFile, DifferencesAsText) {
    run(odd, false, true);
    EXPECT_THAT(output_, HasSubstr("      onnx 1 spec   6x8     0,1 !       1,1 !  [1]\n"
                                   "      onnx 1 ort    6x8     1,1         0,1\n"
                                   "    > onnx 11 spec  6x8     1,1         0,1    [2]\n"));
    EXPECT_THAT(output_, HasSubstr("      ms-nhwc spec  6x8     0,1 !       1,1 !  [1]\n"));
    EXPECT_THAT(output_, HasSubstr("    [1] axis 0: output_shape without SAME_UPPER, by ConvTranspose-1's equation"));
    EXPECT_THAT(output_, HasSubstr("    [2] axis 0: output_shape without SAME_UPPER: the extra of an odd total pad"));
    EXPECT_THAT(output_, HasSubstr("    [3] tensorrt has no ConvTranspose\n"));
    EXPECT_THAT(output_, HasSubstr("read otherwise elsewhere, or refused: up\n"));
}

TEST_F(ExplainFile, TypesThatOthersHaveNot) {
    run(R"(
[[layer]]
name = "c"
operator = "Conv"
dtype = "bfloat16"
x = [1, 1, 3, 1]
w = [1, 1, 3, 1]
)",
        false, true);
    EXPECT_THAT(output_, HasSubstr("    the same under onnx 1 spec (but for its type), "));
    EXPECT_THAT(output_, HasSubstr(", onnx 22 spec, onnx 22 ort, tensorrt; "));
}

// What one dialect takes and another refuses.
TEST_F(ExplainFile, RefusalsAsText) {
    run(R"(
[[layer]]
name = "wide"
operator = "ConvTranspose"
opset = 1
x = [1, 1, 3, 1]
w = [1, 1, 3, 1]
output_padding = [2, 0]
)",
        false, true);
    EXPECT_THAT(output_, HasSubstr("    > onnx 1 spec   7x1     0,0         0,0\n"
                                   "      onnx 1 ort    -       -           -    [1]\n"));
    EXPECT_THAT(output_, HasSubstr("    [1] invalid: output_padding[0] is 2: it must be below strides, 1\n"
                                   "    [2] invalid: output_padding[0] is 2: it must be below the larger of strides"));
    EXPECT_THAT(output_, HasSubstr("or refused: wide\n"));
}

TEST_F(ExplainFile, DifferencesAsJson) {
    run(odd, true, true);
    const json first = json::parse(output_).at("layers").at(0).at("dialects").at(0);
    EXPECT_EQ(first.at("reading"), "onnx 1 spec");
    EXPECT_EQ(first.at("pads_begin"), json({0, 1}));
    EXPECT_EQ(first.at("rules").size(), 2u);
    EXPECT_THAT(first.at("differs").get<std::string>(), HasSubstr("the same padding, split another way"));
    EXPECT_THAT(first.at("why").at(0).get<std::string>(), HasSubstr("ConvTranspose-1's equation"));
}

TEST_F(ExplainFile, OpenSizes) {
    run(R"(
[[layer]]
name = "same"
operator = "Conv"
x = [1, 1, "?", 8]
w = [1, 1, 3, 3]
strides = [2, 2]
auto_pad = "SAME_UPPER"
)",
        true, false);
    const json first = json::parse(output_).at("layers").at(0);
    EXPECT_EQ(first.at("output_shape"), json({1, 1, "?", 4}));
    EXPECT_EQ(first.at("pads_begin"), json({"?", 0}));
    EXPECT_EQ(first.at("pads_end"), json({"?", 1}));
}

}  // namespace
}  // namespace kiln::tools
