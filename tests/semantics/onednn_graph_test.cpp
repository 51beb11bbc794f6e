// oneDNN Graph ConvTranspose: shapes and pads.
#include <gtest/gtest.h>

#include "layer_builder.h"

namespace kiln::test {
namespace {

// Data and filter in the order of ONNX.
LayerBuilder in_onnx_order(const LayerBuilder &layer) {
    return layer.text("data_format", "NCX").text("filter_format", "IOX");
}

// One axis: x of `in`, w of `kernel`.
LayerBuilder line(int64_t in, int64_t kernel, int64_t stride = 1) {
    return in_onnx_order(onednn({1, 1, in}, {1, 1, kernel}, {stride}));
}

TEST(OneDnnGraph, FindsDimensionsByTheirLetters) {
    const std::vector<int64_t> nxc = {1, 5, 6, 4}, ncx = {1, 4, 5, 6};
    const ResolvedCase cases[] = {
        {onednn(nxc, {3, 2, 4, 9}), {1, 7, 7, 9}, {0, 0}, {0, 0}},
        {onednn(nxc, {3, 2, 4, 9}).text("data_format", "NXC").text("filter_format", "XIO"),
         {1, 7, 7, 9},
         {0, 0},
         {0, 0}},
        {onednn(nxc, {9, 4, 3, 2}).text("filter_format", "OIX"), {1, 7, 7, 9}, {0, 0}, {0, 0}},
        {onednn(ncx, {9, 4, 3, 2}).text("data_format", "NCX").text("filter_format", "OIX"),
         {1, 9, 7, 7},
         {0, 0},
         {0, 0}},
        {onednn(ncx, {3, 2, 9, 4}).text("data_format", "NCX").text("filter_format", "XOI"),
         {1, 9, 7, 7},
         {0, 0},
         {0, 0}},
        {in_onnx_order(onednn(ncx, {4, 9, 3, 2})), {1, 9, 7, 7}, {0, 0}, {0, 0}},
        // O is that of a group
        {onednn(nxc, {3, 2, 4, 9}).integer("groups", 2), {1, 7, 7, 18}, {0, 0}, {0, 0}},
        {onednn(nxc, {9, 4, 3, 2}).text("filter_format", "OIX").integer("groups", 4), {1, 7, 7, 36}, {0, 0}, {0, 0}},
        {onednn({2, 5, 4}, {3, 4, 9}), {2, 7, 9}, {0}, {0}},
        {onednn({1, 5, 6, 7, 4}, {3, 2, 1, 4, 9}), {1, 7, 7, 7, 9}, {0, 0, 0}, {0, 0, 0}},
    };
    for (const ResolvedCase &c : cases) {
        expect_resolves(c);
    }
}

TEST(OneDnnGraph, LaysOutFiltersByTheirLetters) {
    const auto strides = [](const LayerBuilder &layer) {
        Resolution resolution;
        const Status status = layer.resolve(&resolution);
        EXPECT_TRUE(status.ok()) << status.message();
        return std::vector<int64_t>(resolution.weight_strides, resolution.weight_strides + resolution.problem.rank + 2);
    };
    using Strides = std::vector<int64_t>;
    // [input channel, output channel of the group, taps...]
    EXPECT_EQ(strides(onednn({1, 5, 6, 4}, {3, 2, 4, 9}).integer("groups", 2)), (Strides{9, 1, 72, 36}));
    EXPECT_EQ(strides(onednn({1, 5, 6, 4}, {9, 4, 3, 2}).text("filter_format", "OIX")), (Strides{6, 24, 2, 1}));
    EXPECT_EQ(strides(onednn({1, 5, 6, 4}, {3, 2, 9, 4}).text("filter_format", "XOI")), (Strides{1, 4, 72, 36}));
    EXPECT_EQ(strides(onednn({1, 5, 6, 4}, {4, 9, 3, 2}).text("filter_format", "IOX")), (Strides{54, 6, 2, 1}));
    // where it lies otherwise in memory
    EXPECT_EQ(strides(onednn({1, 5, 6, 4}, {3, 2, 4, 9}).layouts(Layout::nxc, Layout::nxc, "IOX")),
              (Strides{54, 6, 2, 1}));
}

TEST(OneDnnGraph, Resolves) {
    const ResolvedCase cases[] = {
        {in_onnx_order(onednn({1, 1, 4}, {1, 1, 3}, {2}, {1}, {0}, {2})), {1, 1, 10}, {1}, {0}},
        {in_onnx_order(onednn({1, 1, 4}, {1, 1, 3}, {2}, {1}, {0})).auto_pad("none"), {1, 1, 8}, {1}, {0}},
        // pads are ignored where auto_pad is set
        {in_onnx_order(onednn({1, 1, 4}, {1, 1, 3}, {2}, {1}, {1})).auto_pad("valid"), {1, 1, 9}, {0}, {0}},
        {in_onnx_order(onednn({1, 1, 3}, {1, 1, 3}, {2}, {5}, {5})).auto_pad("same_upper"), {1, 1, 6}, {0}, {1}},
        {line(3, 3, 2).auto_pad("same_lower"), {1, 1, 6}, {1}, {0}},
        // whatever the case
        {line(3, 3, 2).auto_pad("SAME_LOWER"), {1, 1, 6}, {1}, {0}},
        {line(3, 3, 2).auto_pad("Same_Upper"), {1, 1, 6}, {0}, {1}},
        {line(3, 3, 2).auto_pad("NONE"), {1, 1, 7}, {0}, {0}},
        // output_padding enlarges the output of SAME, and is not in its pads
        {line(3, 3, 2).auto_pad("same_upper").list("output_padding", {1}), {1, 1, 7}, {0}, {1}},
        {line(3, 4, 2).auto_pad("same_lower").list("output_padding", {1}), {1, 1, 7}, {1}, {1}},
        {line(3, 1, 3).auto_pad("same_upper"), {1, 1, 7}, {0}, {0}},
        // and has no bound
        {line(3, 3).list("output_padding", {5}), {1, 1, 10}, {0}, {0}},
        // output_shape, of a natural 5
        {line(3, 3).list("output_shape", {4}), {1, 1, 4}, {1}, {0}},
        {line(3, 3).list("output_shape", {4}).auto_pad("same_upper"), {1, 1, 4}, {0}, {1}},
        {line(3, 3).list("output_shape", {4}).auto_pad("same_lower"), {1, 1, 4}, {1}, {0}},
        {line(3, 3).list("output_shape", {4}).list("output_padding", {1}), {1, 1, 4}, {1}, {1}},
        {line(3, 3).list("output_shape", {8}), {1, 1, 8}, {-2}, {-1}},
        {line(3, 3).list("output_shape", {8}).auto_pad("same_upper"), {1, 1, 8}, {-1}, {-2}},
        // empty tensors
        {in_onnx_order(onednn({0, 1, 3}, {1, 1, 3})), {0, 1, 5}, {0}, {0}},
        {line(0, 3), {1, 1, 2}, {0}, {0}},
        {line(0, 1, 1).ort(), {1, 1, 0}, {0}, {0}},  // profiles are ONNX's
        // sizes left open
        {onednn({open, open, 6, 4}, {3, 2, 4, 9}), {open, open, 7, 9}, {0, 0}, {0, 0}},
        {line(open, 5, 2).auto_pad("same_upper"), {1, 1, open}, {1}, {2}},
        {line(open, 3).list("output_shape", {4}), {1, 1, 4}, {open}, {open}},
    };
    for (const ResolvedCase &c : cases) {
        expect_resolves(c);
    }
}

TEST(OneDnnGraph, MeansTheProblem) {
    EXPECT_EQ(problem_of(onednn({1, 28, 28, 512}, {2, 2, 512, 256}, {2, 2})
                             .bias()
                             .dtype(DType::bf16)
                             .layouts(Layout::nxc, Layout::nxc)),
              "convtranspose2d-bf16-n1-c512-i28x28-m256-o56x56-k2x2-s2x2-d1x1-p0x0,0x0-g1-nxc,nxc-bias");
}

}  // namespace
}  // namespace kiln::test
