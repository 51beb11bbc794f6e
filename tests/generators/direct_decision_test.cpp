// What the direct algorithm is compiled with by default, and what schedules of it are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../parsed.h"
#include "algorithms/direct/direct.h"
#include "algorithms/estimates.h"
#include "decisions.h"
#include "kernel.h"

namespace kiln {
namespace {

TEST(DirectDecision, takes_row_lanes_where_rows_are_padded) {
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

TEST(DirectDecision, copies_planes_that_stay_in_no_near_cache) {
    const std::pair<const char *, const char *> cases[] = {
        {"conv1d-f32-n1-c320-i49-m1280-o49-k1-s1-d1-p0,0-g1-ncx,ncx", "transposed_x:1"},
        {"conv1d-f32-n1-c256-i1024-m128-o1024-k1-s1-d1-p0,0-g1-ncx,ncx", "copied_planes:1"},  // 4 KB apart
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

// Pairs of float16 are summed by matrix tiles alone, and by those of few processors.
TEST(DirectDecision, refuses_pairs_of_float16_elsewhere) {
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

// Lines of channels-first y are fetched ahead of being written where no near cache holds it, and its rows do not share
// few of the first cache's sets.
TEST(DirectDecision, fetches_far_output) {
    const auto fetches = [](const char *problem, const char *target) {
        return default_decision(parsed(problem), find_target(target))
            .schedule.ends_with("prefetch_output:1;joined_taps:0;copied_planes:0;row_block:0;interleaved_groups:0");
    };
    const char *far = "conv1d-f32-n1-c24-i12544-m144-o12544-k1-s1-d1-p0,0-g1-ncx,ncx";
    EXPECT_TRUE(fetches(far, "x86-64-avx512"));
    EXPECT_TRUE(fetches(far, "x86-64-avx2"));
    EXPECT_TRUE(fetches("conv1d-f32-n1-c96-i3136-m384-o3136-k1-s1-d1-p0,0-g1-ncx,ncx", "x86-64-zen4"));
    EXPECT_FALSE(fetches(far, "x86-64-zen5"));
    EXPECT_FALSE(fetches("conv1d-f32-n1-c24-i3136-m144-o3136-k1-s1-d1-p0,0-g1-ncx,ncx", "x86-64-avx512"));
    EXPECT_FALSE(fetches("conv1d-f32-n1-c24-i16384-m144-o16384-k1-s1-d1-p0,0-g1-ncx,ncx", "x86-64-avx512"));
}

// Rows of x are fetched ahead where vectors are read of them, but where they are copied end to end.
// Without a loop over a sum's steps nothing is fetched beside its products, and LLVM takes sums one after the other.
TEST(DirectDecision, few_channels_keep_a_loop) {
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        for (const char *layouts : {"nxc,nxc", "ncx,ncx"}) {
            for (const char *channels : {"2", "3", "4", "8"}) {
                const Problem problem = parsed("conv2d-f32-n1-c" + std::string(channels) +
                                               "-i112x112-m72-o112x112-k1x1-s1x1-d1x1-p0x0,0x0-g1-" + layouts);
                const Decision decision = default_decision(problem, target);
                ASSERT_EQ(decision.algorithm, "direct") << target.name;
                EXPECT_NO_THROW(check_decision(problem, decision, algorithm_revision("direct"), &target))
                    << target.name << decision.schedule;
                if (std::string(layouts) == "nxc,nxc" && !target.lane_indexed_fma && target.vector_bits == 256) {
                    EXPECT_THAT(decision.schedule, testing::Not(testing::HasSubstr(std::string("unroll:") + channels)));
                }
            }
        }
    }
}

TEST(DirectDecision, fetches_rows_ahead) {
    const TargetModel &target = find_target("x86-64-avx512");
    const Problem rows = parsed("conv1d-f32-n1-c512-i784-m128-o784-k1-s1-d1-p0,0-g1-ncx,ncx");
    const std::string lanes = "lanes:16;vectors:2;pixels:1;rows:1;unroll:4;dot_width:1;panels_outside:0;parallel:1;";
    const std::string rest =
        "panels_of_groups:0;transposed_x:0;partial_sums:1;prefetch_panels:0;tiles_outside:0;prefetch_output:0;joined_"
        "taps:0;copied_planes:0;row_block:0;interleaved_groups:0";
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

// By AVX-512 on an Intel Xeon the first layer takes .28 ms so and .62 otherwise, the second .107 and .11 to .17. Of the
// third the second cache does not hold x, of the fourth it holds y, and nobody waits for a Zen 5's last cache.
TEST(DirectDecision, panels_of_far_rows_go_one_by_one) {
    const auto decision = [](const std::string &problem, const std::string &target) {
        return default_decision(parsed(problem), find_target(target)).schedule;
    };
    const std::string outside = "panels_outside:1;", inside = "panels_outside:0;";
    const std::string first = "conv1d-f32-n1-c1-i16000-m512-o3199-k10-s5-d1-p0,0-g1-ncx,ncx";
    const std::string few = "conv1d-f32-n1-c16-i12544-m48-o12544-k1-s1-d1-p0,0-g1-ncx,ncx";
    const std::string many = "conv1d-f32-n1-c64-i12544-m64-o12544-k1-s1-d1-p0,0-g1-ncx,ncx";
    const std::string near = "conv1d-f32-n1-c64-i784-m64-o784-k1-s1-d1-p0,0-g1-ncx,ncx";
    for (const auto &[problem, target, expected] : {std::tuple(first, "x86-64-avx512", outside),
                                                    {few, "x86-64-amx-fp16", outside},
                                                    {many, "x86-64-avx512", inside},
                                                    {near, "x86-64-avx512", inside},
                                                    {few, "x86-64-zen4", inside},
                                                    {few, "x86-64-avx2", inside}}) {
        EXPECT_NE(decision(problem, target).find(expected), std::string::npos) << problem << " for " << target;
    }
}

// Tiles of a narrow image go across its rows where registers are few: 8x8 of 64 to 64 channels at stride 8, 7x7 behind
// it, takes .224 ms by AVX2 on an Intel Xeon, and .277 by tiles of four positions of seven.
TEST(DirectDecision, tiles_go_across_rows_of_narrow_images) {
    const TargetModel &avx2 = find_target("x86-64-avx2");
    const Problem narrow = parsed("conv2d-f32-n1-c512-i56x7-m64-o7x7-k8x1-s8x1-d1x1-p0x0,0x0-g1-nxc,nxc");
    const Problem padded = parsed("conv2d-f32-n1-c64-i7x7-m64-o7x7-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc");
    const Problem wide = parsed("conv2d-f32-n1-c192-i56x56-m192-o28x28-k2x2-s2x2-d1x1-p0x0,0x0-g1-nxc,nxc");
    EXPECT_EQ(default_direct_schedule(narrow, avx2).flattened_rows(), 7);
    EXPECT_FALSE(default_direct_schedule(padded, avx2).flattens_tiles());
    EXPECT_FALSE(default_direct_schedule(wide, avx2).flattens_tiles());
    EXPECT_FALSE(default_direct_schedule(narrow, find_target("x86-64-avx512")).flattens_tiles());
    const auto check = [&](const std::string &numbers) {
        const std::string tile = "lanes:8;vectors:2;pixels:5;unroll:4;dot_width:1;parallel:0;panels_outside:1;";
        return error_of([&] { check_decision(narrow, {"direct", tile + numbers}, algorithm_revision("direct")); });
    };
    const std::string refused = "schedule: \"flattened_rows\" must be 0: tiles cannot go across rows here";
    EXPECT_EQ(check("rows:1;flattened_rows:7"), "");
    EXPECT_EQ(check("rows:2;flattened_rows:7"), refused);
    EXPECT_EQ(check("rows:1;chunk:2;flattened_rows:7"), refused);
}

// Panels of weights are fetched while tiles multiply by the one before, where the second cache holds two: 1x1 of
// 2048 to 512 channels at 7x7 takes .81 ms on an Intel Xeon whose caches hold no weights, and .60 then.
TEST(DirectDecision, fetches_panels_ahead) {
    const Problem deep = parsed("conv1d-f32-n1-c2048-i49-m512-o49-k1-s1-d1-p0,0-g1-nxc,nxc");
    const Problem small = parsed("conv1d-f32-n1-c128-i49-m64-o49-k1-s1-d1-p0,0-g1-nxc,nxc");
    const Problem wide = parsed("conv2d-f32-n1-c2048-i7x7-m2048-o7x7-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc");
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        const auto fetches = [&](const Problem &problem) {
            return default_direct_schedule(problem, target).prefetch_panels;
        };
        EXPECT_EQ(fetches(deep), fetches_by_shares(target)) << target.name;
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

// In a network small weights come from beyond the second cache too: panels that fetch each other sweep the image where
// both of its tensors stay near. With cold weights the first layer takes .0103 ms so on an Intel Xeon and .0151
// otherwise, the second .0405 and .053. Of the third the first cache holds the weights, of the fourth no cache x and y.
TEST(DirectDecision, small_panels_fetch_each_other_where_weights_are_cold) {
    const std::string small = "conv1d-f32-n1-c64-i36-m384-o36-k1-s1-d1-p0,0-g1-nxc,nxc";
    const std::string stride_2 = "conv2d-f32-n1-c64-i14x14-m128-o7x7-k3x3-s2x2-d1x1-p1x1,0x0-g1-nxc,nxc";
    const std::string few = "conv1d-f32-n1-c32-i784-m192-o784-k1-s1-d1-p0,0-g1-nxc,nxc";
    const std::string large = "conv1d-f32-n1-c96-i3136-m384-o3136-k1-s1-d1-p0,0-g1-nxc,nxc";
    const std::string wide = "conv1d-f32-n1-c128-i784-m512-o784-k1-s1-d1-p0,0-g1-nxc,nxc";
    const std::string residual = wide + "-residual";
    for (const auto &[problem, fetches] :
         {std::pair(small, true), {stride_2, true}, {few, false}, {large, false}, {wide, true}, {residual, false}}) {
        TargetModel target = find_target("x86-64-amx-fp16");
        EXPECT_FALSE(default_direct_schedule(parsed(problem), target).panels_outside) << problem;
        target.cold_weights = true;
        EXPECT_EQ(default_direct_schedule(parsed(problem), target).prefetch_panels, fetches) << problem;
        TargetModel other = find_target("x86-64-zen5");  // whose last cache nobody waits for
        other.cold_weights = true;
        EXPECT_FALSE(default_direct_schedule(parsed(problem), other).panels_outside) << problem;
    }
}

// Groups of few channels read channels-last x by a tile whose sums are of a row's taps at once; those of several
// vectors by panels inside, where x is far and the weights are near.
TEST(DirectDecision, few_channels_of_a_group_share_what_taps_read) {
    const std::string stride_2 = "conv2d-f32-n1-c256-i56x56-m256-o28x28-k3x3-s2x2-d1x1-p1x1,0x0-g16-";
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
TEST(DirectDecision, sums_long_rows_in_parts) {
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

// Tiles of a vector of channels-first rows have 16 sums where halves of vectors are multiplied in turn, beside which a
// line comes: not where planes begin inside lines, share a set of the second cache or are more than the last one holds.
TEST(DirectDecision, takes_lines_of_planes_in_turn) {
    const auto tile = [](const std::string &positions) {
        const std::string sizes = "-n1-c64-i" + positions + "-m32-o" + positions + "-k1-s1-d1-p0,0-g1-ncx,ncx";
        const DirectSchedule s = default_direct_schedule(parsed("conv1d-f32" + sizes), find_target("x86-64-zen4"));
        return std::pair(s.vectors, s.panel());
    };
    EXPECT_EQ(tile("25600"), std::pair(1, 16));
    for (const char *positions : {"25601", "65536", "131088"}) {
        EXPECT_GT(tile(positions).first, 1) << positions;
    }
    // Vectors that reach into a line more have as many sums, though by four all that they read is near.
    EXPECT_EQ(default_direct_schedule(parsed("conv1d-f32-n1-c128-i1089-m64-o1089-k1-s1-d1-p0,0-g1-ncx,ncx"),
                                      find_target("x86-64-zen4"))
                  .panel(),
              16);
}

// Planes that lie whole pages apart are copied, where several panels read them and tiles are AVX2's.
TEST(DirectDecision, crowded_planes_are_copied) {
    const auto copies = [](const std::string &channels, const std::string &positions, const char *target) {
        const std::string sizes =
            "-n1-c64-i" + positions + "-m" + channels + "-o" + positions + "-k1-s1-d1-p0,0-g1-ncx,ncx";
        return default_direct_schedule(parsed("conv1d-f32" + sizes), find_target(target)).copies_planes();
    };
    EXPECT_TRUE(copies("64", "4096", "x86-64-avx2"));
    EXPECT_TRUE(copies("24", "4608", "x86-64-avx2"));  // four and a half pages
    EXPECT_FALSE(copies("64", "4352", "x86-64-avx2"));
    EXPECT_FALSE(copies("2", "4096", "x86-64-avx2"));
    EXPECT_FALSE(copies("64", "4096", "x86-64-zen4"));
}

// So are sums of few channels kept in blocks, of planes that are crowded or far.
TEST(DirectDecision, sums_of_few_channels_are_kept_in_blocks) {
    const auto pointwise_to = [](const std::string &m, const std::string &c, const std::string &i) {
        return parsed("conv1d-f32-n1-c" + c + "-i" + i + "-m" + m + "-o" + i + "-k1-s1-d1-p0,0-g1-ncx,ncx");
    };
    const auto block = [&](const char *channels, const char *positions, const char *out, const char *target) {
        const Problem problem = pointwise_to(out, channels, positions);
        const DirectSchedule s = default_direct_schedule(problem, find_target(target));
        const auto *blocked = s.with<BlockedRowLanes>();
        EXPECT_NO_THROW(s.check(problem));
        return blocked != nullptr ? blocked->block : 0;
    };
    EXPECT_EQ(block("64", "65536", "2", "x86-64-avx2"), 2048);
    EXPECT_EQ(block("64", "57600", "2", "x86-64-avx2"), 2000);  // 29 of them
    EXPECT_EQ(block("64", "1024", "8", "x86-64-avx2"), 512);
    EXPECT_EQ(block("64", "6144", "2", "x86-64-avx2"), 1536);  // four for threads
    EXPECT_EQ(block("64", "14400", "2", "x86-64-avx2"), 0);
    EXPECT_EQ(block("64", "4096", "64", "x86-64-avx2"), 0);
    EXPECT_EQ(block("8", "65536", "2", "x86-64-avx2"), 0);
    EXPECT_EQ(block("64", "65536", "2", "x86-64-avx512"), 0);
    EXPECT_EQ(default_direct_schedule(pointwise_to("6", "64", "4096"), find_target("x86-64-avx2")).panel(), 3);

    const Problem pointwise = pointwise_to("2", "64", "1024");
    const Problem padded = parsed("conv1d-f32-n1-c64-i1024-m2-o1024-k3-s1-d1-p1,1-g1-ncx,ncx");
    DirectSchedule schedule;
    schedule.vectors = 2;
    for (const auto &[positions, problem] : {std::pair(1032, &pointwise), {520, &pointwise}, {512, &padded}}) {
        schedule.tile = BlockedRowLanes{2, positions};
        EXPECT_THROW(schedule.check(*problem), std::invalid_argument) << positions;
    }
    schedule.tile = BlockedRowLanes{2, 512};
    EXPECT_NO_THROW(schedule.check(pointwise));
}

// Tiles read no more positions a page apart than a set of the first cache has lines.
TEST(DirectDecision, positions_that_share_a_set_are_few) {
    const auto width = [](int channels, const char *target) {
        const std::string n = std::to_string(channels);
        const std::string problem = "conv1d-f32-n1-c" + n + "-i196-m256-o196-k1-s1-d1-p0,0-g1-nxc,nxc";
        return default_direct_schedule(parsed(problem), find_target(target)).width();
    };
    EXPECT_LE(width(1024, "x86-64-zen4"), 8);
    EXPECT_LE(width(2048, "x86-64-zen5"), 12);
    EXPECT_GT(width(960, "x86-64-zen4"), 8);
    EXPECT_GT(width(960, "x86-64-zen5"), 12);
}

// Groups whose channels are no whole vectors have panels of their own, the last filled up; channels of whole vectors
// divide into panels as they are.
// Bytes of few channels, whose steps would be mostly empty.
TEST(DirectDecision, joins_taps_of_few_channels) {
    const auto joins = [](const std::string &problem, const char *target) {
        return default_decision(parsed(problem), find_target(target))
            .schedule.ends_with("joined_taps:1;copied_planes:0;row_block:0;interleaved_groups:0");
    };
    const std::string wave = "-i803-m24-o189-k51-s4-d1-p0,0-g1-xz131-yz3-nxc,nxc";
    for (const char *target : {"x86-64-zen4", "x86-64-avx512", "x86-64-avx2"}) {
        EXPECT_TRUE(joins("conv1d-u8.s8.u8-n1-c1" + wave, target)) << target;
        EXPECT_FALSE(joins("conv1d-u8.s8.u8-n1-c64" + wave, target)) << target;
    }
    // Pixels of three or of fourteen channels would be filled up, one by one; twelve are whole fours.
    const std::string image = "-i224x224-m32-o112x112-k3x3-s2x2-d1x1-p1x1,0x0-g1-xz0-yz0-";
    EXPECT_TRUE(joins("conv2d-u8.s8.u8-n1-c3" + image + "nxc,nxc-bias-relu", "x86-64-zen4"));
    EXPECT_TRUE(joins("conv2d-u8.s8.u8-n1-c14" + image + "nxc,nxc-bias-relu", "x86-64-sapphire-rapids"));
    EXPECT_FALSE(joins("conv2d-u8.s8.u8-n1-c12" + image + "nxc,nxc-bias-relu", "x86-64-zen4"));
    EXPECT_FALSE(joins("conv2d-u8.s8.u8-n1-c3" + image + "ncx,ncx-bias-relu", "x86-64-zen4"));
    EXPECT_TRUE(joins("conv1d-u8.s8.u8-n1-c3" + wave, "x86-64-zen4"));  // fours of three channels leave one empty
    EXPECT_FALSE(joins("conv1d-u8.s8.u8-n1-c4" + wave, "x86-64-zen4"));
    EXPECT_FALSE(joins("conv1d-f32-n1-c1-i803-m24-o189-k51-s4-d1-p0,0-g1-nxc,nxc", "x86-64-zen4"));
    EXPECT_FALSE(joins("conv1d-u8.s8.u8-n1-c1-i803-m24-o754-k51-s1-d2-p25,26-g1-xz131-yz3-nxc,nxc", "x86-64-zen4"));
    EXPECT_FALSE(joins("conv1d-u8.s8.u8-n1-c1" + wave, "arm-64-linux-dotprod-fp16"));
}

TEST(DirectDecision, gives_groups_panels_of_their_own) {
    const auto default_schedule = [](int channels, const TargetModel &target) {
        const std::string of_groups = std::to_string(8 * channels), n = "-i28x28-m" + of_groups + "-o28x28";
        const Problem problem = parsed("conv2d-f32-n1-c" + of_groups + n + "-k1x1-s1x1-d1x1-p0x0,0x0-g8-nxc,nxc");
        return default_direct_schedule(problem, target);
    };
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        for (const int channels : {17, 21, 34, 58}) {
            // Vectors that are taken in halves are of half the lanes where these leave less than half a vector empty.
            const bool halves = target.core.splits_vectors() && channels != 58;
            EXPECT_TRUE(default_schedule(channels, target).panels_of_groups) << channels << " by " << target.name;
            EXPECT_EQ(default_schedule(channels, target).lanes, target.lanes(32) / (halves ? 2 : 1))
                << channels << " by " << target.name;
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

// Asked for caches that hold no weights, a panel of them sweeps all of an image that the second cache has room for: in
// parts each would read all weights again.
TEST(DirectDecision, cold_weights_are_read_once) {
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

// Rows of tiles that several outputs' rows share are copied with their padding, which tiles of one row leave out.
TEST(DirectDecision, padded_rows_are_not_copied_for_few_products) {
    const Problem problem = parsed("conv2d-f32-n1-c1-i49x10-m64-o24x5-k10x4-s2x2-d1x1-p4x1,3x1-g1-nxc,nxc");
    EXPECT_THAT(default_decision(problem, find_target("x86-64-amx")).schedule, testing::HasSubstr("rows:1;"));
}

// Few channels' rows, copied with their padding, stay in the first cache: sums by vectors along them take no
// transforms.
// Products in the padding are left out, which is most of them where a dilation comes near the image's size: 256
// channels at 28x28 dilated by 18 take 2.7 ms on a Zen 4, and 7.2 by Winograd, which multiplies them.
TEST(DirectDecision, wide_dilations_are_direct) {
    for (const char *target : {"x86-64-zen4", "x86-64-avx2", "x86-64-avx512"}) {
        for (const char *layouts : {"nxc,nxc", "ncx,ncx"}) {
            const auto algorithm = [&](const std::string &dilation) {
                return default_decision(parsed("conv2d-f32-n1-c256-i28x28-m256-o28x28-k3x3-s1x1-d" + dilation + "-p" +
                                               dilation + "," + dilation + "-g1-" + layouts),
                                        find_target(target))
                    .algorithm;
            };
            EXPECT_EQ(algorithm("18x18"), "direct") << target << layouts;
            EXPECT_EQ(algorithm("2x2"), "winograd") << target << layouts;
        }
    }
}

TEST(DirectDecision, rows_of_few_channels_to_many_are_direct) {
    const Problem problem = parsed("conv2d-f32-n1-c4-i64x64-m512-o64x64-k3x3-s1x1-d1x1-p1x1,1x1-g1-ncx,ncx");
    EXPECT_EQ(default_decision(problem, find_target("x86-64-amx")).algorithm, "direct");
}

// A core that takes vectors in halves multiplies elements as it loads them: tiles of one vector reach as much as those
// of several. Not where they are no floats, nor where memory holds y, which is written by vectors of a pixel or of a
// row.
TEST(DirectDecision, halves_of_vectors_take_tiles_of_one) {
    const auto schedule_of = [](const std::string &text, const char *target) {
        return default_decision(parsed(text), find_target(target)).schedule;
    };
    const std::string expand = "-n1-c16-i12544-m48-o12544-k1-s1-d1-p0,0-g1-";
    const auto one = testing::HasSubstr("vectors:1;");
    EXPECT_THAT(schedule_of("conv1d-f32" + expand + "nxc,nxc", "x86-64-zen4"), one);
    EXPECT_THAT(schedule_of("conv1d-f32" + expand + "nxc,nxc", "x86-64-zen5"), testing::Not(one));
    for (const char *type : {"conv1d-bf16", "conv1d-f16"}) {
        EXPECT_THAT(schedule_of(type + expand + "nxc,nxc", "x86-64-zen4"), testing::Not(one)) << type;
    }
    const std::string far = "conv1d-f32-n1-c32-i65536-m64-o65536-k1-s1-d1-p0,0-g1-";
    for (const char *layouts : {"nxc,nxc", "ncx,ncx"}) {
        EXPECT_THAT(schedule_of(far + layouts, "x86-64-zen4"), testing::HasSubstr("vectors:4;")) << layouts;
    }
    EXPECT_THAT(schedule_of(far + "ncx,ncx", "x86-64-zen4"), testing::HasSubstr("prefetch_output:1"));
}

// Such a core takes half vectors at no more for each lane: 24 channels are three of them, and one and a half whole
// ones.
TEST(DirectDecision, half_vectors_leave_no_lanes_empty) {
    const auto schedule_of = [](const std::string &text, const char *target) {
        return default_decision(parsed(text), find_target(target)).schedule;
    };
    const std::string project = "-n1-c144-i3136-m24-o3136-k1-s1-d1-p0,0-g1-nxc,nxc";
    for (const char *type : {"conv1d-f32", "conv1d-bf16", "conv1d-f16"}) {
        EXPECT_THAT(schedule_of(type + project, "x86-64-zen4"), testing::StartsWith("lanes:8;vectors:3;")) << type;
        EXPECT_THAT(schedule_of(type + project, "x86-64-zen5"), testing::StartsWith("lanes:16;vectors:2;")) << type;
    }
    const std::string taps = "i28x28-m40-o28x28-k5x5-s1x1-d1x1-p2x2,2x2-g40-";
    EXPECT_THAT(schedule_of("conv2d-f32-n1-c40-" + taps + "nxc,nxc", "x86-64-zen4"), testing::StartsWith("lanes:8;"));
    EXPECT_THAT(schedule_of("conv2d-f32-n1-c40-" + taps + "nxc,nxc", "x86-64-zen5"), testing::StartsWith("lanes:16;"));
    const std::string strided = "conv2d-f32-n1-c72-i56x56-m72-o28x28-k3x3-s2x2-d1x1-p1x1,0x0-g72-nxc,nxc";
    EXPECT_THAT(schedule_of(strided, "x86-64-zen4"), testing::StartsWith("lanes:16;"));
}

// Where threads share panels together with the image, no loop parts the last panel: panels then divide the channels.
TEST(DirectDecision, panels_that_are_shared_with_the_image_are_whole) {
    const auto schedule_of = [](const std::string &channels) {
        const std::string text =
            "conv2d-f32-n1-c3-i224x224-m" + channels + "-o32x32-k7x7-s7x7-d1x1-p0x0,0x0-g1-nxc,nxc";
        return default_decision(parsed(text), find_target("x86-64-sapphire-rapids")).schedule;
    };
    EXPECT_THAT(schedule_of("256"), testing::HasSubstr("vectors:4;"));
    EXPECT_THAT(schedule_of("384"), testing::HasSubstr("vectors:6;"));
    // A row that is shared by tiles, and one that is by runs of all panels.
    const auto vectors_of = [](const std::string &positions) {
        const std::string text =
            "conv1d-f32-n1-c512-i" + positions + "-m256-o" + positions + "-k1-s1-d1-p0,0-g1-nxc,nxc";
        return default_decision(parsed(text), find_target("x86-64-sapphire-rapids")).schedule;
    };
    EXPECT_THAT(vectors_of("280"), testing::Not(testing::HasSubstr("vectors:6;")));
    EXPECT_THAT(vectors_of("196"), testing::HasSubstr("vectors:6;"));
}

// Planes beyond the second cache are read by vectors of rows rather than element by element; of many planes that share
// its sets two vectors of each, and as many channels as there are registers for, since each panel reads all of them.
TEST(DirectDecision, far_planes_are_read_by_vectors) {
    const auto schedule_of = [](const std::string &channels, const std::string &positions, const std::string &outputs) {
        const std::string text = "conv1d-f32-n1-c" + channels + "-i" + positions + "-m" + outputs + "-o" + positions +
                                 "-k1-s1-d1-p0,0-g1-ncx,ncx";
        return default_decision(parsed(text), find_target("x86-64-sapphire-rapids")).schedule;
    };
    const auto elements = testing::HasSubstr("channels:0;");
    EXPECT_THAT(schedule_of("960", "1875", "32"), testing::Not(elements));
    EXPECT_THAT(schedule_of("640", "1600", "32"), testing::Not(elements));
    EXPECT_THAT(schedule_of("480", "196", "32"), elements);
    for (const char *outputs : {"32", "64", "128"}) {
        EXPECT_THAT(schedule_of("320", "4096", outputs), testing::HasSubstr("vectors:2;")) << outputs;
    }
}

// Panels of narrow channels-first groups each go through the whole image, reading rows of their own group alone, which
// the first cache holds: by vectors of a row, with strides above all.
TEST(DirectDecision, rows_of_a_group_are_read_alone) {
    for (const char *text : {"conv2d-f32-n1-c192-i56x56-m192-o28x28-k3x3-s2x2-d1x1-p1x1,0x0-g32-ncx,ncx",
                             "conv2d-f32-n1-c240-i56x56-m240-o28x28-k3x3-s2x2-d1x1-p1x1,0x0-g20-ncx,ncx"}) {
        for (const char *target : {"x86-64-avx2", "x86-64-sapphire-rapids"}) {
            const Decision decision = default_decision(parsed(text), find_target(target));
            EXPECT_EQ(decision.algorithm, "direct") << target << text;
            EXPECT_THAT(decision.schedule, testing::HasSubstr("panels_outside:1;")) << target << text;
            EXPECT_THAT(decision.schedule, testing::Not(testing::HasSubstr("channels:0;"))) << target << text;
        }
    }
}

// Channels-last groups of fewer channels than a vector has lanes lie in it lane by lane; those that fill one do not,
// nor where their number is no multiple of what a panel takes.
TEST(DirectDecision, narrow_groups_are_interleaved) {
    const auto decided = [](const std::string &channels, const std::string &groups, const char *target) {
        const std::string text = "conv2d-f32-n1-c" + channels + "-i28x28-m" + channels +
                                 "-o14x14-k3x3-s2x2-d1x1-p1x1,0x0-g" + groups + "-nxc,nxc";
        return default_decision(parsed(text), find_target(target));
    };
    const auto as_they_are = testing::HasSubstr("interleaved_groups:0");
    for (const char *target : {"x86-64-avx2", "x86-64-sapphire-rapids"}) {
        for (const auto &[channels, groups] :
             {std::pair("128", "64"), std::pair("192", "64"), std::pair("256", "64")}) {
            const Decision decision = decided(channels, groups, target);
            EXPECT_EQ(decision.algorithm, "direct") << target << channels;
            EXPECT_THAT(decision.schedule, testing::Not(as_they_are)) << target << channels;
        }
        EXPECT_THAT(decided("252", "63", target).schedule, testing::Not(testing::HasSubstr("interleaved_groups:4")))
            << target;
        EXPECT_THAT(decided("256", "16", target).schedule, as_they_are) << target;
    }
    EXPECT_THAT(
        default_direct_schedule(parsed("conv2d-f32-n1-c256-i28x28-m256-o14x14-k3x3-s2x2-d1x1-p1x1,0x0-g64-nxc,nxc"),
                                find_target("arm-64-linux"))
            .interleaved_groups(),
        1);  // where it was not timed
}

}  // namespace
}  // namespace kiln
