// Default decisions: legal for every problem, and refused in words where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "../parsed.h"
#include "algorithms/direct/direct.h"
#include "algorithms/winograd/winograd.h"
#include "decisions.h"
#include "kernel.h"

namespace kiln {
namespace {

TEST(Decision, default_tiles_fit_the_registers) {
    const char *problems[] = {"conv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias-relu",
                              "conv2d-f32-n1-c512-i7x7-m512-o7x7-k3x3-s1x1-d1x1-p1x1,1x1-g1-ncx,ncx",
                              "conv1d-f32-n1-c1-i5-m1-o5-k1-s1-d1-p0,0-g1-ncx,ncx",
                              "conv2d-f32-n1-c33-i9x9-m33-o9x9-k3x3-s1x1-d1x1-p1x1,1x1-g33-nxc,nxc",
                              "conv2d-f32-n1-c24-i9x9-m12-o9x9-k3x3-s1x1-d1x1-p1x1,1x1-g4-nxc,nxc",
                              "convtranspose2d-f32-n1-c21-i34x34-m21-o280x280-k16x16-s8x8-d1x1-p0x0,0x0-g1-ncx,ncx"};
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        for (const char *text : problems) {
            const Problem problem = parsed(text);
            const Decision decision = default_decision(problem, target);
            EXPECT_NO_THROW(check_decision(problem, decision, algorithm_revision(decision.algorithm)));
            int registers = 0, lanes = 0;
            if (decision.algorithm == "winograd") {
                const auto schedule = parse_schedule<WinogradSchedule>(decision.schedule);
                registers = schedule.vectors * (schedule.block + 1) + 1;
                lanes = schedule.lanes;
            } else if (decision.algorithm == "direct" || decision.algorithm == "polyphase") {
                const auto schedule = parse_schedule<DirectSchedule>(decision.schedule);
                const int positions = schedule.has_row_lanes() ? schedule.panel() : schedule.width();
                registers = schedule.vectors * (positions * schedule.rows + 1) + 1;
                lanes = schedule.lanes;
            }
            EXPECT_LE(registers, target.vector_registers) << text << " on " << target.name;
            EXPECT_LE(lanes, target.lanes(32));
        }
    }
}

// Several outputs of each channel, channels first, where x is read itself: positions are vectors. Channels last, what
// is read of x is spread over vectors of outputs.
TEST(Decision, leaves_several_outputs_a_channel_of_planes_to_the_direct_algorithm) {
    const std::pair<std::string, const char *> cases[] = {
        {"conv2d-f32-n1-c8-i22x500-m16-o1x500-k22x1-s1x1-d1x1-p0x0,0x0-g8-", "direct"},
        {"conv2d-f32-n1-c64-i30x30-m128-o28x28-k3x3-s1x1-d1x1-p0x0,0x0-g64-", "direct"},
        {"conv2d-f32-n1-c32-i28x28-m64-o28x28-k5x5-s1x1-d1x1-p2x2,2x2-g32-", "depthwise"},
        {"conv2d-f32-n1-c32-i28x28-m128-o28x28-k5x5-s1x1-d1x1-p2x2,2x2-g32-", "direct"},
        {"conv2d-f32-n1-c32-i28x28-m64-o28x28-k7x7-s1x1-d1x1-p3x3,3x3-g32-", "depthwise"},
        {"conv2d-f32-n1-c40-i22x250-m80-o22x250-k1x7-s1x1-d1x1-p0x3,0x3-g40-", "direct"},
        {"conv2d-f32-n1-c32-i112x112-m64-o56x56-k5x5-s2x2-d1x1-p2x2,1x1-g32-", "direct"},
        {"conv2d-f32-n1-c16-i30x128-m32-o1x128-k30x1-s1x1-d1x1-p0x0,0x0-g16-", "direct"},
        {"conv2d-f32-n1-c32-i1x256-m64-o1x232-k1x25-s1x1-d1x1-p0x0,0x0-g32-", "direct"}};
    for (const char *name : {"x86-64-avx512", "x86-64-avx2"}) {
        for (const auto &[problem, planes] : cases) {
            EXPECT_EQ(default_decision(parsed(problem + "ncx,ncx"), find_target(name)).algorithm, planes) << problem;
            EXPECT_EQ(default_decision(parsed(problem + "nxc,nxc"), find_target(name)).algorithm, "depthwise")
                << problem;
        }
    }
}

// What stands in for a kernel that does not compile, step by step to the operator's own definition.
TEST(Decision, fallbacks_end_with_the_definition) {
    const std::pair<const char *, std::vector<std::string>> cases[] = {
        {"conv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc",
         {"winograd", "direct", "direct", "definition"}},
        {"convtranspose2d-f64-n1-c8-i9x9-m8-o18x18-k2x2-s2x2-d1x1-p0x0,0x0-g1-nxc,nxc",
         {"polyphase", "polyphase", "definition"}},
        {"deformconv2d-f32-n1-c8-i9x9-m8-o9x9-k3x3-s1x1-d1x1-p1x1,1x1-g1-og1-ncx,ncx", {"deformable", "definition"}},
        {"conv2d-f32-n?-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc",
         {"winograd", "direct", "direct", "definition"}},
        {"conv2d-f32-n?-c64-i?x?-m64-o?x?-k3x3-s1x1-d1x1-p1x1,?x?-g1-nxc,nxc",
         {"winograd", "direct", "direct", "definition"}},
        {"conv2d-f32-n?-c64-i?x?-m64-o?x?-k3x3-s1x1-d1x1-p1x1,?x?-g1-nxc,nxc",
         {"dynamic", "direct", "direct", "definition"}},
        {"conv2d-f32-n?-c8-i?x?-m8-o?x?-k3x3-s1x1-d1x1-p1x1,?x?-g8-nxc,nxc",
         {"dynamic_depthwise", "dynamic", "definition"}},
        {"conv1d-f32-n0-c8-i9-m8-o9-k1-s1-d1-p0,0-g1-nxc,nxc", {"empty"}}};
    for (const auto &[text, algorithms] : cases) {
        const Problem problem = parsed(text);
        Decision decision = *default_decision(problem, find_target("x86-64-avx2"), algorithms[0]);
        for (size_t i = 1; i < algorithms.size(); i++) {
            const auto fallback = fallback_decision(problem, find_target("x86-64-avx2"), decision);
            ASSERT_TRUE(fallback) << text << ", " << decision.algorithm;
            EXPECT_EQ(fallback->algorithm, algorithms[i]) << text;
            EXPECT_NE(fallback->schedule, decision.schedule) << text;
            decision = *fallback;
        }
        EXPECT_FALSE(fallback_decision(problem, find_target("x86-64-avx2"), decision)) << text;
    }
    const Problem problem = parsed(cases[0].first);
    const Decision on_gpu = *default_decision(problem, find_target("opencl"), "gpu_direct");
    EXPECT_EQ(fallback_decision(problem, find_target("opencl"), on_gpu)->algorithm, "gpu_definition");
}

TEST(Decision, takes_strassen_where_it_pays) {
    const std::string large = "-n1-c1024-i784-m1024-o784-k1-s1-d1-p0,0-g1-nxc,nxc";
    const std::string up = "convtranspose2d-f32-n1-c512-i28x28-m256-o56x56-k2x2-s2x2-d1x1-p0x0,0x0-g1-nxc,nxc-bias";
    const std::pair<std::string, const char *> cases[] = {
        {"conv1d-f32" + large, "strassen"},
        {"conv1d-f32" + large + "-strict", "direct"},
        {"conv1d-f16" + large, "direct"},
        {"conv1d-f32-n1-c1023-i784-m1024-o784-k1-s1-d1-p0,0-g1-nxc,nxc", "direct"},
        {"conv1d-f32-n1-c512-i784-m128-o784-k1-s1-d1-p0,0-g1-nxc,nxc", "direct"},   // sums of x cost what they save
        {"conv1d-f32-n1-c1024-i16-m1024-o16-k1-s1-d1-p0,0-g1-nxc,nxc", "direct"}};  // as do more weights
    for (const TargetModel &target : target_models()) {
        if (!has_timed_defaults(target) || target.lane_indexed_fma) continue;
        for (const auto &[text, algorithm] : cases) {
            const bool tiles = target.f16_tiles && text.starts_with("conv1d-f16");
            EXPECT_EQ(default_decision(parsed(text), target).algorithm, tiles ? "amx" : algorithm)
                << text << " on " << target.name;
        }
        if (target.vector_bits == 512) EXPECT_EQ(default_decision(parsed(up), target).algorithm, "strassen");
    }
    EXPECT_EQ(default_decision(parsed("conv1d-f32" + large), find_target("arm-64-linux")).algorithm, "direct");
}

TEST(Decision, takes_gemm_for_deep_sums) {
    const auto of = [](int in, int positions, const char *rest) {
        return "conv1d-f32-n1-c" + std::to_string(in) + "-i" + std::to_string(positions) + "-m256-o" +
               std::to_string(positions) + "-k1-s1-d1-p0,0-g1-" + rest;
    };
    const std::pair<std::string, bool> cases[] = {{of(8192, 49, "nxc,nxc"), true},
                                                  {of(8192, 49, "nxc,nxc-strict"), true},
                                                  {of(2048, 49, "ncx,ncx"), true},    // which would be transposed
                                                  {of(2048, 49, "nxc,nxc"), false},   // panels stay in the second cache
                                                  {of(8192, 4, "nxc,nxc"), false},    // few positions use a weight
                                                  {of(8191, 49, "nxc,nxc"), false}};  // a prime has no blocks
    for (const char *name : {"x86-64-avx2", "x86-64-zen4", "x86-64-sapphire-rapids", "arm-64-linux"}) {
        const TargetModel &target = find_target(name);
        for (const auto &[text, takes] : cases) {
            const bool is_gemm = default_decision(parsed(text), target).algorithm == "gemm";
            EXPECT_EQ(is_gemm, takes && !target.lane_indexed_fma) << text << " on " << name;
        }
    }
}

TEST(Decision, refuses_gemm_schedules_that_do_not_fit) {
    const auto check = [](const char *text, const char *schedule) {
        return error_of([&] { check_decision(parsed(text), {"gemm", schedule}, algorithm_revision("gemm")); });
    };
    const char *row = "conv1d-f32-n1-c64-i20-m96-o20-k1-s1-d1-p0,0-g1-nxc,nxc";
    EXPECT_EQ(check(row, "lanes:16;vectors:2;pixels:5;unroll:4;block:32;panels:2;tiles:2;parallel:0"), "");
    EXPECT_EQ(check(row, "lanes:16;vectors:2;pixels:5;unroll:4;block:24;panels:2;tiles:2;parallel:0"),
              "schedule: blocks of 24 channels do not divide 64");
    EXPECT_EQ(check(row, "lanes:16;vectors:2;pixels:5;unroll:5;block:32;panels:2;tiles:2;parallel:0"),
              "schedule: 5 steps do not divide a block of 32");
    EXPECT_EQ(check("conv2d-f32-n1-c64-i9x9-m96-o5x5-k1x1-s2x2-d1x1-p0x0,0x0-g1-nxc,nxc",
                    "lanes:16;vectors:2;pixels:5;unroll:4;block:32;panels:2;tiles:2;parallel:0"),
              "schedule: an image of several axes is in 3 parts, where it must be whole");
    EXPECT_EQ(check("conv1d-f32-n1-c64-i20-m96-o20-k1-s1-d1-p0,0-g1-ncx,ncx",
                    "lanes:16;vectors:2;pixels:5;unroll:4;block:32;panels:2;tiles:2;parallel:0"),
              "schedule: parts of 64 channels do not divide 96 of channels-first y");
}

TEST(Decision, takes_kn2row_for_few_output_channels) {
    const std::string image = "-n1-c64-i96x96-m2-o96x96-k9x9-s1x1-d1x1-p4x4,4x4-g1-ncx,ncx-bias";
    const std::pair<std::string, const char *> cases[] = {
        {"conv2d-f16" + image, "kn2row"},
        {"conv1d-f32-n1-c32-i8192-m1-o8192-k7-s1-d1-p3,3-g1-ncx,ncx", "kn2row"},
        {"convtranspose2d-f32-n1-c56-i64x64-m1-o192x192-k9x9-s3x3-d1x1-p4x4,2x2-g1-nxc,nxc", "kn2row"},
        {"convtranspose2d-f32-n1-c56-i64x64-m1-o190x190-k9x9-s3x3-d1x1-p4x4,4x4-g1-nxc,nxc", "kn2row"},
        // One tap a row is nothing to shift, strides leave products out, and many channels fill vectors.
        {"conv2d-f32-n1-c64-i96x96-m3-o96x96-k1x1-s1x1-d1x1-p0x0,0x0-g1-ncx,ncx", "direct"},
        {"conv2d-f32-n1-c64-i96x96-m3-o48x48-k5x5-s2x2-d1x1-p2x2,1x1-g1-ncx,ncx-strict", "direct"},
        {"conv2d-f32-n1-c64-i96x96-m64-o96x96-k9x9-s1x1-d1x1-p4x4,4x4-g1-ncx,ncx", "winograd"}};
    for (const TargetModel &target : target_models()) {
        if (!has_timed_defaults(target)) continue;
        for (const auto &[text, algorithm] : cases) {
            const bool tiles = target.f16_tiles && text.starts_with("conv2d-f16");
            EXPECT_EQ(default_decision(parsed(text), target).algorithm, tiles ? "amx" : algorithm)
                << text << " on " << target.name;
        }
        for (const std::string &text : {"conv2d-f32" + image, "conv2d-f32" + image + "-strict"}) {
            EXPECT_EQ(default_decision(parsed(text), target).algorithm, "kn2row") << text << " on " << target.name;
        }
    }
}

TEST(Decision, takes_inner_products_for_few_output_channels_of_channels_last_x) {
    const std::pair<std::string, const char *> cases[] = {
        {"conv2d-f32-n1-c64-i256x256-m2-o256x256-k1x1-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc", "inner_product"},
        {"conv2d-f32-n1-c512-i31x31-m1-o30x30-k4x4-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc", "inner_product"},
        {"conv1d-f32-n1-c32-i8192-m1-o8192-k7-s1-d1-p3,3-g1-nxc,nxc", "inner_product"},
        {"conv2d-f32-n1-c64-i56x56-m4-o28x28-k3x3-s2x2-d1x1-p1x1,0x0-g1-nxc,nxc", "inner_product"},
        {"conv2d-f64-n1-c64-i56x56-m1-o56x56-k1x1-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc", "inner_product"},
        {"conv2d-f32-n1-c480-i1x1-m20-o1x1-k1x1-s1x1-d1x1-p0x0,0x0-g1-ncx,ncx", "inner_product"},
        // Planes, channels that are no vectors, and so many outputs that they fill some.
        {"conv2d-f32-n1-c64-i256x256-m2-o256x256-k1x1-s1x1-d1x1-p0x0,0x0-g1-ncx,ncx", "direct"},
        {"conv2d-f32-n1-c17-i56x56-m1-o56x56-k1x1-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc", "direct"},
        {"conv2d-f32-n1-c64-i56x56-m16-o56x56-k1x1-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc", "direct"}};
    const auto takes = [](const std::string &text, const TargetModel &target, const std::string &algorithm) {
        EXPECT_EQ(default_decision(parsed(text), target).algorithm, algorithm) << text << " on " << target.name;
    };
    for (const TargetModel &target : target_models()) {
        if (target.vector_bits < 256 || target.is_gpu()) continue;
        for (const auto &[text, algorithm] : cases) takes(text, target, algorithm);
    }
    takes(cases[0].first, find_target("arm-64-linux"), "inner_product");
    takes(cases[0].first, find_target("riscv-64-linux"), "direct");
}

TEST(Decision, refuses_inner_product_schedules_that_do_not_fit) {
    const Problem problem = parsed("conv1d-f32-n1-c24-i20-m1-o20-k3-s1-d1-p1,1-g1-nxc,nxc");
    const auto check = [&](const char *schedule) {
        return error_of(
            [&] { check_decision(problem, {"inner_product", schedule}, algorithm_revision("inner_product")); });
    };
    EXPECT_EQ(check("lanes:8;pixels:20;unroll:3;parallel:0"), "");
    EXPECT_EQ(check("lanes:8;pixels:21;unroll:3;parallel:0"),
              "schedule: a tile of 21 positions is larger than a row of 20");
    EXPECT_EQ(check("lanes:16;pixels:4;unroll:1;parallel:0"), "schedule: \"lanes\" must divide the 24 input channels");
}

// Conv-TasNet's last layer takes .144 ms by Winograd on an Intel Xeon, whose second cache does not hold x with its
// transposed copy, and .263 by kn2row; held to AVX2 .19 and .34.
TEST(Decision, kn2row_counts_far_copies) {
    const std::string signal = "convtranspose1d-f32-n1-c256-i1600-m1-o16010-k20-s10-d1-p0,0-g1-";
    for (const char *name : {"x86-64-avx512", "x86-64-avx2"}) {
        EXPECT_EQ(default_decision(parsed(signal + "nxc,nxc"), find_target(name)).algorithm, "winograd") << name;
        EXPECT_EQ(default_decision(parsed(signal + "ncx,ncx"), find_target(name)).algorithm, "kn2row") << name;
    }
}

// Planes whole pages apart share sets of the caches, by AVX2 alone where those are small.
TEST(Decision, kn2row_copies_rows_of_crowded_planes) {
    const auto copies = [](const std::string &in, const std::string &type, const std::string &layout,
                           const char *target) {
        const Problem problem = parsed("conv2d-" + type + "-n1-c64-i" + in + "-m3-o" + in +
                                       "-k3x3-s1x1-d1x1-p1x1,1x1-g1-" + layout + ",ncx");
        const Decision decision = default_decision(problem, find_target(target));
        EXPECT_EQ(decision.algorithm, "kn2row");
        return decision.schedule.ends_with("copied_planes:1");
    };
    EXPECT_TRUE(copies("64x64", "f32", "ncx", "x86-64-avx2"));
    EXPECT_TRUE(copies("64x64", "bf16", "ncx", "x86-64-avx2"));
    EXPECT_FALSE(copies("128x128", "f32", "ncx", "x86-64-avx2"));  // larger than near caches, read by three taps
    EXPECT_FALSE(copies("60x60", "f32", "ncx", "x86-64-avx2"));
    EXPECT_FALSE(copies("64x64", "f32", "nxc", "x86-64-avx2"));
    EXPECT_FALSE(copies("64x64", "f32", "ncx", "x86-64-avx512"));
}

TEST(Decision, refuses_kn2row_schedules_that_do_not_fit) {
    const Problem planes = parsed("conv1d-f32-n1-c16-i20-m1-o20-k3-s1-d1-p1,1-g1-ncx,ncx");
    const Problem points = parsed("conv1d-f32-n1-c16-i20-m1-o20-k3-s1-d1-p1,1-g1-nxc,nxc");
    const auto check = [&](const Problem &problem, const char *schedule) {
        return error_of([&] { check_decision(problem, {"kn2row", schedule}, algorithm_revision("kn2row")); });
    };
    EXPECT_EQ(check(planes, "lanes:4;vectors:5;channels:3;unroll:1;prefetch_distance:1;parallel:0"), "");
    EXPECT_EQ(check(planes, "lanes:8;vectors:3;channels:3;unroll:1;prefetch_distance:0;parallel:0"),
              "schedule: a tile of 24 positions is larger than a row of 20");
    EXPECT_EQ(check(points, "lanes:4;vectors:5;channels:3;unroll:1;prefetch_distance:1;parallel:0"),
              "schedule: \"prefetch_distance\" must be 0: x is not read as it is here");
    EXPECT_EQ(check(planes, "lanes:4;vectors:5;channels:3;unroll:1;prefetch_distance:0;parallel:0;copied_planes:1"),
              "schedule: \"copied_planes\" must be 0: x has no rows of channels-first planes");
}

TEST(Decision, refuses_strassen_schedules_that_do_not_fit) {
    const Problem problem = parsed("conv1d-f32-n1-c64-i20-m96-o20-k1-s1-d1-p0,0-g1-nxc,nxc");
    const auto check = [&](const char *schedule) {
        return error_of([&] { check_decision(problem, {"strassen", schedule}, algorithm_revision("strassen")); });
    };
    EXPECT_EQ(check("lanes:16;vectors:3;pixels:10;rows:1;unroll:4;chunk:1;parallel:0"), "");
    EXPECT_EQ(check("lanes:16;vectors:3;pixels:11;rows:1;unroll:4;chunk:1;parallel:0"),
              "schedule: two halves of 1 x 11 outputs are larger than the image of 1 x 20");
    EXPECT_EQ(check("lanes:16;vectors:2;pixels:10;rows:1;unroll:4;chunk:1;parallel:0"),
              "schedule: panels of 32 channels do not fill half of 96");
}

TEST(Decision, says_what_has_no_kernels) {
    const TargetModel &target = find_target("x86-64-avx2");
    const std::pair<const char *, const char *> cases[] = {
        {"conv1d-f32-n1-c1-i300000000-m1-o300000000-k1-s1-d1-p0,0-g1-ncx,ncx", "a tensor has more than"},
        {"deformconv1d-f32-n1-c1-i20000000-m1-o20000000-k15-s1-d1-p7,7-g1-og1-ncx,ncx", "offset has more than"}};
    for (const auto &[text, part] : cases) {
        EXPECT_THAT(error_of([&, text = text] { default_decision(parsed(text), target); }), testing::HasSubstr(part));
    }
}

TEST(Decision, refuses_other_revisions_and_illegal_schedules) {
    const Problem problem = parsed("conv1d-f32-n1-c8-i5-m8-o5-k1-s1-d1-p0,0-g1-nxc,nxc");
    const Decision good = default_decision(problem, find_target("x86-64-avx2"));
    EXPECT_THAT(error_of([&] { check_decision(problem, good, 99); }), testing::HasSubstr("revision"));
    EXPECT_THAT(error_of([&] { check_decision(problem, {"fast", good.schedule}, 1); }), testing::HasSubstr("\"fast\""));
    EXPECT_THAT(error_of([&] { check_decision(problem, {"direct", "lanes:8"}, 1); }), testing::HasSubstr("lacks"));
    EXPECT_THAT(error_of([&] { check_decision(problem, {"polyphase", good.schedule}, 1); }),
                testing::HasSubstr("apply"));
    EXPECT_THAT(
        error_of([&] {
            check_decision(
                problem,
                {"direct", "lanes:0;vectors:1;pixels:1;rows:1;unroll:1;dot_width:1;panels_outside:0;parallel:0"}, 1);
        }),
        testing::HasSubstr("lanes"));
    EXPECT_THAT(
        error_of([&] {
            check_decision(
                problem,
                {"direct", "lanes:8;vectors:1;pixels:6;rows:1;unroll:1;dot_width:1;panels_outside:0;parallel:0"}, 1);
        }),
        testing::HasSubstr("larger than the image"));
}

TEST(Targets, are_found_by_any_of_their_names) {
    EXPECT_STREQ(find_target("x86-64-avx2").name, "x86-64-avx2");
    EXPECT_STREQ(find_target(find_target("x86-64-avx2").halide).name, "x86-64-avx2");
    EXPECT_THAT(error_of([] { find_target("z80"); }), testing::HasSubstr("z80"));
    EXPECT_THAT(error_of([] { find_target("powerpc-64-linux"); }), testing::HasSubstr("powerpc-64-linux"));
}

}  // namespace
}  // namespace kiln
