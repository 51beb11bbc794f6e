// ONNX DeformConv: shapes, pads and groups.
#include <gtest/gtest.h>

#include "layer_builder.h"

namespace kiln::test {
namespace {

TEST(OnnxDeformConv, Resolves) {
    const LayerBuilder square = deform_conv({1, 4, 5, 5}, {6, 4, 3, 3});
    const ResolvedCase cases[] = {
        {square, {1, 6, 3, 3}, {0, 0}, {0, 0}},
        {square.opset(19), {1, 6, 3, 3}, {0, 0}, {0, 0}},
        {square.ort(), {1, 6, 3, 3}, {0, 0}, {0, 0}},
        {square.list("pads", {1, 0, 1, 2}), {1, 6, 5, 5}, {1, 0}, {1, 2}},
        {square.list("strides", {2, 1}).list("dilations", {1, 2}), {1, 6, 2, 1}, {0, 0}, {0, 0}},
        {square.list("kernel_shape", {3, 3}).integer("offset_group", 4).mask().bias(), {1, 6, 3, 3}, {0, 0}, {0, 0}},
        {deform_conv({2, 4, 9}, {6, 2, 3}).integer("group", 2), {2, 6, 7}, {0}, {0}},
        {deform_conv({1, 4, 5, 6, 7}, {6, 4, 1, 2, 3}), {1, 6, 5, 5, 5}, {0, 0, 0}, {0, 0, 0}},
        {deform_conv({0, 4, 5, 5}, {6, 4, 3, 3}), {0, 6, 3, 3}, {0, 0}, {0, 0}},
        {deform_conv({open, open, open, 5}, {6, 4, 3, 3}), {open, 6, open, 3}, {0, 0}, {0, 0}},
    };
    for (const ResolvedCase &c : cases) {
        expect_resolves(c);
    }
}

TEST(OnnxDeformConv, MeansTheProblem) {
    EXPECT_EQ(problem_of(deform_conv({1, 64, 56, 56}, {64, 64, 3, 3})
                             .list("pads", {1, 1, 1, 1})
                             .integer("offset_group", 4)
                             .mask()
                             .bias()
                             .dtype(DType::bf16)
                             .layouts(Layout::nxc, Layout::ncx)),
              "deformconv2d-bf16-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-og4-nxc,ncx-bias-mask");
    EXPECT_EQ(problem_of(deform_conv({1, 4, 5}, {6, 4, 3}).activation("Relu").residual()),
              "deformconv1d-f32-n1-c4-i5-m6-o3-k3-s1-d1-p0,0-g1-og1-ncx,ncx-residual-relu");
}

}  // namespace
}  // namespace kiln::test
