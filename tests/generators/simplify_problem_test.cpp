// Simplified problems: the taps that are left out, and the axes that become one.
#include "axes/simplify_problem.h"

#include <gtest/gtest.h>

#include "../parsed.h"

namespace kiln {
namespace {

std::string simplified_text(const char *text) {
    return std::string(std::string_view(print(simplify_problem(parsed(text)))));
}

TEST(SimplifyProblem, leaves_out_taps_that_read_padding_alone) {
    const char *point = "conv2d-f32-n1-c256-i1x1-m256-o1x1-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias";
    EXPECT_EQ(simplified_text(point), "conv1d-f32-n1-c256-i1-m256-o1-k1-s1-d1-p0,0-g1-nxc,nxc-bias");
    EXPECT_EQ(simplification_of(parsed(point)).first_taps, (std::vector<int64_t>{1, 1}));
    EXPECT_EQ(simplified_text("conv2d-f32-n1-c8-i9x9-m8-o9x9-k3x3-s1x1-d12x12-p12x12,12x12-g1-nxc,nxc"),
              "conv1d-f32-n1-c8-i81-m8-o81-k1-s1-d1-p0,0-g1-nxc,nxc");
    EXPECT_EQ(simplified_text("conv1d-f32-n1-c8-i3-m8-o3-k9-s1-d1-p4,4-g1-nxc,nxc"),
              "conv1d-f32-n1-c8-i3-m8-o3-k5-s1-d1-p2,2-g1-nxc,nxc");
}

TEST(SimplifyProblem, leaves_out_axes_of_one_position) {
    const char *row = "conv2d-f32-n1-c8-i1x50-m8-o1x50-k3x5-s1x1-d1x1-p1x2,1x2-g8-ncx,ncx";
    EXPECT_EQ(simplified_text(row), "conv1d-f32-n1-c8-i50-m8-o50-k5-s1-d1-p2,2-g8-ncx,ncx");
    EXPECT_EQ(simplification_of(parsed(row)).single_axes, std::vector<int>{0});
    EXPECT_EQ(simplification_of(parsed(row)).first_taps, (std::vector<int64_t>{1, 0}));
    EXPECT_EQ(simplification_of(parsed(row)).of_weights.rank, 2);
    const char *column = "conv3d-f32-n1-c8-i1x50x1-m8-o1x25x1-k1x4x1-s1x2x1-d1x1x1-p0x1x0,0x1x0-g1-nxc,nxc";
    EXPECT_EQ(simplified_text(column), "conv1d-f32-n1-c8-i50-m8-o25-k4-s2-d1-p1,1-g1-nxc,nxc");
    EXPECT_EQ(simplification_of(parsed(column)).single_axes, (std::vector<int>{0, 2}));
    // A single row of outputs that several rows are read for stays one.
    const char *rows = "conv2d-f32-n1-c8-i3x50-m8-o1x50-k3x1-s1x1-d1x1-p0x0,0x0-g8-nxc,nxc";
    EXPECT_EQ(simplified_text(rows), rows);
}

TEST(SimplifyProblem, keeps_every_tap_that_reads_something) {
    for (const char *text : {"conv2d-f32-n1-c8-i5x5-m8-o5x5-k9x9-s1x1-d1x1-p4x4,4x4-g1-nxc,nxc",
                             "convtranspose1d-f32-n1-c8-i3-m8-o3-k3-s1-d1-p1,1-g1-nxc,nxc"}) {
        EXPECT_EQ(simplified_text(text), text);
        const Simplification simplification = simplification_of(parsed(text));
        EXPECT_EQ(simplification.first_taps, std::vector<int64_t>(static_cast<size_t>(parsed(text).rank), 0));
    }
}

TEST(SimplifyProblem, spreads_the_taps_of_single_inputs) {
    // print() writes the strides of single inputs as 1.
    EXPECT_EQ(simplify_problem(parsed("convtranspose2d-f32-n1-c100-i1x1-m512-o4x5-k4x5-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc"))
                  .stride,
              (Axes{4, 5}));
    for (const char *text : {"convtranspose1d-f32-n1-c8-i1-m8-o9-k5-s1-d2-p0,0-g1-nxc,nxc",     // outputs between taps
                             "convtranspose1d-f32-n1-c8-i2-m8-o6-k5-s1-d1-p0,0-g1-nxc,nxc"}) {  // taps that meet
        EXPECT_EQ(simplified_text(text), text);
    }
}

TEST(SimplifyProblem, makes_taps_of_patches_channels) {
    const char *patches = "conv2d-bf16-n1-c3-i224x224-m768-o14x14-k16x16-s16x16-d1x1-p0x0,0x0-g1-nxc,nxc";
    EXPECT_EQ(simplified_text(patches), "conv2d-bf16-n1-c48-i224x14-m768-o14x14-k16x1-s16x1-d1x1-p0x0,0x0-g1-nxc,nxc");
    EXPECT_EQ(simplification_of(parsed(patches)).patches.taps, 16);
    EXPECT_EQ(simplification_of(parsed(patches)).of_weights.kernel, parsed(patches).kernel);
    // The axis is then one of single pixels, which may be one with those before it.
    EXPECT_EQ(simplified_text("conv2d-f32-n2-c4-i6x24-m8-o6x8-k1x3-s1x3-d1x1-p0x0,0x0-g1-nxc,nxc"),
              "conv1d-f32-n1-c12-i96-m8-o96-k1-s1-d1-p0,0-g1-nxc,nxc");
    EXPECT_EQ(simplified_text("conv1d-f32-n1-c8-i7-m8-o1-k7-s1-d1-p0,0-g1-nxc,nxc"),
              "conv1d-f32-n1-c56-i1-m8-o1-k1-s1-d1-p0,0-g1-nxc,nxc");
    // Of planes, channels become an axis.
    EXPECT_EQ(simplified_text("conv2d-f16-n2-c3-i32x40-m8-o8x10-k4x4-s4x4-d1x1-p0x0,0x0-g1-ncx,ncx"),
              "conv3d-f16-n2-c4-i3x32x10-m8-o1x8x10-k3x4x1-s1x4x1-d1x1x1-p0x0x0,0x0x0-g1-nxc,ncx");
}

TEST(SimplifyProblem, makes_taps_of_images_channels) {
    // One of each image, so that images are positions of one row.
    const char *images = "conv2d-f32-n9-c256-i7x5-m64-o1x1-k7x5-s1x1-d1x1-p0x0,0x0-g1-ncx,ncx-bias";
    EXPECT_EQ(simplified_text(images), "conv1d-f32-n1-c8960-i9-m64-o9-k1-s1-d1-p0,0-g1-nxc,nxc-bias");
    const Patches patches = simplification_of(parsed(images)).patches;
    EXPECT_EQ(patches.image, (std::vector<int64_t>{7, 5}));
    EXPECT_TRUE(patches.of_planes);
    EXPECT_EQ(simplification_of(parsed(images)).of_weights.kernel[0], 7);
    EXPECT_FALSE(simplification_of(parsed("conv2d-f32-n9-c256-i7x5-m64-o1x1-k7x5-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc"))
                     .patches.of_planes);
    // Not of groups, of a part of the image, nor dilated.
    for (const char *text :
         {"conv1d-f32-n2-c8-i5-m8-o1-k5-s1-d1-p0,0-g2-ncx,ncx", "conv1d-f32-n2-c8-i6-m8-o1-k5-s1-d1-p0,~1-g1-ncx,ncx",
          "conv1d-f32-n2-c8-i5-m8-o1-k3-s1-d2-p0,0-g1-ncx,ncx"}) {
        EXPECT_TRUE(simplification_of(parsed(text)).patches.image.empty()) << text;
    }
}

TEST(SimplifyProblem, single_positions_lie_channels_last) {
    EXPECT_EQ(simplified_text("conv2d-f32-n32-c480-i1x1-m20-o1x1-k1x1-s1x1-d1x1-p0x0,0x0-g1-ncx,ncx"),
              "conv1d-f32-n1-c480-i32-m20-o32-k1-s1-d1-p0,0-g1-nxc,nxc");
    // One of x or of y alone lies as the other tensor does.
    EXPECT_EQ(simplify_problem(parsed("convtranspose1d-f32-n4-c8-i1-m8-o5-k5-s1-d1-p0,0-g1-ncx,nxc")).x_layout,
              Layout::nxc);
    EXPECT_EQ(simplify_problem(parsed("conv1d-f32-n4-c8-i6-m8-o1-k5-s1-d1-p0,~1-g1-ncx,nxc")).y_layout, Layout::ncx);
}

TEST(SimplifyProblem, one_channel_is_a_plane) {
    EXPECT_EQ(simplified_text("conv1d-u8.s8.u8-n1-c1-i32-m1-o30-k3-s1-d1-p0,0-g1-xz3-yz0-nxc,nxc"),
              "conv1d-u8.s8.u8-n1-c1-i32-m1-o30-k3-s1-d1-p0,0-g1-xz3-yz0-ncx,ncx");
    EXPECT_EQ(simplified_text("conv2d-f32-n1-c1-i32x40-m1-o32x40-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc"),
              "conv2d-f32-n1-c1-i32x40-m1-o32x40-k3x3-s1x1-d1x1-p1x1,1x1-g1-ncx,ncx");
    const char *to_two = "conv1d-u8.s8.u8-n1-c1-i32-m2-o30-k3-s1-d1-p0,0-g1-xz3-yz0-nxc,nxc";
    EXPECT_EQ(simplified_text(to_two), to_two);
}

TEST(SimplifyProblem, leaves_out_taps_of_transposed_rows) {
    EXPECT_EQ(simplified_text("convtranspose2d-f32-n1-c8-i1x56-m8-o2x56-k6x9-s1x1-d1x1-p2x4,2x4-g1-nxc,nxc"),
              "convtranspose2d-f32-n1-c8-i1x56-m8-o2x56-k2x9-s1x1-d1x1-p0x4,0x4-g1-nxc,nxc");
    EXPECT_EQ(simplification_of(parsed("convtranspose2d-f32-n1-c8-i1x56-m8-o2x56-k6x9-s1x1-d1x1-p2x4,2x4-g1-nxc,nxc"))
                  .first_taps,
              (std::vector<int64_t>{2, 0}));
    EXPECT_EQ(simplified_text("convtranspose1d-f32-n1-c8-i3-m8-o3-k9-s1-d2-p8,8-g1-nxc,nxc"),
              "convtranspose1d-f32-n1-c8-i3-m8-o3-k3-s1-d2-p2,2-g1-nxc,nxc");
    // A row alone has no stride; other strides keep their taps.
    EXPECT_EQ(simplified_text("convtranspose2d-f32-n1-c8-i1x56-m8-o2x112-k4x4-s1x2-d1x1-p1x1,1x1-g1-nxc,nxc"),
              "convtranspose2d-f32-n1-c8-i1x56-m8-o2x112-k2x4-s1x2-d1x1-p0x1,0x1-g1-nxc,nxc");
    const char *strided = "convtranspose1d-f32-n1-c8-i2-m8-o2-k9-s2-d1-p4,5-g1-nxc,nxc";
    EXPECT_EQ(simplified_text(strided), strided);
    // Taps that lead nowhere left out, those of a single input are spread.
    EXPECT_EQ(simplify_problem(parsed("convtranspose1d-f32-n1-c8-i1-m8-o3-k5-s1-d1-p1,1-g1-nxc,nxc")).stride[0], 3);
}

TEST(SimplifyProblem, keeps_taps_that_are_no_run_of_their_own) {
    for (const char *text : {"conv1d-f32-n1-c2-i32-m8-o8-k4-s4-d1-p0,0-g1-ncx,nxc",   // channels lie apart, of floats
                             "conv1d-f16-n1-c8-i32-m8-o8-k4-s4-d1-p0,0-g1-ncx,nxc",   // more channels lie apart
                             "conv1d-f32-n1-c8-i32-m8-o8-k4-s4-d1-p0,0-g2-nxc,nxc",   // and those of groups
                             "conv1d-f32-n1-c8-i33-m8-o8-k4-s4-d1-p0,~1-g1-nxc,nxc",  // a pixel is left
                             "conv1d-f32-n1-c8-i31-m8-o8-k4-s4-d1-p1,0-g1-nxc,nxc",   // or is padding
                             "conv1d-f32-n1-c8-i32-m8-o8-k3-s4-d1-p0,~1-g1-nxc,nxc",  // or is passed over
                             "conv1d-f32-n1-c8-i32-m8-o15-k4-s2-d1-p0,0-g1-nxc,nxc"}) {  // or is shared
        EXPECT_EQ(simplified_text(text), text);
        EXPECT_EQ(simplification_of(parsed(text)).patches.taps, 1);
    }
}

}  // namespace
}  // namespace kiln
