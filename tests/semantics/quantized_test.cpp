// Layers with 8-bit tensors: their problems, and what kernels take beside them.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "layer_builder.h"

namespace kiln::test {
namespace {

const LayerBuilder sums = conv_integer({1, 3, 5}, {2, 3, 3});
const LayerBuilder rescaled = qlinear_conv({1, 3, 5}, {2, 3, 3});

TEST(Quantized, ConvIntegerGivesSums) {
    EXPECT_EQ(problem_of(sums), "conv1d-u8.s8.s32-n1-c3-i5-m2-o3-k3-s1-d1-p0,0-g1-xz0-ncx,ncx");
    EXPECT_EQ(problem_of(sums.zero_points(1, {0}, 0).opset(10)),
              "conv1d-u8.s8.s32-n1-c3-i5-m2-o3-k3-s1-d1-p0,0-g1-xz1-ncx,ncx");
    EXPECT_EQ(problem_of(sums.zero_points(128, {0, -3}, 0).list("pads", {1, 1})),
              "conv1d-u8.s8.s32-n1-c3-i5-m2-o5-k3-s1-d1-p1,1-g1-xz128-ncx,ncx-wz");
    EXPECT_EQ(problem_of(sums.quantized(DType::s8, DType::u8, DType::s32).zero_points(-128, {255}, 0)),
              "conv1d-s8.u8.s32-n1-c3-i5-m2-o3-k3-s1-d1-p0,0-g1-xz~128-ncx,ncx-wz");
    EXPECT_EQ(problem_of(sums.auto_pad("SAME_UPPER").list("strides", {2})),
              "conv1d-u8.s8.s32-n1-c3-i5-m2-o3-k3-s2-d1-p1,1-g1-xz0-ncx,ncx");
}

TEST(Quantized, QLinearConvRescales) {
    EXPECT_EQ(problem_of(rescaled), "conv1d-u8.s8.u8-n1-c3-i5-m2-o3-k3-s1-d1-p0,0-g1-xz0-yz0-ncx,ncx");
    EXPECT_EQ(problem_of(rescaled.zero_points(3, {}, 7).bias().activation("Relu")),
              "conv1d-u8.s8.u8-n1-c3-i5-m2-o3-k3-s1-d1-p0,0-g1-xz3-yz7-ncx,ncx-bias-relu");
    EXPECT_EQ(problem_of(rescaled.quantized(DType::u8, DType::u8, DType::s8).zero_points(0, {0, 9}, -128)),
              "conv1d-u8.u8.s8-n1-c3-i5-m2-o3-k3-s1-d1-p0,0-g1-xz0-yz~128-ncx,ncx-wz");
    EXPECT_EQ(problem_of(rescaled.quantized(DType::s8, DType::s8, DType::s8).zero_points(open, {}, open)),
              "conv1d-s8-n1-c3-i5-m2-o3-k3-s1-d1-p0,0-g1-xz?-yz?-ncx,ncx");
    EXPECT_EQ(problem_of(qlinear_conv({open, 3, open}, {2, 3, 3})),
              "conv1d-u8.s8.u8-n?-c3-i?-m2-o?-k3-s1-d1-p0,?-g1-xz0-yz0-ncx,ncx");
}

// Where the layer says what y's numbers stand for.
TEST(Quantized, ConvAndConvTransposeTakeAQuantization) {
    for (const int opset : {1, 11, 22}) {
        EXPECT_EQ(problem_of(conv({1, 3, 5}, {2, 3, 3}).opset(opset).quantized(DType::s8, DType::s8, DType::s8).bias()),
                  "conv1d-s8-n1-c3-i5-m2-o3-k3-s1-d1-p0,0-g1-xz0-yz0-ncx,ncx-bias");
        EXPECT_EQ(problem_of(conv_transpose({1, 3, 5}, {3, 2, 3})
                                 .opset(opset)
                                 .quantized(DType::u8, DType::s8, DType::u8)
                                 .zero_points(1, {0, 2}, 3)),
                  "convtranspose1d-u8.s8.u8-n1-c3-i5-m2-o7-k3-s1-d1-p0,0-g1-xz1-yz3-ncx,ncx-wz");
    }
    EXPECT_EQ(problem_of(conv({1, 3, 5}, {2, 3, 3}).quantized(DType::s8, DType::s8, DType::f32).bias()),
              "conv1d-s8.s8.f32-n1-c3-i5-m2-o3-k3-s1-d1-p0,0-g1-xz0-ncx,ncx-bias");
}

struct Kernel {
    std::array<float, 3> scale{};
    std::array<int32_t, 2> zero_points{};
};

// Of a layer with two output channels.
Kernel kernel_of(const LayerBuilder &layer) {
    Kernel result;
    std::vector<Attribute> attributes;
    Resolution resolution;
    const Layer view = layer.view(&attributes);
    Status status = resolve(view, &resolution);
    EXPECT_TRUE(status.ok()) << status.message();
    status = output_scale(resolution.problem, view.quantization, result.scale.data());
    EXPECT_TRUE(status.ok()) << status.message();
    status = weight_zero_points(resolution.problem, view.quantization, result.zero_points.data());
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
}

TEST(Quantized, ScalesAreOneAChannel) {
    using Scale = std::array<float, 3>;
    const LayerBuilder per_channel = rescaled.scales(0.5, {0.25, 0.125}, 4).zero_points(0, {1, 2}, 0);
    EXPECT_EQ(kernel_of(per_channel).scale, (Scale{0.5f * 0.25f / 4, 0.5f * 0.125f / 4, 4}));
    EXPECT_EQ(kernel_of(per_channel).zero_points, (std::array<int32_t, 2>{1, 2}));
    const LayerBuilder shared = rescaled.scales(0.1, {0.3}, 0.7).zero_points(0, {5}, 0);
    const float factor = 0.1f * 0.3f / 0.7f;
    EXPECT_EQ(kernel_of(shared).scale, (Scale{factor, factor, 0.7f}));
    EXPECT_EQ(kernel_of(shared).zero_points, (std::array<int32_t, 2>{5, 5}));
    // An activation other than Relu, or a float bias, comes before y's scale.
    EXPECT_EQ(kernel_of(per_channel.activation("HardSwish")).scale, (Scale{0.5f * 0.25f, 0.5f * 0.125f, 4}));
}

}  // namespace
}  // namespace kiln::test
