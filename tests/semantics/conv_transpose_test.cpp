// ONNX ConvTranspose: shapes and pads.
#include <gtest/gtest.h>

#include "layer_builder.h"

namespace kiln::test {
namespace {

// One axis: x of `in`, w of `kernel`.
LayerBuilder line(int64_t in, int64_t kernel) {
    return conv_transpose({1, 1, in}, {1, 1, kernel});
}

LayerBuilder strided(int64_t in, int64_t kernel, int64_t stride) {
    return line(in, kernel).list("strides", {stride});
}

TEST(OnnxConvTranspose, ResolvesTheDocumentsExamples) {
    const LayerBuilder example = conv_transpose({1, 1, 3, 3}, {1, 2, 3, 3});
    const LayerBuilder strides_3_2 = example.list("strides", {3, 2});
    const ResolvedCase cases[] = {
        {example, {1, 2, 5, 5}, {0, 0}, {0, 0}},
        {conv_transpose({1, 1, 3}, {1, 2, 3}), {1, 2, 5}, {0}, {0}},
        {conv_transpose({1, 1, 3, 4, 5}, {1, 2, 3, 3, 3}), {1, 2, 5, 6, 7}, {0, 0, 0}, {0, 0, 0}},
        // output larger than natural: never split, the surplus is zeros at the end
        {strides_3_2.list("output_shape", {10, 8}), {1, 2, 10, 8}, {0, 0}, {-1, -1}},
        {strides_3_2.list("output_padding", {1, 1}), {1, 2, 10, 8}, {0, 0}, {0, 0}},
        {strides_3_2.list("output_shape", {10, 8}).list("kernel_shape", {3, 3}).list("output_padding", {1, 1}),
         {1, 2, 10, 8},
         {0, 0},
         {0, 0}},
        {strides_3_2.list("pads", {1, 2, 1, 2}), {1, 2, 7, 3}, {1, 2}, {1, 2}},
        {conv_transpose({1, 1, 3, 3}, {1, 1, 2, 2}).list("dilations", {2, 2}), {1, 1, 5, 5}, {0, 0}, {0, 0}},
        {example.auto_pad("SAME_UPPER").list("strides", {2, 2}), {1, 2, 6, 6}, {0, 0}, {1, 1}},
    };
    for (const ResolvedCase &c : cases) {
        for (const int opset : {1, 11, 22}) {
            SCOPED_TRACE(opset);
            expect_resolves({c.layer.opset(opset), c.y, c.pads_begin, c.pads_end});
            expect_resolves({c.layer.opset(opset).ort(), c.y, c.pads_begin, c.pads_end});
        }
    }
}

TEST(OnnxConvTranspose, Resolves) {
    const ResolvedCase cases[] = {
        {line(3, 3).auto_pad("VALID"), {1, 1, 5}, {0}, {0}},
        {line(3, 3).auto_pad("NOTSET").list("pads", {1, 2}), {1, 1, 2}, {1}, {2}},
        {strided(4, 3, 2).list("pads", {1, 1}).list("output_padding", {1}), {1, 1, 8}, {1}, {1}},
        {strided(4, 3, 2).list("dilations", {3}), {1, 1, 13}, {0}, {0}},
        {line(3, 3).list("pads", {4, 0}), {1, 1, 1}, {4}, {0}},  // more than the kernel reaches
        // channels
        {conv_transpose({2, 6, 5}, {6, 4, 2}).integer("group", 3), {2, 12, 6}, {0}, {0}},
        {conv_transpose({1, 8, 4, 4}, {8, 1, 4, 4})
             .integer("group", 8)
             .list("strides", {2, 2})
             .list("pads", {1, 1, 1, 1}),
         {1, 8, 8, 8},
         {1, 1},
         {1, 1}},
        // output_padding below the dilation suffices in the document
        {line(3, 3).list("dilations", {2}).list("output_padding", {1}), {1, 1, 8}, {0}, {0}},
        {line(3, 3).list("output_padding", {0}), {1, 1, 5}, {0}, {0}},
        // VALID with output_padding
        {strided(3, 3, 2).auto_pad("VALID").list("output_padding", {1}), {1, 1, 8}, {0}, {0}},
        // empty tensors: bias only over the computed size
        {conv_transpose({0, 1, 3}, {1, 1, 3}), {0, 1, 5}, {0}, {0}},
        {line(0, 3), {1, 1, 2}, {0}, {0}},
        {strided(0, 3, 2), {1, 1, 1}, {0}, {0}},
        {strided(0, 3, 2).auto_pad("SAME_UPPER"), {1, 1, 0}, {0}, {1}},
        {strided(0, 3, 2).list("output_shape", {4}), {1, 1, 4}, {0}, {-3}},
        // sizes left open
        {conv_transpose({open, 1, open, 3}, {1, 2, 3, 3}).list("pads", {1, 0, 0, 1}),
         {open, 2, open, 4},
         {1, 0},
         {0, 1}},
        {conv_transpose({1, open, 3}, {5, 2, 3}), {1, 2, 5}, {0}, {0}},
        {conv_transpose({open, 1, 3}, {1, 1, 3}).list("output_shape", {4}), {open, 1, 4}, {1}, {0}},
        // the pads of SAME do not depend on the input's size
        {strided(open, 5, 2).auto_pad("SAME_UPPER"), {1, 1, open}, {1}, {2}},
        {strided(open, 5, 2).auto_pad("SAME_LOWER"), {1, 1, open}, {2}, {1}},
        {strided(open, 1, 3).auto_pad("SAME_LOWER"), {1, 1, open}, {0}, {-2}},
        {strided(open, 1, 3).auto_pad("SAME_LOWER").ort(), {1, 1, open}, {0}, {0}},
        // those of output_shape do
        {line(open, 3).list("output_shape", {5}), {1, 1, 5}, {open}, {open}},
        {line(open, 3).list("output_shape", {5}).ort(), {1, 1, 5}, {open}, {open}},
    };
    for (const ResolvedCase &c : cases) {
        expect_resolves(c);
    }
}

// The natural size of line(3, 3) is 5, so 4 leaves an odd total.
TEST(OnnxConvTranspose, SplitsAnOddTotalOfOutputShape) {
    struct Row {
        const char *auto_pad;
        int64_t later_begin, first_begin;  // opset 11 and 22; opset 1
    };
    for (const Row &row : {Row{"SAME_UPPER", 0, 1}, Row{"SAME_LOWER", 1, 0}, Row{"NOTSET", 1, 0}, Row{"VALID", 1, 0}}) {
        SCOPED_TRACE(row.auto_pad);
        const LayerBuilder layer = line(3, 3).list("output_shape", {4}).auto_pad(row.auto_pad);
        expect_resolves({layer.opset(22), {1, 1, 4}, {row.later_begin}, {1 - row.later_begin}});
        expect_resolves({layer.opset(11), {1, 1, 4}, {row.later_begin}, {1 - row.later_begin}});
        expect_resolves({layer.opset(10), {1, 1, 4}, {row.first_begin}, {1 - row.first_begin}});
        expect_resolves({layer.opset(1), {1, 1, 4}, {row.first_begin}, {1 - row.first_begin}});
        // ONNX Runtime splits as in opset 11 always
        expect_resolves({layer.opset(1).ort(), {1, 1, 4}, {row.later_begin}, {1 - row.later_begin}});
        expect_resolves({layer.opset(22).ort(), {1, 1, 4}, {row.later_begin}, {1 - row.later_begin}});
    }
}

TEST(OnnxConvTranspose, OutputShapeRules) {
    const ResolvedCase cases[] = {
        // an even total is halved
        {line(3, 5).list("output_shape", {3}), {1, 1, 3}, {2}, {2}},
        // pads are ignored
        {line(3, 3).list("output_shape", {4}).list("pads", {3, 3}), {1, 1, 4}, {1}, {0}},
        {line(3, 3).list("output_shape", {4}).list("pads", {3, 3}).ort(), {1, 1, 4}, {1}, {0}},
        // output_padding takes part in the total: 5 + 1 - 4
        {strided(2, 3, 2).list("output_shape", {4}).list("output_padding", {1}), {1, 1, 4}, {1}, {1}},
        // a surplus is never split, whatever auto_pad says
        {strided(3, 3, 4).list("output_shape", {14}).auto_pad("SAME_LOWER"), {1, 1, 14}, {0}, {-3}},
        {strided(3, 3, 4).list("output_shape", {14}).auto_pad("SAME_UPPER").opset(1), {1, 1, 14}, {0}, {-3}},
        {strided(3, 3, 4).list("output_shape", {14}).ort(), {1, 1, 14}, {0}, {-3}},
        // of any size in the document; ONNX Runtime takes less than the stride
        {strided(3, 3, 2).list("output_shape", {20}), {1, 1, 20}, {0}, {-13}},
        // each axis by itself
        {conv_transpose({1, 1, 3, 3}, {1, 1, 3, 3}).list("output_shape", {4, 7}), {1, 1, 4, 7}, {1, 0}, {0, -2}},
    };
    for (const ResolvedCase &c : cases) {
        expect_resolves(c);
    }
}

TEST(OnnxConvTranspose, SameRules) {
    for (const int opset : {1, 11, 22}) {
        SCOPED_TRACE(opset);
        const ResolvedCase cases[] = {
            // out = in * stride; an odd total's extra at the end for UPPER, at the beginning for LOWER
            {strided(3, 3, 2).auto_pad("SAME_UPPER"), {1, 1, 6}, {0}, {1}},
            {strided(3, 3, 2).auto_pad("SAME_LOWER"), {1, 1, 6}, {1}, {0}},
            {strided(3, 3, 2).auto_pad("SAME_LOWER").ort(), {1, 1, 6}, {1}, {0}},
            {strided(3, 4, 2).auto_pad("SAME_LOWER"), {1, 1, 6}, {1}, {1}},
            {line(5, 4).auto_pad("SAME_UPPER"), {1, 1, 5}, {1}, {2}},
            {line(5, 3).auto_pad("SAME_UPPER").list("dilations", {2}), {1, 1, 5}, {2}, {2}},
            // output_padding is part of the total
            {strided(3, 3, 2).auto_pad("SAME_LOWER").list("output_padding", {1}), {1, 1, 6}, {1}, {1}},
            {strided(3, 4, 2).auto_pad("SAME_UPPER").list("output_padding", {1}).ort(), {1, 1, 6}, {1}, {2}},
            // a kernel below the stride leaves zeros at the end; ONNX Runtime makes less output instead
            {strided(3, 1, 3).auto_pad("SAME_UPPER"), {1, 1, 9}, {0}, {-2}},
            {strided(3, 1, 3).auto_pad("SAME_LOWER"), {1, 1, 9}, {0}, {-2}},
            {strided(3, 1, 3).auto_pad("SAME_UPPER").ort(), {1, 1, 7}, {0}, {0}},
            {strided(3, 1, 3).auto_pad("SAME_UPPER").list("output_padding", {1}).ort(), {1, 1, 8}, {0}, {0}},
        };
        for (const ResolvedCase &c : cases) {
            expect_resolves({c.layer.opset(opset), c.y, c.pads_begin, c.pads_end});
        }
    }
}

TEST(OnnxConvTranspose, Opset1DoesNotBoundOutputPadding) {
    expect_resolves({strided(3, 3, 2).list("output_padding", {5}).opset(1), {1, 1, 12}, {0}, {0}});
}

TEST(OnnxConvTranspose, MeansTheProblem) {
    EXPECT_EQ(problem_of(conv_transpose({1, 512, 28, 28}, {512, 256, 2, 2}).list("strides", {2, 2}).bias()),
              "convtranspose2d-f32-n1-c512-i28x28-m256-o56x56-k2x2-s2x2-d1x1-p0x0,0x0-g1-ncx,ncx-bias");
    // output_padding is rows behind the natural output: a negative end pad
    EXPECT_EQ(problem_of(strided(3, 3, 2).list("pads", {1, 0}).list("output_padding", {1}).opset(11).dtype(DType::f16)),
              "convtranspose1d-f16-n1-c1-i3-m1-o7-k3-s2-d1-p1,~1-g1-ncx,ncx");
    // The same computation in other words: output_padding, output_shape and pads.
    const std::string same = problem_of(strided(3, 3, 2).list("output_padding", {1}));
    EXPECT_EQ(problem_of(strided(3, 3, 2).list("output_shape", {8})), same);
    EXPECT_EQ(problem_of(strided(3, 4, 2)), "convtranspose1d-f32-n1-c1-i3-m1-o8-k4-s2-d1-p0,0-g1-ncx,ncx");
    EXPECT_EQ(problem_of(strided(1, 3, 5)), problem_of(line(1, 3)));
}

}  // namespace
}  // namespace kiln::test
