// Where Winograd's algorithm is taken by default, and what it is compiled with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../parsed.h"
#include "algorithms/estimates.h"
#include "algorithms/winograd/winograd.h"
#include "decisions.h"
#include "kernel.h"

namespace kiln {
namespace {

TEST(WinogradDecision, takes_winograd_where_it_pays) {
    const std::string image = "conv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc";
    const std::pair<std::string, const char *> cases[] = {
        {image, "winograd"},
        {image + "-strict", "direct"},
        {"conv2d-f32-n1-c128-i56x56-m128-o28x28-k3x3-s2x2-d1x1-p1x1,0x0-g1-nxc,nxc", "winograd"},
        {"conv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d2x2-p2x2,2x2-g1-nxc,nxc", "winograd"},
        {"conv1d-f32-n1-c80-i3000-m384-o3000-k3-s1-d1-p1,1-g1-nxc,nxc", "winograd"},
        {"convtranspose2d-f32-n1-c256-i16x16-m128-o32x32-k4x4-s2x2-d1x1-p1x1,1x1-g1-nxc,nxc", "winograd"},
        {"conv2d-f64-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc", "direct"},
        {"conv2d-f32-n1-c64-i56x56-m64-o56x56-k1x1-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc", "direct"},
        {"conv2d-f32-n1-c3-i56x56-m16-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc", "direct"},
        {"conv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g64-nxc,nxc", "depthwise"}};
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        for (const auto &[text, algorithm] : cases) {
            EXPECT_EQ(default_decision(parsed(text), target).algorithm, algorithm) << text << " on " << target.name;
        }
    }
}

TEST(WinogradDecision, takes_winograd_for_narrow_floats_too) {
    const std::string shape = "-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc";
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        EXPECT_EQ(default_decision(parsed("conv2d-f16" + shape), target).algorithm,
                  target.f16_tiles ? "amx" : "winograd")
            << target.name;
        EXPECT_EQ(default_decision(parsed("conv2d-f16" + shape + "-strict"), target).algorithm,
                  target.f16_tiles ? "amx" : "direct");
        EXPECT_EQ(default_decision(parsed("conv2d-bf16" + shape), target).algorithm,
                  target.matrix_tiles ? "amx" : "winograd")
            << target.name;
    }
}

