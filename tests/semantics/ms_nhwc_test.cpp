// com.ms.internal.nhwc ConvTranspose: ONNX's, channels last, with an activation.
#include <gtest/gtest.h>

#include "layer_builder.h"

namespace kiln::test {
namespace {

// The page prints them with channels first.
TEST(MsNhwc, ResolvesTheDocumentsExamples) {
    const LayerBuilder example = ms_nhwc({1, 3, 3, 1}, {1, 2, 3, 3});
    const LayerBuilder strides_3_2 = example.list("strides", {3, 2});
    const ResolvedCase cases[] = {
        {example, {1, 5, 5, 2}, {0, 0}, {0, 0}},
        {ms_nhwc({1, 3, 1}, {1, 2, 3}), {1, 5, 2}, {0}, {0}},
        {ms_nhwc({1, 3, 4, 5, 1}, {1, 2, 3, 3, 3}), {1, 5, 6, 7, 2}, {0, 0, 0}, {0, 0, 0}},
        {strides_3_2.list("output_shape", {10, 8}), {1, 10, 8, 2}, {0, 0}, {-1, -1}},
        {strides_3_2.list("output_padding", {1, 1}), {1, 10, 8, 2}, {0, 0}, {0, 0}},
        {strides_3_2.list("output_shape", {10, 8}).list("kernel_shape", {3, 3}).list("output_padding", {1, 1}),
         {1, 10, 8, 2},
         {0, 0},
         {0, 0}},
        {strides_3_2.list("pads", {1, 2, 1, 2}), {1, 7, 3, 2}, {1, 2}, {1, 2}},
        {ms_nhwc({1, 3, 3, 1}, {1, 1, 2, 2}).list("dilations", {2, 2}), {1, 5, 5, 1}, {0, 0}, {0, 0}},
        {example.auto_pad("SAME_UPPER").list("strides", {2, 2}), {1, 6, 6, 2}, {0, 0}, {1, 1}},
    };
    for (const ResolvedCase &c : cases) {
        expect_resolves(c);
        expect_resolves({c.layer.ort(), c.y, c.pads_begin, c.pads_end});
    }
}

TEST(MsNhwc, Resolves) {
    const ResolvedCase cases[] = {
        {ms_nhwc({2, 5, 6}, {6, 4, 2}).integer("group", 3), {2, 6, 12}, {0}, {0}},
        {ms_nhwc({0, 3, 1}, {1, 1, 3}), {0, 5, 1}, {0}, {0}},
        {ms_nhwc({1, 0, 1}, {1, 1, 3}), {1, 2, 1}, {0}, {0}},
        {ms_nhwc({1, 3, 1}, {1, 1, 3}).dtype(DType::f64), {1, 5, 1}, {0}, {0}},
        {ms_nhwc({1, 3, 1}, {1, 1, 3}).opset(1), {1, 5, 1}, {0}, {0}},
        // sizes left open
        {ms_nhwc({open, open, 3, 4}, {4, 2, 3, 3}).list("pads", {1, 0, 0, 1}), {open, open, 4, 2}, {1, 0}, {0, 1}},
        {ms_nhwc({1, open, open}, {5, 2, 3}), {1, open, 2}, {0}, {0}},
        {ms_nhwc({1, open, 5}, {5, 2, 3}).list("output_shape", {9}), {1, 9, 2}, {open}, {open}},
    };
    for (const ResolvedCase &c : cases) {
        expect_resolves(c);
    }
}

TEST(MsNhwc, TakesTheActivationAsAttributes) {
    const LayerBuilder layer = ms_nhwc({1, 3, 1}, {1, 1, 3}).layouts(Layout::nxc, Layout::nxc);
    const std::string plain = "convtranspose1d-f32-n1-c1-i3-m1-o5-k3-s1-d1-p0,0-g1-nxc,nxc";
    EXPECT_EQ(problem_of(layer), plain);
    EXPECT_EQ(problem_of(layer.text("activation", "Relu")), plain + "-relu");
    EXPECT_EQ(problem_of(layer.text("activation", "LeakyRelu")), plain + "-leakyrelu:0.01");
    EXPECT_EQ(problem_of(layer.text("activation", "HardSigmoid")), plain + "-hardsigmoid:0.2:0.5");
    EXPECT_EQ(problem_of(layer.text("activation", "Tanh")), plain + "-tanh");
    EXPECT_EQ(problem_of(layer.text("activation", "Sigmoid")), plain + "-sigmoid");
    EXPECT_EQ(problem_of(layer.text("activation", "HardSwish")), plain + "-hardswish");
    EXPECT_EQ(problem_of(layer.text("activation", "Clip").floats("activation_params", {-1.5, 6})),
              plain + "-clip:~1.5:6");
    EXPECT_EQ(problem_of(layer.text("activation", "Clip").list("activation_params", {0, 6})), plain + "-clip:0:6");
    EXPECT_EQ(problem_of(layer.text("activation", "")), plain);
    // or as a layer of any dialect does
    EXPECT_EQ(problem_of(layer.activation("Clip", {0, 6})), plain + "-clip:0:6");
}

}  // namespace
}  // namespace kiln::test
