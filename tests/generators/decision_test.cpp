// Default decisions: legal for every problem, and refused in words where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string_view>

#include "../parsed.h"
#include "algorithms/direct/direct.h"
#include "algorithms/estimates.h"
#include "algorithms/f16_accumulate/f16_accumulate.h"
#include "algorithms/winograd/winograd.h"
#include "kernel.h"

namespace kiln {
namespace {

std::string error_of(const std::function<void()> &call) {
    try {
        call();
    } catch (const std::invalid_argument &error) {
        return error.what();
    }
    return "";
}

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

// What stands in for a kernel that does not compile, step by step to the operator's own definition.
TEST(Decision, fallbacks_end_with_the_definition) {
    const std::pair<const char *, std::vector<std::string>> cases[] = {
        {"conv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc",
         {"winograd", "direct", "definition"}},
        {"convtranspose2d-f64-n1-c8-i9x9-m8-o18x18-k2x2-s2x2-d1x1-p0x0,0x0-g1-nxc,nxc", {"polyphase", "definition"}},
        {"deformconv2d-f32-n1-c8-i9x9-m8-o9x9-k3x3-s1x1-d1x1-p1x1,1x1-g1-og1-ncx,ncx", {"deformable", "definition"}},
        {"conv2d-f32-n?-c8-i?x?-m8-o?x?-k3x3-s1x1-d1x1-p1x1,?x?-g1-nxc,nxc", {"dynamic", "definition"}},
        {"conv1d-f32-n0-c8-i9-m8-o9-k1-s1-d1-p0,0-g1-nxc,nxc", {"empty"}}};
    for (const auto &[text, algorithms] : cases) {
        const Problem problem = parsed(text);
        std::string algorithm = algorithms[0];
        for (size_t i = 1; i < algorithms.size(); i++) {
            const auto fallback = fallback_decision(problem, find_target("x86-64-avx2"), algorithm);
            ASSERT_TRUE(fallback) << text << ", " << algorithm;
            EXPECT_EQ(fallback->algorithm, algorithms[i]) << text;
            algorithm = fallback->algorithm;
        }
        EXPECT_FALSE(fallback_decision(problem, find_target("x86-64-avx2"), algorithm)) << text << ", " << algorithm;
    }
    const Problem problem = parsed(cases[0].first);
    EXPECT_EQ(fallback_decision(problem, find_target("opencl"), "gpu_direct")->algorithm, "gpu_definition");
}

TEST(Decision, takes_winograd_where_it_pays) {
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

// Whether a target's defaults were ever timed: what they should be is known of no other.
bool has_timed_defaults(const TargetModel &target) {
    return !target.is_gpu() && target.architecture != std::string_view("riscv-64-linux");
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

TEST(Decision, takes_kn2row_for_few_output_channels) {
    const std::string image = "-n1-c64-i96x96-m2-o96x96-k9x9-s1x1-d1x1-p4x4,4x4-g1-ncx,ncx-bias";
    const std::pair<std::string, const char *> cases[] = {
        {"conv2d-f16" + image, "kn2row"},
        {"conv1d-f32-n1-c32-i8192-m1-o8192-k7-s1-d1-p3,3-g1-ncx,ncx", "kn2row"},
        {"convtranspose2d-f32-n1-c56-i64x64-m1-o192x192-k9x9-s3x3-d1x1-p4x4,2x2-g1-nxc,nxc", "kn2row"},
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

TEST(Decision, takes_row_lanes_where_rows_are_padded) {
    const auto schedule = [](const char *text, const char *target) {
        return default_decision(parsed(text), find_target(target)).schedule;
    };
    // Few input channels, and many taps: neither is transposed.
    for (const char *text : {"conv2d-f32-n1-c3-i224x224-m64-o224x224-k3x3-s1x1-d1x1-p1x1,1x1-g1-ncx,ncx-bias-relu",
                             "conv1d-f32-n1-c64-i2048-m64-o2048-k11-s1-d1-p5,5-g1-ncx,ncx-bias-relu-strict"}) {
        EXPECT_THAT(schedule(text, "x86-64-avx2"), testing::Not(testing::HasSubstr("channels:0"))) << text;
        EXPECT_THAT(schedule(text, "arm-64-linux"), testing::HasSubstr("channels:0")) << text;
    }
    // Nor are they where rows are strided.
    for (const char *text : {"conv2d-f32-n1-c3-i224x224-m32-o112x112-k3x3-s2x2-d1x1-p1x1,0x0-g1-ncx,ncx",
                             "conv1d-f32-n1-c1-i16000-m512-o3199-k10-s5-d1-p0,0-g1-ncx,ncx-bias-relu"}) {
        for (const char *target : {"x86-64-avx2", "x86-64-avx512", "x86-64-zen4"}) {
            EXPECT_THAT(schedule(text, target), testing::Not(testing::HasSubstr("channels:0"))) << text << target;
        }
        EXPECT_THAT(schedule(text, "arm-64-linux"), testing::HasSubstr("channels:0")) << text;
    }
    // Nothing is fetched ahead of a copy.
    const Problem padded = parsed("conv1d-f32-n1-c64-i2048-m64-o2048-k11-s1-d1-p5,5-g1-ncx,ncx");
    DirectSchedule fetches;
    fetches.tile = RowLanes{4, 8};
    EXPECT_THROW(fetches.check(padded), std::invalid_argument);
    fetches.tile = RowLanes{4, 0};
    EXPECT_NO_THROW(fetches.check(padded));
}

TEST(Decision, copies_planes_that_stay_in_no_near_cache) {
    const std::pair<const char *, const char *> cases[] = {
        {"conv1d-f32-n1-c320-i49-m1280-o49-k1-s1-d1-p0,0-g1-ncx,ncx", "transposed_x:1"},
        {"conv1d-f32-n1-c256-i1024-m128-o1024-k1-s1-d1-p0,0-g1-ncx,ncx", "transposed_x:1"},  // 4 KB apart
        {"conv1d-f32-n1-c256-i1024-m128-o1024-k1-s1-d1-p0,0-g1-nxc,ncx", "transposed_x:0"},
        {"conv1d-f32-n1-c24-i784-m96-o784-k1-s1-d1-p0,0-g1-ncx,ncx", "transposed_x:0"},
        {"conv2d-f32-n1-c3-i224x224-m32-o112x112-k3x3-s2x2-d1x1-p1x1,0x0-g1-ncx,ncx", "transposed_x:0"}};
    for (const auto &[text, expected] : cases) {
        EXPECT_THAT(default_decision(parsed(text), find_target("x86-64-avx2")).schedule, testing::HasSubstr(expected))
            << text;
        EXPECT_THAT(default_decision(parsed(text), find_target("arm-64-linux")).schedule,
                    testing::HasSubstr("transposed_x:0"))
            << text;
    }
    DirectSchedule schedule;
    schedule.transposed_x = true;
    EXPECT_NO_THROW(schedule.check(parsed(cases[0].first)));
    EXPECT_THROW(schedule.check(parsed(cases[2].first)), std::invalid_argument);
    schedule.tile = RowLanes{2, 0};
    EXPECT_THROW(schedule.check(parsed(cases[0].first)), std::invalid_argument);
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

// Pairs of float16 are summed by matrix tiles alone, and by those of few processors.
TEST(Decision, refuses_pairs_of_float16_elsewhere) {
    const Problem problem = parsed("conv1d-f16-n1-c16-i20-m16-o20-k1-s1-d1-p0,0-g1-nxc,nxc");
    const auto check = [&](const char *algorithm, const char *schedule, const char *target) {
        return error_of([&] {
            check_decision(problem, {algorithm, schedule}, algorithm_revision(algorithm), &find_target(target));
        });
    };
    const char *tiles = "vectors:1;rows:1;blocks:1;pixels:10;steps:8;panels_outside:0;parallel:0";
    EXPECT_EQ(check("amx", tiles, "x86-64-amx-fp16"), "");
    EXPECT_EQ(check("amx", tiles, "x86-64-amx"), "algorithm amx is not for x86-64-amx");
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        EXPECT_EQ(check("direct", "lanes:8;vectors:1;pixels:4;rows:1;unroll:1;dot_width:2;panels_outside:0;parallel:0",
                        target.name),
                  "schedule: no instruction sums 2 neighbouring products of these types");
    }
}

// Rows of x are fetched ahead where vectors are read of them, but where they are copied end to end.
TEST(Decision, fetches_rows_ahead) {
    const TargetModel &target = find_target("x86-64-avx512");
    const Problem rows = parsed("conv1d-f32-n1-c512-i784-m128-o784-k1-s1-d1-p0,0-g1-ncx,ncx");
    const std::string lanes = "lanes:16;vectors:2;pixels:1;rows:1;unroll:4;dot_width:1;panels_outside:0;parallel:1;";
    const std::string rest = "panels_of_groups:0;transposed_x:0;partial_sums:1;prefetch_panels:0";
    EXPECT_EQ(default_decision(rows, target).schedule,
              lanes + "chunk:0;channels:13;flattened_rows:0;prefetch_distance:8;" + rest);
    const auto check = [&](const Problem &problem, const std::string &rest) {
        const std::string algorithm = problem.op == Operator::conv ? "direct" : "polyphase";
        return error_of([&] { check_decision(problem, {algorithm, lanes + rest}, algorithm_revision(algorithm)); });
    };
    EXPECT_EQ(check(rows, "channels:13;prefetch_distance:3"), "");
    const Problem up = parsed("convtranspose2d-f32-n1-c8-i28x28-m16-o56x56-k2x2-s2x2-d1x1-p0x0,0x0-g1-ncx,ncx");
    EXPECT_EQ(check(up, "channels:6;flattened_rows:2"), "");
    const std::string refused = "schedule: \"prefetch_distance\" must be 0: x is not read by vectors here";
    EXPECT_EQ(check(up, "channels:6;flattened_rows:2;prefetch_distance:8"), refused);
    EXPECT_EQ(check(rows, "prefetch_distance:8"), refused);
}

// Panels of weights are fetched while tiles multiply by the one before, where the second cache holds two: 1x1 of
// 2048 to 512 channels at 7x7 takes .81 ms on an Intel Xeon whose caches hold no weights, and .60 then.
TEST(Decision, fetches_panels_ahead) {
    const Problem deep = parsed("conv1d-f32-n1-c2048-i49-m512-o49-k1-s1-d1-p0,0-g1-nxc,nxc");
    const Problem small = parsed("conv1d-f32-n1-c128-i49-m64-o49-k1-s1-d1-p0,0-g1-nxc,nxc");
    const Problem wide = parsed("conv2d-f32-n1-c2048-i7x7-m2048-o7x7-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc");
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        const auto fetches = [&](const Problem &problem) {
            return default_direct_schedule(problem, target).prefetch_panels;
        };
        EXPECT_EQ(fetches(deep), !target.lane_indexed_fma && target.core.last.read < 25) << target.name;
        EXPECT_FALSE(fetches(small)) << target.name;  // which stays near
        EXPECT_FALSE(fetches(wide)) << target.name;   // of which no cache holds two
    }
    const auto check = [&](const std::string &numbers) {
        const std::string rest = ";unroll:4;dot_width:1;parallel:0;prefetch_panels:1";
        return error_of([&] { check_decision(deep, {"direct", numbers + rest}, algorithm_revision("direct")); });
    };
    EXPECT_EQ(check("lanes:16;vectors:3;pixels:7;rows:1;panels_outside:1"), "");
    const std::string refused = "schedule: \"prefetch_panels\" must be 0: no panels of whole lines sweep the image";
    EXPECT_EQ(check("lanes:16;vectors:3;pixels:7;rows:1;panels_outside:0"), refused);
    EXPECT_EQ(check("lanes:8;vectors:3;pixels:7;rows:1;panels_outside:1"), refused);
}

// Groups of few channels read channels-last x by a tile whose sums are of a row's taps at once; those of several
// vectors by panels inside, where x is far and the weights are near.
TEST(Decision, few_channels_of_a_group_share_what_taps_read) {
    const std::string stride_2 = "conv2d-f32-n1-c256-i56x56-m256-o28x28-k3x3-s2x2-d1x1-p1x1,0x0-g32-";
    for (const char *name : {"x86-64-avx512", "x86-64-avx2"}) {
        const TargetModel &target = find_target(name);
        const auto default_schedule = [&](const std::string &problem) {
            return default_direct_schedule(parsed(problem), target);
        };
        EXPECT_EQ(default_schedule(stride_2 + "nxc,nxc").partial_sums, 3) << name;
        EXPECT_EQ(default_schedule(stride_2 + "nxc,nxc").rows, 1) << name;
        EXPECT_EQ(default_schedule(stride_2 + "ncx,ncx").partial_sums, 1) << name;
        EXPECT_EQ(default_decision(parsed(stride_2 + "nxc,nxc"), target).algorithm, "direct") << name;
        EXPECT_EQ(default_decision(parsed("conv2d-f32-n1-c256-i28x28-m256-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g32-nxc,nxc"),
                                   target)
                      .algorithm,
                  "winograd")
            << name;
        const std::string wide = "conv2d-f32-n1-c432-i28x28-m432-o14x14-k3x3-s2x2-d1x1-p1x1,0x0-g9-";
        EXPECT_FALSE(default_schedule(wide + "nxc,nxc").panels_outside) << name;
        EXPECT_TRUE(default_schedule(wide + "ncx,ncx").panels_outside) << name;
    }
    const DirectSchedule arm = default_direct_schedule(parsed(stride_2 + "nxc,nxc"), find_target("arm-64-linux"));
    EXPECT_EQ(arm.partial_sums, 1);
}

// Long rows of one input channel are summed in parts by row lanes; of several channels, or a few taps, they are not.
TEST(Decision, sums_long_rows_in_parts) {
    const TargetModel &target = find_target("x86-64-zen4");
    const auto default_schedule = [&](const std::string &problem) {
        return default_direct_schedule(parsed(problem), target);
    };
    const std::string sizes = "-i44098-m1-o21922-k256-s2-d1-p0,0-g1-ncx,ncx";
    EXPECT_EQ(default_schedule("conv1d-f32-n1-c1" + sizes).partial_sums, 4);
    EXPECT_EQ(default_schedule("conv1d-f32-n1-c2" + sizes).partial_sums, 1);
    EXPECT_EQ(default_schedule("conv1d-f32-n1-c1-i1603-m512-o319-k10-s5-d1-p0,~3-g1-ncx,ncx").partial_sums, 1);
    const auto check = [](const std::string &problem, const std::string &rest) {
        const std::string lanes = "lanes:8;vectors:2;pixels:1;rows:1;unroll:1;dot_width:1;panels_outside:0;parallel:1;";
        return error_of(
            [&] { check_decision(parsed(problem), {"direct", lanes + rest}, algorithm_revision("direct")); });
    };
    EXPECT_EQ(check("conv1d-f32-n1-c2" + sizes, "channels:1;partial_sums:4"), "");
    EXPECT_EQ(check("conv1d-f32-n1-c2" + sizes, "channels:0;partial_sums:8"), "");
    const std::string refused = "schedule: \"partial_sums\" must be 1, or divide the 256 taps of a row of floats";
    EXPECT_EQ(check("conv1d-f32-n1-c1" + sizes, "channels:1;partial_sums:3"), refused);
    EXPECT_EQ(check("conv1d-f32-n1-c1" + sizes, "channels:1;partial_sums:0"), refused);
    EXPECT_EQ(
        check("conv1d-u8.s8.s32-n1-c1-i44098-m1-o21922-k256-s2-d1-p0,0-g1-xz0-ncx,ncx", "channels:0;partial_sums:4"),
        refused);
}

// Groups whose channels are no whole vectors have panels of their own, the last filled up; channels of whole vectors
// divide into panels as they are.
TEST(Decision, gives_groups_panels_of_their_own) {
    const auto default_schedule = [](int channels, const TargetModel &target) {
        const std::string of_groups = std::to_string(8 * channels), n = "-i28x28-m" + of_groups + "-o28x28";
        const Problem problem = parsed("conv2d-f32-n1-c" + of_groups + n + "-k1x1-s1x1-d1x1-p0x0,0x0-g8-nxc,nxc");
        return default_direct_schedule(problem, target);
    };
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        for (const int channels : {17, 21, 34, 58}) {
            EXPECT_TRUE(default_schedule(channels, target).panels_of_groups) << channels << " by " << target.name;
            EXPECT_EQ(default_schedule(channels, target).lanes, target.lanes(32)) << channels << " by " << target.name;
        }
        EXPECT_FALSE(default_schedule(64, target).panels_of_groups) << target.name;
    }
    const std::string text =
        "lanes:4;vectors:1;pixels:2;rows:1;unroll:1;dot_width:1;panels_outside:0;parallel:0;panels_of_groups:1";
    for (const char *sizes :
         {"-n1-c8-i9x9-m8-o9x9-k1x1-s1x1-d1x1-p0x0,0x0-g1", "-n1-c8-i9x9-m8-o9x9-k1x1-s1x1-d1x1-p0x0,0x0-g8"}) {
        const Problem problem = parsed("conv2d-f32" + std::string(sizes) + "-nxc,nxc");
        EXPECT_EQ(error_of([&] { check_decision(problem, {"direct", text}, algorithm_revision("direct")); }),
                  "schedule: \"panels_of_groups\" must be 0: there are no groups of several channels");
    }
}

TEST(Decision, takes_winograd_for_narrow_floats_too) {
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
TEST(Decision, counts_what_a_slow_last_cache_gives) {
    const char *up = "convtranspose2d-f32-n1-c512-i4x4-m256-o8x8-k4x4-s2x2-d1x1-p1x1,1x1-g1-nxc,nxc-bias-relu";
    const char *row = "convtranspose1d-f32-n1-c512-i32-m256-o256-k16-s8-d1-p4,4-g1-ncx,ncx-bias-relu";
    const char *down = "conv2d-f32-n1-c16-i160x160-m32-o80x80-k3x3-s2x2-d1x1-p1x1,0x0-g1-nxc,nxc-bias-relu";
    for (const char *name : {"x86-64-amx", "x86-64-sapphire-rapids", "x86-64-avx512"}) {
        for (const char *text : {up, row, down}) {
            EXPECT_EQ(default_decision(parsed(text), find_target(name)).algorithm, "winograd")
                << text << " on " << name;
        }
    }
    EXPECT_EQ(default_decision(parsed(up), find_target("x86-64-zen4")).algorithm, "polyphase");
    // What is passed on by that cache is less where an image's planes are transformed first: 1.4 ms for 1.78.
    const char *deep =
        "conv3d-f32-n1-c64-i8x28x28-m128-o4x14x14-k3x3x3-s2x2x2-d1x1x1-p1x1x1,0x0x0-g1-nxc,nxc-bias-relu";
    EXPECT_THAT(default_decision(parsed(deep), find_target("x86-64-amx")).schedule, testing::HasSubstr("by_point:1"));
    // More than the second cache holds is passed on for each point of a plane: 13.4 ms for 17.6. And x is copied,
    // through that cache: .585 ms for .624.
    for (const char *text :
         {"conv3d-f32-n1-c3-i16x112x112-m64-o8x56x56-k7x7x7-s2x2x2-d1x1x1-p3x3x3,2x2x2-g1-nxc,nxc-bias-relu",
          "conv2d-f32-n1-c24-i112x112-m96-o56x56-k3x3-s2x2-d1x1-p1x1,0x0-g1-nxc,nxc-bias-relu"}) {
        EXPECT_EQ(default_decision(parsed(text), find_target("x86-64-amx")).algorithm, "direct") << text;
    }
    // Panels that read inputs again from there lose to points that read them once: 1.27 ms for 1.4.
    const char *in_time =
        "conv3d-f32-n1-c64-i8x28x28-m128-o8x28x28-k3x1x1-s1x1x1-d1x1x1-p1x0x0,1x0x0-g1-nxc,nxc-bias-relu";
    EXPECT_THAT(default_decision(parsed(in_time), find_target("x86-64-amx")).schedule,
                testing::HasSubstr("by_panel:0"));
    // Smaller ones find their weights nearer: 9x9 of 64 channels at 5x5 takes .041 ms, .062 by Winograd.
    const char *near = "conv2d-f32-n1-c64-i5x5-m64-o5x5-k9x9-s1x1-d1x1-p4x4,4x4-g1-nxc,nxc-bias-relu";
    EXPECT_EQ(default_decision(parsed(near), find_target("x86-64-amx")).algorithm, "direct");
}

// By 16-bit products, but where there are such of bytes, and only where sums fit: at 255 * 128 a product, those of more
// than 1827 channels do not fit the 30 bits that tiles of 2 by 2 leave.
TEST(Decision, takes_winograd_for_bytes_where_it_is_exact) {
    const auto problem = [](const std::string &channels, const std::string &rest) {
        return parsed("conv2d-u8.s8.u8-n1-c" + channels + "-i28x28-m64-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g1-" + rest);
    };
    for (const TargetModel &target : target_models()) {
        if (!has_timed_defaults(target)) continue;
        // With AVX-VNNI too, whose registers of 256 bits gain as much by dot products of 16 bits.
        const bool pays = target.int8_products == 2 || target.byte_dot != nullptr;
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
TEST(Decision, a_transposed_row_may_be_taken_in_chunks) {
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
TEST(Decision, far_weights_are_fetched_ahead) {
    const Problem far = parsed("conv2d-f32-n1-c256-i14x14-m256-o14x14-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc");
    const Problem near = parsed("conv2d-f32-n1-c32-i14x14-m32-o14x14-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc");
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        EXPECT_EQ(default_winograd_schedule(far, target).prefetch_distance > 0, !target.lane_indexed_fma)
            << target.name;
        EXPECT_EQ(default_winograd_schedule(near, target).prefetch_distance, 0) << target.name;
    }
}

// Asked for caches that hold no weights, a panel of them sweeps all of an image that the second cache has room for: in
// parts each would read all weights again.
TEST(Decision, cold_weights_are_read_once) {
    const Problem problem = parsed("conv2d-f32-n1-c1024-i14x14-m512-o14x14-k1x1-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc-bias");
    const Problem up = parsed("conv2d-f32-n1-c512-i28x28-m1024-o14x14-k1x1-s2x2-d1x1-p0x0,~1x~1-g1-nxc,nxc-bias");
    const TargetModel &target = find_target("x86-64-zen4");
    TargetModel cold = target;
    cold.cold_weights = true;
    EXPECT_GT(default_direct_schedule(problem, target).chunk, 0);
    EXPECT_EQ(default_direct_schedule(problem, cold).chunk, 0);
    // Nor does Strassen's algorithm, which has more of them, pay there.
    EXPECT_EQ(default_decision(up, target).algorithm, "strassen");
    EXPECT_EQ(default_decision(up, cold).algorithm, "direct");
}

// Asked for caches that hold no weights, tiles of fewer outputs pay, which have fewer of them.
TEST(Decision, cold_weights_make_tiles_small) {
    const Problem problem = parsed("conv2d-f32-n1-c128-i56x56-m128-o28x28-k3x3-s2x2-d1x1-p1x1,0x0-g1-nxc,nxc-bias");
    const TargetModel &target = find_target("x86-64-zen4");
    TargetModel cold = target;
    cold.cold_weights = true;
    const WinogradSchedule near = default_winograd_schedule(problem, target),
                           far = default_winograd_schedule(problem, cold);
    EXPECT_LT(far.tile[0] * far.tile[1], near.tile[0] * near.tile[1]);
}

// Asked for caches that hold no weights, they are fetched so far ahead as memory needs, where steps read few enough.
TEST(Decision, cold_weights_are_fetched_from_memory) {
    const Problem problem = parsed("conv2d-f32-n1-c256-i12x12-m384-o12x12-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc");
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        TargetModel cold = target;
        cold.cold_weights = true;
        const WinogradSchedule schedule = default_winograd_schedule(problem, cold);
        const int lines = schedule.panel() * static_cast<int>(sizeof(float)) / 64;
        const bool waits = waits_for_panels(target);  // then blocks of tiles fetch them by shares
        EXPECT_EQ(schedule.prefetch_panels, waits) << target.name;
        EXPECT_EQ(schedule.prefetch_distance > 0, !target.lane_indexed_fma && !waits) << target.name;
        if (schedule.prefetch_distance > 0) {
            EXPECT_EQ(schedule.prefetch_distance, target.memory_lines_ahead * 64 / (schedule.panel() * 4))
                << target.name;
            EXPECT_LE(lines, target.memory_fetched_lines) << target.name;
        }
    }
}

// Winograd's panels are fetched by shares where several blocks of tiles share them and the last cache is slow; not
// those of several input phases, which are read from several places.
TEST(Decision, winograd_fetches_panels_ahead) {
    const Problem wide = parsed("conv2d-f32-n1-c256-i28x28-m256-o28x28-k3x3-s1x1-d2x2-p2x2,2x2-g1-nxc,nxc");
    const Problem small = parsed("conv2d-f32-n1-c64-i28x28-m64-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc");
    const Problem strided = parsed("conv2d-f32-n1-c256-i57x57-m256-o28x28-k3x3-s2x2-d1x1-p0x0,0x0-g1-nxc,nxc");
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        EXPECT_EQ(default_winograd_schedule(wide, target).prefetch_panels, waits_for_panels(target)) << target.name;
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
TEST(Decision, few_chunks_are_even) {
    const Problem problem = parsed("conv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias-relu");
    const auto schedule = default_winograd_schedule(problem, find_target("x86-64-avx512"));
    EXPECT_EQ(winograd_shape(problem, schedule).axes.back().chunks, 14);
}

// Groups of 4 and 8 channels are products of groups packed together at each point: measured faster than the direct
// algorithm.
TEST(Decision, narrow_groups_take_winograd) {
    for (const char *text : {"conv2d-f32-n1-c256-i28x28-m256-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g32-nxc,nxc",
                             "conv2d-f32-n1-c128-i56x56-m128-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g32-ncx,ncx"}) {
        for (const char *target : {"x86-64-avx2", "x86-64-avx512"}) {
            EXPECT_EQ(default_decision(parsed(text), find_target(target)).algorithm, "winograd") << target << text;
        }
    }
}

// Rows of tiles that y is no whole number of are clipped, which saves a copy, where that costs few products.
TEST(Decision, tiles_that_reach_beyond_y_are_clipped) {
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
TEST(Decision, groups_that_fill_a_vector_are_interleaved) {
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

// Depthwise channels whose count is such that a position's neighbours lie in few of the first cache's sets are no
// vector that sweeps the image: tiles are as tall as it is.
TEST(Decision, depthwise_channels_that_share_sets_take_tall_tiles) {
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