// Of a slow last cache weights are waited for, which Winograd fetches ahead: what has 8 MB of them takes 1.3 to 2.5
// times as long by phases of a strided transposed convolution on an Intel Xeon, and a layer whose images outgrow the
// second cache 1.4 times. On a Zen 5 the phases alone are as fast, and stay.
TEST(WinogradDecision, counts_what_a_slow_last_cache_gives) {
    const char *up = "convtranspose2d-f32-n1-c512-i4x4-m256-o8x8-k4x4-s2x2-d1x1-p1x1,1x1-g1-nxc,nxc-bias-relu";
    const char *row = "convtranspose1d-f32-n1-c512-i32-m256-o256-k16-s8-d1-p4,4-g1-ncx,ncx-bias-relu";
    const char *down = "conv2d-f32-n1-c16-i160x160-m32-o80x80-k3x3-s2x2-d1x1-p1x1,0x0-g1-nxc,nxc-bias-relu";
    for (const char *name : {"x86-64-amx", "x86-64-sapphire-rapids", "x86-64-avx512"}) {
        for (const char *text : {up, row, down}) {
            EXPECT_EQ(default_decision(parsed(text), find_target(name)).algorithm, "winograd")
                << text << " on " << name;
        }
    }
    EXPECT_EQ(default_decision(parsed(up), find_target("x86-64-zen5")).algorithm, "polyphase");
    // What is passed on by that cache is less where an image's planes are transformed first: 1.4 ms for 1.78.
    const char *deep =
        "conv3d-f32-n1-c64-i8x28x28-m128-o4x14x14-k3x3x3-s2x2x2-d1x1x1-p1x1x1,0x0x0-g1-nxc,nxc-bias-relu";
    EXPECT_THAT(default_decision(parsed(deep), find_target("x86-64-amx")).schedule, testing::HasSubstr("by_point:1"));
    // A row of tiles passes more on than the second cache holds, its parts do not: 10.4 ms for 13.3 by the direct
    // algorithm, and 1.05 for 1.42. On a Zen 4, whose last cache is faster, the first takes 16 ms for 38.
    for (const char *text :
         {"conv3d-f32-n1-c3-i16x112x112-m64-o8x56x56-k7x7x7-s2x2x2-d1x1x1-p3x3x3,2x2x2-g1-nxc,nxc-bias-relu",
          "conv3d-f32-n1-c144-i8x28x28-m64-o8x28x28-k3x1x1-s1x1x1-d1x1x1-p1x0x0,1x0x0-g1-nxc,nxc-bias-relu"}) {
        for (const char *name : {"x86-64-amx", "x86-64-zen4"}) {
            EXPECT_THAT(default_decision(parsed(text), find_target(name)).schedule,
                        testing::ContainsRegex("row_tiles:[1-9]"))
                << text << " on " << name;
        }
    }
    // x is copied, through that cache: .585 ms for .624.
    const char *copied = "conv2d-f32-n1-c24-i112x112-m96-o56x56-k3x3-s2x2-d1x1-p1x1,0x0-g1-nxc,nxc-bias-relu";
    EXPECT_EQ(default_decision(parsed(copied), find_target("x86-64-amx")).algorithm, "direct");
    // Smaller ones find their weights nearer: 9x9 of 64 channels at 5x5 takes .041 ms, .062 by Winograd.
    const char *near = "conv2d-f32-n1-c64-i5x5-m64-o5x5-k9x9-s1x1-d1x1-p4x4,4x4-g1-nxc,nxc-bias-relu";
    EXPECT_EQ(default_decision(parsed(near), find_target("x86-64-amx")).algorithm, "direct");
    // Rows of more channels than a processor fetches ahead by itself are transposed slowly, which the direct
    // algorithm's row lanes do not: 1.62 ms for 1.95, and .107 for .138.
    for (const char *text :
         {"conv3d-f32-n1-c144-i8x28x28-m64-o8x28x28-k3x1x1-s1x1x1-d1x1x1-p1x0x0,1x0x0-g1-ncx,ncx-bias-relu",
          "conv1d-f32-n1-c1-i16000-m256-o1599-k20-s10-d1-p0,0-g1-ncx,ncx-bias-relu"}) {
        EXPECT_EQ(default_decision(parsed(text), find_target("x86-64-amx")).algorithm, "direct") << text;
    }
}

// By 16-bit products, but where there are such of bytes, and only where sums fit: at 255 * 128 a product, those of more
// than 1827 channels do not fit the 30 bits that tiles of 2 by 2 leave.
TEST(WinogradDecision, takes_winograd_for_bytes_where_it_is_exact) {
    const auto problem = [](const std::string &channels, const std::string &rest) {
        return parsed("conv2d-u8.s8.u8-n1-c" + channels + "-i28x28-m64-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g1-" + rest);
    };
    for (const TargetModel &target : target_models()) {
        if (!has_timed_defaults(target)) continue;
        // With AVX-VNNI too, whose registers of 256 bits gain as much by dot products of 16 bits, and on a Zen 4, which
        // takes those of 512 bits in halves: .36 ms for .50 at 56x56.
        const bool pays = target.int8_products == 2 || target.byte_dot != nullptr || target.core.halves() == 2;
        EXPECT_EQ(default_decision(problem("64", "xz0-yz0-nxc,nxc"), target).algorithm == "winograd", pays)
            << target.name;
        EXPECT_NE(default_decision(problem("64", "xz0-yz0-nxc,nxc-strict"), target).algorithm, "winograd");
        EXPECT_NE(default_decision(problem("1", "xz0-yz0-nxc,nxc"), target).algorithm, "winograd");
    }
    const auto check = [&problem](const char *channels, const char *zero_point, int tile_x, int tile_y) {
        WinogradSchedule schedule;
        schedule.tile = {tile_x, tile_y, 1};
        schedule.check(problem(channels, "xz" + std::string(zero_point) + "-yz0-nxc,nxc"));
    };
    EXPECT_NO_THROW(check("456", "0", 4, 3));
    EXPECT_THAT(error_of([&] { check("457", "0", 4, 3); }), testing::HasSubstr("8-bit numbers are not exact"));
    EXPECT_THAT(error_of([&] { check("64", "0", 4, 4); }), testing::HasSubstr("not exact"));
    EXPECT_NO_THROW(check("1827", "255", 2, 2));
    EXPECT_THAT(error_of([&] { check("1828", "255", 2, 2); }), testing::HasSubstr("not exact"));
    EXPECT_NO_THROW(check("3600", "128", 2, 2));  // data are 128 at the most
}

