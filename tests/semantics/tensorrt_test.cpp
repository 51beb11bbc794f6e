// TensorRT IConvolutionLayer: shapes and pads.
#include <gtest/gtest.h>

#include "layer_builder.h"

namespace kiln::test {
namespace {

// One axis: x of `in`, w of `kernel`.
LayerBuilder line(int64_t in, int64_t kernel, int64_t stride = 1) {
    return convolution({1, 1, in}, {1, 1, kernel}).list("stride_nd", {stride});
}
LayerBuilder mode(const LayerBuilder &layer, const char *name) {
    return layer.text("padding_mode", name);
}

// They print a kernel without its channels.
TEST(TensorRt, ResolvesTheDocumentsExamples) {
    const ResolvedCase cases[] = {
        {convolution({1, 1, 5, 5}, {3, 3, 3}).integer("num_output_maps", 3).list("kernel_size_nd", {3, 3}),
         {1, 3, 3, 3},
         {0, 0},
         {0, 0}},
        {convolution({1, 1, 3, 3, 3}, {1, 1, 1}).integer("num_output_maps", 1).list("kernel_size_nd", {1, 1, 1}),
         {1, 1, 3, 3, 3},
         {0, 0, 0},
         {0, 0, 0}},
        {convolution({1, 1, 5, 5}, {3, 1, 3, 3}), {1, 3, 3, 3}, {0, 0}, {0, 0}},
    };
    for (const ResolvedCase &c : cases) {
        expect_resolves(c);
    }
}

TEST(TensorRt, Resolves) {
    const ResolvedCase cases[] = {
        {line(7, 3, 2), {1, 1, 3}, {0}, {0}},
        {line(8, 3, 2), {1, 1, 3}, {0}, {0}},
        {mode(line(8, 3, 2), "EXPLICIT_ROUND_DOWN"), {1, 1, 3}, {0}, {0}},
        // the padding that is printed is the stated one, though the last output reads further
        {mode(line(8, 3, 2), "EXPLICIT_ROUND_UP"), {1, 1, 4}, {0}, {0}},
        {mode(line(7, 3, 2), "EXPLICIT_ROUND_UP"), {1, 1, 3}, {0}, {0}},
        {mode(line(8, 3, 3), "EXPLICIT_ROUND_UP").list("pre_padding", {1}), {1, 1, 3}, {1}, {0}},
        {mode(line(8, 3, 2), "SAME_UPPER"), {1, 1, 4}, {0}, {1}},
        {mode(line(8, 3, 2), "SAME_LOWER"), {1, 1, 4}, {1}, {0}},
        {mode(line(5, 4), "SAME_UPPER"), {1, 1, 5}, {1}, {2}},
        {mode(line(8, 1, 3), "SAME_UPPER"), {1, 1, 3}, {0}, {0}},  // DK < S: P is 0
        {mode(line(8, 3, 2), "SAME_UPPER").list("pre_padding", {7}).list("padding_nd", {7}), {1, 1, 4}, {0}, {1}},
        // dilations: DK is 5
        {line(9, 3).list("dilation_nd", {2}), {1, 1, 5}, {0}, {0}},
        {mode(line(9, 3).list("dilation_nd", {2}), "SAME_LOWER"), {1, 1, 9}, {2}, {2}},
        // paddings
        {line(5, 3).list("pre_padding", {2}), {1, 1, 5}, {2}, {0}},
        {line(5, 3).list("post_padding", {2}), {1, 1, 5}, {0}, {2}},
        {line(5, 3).list("padding_nd", {1}), {1, 1, 5}, {1}, {1}},
        {line(5, 3).list("padding_nd", {7}).list("pre_padding", {1}), {1, 1, 4}, {1}, {0}},
        // channels
        {convolution({2, 4, 5, 6}, {6, 2, 3, 3}).integer("num_groups", 2), {2, 6, 3, 4}, {0, 0}, {0, 0}},
        {convolution({2, 4, 5, 6}, {108})
             .integer("num_groups", 2)
             .integer("num_output_maps", 6)
             .list("kernel_size_nd", {3, 3}),
         {2, 6, 3, 4},
         {0, 0},
         {0, 0}},
        {convolution({0, 1, 5}, {1, 1, 3}), {0, 1, 3}, {0}, {0}},
        // sizes left open
        {convolution({open, 4, open, open}, {6, 4, 3, 3}).list("padding_nd", {1, 1}),
         {open, 6, open, open},
         {1, 1},
         {1, 1}},
        {convolution({1, open, 5}, {6, 4, 3}), {1, 6, 3}, {0}, {0}},
        {mode(line(open, 3, 2), "EXPLICIT_ROUND_UP"), {1, 1, open}, {0}, {0}},
        {mode(line(open, 4), "SAME_LOWER"), {1, 1, open}, {2}, {1}},
        {mode(line(open, 4, 2), "SAME_LOWER"), {1, 1, open}, {open}, {open}},
        {mode(line(open, 1, 2), "SAME_UPPER"), {1, 1, open}, {0}, {0}},
    };
    for (const ResolvedCase &c : cases) {
        expect_resolves(c);
    }
}

TEST(TensorRt, MeansTheProblem) {
    // Rounding up is a larger end pad.
    EXPECT_EQ(problem_of(mode(line(8, 3, 2), "EXPLICIT_ROUND_UP")),
              "conv1d-f32-n1-c1-i8-m1-o4-k3-s2-d1-p0,1-g1-ncx,ncx");
    const LayerBuilder int8 = line(8, 3).quantized(DType::s8, DType::s8, DType::s8).scales(0.5, {0.25}, 2);
    EXPECT_EQ(problem_of(int8), "conv1d-s8-n1-c1-i8-m1-o6-k3-s1-d1-p0,0-g1-xz0-yz0-ncx,ncx");
    EXPECT_EQ(problem_of(int8.bias().activation("Relu")),
              "conv1d-s8-n1-c1-i8-m1-o6-k3-s1-d1-p0,0-g1-xz0-yz0-ncx,ncx-biasf32-relu");
    EXPECT_EQ(problem_of(int8.quantized(DType::s8, DType::s8, DType::f32).bias()),
              "conv1d-s8.s8.f32-n1-c1-i8-m1-o6-k3-s1-d1-p0,0-g1-xz0-ncx,ncx-biasf32");
}

}  // namespace
}  // namespace kiln::test
