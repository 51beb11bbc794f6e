// DeformConv's deformable algorithm: its default numbers, its schedules' texts, and how its weights are packed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "../parsed.h"
#include "algorithms/deformable/deformable.h"
#include "kernel.h"
#include "weight_packer.h"

namespace kiln::deformable {
namespace {

TEST(DeformConv, default_tiles_fit_the_registers) {
    const char *problems[] = {
        "deformconv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-og1-ncx,ncx-bias-mask",
        "deformconv2d-bf16-n1-c128-i28x28-m128-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g1-og4-nxc,nxc-mask",
        "deformconv2d-f64-n1-c512-i7x7-m512-o7x7-k3x3-s1x1-d1x1-p1x1,1x1-g4-og2-nxc,ncx",
        "deformconv2d-f32-n1-c33-i9x9-m33-o9x9-k3x3-s1x1-d1x1-p1x1,1x1-g33-og3-ncx,nxc",
        "deformconv1d-f16-n1-c1-i5-m1-o5-k1-s1-d1-p0,0-g1-og1-ncx,ncx"};
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        for (const char *text : problems) {
            const Problem problem = parsed(text);
            const Decision decision = default_decision(problem, target);
            EXPECT_EQ(decision.algorithm, "deformable");
            const auto schedule = parse_schedule<DeformableSchedule>(decision.schedule);
            EXPECT_EQ(print_schedule(schedule), decision.schedule);
            EXPECT_LE(schedule.vectors * (schedule.pixels + 1) + 1, target.vector_registers) << text;
            EXPECT_LE(schedule.sample_lanes, target.lanes(problem.x_type == DType::f64 ? 64 : 32)) << text;
            EXPECT_NO_THROW(check_decision(problem, decision, algorithm_revision("deformable")));
        }
    }
}

TEST(DeformConv, a_zero_in_a_schedule_is_named) {
    try {
        parse_schedule<DeformableSchedule>(
            "lanes:8;vectors:1;pixels:1;tiles:0;blocks:1;sample_lanes:8;unroll:1;parallel:0");
        ADD_FAILURE() << "tiles:0 was taken";
    } catch (const std::invalid_argument &error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("\"tiles\""));
    }
}

// Three output channels in panels of two: the last lane of the last panel is zero.
TEST(DeformConv, weights_are_packed_in_panels) {
    const Problem problem = parsed("deformconv2d-f32-n1-c2-i4x4-m3-o4x3-k1x2-s1x1-d1x1-p0x0,0x0-g1-og1-ncx,ncx");
    const Decision decision = {"deformable",
                               "lanes:2;vectors:1;pixels:1;tiles:1;blocks:1;sample_lanes:1;unroll:1;parallel:0"};
    // w[output channel][input channel][tap] = 100 * output channel + 10 * input channel + tap.
    std::vector<float> w;
    for (int i = 0; i < 12; i++) {
        w.push_back(static_cast<float>(i / 4 * 100 + i / 2 % 2 * 10 + i % 2));
    }
    const int64_t strides[] = {4, 2, 2, 1};
    const std::vector<uint8_t> bytes = WeightPacker(problem, decision, strides, false).pack(w.data(), nullptr);
    const auto *packed = reinterpret_cast<const float *>(bytes.data());
    EXPECT_THAT(std::vector<float>(packed, packed + bytes.size() / sizeof(float)),
                testing::ElementsAre(0, 100, 10, 110, 1, 101, 11, 111, 200, 0, 210, 0, 201, 0, 211, 0));
}

}  // namespace
}  // namespace kiln::deformable