// A row that is transposed to NCX is cut at chunks first, so that no vector reaches from one into the next.
TEST(WinogradDecision, a_transposed_row_may_be_taken_in_chunks) {
    const Problem problem = parsed("conv1d-f32-n1-c80-i3000-m384-o3000-k3-s1-d1-p1,1-g1-ncx,ncx-bias");
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        WinogradSchedule schedule = default_winograd_schedule(problem, target);
        for (const int rows : {0, 1, 16}) {
            schedule.rows = rows;
            EXPECT_NO_THROW(schedule.check(problem));
        }
    }
}

// Winograd's weights that no near cache holds are fetched ahead, where processors gain by it.
TEST(WinogradDecision, far_weights_are_fetched_ahead) {
    const Problem far = parsed("conv2d-f32-n1-c256-i14x14-m256-o14x14-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc");
    const Problem near = parsed("conv2d-f32-n1-c32-i14x14-m32-o14x14-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc");
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        EXPECT_EQ(default_winograd_schedule(far, target).prefetch_distance > 0, !target.lane_indexed_fma)
            << target.name;
        EXPECT_EQ(default_winograd_schedule(near, target).prefetch_distance, 0) << target.name;
    }
}

// Asked for caches that hold no weights, tiles of fewer outputs pay, which have fewer of them.
TEST(WinogradDecision, cold_weights_make_tiles_small) {
    const Problem problem = parsed("conv2d-f32-n1-c128-i56x56-m128-o28x28-k3x3-s2x2-d1x1-p1x1,0x0-g1-nxc,nxc-bias");
    const TargetModel &target = find_target("x86-64-zen5");
    TargetModel cold = target;
    cold.cold_weights = true;
    const WinogradSchedule near = default_winograd_schedule(problem, target),
                           far = default_winograd_schedule(problem, cold);
    EXPECT_LT(far.tile[0] * far.tile[1], near.tile[0] * near.tile[1]);
}

// Asked for caches that hold no weights, they are fetched so far ahead as memory needs, where steps read few enough.
TEST(WinogradDecision, cold_weights_are_fetched_from_memory) {
    const Problem problem = parsed("conv2d-f32-n1-c256-i12x12-m384-o12x12-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc");
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        TargetModel cold = target;
        cold.cold_weights = true;
        const WinogradSchedule schedule = default_winograd_schedule(problem, cold);
        const int lines = schedule.panel() * static_cast<int>(sizeof(float)) / 64;
        const bool by_shares = fetches_by_shares(target);  // of blocks of tiles
        EXPECT_EQ(schedule.prefetch_panels, by_shares) << target.name;
        EXPECT_EQ(schedule.prefetch_distance > 0, !target.lane_indexed_fma && !by_shares) << target.name;
        if (schedule.prefetch_distance > 0) {
            EXPECT_EQ(schedule.prefetch_distance, target.memory_lines_ahead * 64 / (schedule.panel() * 4))
                << target.name;
            EXPECT_LE(lines, target.memory_fetched_lines) << target.name;
        }
    }
}

