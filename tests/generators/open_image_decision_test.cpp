// Images whose sizes a run says: the parts that they are computed in, and what is decided for those together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../parsed.h"
#include "algorithms/schedule_space.h"
#include "axes/image_parts.h"
#include "axes/simplify_problem.h"
#include "candidates.h"
#include "decisions.h"

namespace kiln {
namespace {

using testing::ElementsAre;

std::vector<std::vector<int64_t>> outs_of(const char *text) {
    std::vector<std::vector<int64_t>> outs;
    for (const Problem &part : image_parts(parsed(text))) {
        outs.emplace_back(part.out.begin(), part.out.begin() + part.rank);
    }
    return outs;
}

TEST(OpenImage, parts_fit_the_caches_and_outputs_that_are_known) {
    using Out = std::vector<int64_t>;
    EXPECT_THAT(outs_of("conv2d-f32-n1-c64-i?x?-m64-o?x?-k3x3-s1x1-d1x1-p1x1,?x?-g1-ncx,ncx"),
                ElementsAre(Out{16, 32}, Out{12, 12}, Out{8, 8}));
    EXPECT_THAT(outs_of("conv2d-f32-n1-c512-i?x?-m512-o?x?-k3x3-s1x1-d1x1-p1x1,?x?-g1-ncx,ncx"),
                ElementsAre(Out{16, 16}, Out{12, 12}, Out{8, 8}));
    EXPECT_THAT(outs_of("conv2d-f32-n1-c64-i?x10-m64-o?x10-k3x3-s1x1-d1x1-p1x1,?x1-g1-ncx,ncx"),
                ElementsAre(Out{16, 10}, Out{12, 10}, Out{8, 8}));
    // Of a ConvTranspose each position of x has as many outputs as the strides say.
    EXPECT_THAT(outs_of("convtranspose2d-f32-n1-c64-i?x?-m32-o?x?-k4x4-s2x2-d1x1-p1x1,?x?-g1-ncx,ncx"),
                ElementsAre(Out{32, 64}, Out{12, 12}, Out{8, 8}));
    // Patches too, though they share nothing that is read: channels that all taps are make long sums.
    EXPECT_EQ(outs_of("conv2d-f32-n1-c96-i?x?-m192-o?x?-k2x2-s2x2-d1x1-p0x0,?x?-g1-ncx,ncx").size(), 3);
}

TEST(OpenImage, kernels_see_the_axes_of_parts) {
    const Problem part = parsed("conv2d-f32-n1-c64-i18x34-m64-o16x32-k3x3-s1x1-d1x1-p0x0,0x0-g1-ncx,ncx");
    EXPECT_EQ(axes_of_part(part, simplify_problem(part)), (std::vector<int>{0, 1}));
    // A row of positions is one axis of two.
    const Problem row = parsed("conv2d-f32-n1-c64-i1x448-m64-o1x448-k1x1-s1x1-d1x1-p0x0,0x0-g1-ncx,ncx");
    EXPECT_EQ(axes_of_part(row, simplify_problem(row)), std::vector<int>{1});
    // Axes at the end that are one are none of the part's.
    const Problem joined = parsed("conv3d-f32-n1-c64-i6x8x8-m64-o4x8x8-k3x1x1-s1x1x1-d1x1x1-p0x0x0,0x0x0-g1-ncx,ncx");
    EXPECT_EQ(axes_of_part(joined, simplify_problem(joined)), std::nullopt);
}

// By the largest part's own tiles, of 5, the others compute much in vain.
TEST(OpenImage, tiles_suit_parts_together) {
    const TargetModel &target = find_target("x86-64-avx512");
    const Problem problem = parsed("conv2d-f32-n?-c128-i?x?-m128-o?x?-k3x3-s1x1-d1x1-p1x1,?x?-g1-ncx,ncx-bias");
    const std::vector<Problem> parts = image_parts(problem);
    const Decision together = default_decision(problem, target), of_largest = default_decision(parts[0], target);
    ASSERT_EQ(together.algorithm, "winograd");
    ASSERT_EQ(of_largest.algorithm, "winograd");
    for (size_t i = 1; i < parts.size(); i++) {
        EXPECT_LT(*estimated_cycles(parts[i], decision_of_part(parts[i], together, target), target),
                  .8 * *estimated_cycles(parts[i], decision_of_part(parts[i], of_largest, target), target));
    }
}

TEST(OpenImage, tiles_of_parts_fit_the_registers) {
    const char *problems[] = {"conv2d-f32-n1-c80-i?x?-m192-o?x?-k3x3-s1x1-d1x1-p0x0,?x?-g1-ncx,ncx-bias",
                              "conv2d-f32-n1-c192-i?x?-m192-o?x?-k1x7-s1x1-d1x1-p0x3,?x?-g1-ncx,ncx-bias",
                              "conv2d-f32-n1-c128-i?x?-m128-o?x?-k3x3-s1x1-d1x1-p1x1,?x?-g1-nxc,nxc-bias"};
    for (const char *name : {"x86-64-avx2", "x86-64-avx512", "arm-64-linux"}) {
        const TargetModel &target = find_target(name);
        for (const char *text : problems) {
            const Problem problem = parsed(text);
            for (const Problem &part : image_parts(problem)) {
                const ScheduleNumbers n(decision_of_part(part, default_decision(problem, target), target).schedule);
                const int positions = n.has("block") ? n["block"] : n["pixels"] * n["rows"];
                EXPECT_LE(n["vectors"] * (positions + 1) + 1, target.vector_registers) << name << " " << n.print();
            }
        }
    }
}

// In another order of loops, of the same packed weights, and in less time as far as estimates tell.
TEST(OpenImage, parts_have_loops_of_their_own) {
    const TargetModel &target = find_target("x86-64-avx512");
    int others = 0;
    for (const char *text : {"conv2d-f32-n1-c128-i?x?-m128-o?x?-k3x3-s1x1-d1x1-p1x1,?x?-g1-ncx,ncx-bias",
                             "conv2d-f32-n1-c288-i?x?-m384-o?x?-k3x3-s2x2-d1x1-p0x0,?x?-g1-nxc,nxc-bias",
                             "conv2d-f32-n1-c16-i?x?-m32-o?x?-k3x3-s2x2-d1x1-p1x1,?x?-g1-ncx,ncx-bias"}) {
        const Problem problem = parsed(text);
        const Decision decision = default_decision(problem, target);
        for (const Problem &part : image_parts(problem)) {
            const Decision own = decision_of_part(part, decision, target);
            EXPECT_EQ(own.algorithm, decision.algorithm);
            EXPECT_LE(estimated_cycles(part, own, target), estimated_cycles(part, decision, target)) << text;
            const ScheduleNumbers all(decision.schedule), of_part(own.schedule);
            for (const char *packing : {"lanes", "vectors", "tile_x", "tile_y", "dot_width", "channels"}) {
                if (all.has(packing)) {
                    EXPECT_EQ(of_part[packing], all[packing]) << text << " " << packing;
                }
            }
            others += own == decision ? 0 : 1;
        }
    }
    EXPECT_GT(others, 0);
}

}  // namespace
}  // namespace kiln
