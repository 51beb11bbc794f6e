// What the depthwise algorithm is compiled with by default.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../parsed.h"
#include "algorithms/depthwise/schedule.h"
#include "decisions.h"
#include "kernel.h"

namespace kiln {
namespace {

bool is_transposed(const std::string &problem, const char *target) {
    return default_decision(parsed(problem), find_target(target)).schedule.find("transposed:1") != std::string::npos;
}

// Planes of many taps are transposed in registers where channels mostly fill vectors.
TEST(DepthwiseDecision, planes_of_many_taps_are_transposed) {
    const std::pair<const char *, const char *> cases[] = {{"128", "transposed:1"}, {"24", "transposed:0"}};
    for (const auto &[channels, expected] : cases) {
        const std::string c = channels;
        const Problem problem =
            parsed("conv2d-f32-n1-c" + c + "-i48x48-m" + c + "-o48x48-k5x5-s1x1-d1x1-p2x2,2x2-g" + c + "-ncx,ncx");
        EXPECT_THAT(default_decision(problem, find_target("x86-64-amx")).schedule, testing::HasSubstr(expected));
    }
}

// Rows of taps are a loop of the depthwise algorithm however many there are, which leaves out those in the padding.
TEST(DepthwiseDecision, kernels_as_large_as_their_image_are_no_direct_ones) {
    const auto algorithm_of = [](const std::string &channels, const char *target) {
        const std::string text =
            "conv2d-f32-n1-c" + channels + "-i14x14-m" + channels + "-o14x14-k27x27-s1x1-d1x1-p13x13";
        return default_decision(parsed(text + ",13x13-g" + channels + "-nxc,nxc"), find_target(target)).algorithm;
    };
    for (const char *target : {"x86-64-zen4", "x86-64-avx2", "arm-64-linux"}) {
        EXPECT_EQ(algorithm_of("192", target), "depthwise") << target;
        EXPECT_EQ(algorithm_of("3", target), "direct") << target;
    }
    EXPECT_EQ(algorithm_of("192", "opencl").find("gpu_depthwise"), std::string::npos);
    depthwise::DepthwiseSchedule unrolled;
    EXPECT_THROW(unrolled.check(parsed("conv2d-f32-n1-c8-i14x14-m8-o14x14-k27x27-s1x1-d1x1-p13x13,13x13-g8-nxc,nxc")),
                 std::invalid_argument);
}

// Elements of planes that share a cache's sets are not copied one by one, where they are not transposed.
TEST(DepthwiseDecision, bytes_of_crowded_planes_take_rows) {
    const auto schedule = [](const std::string &planes, const std::string &pads) {
        return default_decision(parsed("conv3d-u8.s8.u8-n1-c64-i" + planes +
                                       "-m64-o6x6x6-k3x3x3-s3x3x3-d1x1x1-p1x1x1," + pads + "-g64-xz128-yz128-ncx,ncx"),
                                find_target("arm-64-linux"))
            .schedule;
    };
    EXPECT_THAT(schedule("16x16x16", "1x1x1"), testing::HasSubstr("along_row:1"));
    EXPECT_THAT(schedule("17x16x16", "0x1x1"), testing::HasSubstr("along_row:0"));
}

// Of strides, of narrow images, and where rows of many taps are a loop.
TEST(DepthwiseDecision, planes_of_bytes_are_transposed) {
    const auto transposes = [](const std::string &size, const char *target) {
        return is_transposed("conv2d-u8.s8.u8-n1-c64-" + size + "-g64-xz3-yz0-ncx,ncx", target);
    };
    const std::string narrow = "i14x14-m64-o14x14-k3x3-s1x1-d1x1-p1x1,1x1";
    const std::string strided = "i113x113-m64-o57x57-k3x3-s2x2-d1x1-p1x1,1x1";
    const std::string wide = "i112x112-m64-o112x112-k3x3-s1x1-d1x1-p1x1,1x1";
    const std::string wide_of_many = "i56x56-m64-o56x56-k5x5-s1x1-d1x1-p2x2,2x2";
    for (const char *target : {"x86-64-zen4", "x86-64-avx2"}) {
        EXPECT_TRUE(transposes(narrow, target)) << target;
        EXPECT_TRUE(transposes(strided, target)) << target;
        EXPECT_FALSE(transposes(wide, target)) << target;
    }
    EXPECT_TRUE(transposes(wide_of_many, "x86-64-zen4"));
    EXPECT_TRUE(transposes(wide_of_many, "x86-64-avx2"));
    EXPECT_FALSE(transposes(narrow, "arm-64-linux"));
}

// Rows with strides that are less than a vector, and wider ones where vectors are taken in halves.
TEST(DepthwiseDecision, planes_with_strides_are_transposed) {
    const auto transposes = [](const std::string &size, const char *target) {
        return is_transposed("conv2d-f32-n1-c64-" + size + "-g64-ncx,ncx", target);
    };
    const std::string narrow = "i28x28-m64-o14x14-k3x3-s2x2-d1x1-p1x1,0x0";
    const std::string wide = "i56x56-m64-o28x28-k3x3-s2x2-d1x1-p1x1,0x0";
    EXPECT_TRUE(transposes(narrow, "x86-64-zen4"));
    EXPECT_TRUE(transposes(narrow, "x86-64-avx512"));
    EXPECT_FALSE(transposes(narrow, "x86-64-avx2"));
    EXPECT_TRUE(transposes(wide, "x86-64-zen4"));
    EXPECT_FALSE(transposes(wide, "x86-64-avx512"));
    EXPECT_FALSE(transposes("i64x64-m64-o32x32-k2x2-s2x2-d1x1-p0x0,0x0", "x86-64-zen4"));
    EXPECT_FALSE(transposes("i224x224-m64-o112x112-k3x3-s2x2-d1x1-p1x1,0x0", "x86-64-zen4"));
    EXPECT_FALSE(transposes("i28x28-m64-o28x28-k3x3-s1x1-d1x1-p1x1,1x1", "x86-64-zen4"));
}

// Positions of a row whose lines fall into few sets of the first cache are fewer, and two vectors of each.
TEST(DepthwiseDecision, positions_that_share_a_set_are_few) {
    const auto schedule_of = [](const std::string &channels, const std::string &taps) {
        const std::string text =
            "conv1d-f32-n1-c" + channels + "-i800-m" + channels + "-o800-" + taps + "-g" + channels;
        return default_decision(parsed(text + "-nxc,nxc"), find_target("x86-64-zen4")).schedule;
    };
    EXPECT_THAT(schedule_of("512", "k3-s1-d16-p16,16"), testing::HasSubstr("vectors:2;pixels:2;"));
    EXPECT_THAT(schedule_of("512", "k3-s1-d1-p1,1"), testing::HasSubstr("vectors:2;pixels:5;"));
    EXPECT_THAT(schedule_of("480", "k3-s1-d16-p16,16"), testing::HasSubstr("vectors:1;pixels:8;"));
    EXPECT_THAT(schedule_of("512", "k9-s1-d1-p4,4"), testing::HasSubstr("vectors:1;pixels:8;"));
}

// Tiles of images, whose channels are a power of two, are few positions too where their lines share sets.
TEST(DepthwiseDecision, tiles_that_share_sets_are_few_positions) {
    const auto is_parted = [](const std::string &channels, const std::string &rest, const char *target) {
        const std::string text = "conv2d-f32-n1-c" + channels + "-i28x28-m" + channels + "-" + rest + "-g" + channels;
        const std::string schedule = default_decision(parsed(text + "-nxc,nxc"), find_target(target)).schedule;
        return schedule.find("vectors:2;pixels:2;rows:2;") != std::string::npos;
    };
    const std::string plain = "o28x28-k3x3-s1x1-d1x1-p1x1,1x1", strided = "o14x14-k3x3-s2x2-d1x1-p1x1,0x0";
    EXPECT_TRUE(is_parted("256", plain, "x86-64-zen4"));
    EXPECT_TRUE(is_parted("512", strided, "x86-64-zen4"));
    EXPECT_FALSE(is_parted("512", plain, "x86-64-zen4"));
    EXPECT_FALSE(is_parted("240", strided, "x86-64-zen4"));
    EXPECT_FALSE(is_parted("512", strided, "x86-64-zen5"));
    // Where rows of taps are a loop such tiles take all channels, and others sweep the image.
    const auto sweeps = [](const std::string &channels) {
        const std::string text =
            "conv2d-f32-n1-c" + channels + "-i14x14-m" + channels + "-o14x14-k5x5-s1x1-d1x1-p2x2,2x2-g";
        const std::string schedule =
            default_decision(parsed(text + channels + "-nxc,nxc"), find_target("x86-64-zen4")).schedule;
        return schedule.find("channels_outside:1") != std::string::npos;
    };
    EXPECT_FALSE(sweeps("512"));
    EXPECT_TRUE(sweeps("480"));
}

// A row alone of many taps reads each of its neighbours once for a tile in registers; of few registers, of fewer taps.
TEST(DepthwiseDecision, rows_of_many_taps_stay_in_registers) {
    const auto schedule_of = [](int taps, const std::string &layouts, const char *target) {
        const std::string pad = std::to_string(taps / 2);
        const std::string text = "conv1d-f32-n1-c256-i400-m256-o400-k" + std::to_string(taps) + "-s1-d1-p" + pad + ",";
        return default_decision(parsed(text + pad + "-g256-" + layouts), find_target(target)).schedule;
    };
    for (const char *target : {"x86-64-zen4", "x86-64-avx2", "arm-64-linux"}) {
        EXPECT_THAT(schedule_of(31, "nxc,nxc", target), testing::HasSubstr("channels_outside:0;parallel:1;merged:0"));
        EXPECT_THAT(schedule_of(31, "nxc,nxc", target), testing::HasSubstr("taps_in_loop:1;transposed:0")) << target;
    }
    EXPECT_THAT(schedule_of(31, "ncx,ncx", "x86-64-zen4"), testing::HasSubstr("taps_in_loop:1;transposed:1"));
    EXPECT_THAT(schedule_of(9, "nxc,nxc", "x86-64-avx2"), testing::HasSubstr("taps_in_loop:1"));
    for (const char *target : {"x86-64-zen4", "arm-64-linux", "arm-32-linux"}) {
        EXPECT_THAT(schedule_of(9, "nxc,nxc", target), testing::HasSubstr("taps_in_loop:0")) << target;
    }
}

// Depthwise channels whose count is such that a position's neighbours lie in few of the first cache's sets are no
// vector that sweeps the image: tiles are as tall as it is.
TEST(DepthwiseDecision, channels_that_share_sets_take_tall_tiles) {
    const auto schedule_of = [](int channels) {
        const std::string count = std::to_string(channels);
        const std::string text = "conv2d-f32-n1-c" + count + "-i7x7-m" + count + "-o7x7-k3x3-s1x1-d1x1-p1x1,1x1-g";
        return default_decision(parsed(text + count + "-nxc,nxc"), find_target("x86-64-zen4")).schedule;
    };
    EXPECT_THAT(schedule_of(960), testing::HasSubstr("channels_outside:1"));
    for (const int channels : {1024, 1536}) {
        EXPECT_THAT(schedule_of(channels), testing::HasSubstr("vectors:2;pixels:2;rows:7")) << channels;
    }
}

// A sweep of a volume whose channels share sets finds no line again, where its rows are several tiles: these take all
// channels, and fewer positions.
TEST(DepthwiseDecision, volumes_that_share_sets_are_swept_by_all_channels) {
    const auto schedule_of = [](const std::string &channels, const char *target) {
        const std::string text = "conv3d-f32-n1-c" + channels + "-i8x28x28-m" + channels +
                                 "-o8x28x28-k3x3x3-s1x1x1-d1x1x1-p1x1x1,1x1x1-g" + channels + "-nxc,nxc";
        return default_decision(parsed(text), find_target(target)).schedule;
    };
    for (const char *target : {"x86-64-avx2", "x86-64-sapphire-rapids", "x86-64-zen4"}) {
        EXPECT_THAT(schedule_of("128", target), testing::HasSubstr("channels_outside:0")) << target;
    }
    EXPECT_THAT(schedule_of("128", "x86-64-sapphire-rapids"), testing::HasSubstr("pixels:7;"));
    EXPECT_THAT(schedule_of("192", "x86-64-zen5"), testing::HasSubstr("channels_outside:1"));
}

// A sweep of an image that comes from a slow last cache reads a line of each position. With strides tiles share little.
TEST(DepthwiseDecision, images_from_a_slow_cache_are_tiles_of_all_channels) {
    const auto schedule_of = [](const std::string &text, const char *target = "x86-64-sapphire-rapids") {
        return default_decision(parsed(text), find_target(target)).schedule;
    };
    const std::string large = "conv2d-f32-n1-c384-i56x56-m384-o56x56-k7x7-s1x1-d1x1-p3x3,3x3-g384-nxc,nxc";
    EXPECT_THAT(schedule_of(large), testing::HasSubstr("pixels:14;rows:1;dot_width:1;along_row:0;channels_outside:0"));
    EXPECT_THAT(schedule_of(large, "x86-64-zen5"), testing::HasSubstr("channels_outside:1"));
    EXPECT_THAT(schedule_of("conv2d-f32-n1-c144-i112x112-m144-o56x56-k5x5-s2x2-d1x1-p2x2,1x1-g144-nxc,nxc"),
                testing::HasSubstr("pixels:7;rows:1;dot_width:1;along_row:0;channels_outside:0"));
    EXPECT_THAT(schedule_of("conv2d-f32-n1-c64-i160x160-m64-o80x80-k5x5-s2x2-d1x1-p2x2,1x1-g64-nxc,nxc"),
                testing::HasSubstr("pixels:5;rows:1;dot_width:1;along_row:0;channels_outside:0"));
    // The first cache holds half of the positions that registers do, the second the image, or not even a tile.
    EXPECT_THAT(schedule_of("conv3d-f32-n1-c54-i8x28x28-m54-o8x28x28-k3x3x3-s1x1x1-d1x1x1-p1x1x1,1x1x1-g54-nxc,nxc"),
                testing::HasSubstr("pixels:14;"));
    EXPECT_THAT(schedule_of("conv3d-f32-n1-c108-i8x28x28-m108-o8x28x28-k3x3x3-s1x1x1-d1x1x1-p1x1x1,1x1x1-g108-nxc,nxc"),
                testing::HasSubstr("pixels:7;"));
    EXPECT_THAT(schedule_of("conv2d-f32-n1-c96-i56x56-m96-o56x56-k7x7-s1x1-d1x1-p3x3,3x3-g96-nxc,nxc"),
                testing::HasSubstr("channels_outside:1"));
    EXPECT_THAT(schedule_of("conv2d-f32-n1-c128-i80x80-m128-o80x80-k31x31-s1x1-d1x1-p15x15,15x15-g128-nxc,nxc"),
                testing::HasSubstr("channels_outside:1"));
}

// Columns of taps have no row that a loop would keep in registers: the rows of a tile share what they read.
TEST(DepthwiseDecision, columns_of_taps_are_unrolled) {
    const auto schedule_of = [](const std::string &kernel, const std::string &layouts) {
        const std::string text = "conv2d-f32-n1-c64-i32x32-m64-o32x32-" + kernel + "-g64-" + layouts;
        return default_decision(parsed(text), find_target("x86-64-avx512")).schedule;
    };
    const std::string column = schedule_of("k21x1-s1x1-d1x1-p10x0,10x0", "nxc,nxc");
    EXPECT_THAT(column, testing::HasSubstr("pixels:1;rows:6;"));
    EXPECT_THAT(column, testing::HasSubstr("taps_in_loop:0"));
    EXPECT_THAT(schedule_of("k1x21-s1x1-d1x1-p0x10,0x10", "nxc,nxc"), testing::HasSubstr("taps_in_loop:1"));
}

// Columns of taps of channels-first planes share nothing between positions, which are the direct algorithm's vectors: a
// plane after the other, whose rows stay in the first cache.
TEST(DepthwiseDecision, columns_of_taps_of_planes_are_rows_of_the_direct_algorithm) {
    for (const char *target : {"x86-64-avx512", "x86-64-avx2"}) {
        for (const char *size :
             {"i32x32-m64-o32x32-k21x1-s1x1-d1x1-p10x0,10x0", "i32x32-m64-o30x32-k3x1-s1x1-d1x1-p0x0,0x0",
              "i60x56-m64-o60x56-k7x1-s1x1-d1x1-p3x0,3x0"}) {
            const std::string text = "conv2d-f32-n1-c64-" + std::string(size) + "-g64-ncx,ncx";
            const Decision decision = default_decision(parsed(text), find_target(target));
            EXPECT_EQ(decision.algorithm, "direct") << text;
            EXPECT_THAT(decision.schedule,
                        testing::AllOf(testing::HasSubstr("channels:1;"), testing::HasSubstr("panels_outside:1;")));
        }
    }
    const char *row = "conv2d-f32-n1-c64-i32x32-m64-o32x32-k1x21-s1x1-d1x1-p0x10,0x10-g64-ncx,ncx";
    EXPECT_THAT(default_decision(parsed(row), find_target("x86-64-avx512")).schedule,
                testing::HasSubstr("transposed:1"));
}

std::string schedule_of_bytes(const std::string &problem, const std::string &layouts, const char *target) {
    return default_decision(parsed("conv" + problem + "-xz3-yz0-" + layouts), find_target(target)).schedule;
}

// Rows of bytes are two a tile, which share fours, unless the rows of taps lie apart.
TEST(DepthwiseDecision, dilated_bytes_are_tiles_of_a_row) {
    const auto schedule_of = [](const std::string &size, const std::string &taps) {
        const std::string text = "2d-u8.s8.u8-n1-c64-i56x56-m64-o" + size + "-k3x3-s2x2-" + taps + "-g64";
        return schedule_of_bytes(text, "nxc,nxc", "x86-64-avxvnni");
    };
    EXPECT_THAT(schedule_of("28x28", "d1x1-p1x1,0x0"), testing::HasSubstr("rows:2;"));
    EXPECT_THAT(schedule_of("28x28", "d6x6-p6x6,5x5"), testing::HasSubstr("rows:1;"));
}

// Rows with strides share nothing: they are tiles of a few positions of all channels.
TEST(DepthwiseDecision, strided_bytes_are_tiles_of_a_row) {
    const auto schedule_of = [](const std::string &taps, const std::string &layouts, const char *target) {
        return schedule_of_bytes("2d-u8.s8.u8-n1-c96-i64x64-m96-o32x32-" + taps + "-g96", layouts, target);
    };
    const char *target = "x86-64-sapphire-rapids", *three = "k3x3-s2x2-d1x1-p1x1,0x0",
               *five = "k5x5-s2x2-d1x1-p2x2,1x1";
    const std::string two_vectors = "vectors:2;pixels:8;rows:1;", one_vector = "vectors:1;pixels:8;rows:1;";
    for (const char *taps : {three, five}) {
        EXPECT_THAT(schedule_of(taps, "nxc,nxc", target), testing::HasSubstr(two_vectors)) << taps;
        EXPECT_THAT(schedule_of(taps, "nxc,nxc", target), testing::HasSubstr("channels_outside:0")) << taps;
    }
    EXPECT_THAT(schedule_of(three, "ncx,ncx", target), testing::HasSubstr(two_vectors));
    EXPECT_THAT(schedule_of(five, "ncx,ncx", target), testing::HasSubstr(one_vector));
    EXPECT_THAT(schedule_of(five, "nxc,nxc", "x86-64-avxvnni"), testing::HasSubstr(one_vector));
    EXPECT_THAT(schedule_of(three, "nxc,nxc", "x86-64-avxvnni"), testing::HasSubstr("rows:2;"));
}

// Rows of taps are a loop where what a lane sums, gathered once for each position, is used often; with two vectors of
// channels where these fill them, and where longer tiles do not know more of the padding.
TEST(DepthwiseDecision, rows_of_taps_of_bytes_are_a_loop) {
    const auto schedule_of = [](int channels, int size, int taps, const std::string &layouts, const char *target) {
        const std::string c = std::to_string(channels), pad = std::to_string(taps / 2);
        const auto square = [](int n) { return std::to_string(n) + "x" + std::to_string(n); };
        return schedule_of_bytes("2d-u8.s8.u8-n1-c" + c + "-i" + square(size) + "-m" + c + "-o" + square(size) + "-k" +
                                     square(taps) + "-s1x1-d1x1-p" + square(taps / 2) + "," + square(taps / 2) + "-g" +
                                     c,
                                 layouts, target);
    };
    const char *fours = "x86-64-sapphire-rapids", *twos = "x86-64-avx2";
    for (const std::string layouts : {"nxc,nxc", "ncx,ncx"}) {
        const std::string planes = layouts == "ncx,ncx" ? "1" : "0";
        EXPECT_THAT(schedule_of(384, 14, 7, layouts, fours),
                    testing::HasSubstr("vectors:2;pixels:7;rows:1;dot_width:4;"));
        EXPECT_THAT(schedule_of(384, 14, 7, layouts, fours), testing::HasSubstr("taps_in_loop:1;transposed:" + planes));
        EXPECT_THAT(schedule_of(384, 14, 7, layouts, twos),
                    testing::HasSubstr("vectors:1;pixels:7;rows:1;dot_width:2;"));
        EXPECT_THAT(schedule_of(128, 28, 13, layouts, fours), testing::HasSubstr("vectors:1;pixels:14;"));
        EXPECT_THAT(schedule_of(72, 56, 5, layouts, fours), testing::HasSubstr("vectors:1;pixels:14;"));
        EXPECT_THAT(schedule_of(96, 56, 3, layouts, fours), testing::HasSubstr("taps_in_loop:0"));
        EXPECT_THAT(schedule_of(192, 14, 27, layouts, "arm-64-linux"), testing::HasSubstr("taps_in_loop:1"));
    }
    EXPECT_THAT(schedule_of(96, 56, 7, "nxc,nxc", "x86-64-avxvnni"),
                testing::HasSubstr("vectors:2;pixels:5;rows:1;dot_width:4;"));
    EXPECT_THAT(schedule_of(384, 14, 7, "nxc,ncx", fours), testing::HasSubstr("taps_in_loop:0"));
}

// Of a row alone what is gathered for each product is more than for each position; a single row of outputs shares
// nothing of it.
TEST(DepthwiseDecision, rows_of_bytes_alone_are_a_loop) {
    const auto schedule_of = [](const std::string &taps, const std::string &layouts, const char *target) {
        return schedule_of_bytes("1d-u8.s8.u8-n1-c256-i400-m256-o400-k" + taps + "-g256", layouts, target);
    };
    for (const char *target : {"x86-64-sapphire-rapids", "x86-64-avx2", "x86-64-avxvnni"}) {
        EXPECT_THAT(schedule_of("31-s1-d1-p15,15", "nxc,nxc", target), testing::HasSubstr("taps_in_loop:1"));
        EXPECT_THAT(schedule_of("7-s1-d1-p3,3", "ncx,ncx", target), testing::HasSubstr("transposed:1"));
        EXPECT_THAT(schedule_of("3-s1-d1-p1,1", "nxc,nxc", target), testing::HasSubstr("taps_in_loop:0"));
        EXPECT_THAT(
            schedule_of_bytes("2d-u8.s8.u8-n1-c16-i22x500-m16-o1x500-k22x1-s1x1-d1x1-p0x0,0x0-g16", "nxc,nxc", target),
            testing::HasSubstr("taps_in_loop:0"));
    }
}

// Vectors of several outputs a channel spread what they read of x over their lanes, of floats channels last: not of a
// copy that is widened once and whose taps share it, nor of many taps where outputs divide no vector.
TEST(DepthwiseDecision, outputs_of_a_channel_spread_what_they_read) {
    const char *target = "x86-64-sapphire-rapids";
    const auto schedule_of = [&](const std::string &type, const std::string &shape, const std::string &layouts) {
        const Decision decision =
            default_decision(parsed("conv2d-" + type + "-n1-" + shape + "-" + layouts), find_target(target));
        EXPECT_EQ(decision.algorithm, "depthwise") << shape;
        return decision.schedule;
    };
    const std::string image = "i28x28-m128-o28x28-k5x5-s1x1-d1x1-p2x2,2x2-g", column = "i22x500-m16-o1x500-k22x1-s1x1",
                      odd = "c24-i7x500-m72-o1x500-k7x1-s1x1-d1x1-p0x0,0x0-g24", unpadded = "-d1x1-p0x0,0x0-g8";
    EXPECT_THAT(schedule_of("f32", "c64-" + image + "64", "nxc,nxc"), testing::HasSubstr("spread:1"));
    EXPECT_THAT(schedule_of("f32", "c64-" + image + "64", "ncx,nxc"), testing::HasSubstr("spread:0"));
    EXPECT_THAT(schedule_of("bf16", "c64-" + image + "64", "nxc,nxc"), testing::HasSubstr("spread:0"));
    EXPECT_THAT(schedule_of("f32", "c128-" + image + "128", "nxc,nxc"), testing::HasSubstr("spread:0"));
    EXPECT_THAT(schedule_of("f32", "c8-" + column + unpadded, "nxc,nxc"),
                testing::AllOf(testing::HasSubstr("spread:1"), testing::HasSubstr("pixels:8"),
                               testing::HasSubstr("taps_in_loop:1")));
    EXPECT_THAT(schedule_of("bf16", "c8-" + column + unpadded, "nxc,nxc"), testing::HasSubstr("spread:1"));
    EXPECT_THAT(schedule_of("f32", odd, "nxc,nxc"),
                testing::AllOf(testing::HasSubstr("vectors:3"), testing::HasSubstr("spread:1")));
    EXPECT_THAT(schedule_of("f32", "c96-i14x14-m288-o14x14-k7x7-s1x1-d1x1-p3x3,3x3-g96", "nxc,nxc"),
                testing::HasSubstr("spread:0"));
    depthwise::DepthwiseSchedule spread;
    spread.lanes = 16;
    spread.tile = depthwise::ChannelLanes{4, false, false, true};
    EXPECT_THROW(spread.check(parsed("conv2d-f32-n1-" + odd + "-nxc,nxc")), std::invalid_argument);  // amid a group
    spread.vectors = 3;
    EXPECT_NO_THROW(spread.check(parsed("conv2d-f32-n1-" + odd + "-nxc,nxc")));
    EXPECT_THROW(spread.check(parsed("conv2d-f32-n1-" + odd + "-ncx,nxc")), std::invalid_argument);
}

// Outputs that are no multiple of a ConvTranspose's strides are the first of those that are.
TEST(DepthwiseDecision, phases_of_unequal_sizes_are_completed) {
    const auto algorithm_of = [](const std::string &type, const std::string &sizes, const std::string &layouts) {
        return default_decision(
                   parsed("convtranspose2d-" + type + "-n1-c64-" + sizes + "-k3x3-s2x2-d1x1-p1x1,1x1-g64-" + layouts),
                   find_target("x86-64-sapphire-rapids"))
            .algorithm;
    };
    const std::string image = "i14x14-m64-o27x27", small = "i7x7-m64-o13x13", twofold = "i7x7-m128-o13x13";
    EXPECT_EQ(algorithm_of("f32", image, "nxc,nxc"), "depthwise");
    EXPECT_EQ(algorithm_of("f32", image, "ncx,ncx"), "depthwise");
    EXPECT_NE(algorithm_of("f32", small, "ncx,ncx"), "depthwise");
    EXPECT_EQ(algorithm_of("f32", twofold, "ncx,ncx"), "depthwise");
    EXPECT_NE(algorithm_of("bf16", image, "ncx,ncx"), "depthwise");
}

}  // namespace
}  // namespace kiln