// Winograd's panels are fetched by shares where several blocks of tiles share them and the last cache is slow; not
// those of several input phases, which are read from several places.
TEST(WinogradDecision, winograd_fetches_panels_ahead) {
    const Problem wide = parsed("conv2d-f32-n1-c256-i28x28-m256-o28x28-k3x3-s1x1-d2x2-p2x2,2x2-g1-nxc,nxc");
    const Problem small = parsed("conv2d-f32-n1-c64-i28x28-m64-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc");
    const Problem strided = parsed("conv2d-f32-n1-c256-i57x57-m256-o28x28-k3x3-s2x2-d1x1-p0x0,0x0-g1-nxc,nxc");
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        EXPECT_EQ(default_winograd_schedule(wide, target).prefetch_panels, fetches_by_shares(target)) << target.name;
        EXPECT_FALSE(default_winograd_schedule(small, target).prefetch_panels) << target.name;
        EXPECT_FALSE(default_winograd_schedule(strided, target).prefetch_panels) << target.name;
    }
    WinogradSchedule both = default_winograd_schedule(wide, find_target("x86-64-avx512"));
    both.prefetch_panels = true;
    both.prefetch_distance = 16;
    const std::string refused = "schedule: \"prefetch_panels\" is 1, but \"prefetch_distance\" is 16, not 0";
    EXPECT_EQ(error_of([&] { both.check(wide); }), refused);
}

// Where fewer rows in each chunk cost little, two threads share an even number of chunks.
TEST(WinogradDecision, few_chunks_are_even) {
    const Problem problem = parsed("conv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias-relu");
    const auto schedule = default_winograd_schedule(problem, find_target("x86-64-avx512"));
    EXPECT_EQ(winograd_shape(problem, schedule).axes.back().chunks, 14);
}

// Groups of 8 channels are products of groups packed together at each point: measured faster than the direct algorithm.
TEST(WinogradDecision, narrow_groups_take_winograd) {
    for (const char *text : {"conv2d-f32-n1-c256-i28x28-m256-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g32-nxc,nxc",
                             "conv2d-f32-n1-c256-i28x28-m256-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g32-ncx,ncx"}) {
        for (const char *target : {"x86-64-avx2", "x86-64-avx512"}) {
            EXPECT_EQ(default_decision(parsed(text), find_target(target)).algorithm, "winograd") << target << text;
        }
    }
}

// Rows of tiles that y is no whole number of are clipped, which saves a copy, where that costs few products.
TEST(WinogradDecision, tiles_that_reach_beyond_y_are_clipped) {
    const TargetModel &target = find_target("x86-64-avx512");
    const Problem stem = parsed("conv2d-f32-n1-c3-i224x224-m64-o112x112-k7x7-s2x2-d1x1-p3x3,2x2-g1-nxc,nxc-bias");
    const Problem channels_first =
        parsed("conv2d-f32-n1-c3-i224x224-m64-o112x112-k7x7-s2x2-d1x1-p3x3,2x2-g1-nxc,ncx-bias");
    WinogradSchedule schedule = default_winograd_schedule(stem, target);
    EXPECT_TRUE(schedule.clipped_tail);
    EXPECT_TRUE(winograd_shape(stem, schedule).covers_exactly(stem, schedule.lanes));
    schedule.clipped_tail = false;
    EXPECT_FALSE(winograd_shape(stem, schedule).covers_exactly(stem, schedule.lanes));
    schedule = default_winograd_schedule(channels_first, target);
    EXPECT_FALSE(schedule.clipped_tail);
    schedule.clipped_tail = true;
    EXPECT_THAT(error_of([&] { schedule.check(channels_first); }), testing::HasSubstr("\"clipped_tail\" is 1"));
}

// Winograd's groups that fill a vector together are interleaved: no product is by a zero between them.
TEST(WinogradDecision, groups_that_fill_a_vector_are_interleaved) {
    const Problem of_4 = parsed("conv2d-f32-n1-c128-i56x56-m128-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g32-nxc,nxc");
    const Problem of_6 = parsed("conv2d-f32-n1-c192-i56x56-m192-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g32-nxc,nxc");
    for (const char *name : {"x86-64-avx2", "x86-64-avx512"}) {
        const TargetModel &target = find_target(name);
        WinogradSchedule schedule = default_winograd_schedule(of_4, target);
        EXPECT_TRUE(schedule.interleaved) << name;
        EXPECT_EQ(winograd_shape(of_4, schedule).steps(), 4) << name;
        schedule = default_winograd_schedule(of_6, target);
        EXPECT_FALSE(schedule.interleaved) << name;
        schedule.interleaved = true;
        EXPECT_THAT(error_of([&] { schedule.check(of_6); }), testing::HasSubstr("\"interleaved\" is 1")) << name;
    }
}

