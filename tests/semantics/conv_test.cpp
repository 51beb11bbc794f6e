// ONNX Conv: shapes and pads.
#include <gtest/gtest.h>

#include "layer_builder.h"

namespace kiln::test {
namespace {

TEST(OnnxConv, Resolves) {
    const LayerBuilder conv2d = conv({1, 3, 5, 7}, {4, 3, 3, 3});
    const ResolvedCase cases[] = {
        // the examples of the ONNX document
        {conv({1, 1, 5, 5}, {1, 1, 3, 3}).list("kernel_shape", {3, 3}).list("pads", {1, 1, 1, 1}),
         {1, 1, 5, 5},
         {1, 1},
         {1, 1}},
        {conv({1, 1, 5, 5}, {1, 1, 3, 3}).list("kernel_shape", {3, 3}).list("pads", {0, 0, 0, 0}),
         {1, 1, 3, 3},
         {0, 0},
         {0, 0}},
        {conv({1, 1, 7, 5}, {1, 1, 3, 3}).list("pads", {1, 1, 1, 1}).list("strides", {2, 2}),
         {1, 1, 4, 3},
         {1, 1},
         {1, 1}},
        {conv({1, 1, 7, 5}, {1, 1, 3, 3}).list("pads", {0, 0, 0, 0}).list("strides", {2, 2}),
         {1, 1, 3, 2},
         {0, 0},
         {0, 0}},
        {conv({1, 1, 7, 5}, {1, 1, 3, 3}).list("pads", {1, 0, 1, 0}).list("strides", {2, 2}),
         {1, 1, 4, 2},
         {1, 0},
         {1, 0}},
        {conv({1, 1, 5, 5}, {1, 1, 3, 3}).auto_pad("SAME_LOWER").list("strides", {2, 2}), {1, 1, 3, 3}, {1, 1}, {1, 1}},

        {conv2d, {1, 4, 3, 5}, {0, 0}, {0, 0}},
        {conv2d.auto_pad("VALID"), {1, 4, 3, 5}, {0, 0}, {0, 0}},
        {conv2d.auto_pad("NOTSET").list("pads", {0, 1, 2, 3}), {1, 4, 5, 9}, {0, 1}, {2, 3}},
        {conv2d.list("dilations", {2, 3}), {1, 4, 1, 1}, {0, 0}, {0, 0}},
        {conv2d.list("strides", {3, 4}), {1, 4, 1, 2}, {0, 0}, {0, 0}},
        // ranks
        {conv({2, 3, 9}, {8, 3, 4}), {2, 8, 6}, {0}, {0}},
        {conv({2, 4, 6, 7, 8}, {6, 2, 1, 2, 3}).integer("group", 2).list("strides", {2, 1, 3}),
         {2, 6, 3, 6, 2},
         {0, 0, 0},
         {0, 0, 0}},
        {conv({1, 1, 2, 2, 2, 2, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 2}),
         {1, 1, 2, 2, 2, 2, 2, 2, 2, 1},
         {0, 0, 0, 0, 0, 0, 0, 0},
         {0, 0, 0, 0, 0, 0, 0, 0}},
        // depthwise
        {conv({1, 8, 6, 6}, {8, 1, 3, 3}).integer("group", 8), {1, 8, 4, 4}, {0, 0}, {0, 0}},
        // SAME: out = ceil(in / stride), an odd total's extra at the end for UPPER, at the beginning for LOWER
        {conv2d.auto_pad("SAME_UPPER"), {1, 4, 5, 7}, {1, 1}, {1, 1}},
        {conv({1, 1, 7}, {1, 1, 4}).auto_pad("SAME_UPPER"), {1, 1, 7}, {1}, {2}},
        {conv({1, 1, 7}, {1, 1, 4}).auto_pad("SAME_LOWER"), {1, 1, 7}, {2}, {1}},
        {conv({1, 1, 7}, {1, 1, 4}).auto_pad("SAME_UPPER").list("strides", {2}), {1, 1, 4}, {1}, {2}},
        {conv({1, 1, 7}, {1, 1, 4}).auto_pad("SAME_LOWER").list("strides", {2}), {1, 1, 4}, {2}, {1}},
        {conv({1, 1, 6}, {1, 1, 3}).auto_pad("SAME_UPPER").list("strides", {2}), {1, 1, 3}, {0}, {1}},
        {conv({1, 1, 6}, {1, 1, 3}).auto_pad("SAME_LOWER").list("strides", {2}), {1, 1, 3}, {1}, {0}},
        {conv({1, 1, 8}, {1, 1, 2}).auto_pad("SAME_UPPER").list("dilations", {3}), {1, 1, 8}, {1}, {2}},
        // ... and no less than nothing is padded
        {conv({1, 1, 7}, {1, 1, 1}).auto_pad("SAME_UPPER").list("strides", {3}), {1, 1, 3}, {0}, {0}},
        {conv({1, 1, 8}, {1, 1, 1}).auto_pad("SAME_LOWER").list("strides", {3}), {1, 1, 3}, {0}, {0}},
        // ... but ONNX Runtime leaves out inputs at both ends: a total of -5, and of -2
        {conv({1, 1, 12}, {1, 1, 1}).auto_pad("SAME_UPPER").list("strides", {6}), {1, 1, 2}, {0}, {0}},
        {conv({1, 1, 12}, {1, 1, 1}).auto_pad("SAME_UPPER").list("strides", {6}).ort(), {1, 1, 2}, {-2}, {-3}},
        {conv({1, 1, 12}, {1, 1, 1}).auto_pad("SAME_LOWER").list("strides", {6}).ort(), {1, 1, 2}, {-1}, {-4}},
        {conv({1, 1, 6}, {1, 1, 1}).auto_pad("SAME_UPPER").list("strides", {3}).ort(), {1, 1, 2}, {0}, {-2}},
        // every opset, and profiles, the same
        {conv({1, 1, 7}, {1, 1, 4}).auto_pad("SAME_LOWER").list("strides", {2}).opset(1), {1, 1, 4}, {2}, {1}},
        {conv({1, 1, 7}, {1, 1, 4}).auto_pad("SAME_LOWER").list("strides", {2}).opset(11), {1, 1, 4}, {2}, {1}},
        {conv({1, 1, 7}, {1, 1, 4}).auto_pad("SAME_LOWER").list("strides", {2}).ort(), {1, 1, 4}, {2}, {1}},
        {conv2d.opset(10), {1, 4, 3, 5}, {0, 0}, {0, 0}},
        {conv2d.opset(21), {1, 4, 3, 5}, {0, 0}, {0, 0}},
        {conv2d.opset(100), {1, 4, 3, 5}, {0, 0}, {0, 0}},
        {conv2d.opset(22).dtype(DType::bf16), {1, 4, 3, 5}, {0, 0}, {0, 0}},
        {conv2d.opset(1).dtype(DType::f16), {1, 4, 3, 5}, {0, 0}, {0, 0}},
        // empty tensors
        {conv({0, 3, 5, 7}, {4, 3, 3, 3}), {0, 4, 3, 5}, {0, 0}, {0, 0}},
        {conv({1, 1, 0}, {1, 1, 3}).list("pads", {2, 2}), {1, 1, 2}, {2}, {2}},
        {conv({1, 1, 0}, {1, 1, 3}).auto_pad("SAME_UPPER"), {1, 1, 0}, {1}, {1}},
        {conv({1, 1, 0}, {1, 1, 1}), {1, 1, 0}, {0}, {0}},
        // sizes left open
        {conv({open, 3, 5, 7}, {4, 3, 3, 3}), {open, 4, 3, 5}, {0, 0}, {0, 0}},
        {conv({open, 3, open, open}, {4, 3, 3, 3}).list("pads", {1, 1, 1, 1}).list("strides", {2, 2}),
         {open, 4, open, open},
         {1, 1},
         {1, 1}},
        {conv({1, open, 5, open}, {4, 3, 3, 3}), {1, 4, 3, open}, {0, 0}, {0, 0}},
        {conv({1, 3, open, 7}, {4, 3, 3, 4}).auto_pad("SAME_UPPER"), {1, 4, open, 7}, {1, 1}, {1, 2}},
        {conv({1, 3, open}, {4, 3, 1}).auto_pad("SAME_UPPER").list("strides", {2}), {1, 4, open}, {0}, {0}},
    };
    for (const ResolvedCase &c : cases) {
        expect_resolves(c);
    }
}

TEST(OnnxConv, MeansTheProblem) {
    EXPECT_EQ(problem_of(conv({1, 64, 56, 56}, {64, 64, 3, 3})
                             .list("pads", {1, 1, 1, 1})
                             .layouts(Layout::nxc, Layout::nxc)
                             .bias()
                             .activation("Relu")),
              "conv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias-relu");
    EXPECT_EQ(problem_of(conv({2, 4, 9}, {6, 2, 3}).integer("group", 2).list("strides", {4}).dtype(DType::f64)),
              "conv1d-f64-n2-c4-i9-m6-o2-k3-s4-d1-p0,~2-g2-ncx,ncx");
    EXPECT_EQ(problem_of(conv({open, 3, open, 8}, {4, 3, 3, 1}).list("pads", {1, 0, 1, 0}).residual().strict()),
              "conv2d-f32-n?-c3-i?x8-m4-o?x8-k3x1-s1x1-d1x1-p1x0,?x0-g1-ncx,ncx-residual-strict");
    // Pads that say the same computation in other words meet in one key: the last input is not read.
    EXPECT_EQ(problem_of(conv({1, 1, 6}, {1, 1, 3}).list("strides", {2}).list("pads", {1, 0})),
              problem_of(conv({1, 1, 6}, {1, 1, 3}).list("strides", {2}).list("pads", {1, 1})));
    EXPECT_EQ(problem_of(conv({1, 1, 6}, {1, 1, 1}).list("dilations", {4})), problem_of(conv({1, 1, 6}, {1, 1, 1})));
}

}  // namespace
}  // namespace kiln::test