// Of stride 1, channels last, whose estimates are known best, by AVX-512 Winograd is taken where both are nearly as
// fast.
TEST(WinogradDecision, takes_plain_layers_of_few_channels) {
    const char *const texts[] = {"conv2d-f32-n1-c10-i58x58-m16-o56x56-k3x3-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc",
                                 "conv1d-f32-n1-c32-i8000-m64-o7996-k2-s1-d4-p0,0-g1-nxc,nxc",
                                 "conv2d-f32-n1-c8-i112x112-m8-o112x112-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc"};
    for (const char *text : texts) {
        EXPECT_EQ(default_decision(parsed(text), find_target("x86-64-avx512")).algorithm, "winograd") << text;
    }
}

// An odd number of groups of half a vector fill none together: each has halves of its own rather than several a panel,
// between which products are by zeros.
TEST(WinogradDecision, odd_groups_of_half_a_vector_have_halves) {
    for (const char *layouts : {"nxc,nxc", "ncx,ncx"}) {
        const Problem problem =
            parsed(std::string("conv2d-f32-n1-c168-i28x28-m168-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g21-") + layouts);
        EXPECT_EQ(default_winograd_schedule(problem, find_target("x86-64-avx512")).panel(), 8) << layouts;
    }
}

// In a network numbers on their way between stages displace other layers' weights: fewer rows of tiles go together
// then.
TEST(WinogradDecision, displaces_little_where_weights_are_cold) {
    const Problem problem = parsed("convtranspose2d-f32-n1-c48-i16x16-m32-o32x32-k4x4-s2x2-d1x1-p1x1,1x1-g1-nxc,nxc");
    for (const auto &[name, chunks] : {std::pair("x86-64-amx-fp16", true), {"x86-64-zen4", false}}) {
        TargetModel target = find_target(name);
        EXPECT_EQ(default_winograd_schedule(problem, target).rows, 0) << name;
        target.cold_weights = true;
        EXPECT_EQ(default_winograd_schedule(problem, target).rows > 0, chunks) << name;
    }
}

// A core that takes vectors in halves has time for its caches' streams beside products: an image passes as a whole
// where the last cache holds what does, and products are many. Of small groups they are few, of large images memory has
// it.
TEST(WinogradDecision, halves_of_vectors_pass_whole_images_beside_products) {
    const auto rows_of = [](const std::string &text) {
        return default_winograd_schedule(parsed("conv2d-f32-n1-" + text), find_target("x86-64-zen4")).rows;
    };
    EXPECT_EQ(rows_of("c232-i28x28-m232-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g4-nxc,nxc"), 0);
    EXPECT_GT(rows_of("c64-i28x28-m64-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g16-nxc,nxc"), 0);
    EXPECT_GT(rows_of("c128-i56x56-m128-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc"), 0);
}

// Where both algorithms' cycles are known the one of fewer is taken: rows of few channels go to the direct algorithm
// where y is far, and to Winograd where it is near.
TEST(WinogradDecision, halves_of_vectors_take_the_fewer_cycles) {
    const auto algorithm_of = [](const std::string &text) {
        return default_decision(parsed("conv2d-f32-n1-" + text), find_target("x86-64-zen4")).algorithm;
    };
    EXPECT_EQ(algorithm_of("c3-i224x224-m64-o224x224-k3x3-s1x1-d1x1-p1x1,1x1-g1-ncx,ncx"), "direct");
    EXPECT_EQ(algorithm_of("c1-i49x10-m64-o24x5-k10x4-s2x2-d1x1-p4x1,3x1-g1-ncx,ncx-bias-relu"), "winograd");
}

// Chunks that write y in place, by a clipped tail, are compared with an image that passes as a whole and is copied.
TEST(WinogradDecision, chunks_of_a_clipped_tail_compete_with_whole_images) {
    const WinogradSchedule schedule = default_winograd_schedule(
        parsed("conv1d-f32-n1-c32-i8000-m64-o7996-k2-s1-d4-p0,0-g1-nxc,nxc-bias-relu"), find_target("x86-64-zen4"));
    EXPECT_GT(schedule.rows, 0);
    EXPECT_TRUE(schedule.clipped_tail);
}

// A core that takes vectors in halves takes half vectors where more of them are filled, and where groups are such; the
// weights of five are no more than those of three whole ones.
TEST(WinogradDecision, channels_of_half_vectors_have_halves) {
    const std::pair<const char *, int> cases[] = {
        {"c128-i28x28-m128-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g16-ncx,ncx-bias-relu", 8},
        {"c128-i28x28-m128-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g16-nxc,nxc-bias-relu", 8},
        {"c24-i56x56-m24-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias-relu", 24},
        {"c24-i56x56-m24-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-ncx,ncx-bias-relu", 24},
        {"c560-i28x28-m560-o14x14-k3x3-s2x2-d1x1-p1x1,0x0-g14-nxc,nxc", 40}};
    for (const auto &[text, panel] : cases) {
        const Problem problem = parsed(std::string("conv2d-f32-n1-") + text);
        const WinogradSchedule schedule = default_winograd_schedule(problem, find_target("x86-64-zen4"));
        EXPECT_EQ(schedule.lanes, 8) << text;
        EXPECT_EQ(schedule.panel(), panel) << text;
        EXPECT_EQ(default_winograd_schedule(problem, find_target("x86-64-zen5")).lanes, 16) << text;
    }
}

// Weights of more than three quarters of a shared last cache do not all come from beyond it at once, so that tiles that
// fit the image have them; and groups that pass one after the other leave each other's numbers where they are.
TEST(WinogradDecision, weights_fall_out_of_a_last_cache_little_by_little) {
    const auto schedule_of = [](const char *text) {
        return default_winograd_schedule(parsed(text), find_target("x86-64-zen4"));
    };
    EXPECT_EQ(schedule_of("conv2d-f32-n1-c256-i15x15-m256-o15x15-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias-relu").tile[0],
              5);
    EXPECT_EQ(schedule_of("convtranspose1d-f32-n1-c512-i32-m256-o256-k16-s8-d1-p4,4-g1-nxc,nxc-bias-relu").tile[0], 3);
    EXPECT_EQ(schedule_of("conv2d-f32-n1-c512-i2x51-m512-o2x51-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc").tile[0], 4);
    EXPECT_EQ(schedule_of("conv2d-f32-n1-c256-i56x56-m256-o28x28-k3x3-s2x2-d1x1-p1x1,0x0-g32-ncx,ncx-bias-relu").rows,
              0);
}

// First layers of many taps are Winograd's more often than the estimates alone tell, where that was timed; images of
// few channels in planes less often.
TEST(WinogradDecision, first_layers_are_as_timed) {
    const auto algorithm_of = [](const std::string &problem) {
        return default_decision(parsed(problem), find_target("x86-64-sapphire-rapids")).algorithm;
    };
    const std::string five = "conv2d-f32-n1-c3-i128x128-m24-o64x64-k5x5-s2x2-d1x1-p1x1,2x2-g1-nxc,nxc";
    EXPECT_EQ(algorithm_of(five), "winograd");
    EXPECT_EQ(algorithm_of("conv2d-f32-n1-c3-i224x224-m32-o56x56-k7x7-s4x4-d1x1-p3x3,0x0-g1-nxc,nxc"), "direct");
    EXPECT_EQ(algorithm_of("conv1d-f32-n1-c1-i3000-m64-o500-k50-s6-d1-p24,20-g1-nxc,nxc"), "winograd");
    EXPECT_EQ(algorithm_of("conv3d-f32-n1-c3-i8x56x56-m64-o8x56x56-k3x3x3-s1x1x1-d1x1x1-p1x1x1,1x1x1-g1-ncx,ncx"),
              "direct");
}

}  // namespace
}  // namespace kiln
