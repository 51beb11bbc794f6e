// What the harness draws: problems that fit a pattern, and tensors that take what their types can hold.
#include "harness/tensors/data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "../parsed.h"
#include "reference/numbers.h"

namespace kiln::harness {
namespace {

TEST(RandomProblem, FitsItsPattern) {
    for (const char *text :
         {"conv1d-f32-n?-c?-i?-m?-o?-k?-s?-d?-p?,?-g?-?,?-epilogue?",
          "conv2d-u8.s8.u8-n?-c?-i?x?-m?-o?x?-k?x?-s?x?-d?x?-p?x?,?x?-g?-xz?-yz?-?,?-wz-epiloguef32?",
          "convtranspose3d-bf16-n?-c?-i?x?x?-m?-o?x?x?-k?x?x?-s?x?x?-d?x?x?-p?x?x?,?x?x?-g?-?,?-epilogue?-strict",
          "deformconv2d-f16-n?-c?-i?x?-m?-o?x?-k?x?-s?x?-d?x?-p?x?,?x?-g?-og?-?,?-epilogue?",
          "conv2d-f32-n1-c64-i?x?-m64-o?x?-k3x3-s1x1-d1x1-p1x1,?x?-g1-nxc,nxc-bias-relu",
          "conv2d-f32-n1-c6-i?x9-m6-o8x?-k3x3-s2x1-d1x1-p1x1,?x?-g?-nxc,ncx",
          "convtranspose1d-f32-n1-c6-i?-m6-o9-k3-s2-d1-p1,?-g1-nxc,ncx"}) {
        const Problem pattern = parsed(text);
        std::set<std::string> drawn;
        for (uint64_t seed = 0; seed < 200; ++seed)
            for (const Sizes sizes : {Sizes::small, Sizes::typical}) {
                const Problem problem = random_problem(pattern, seed, sizes);
                const std::string name = print(problem).c_str();
                const Status status = validate(problem);
                ASSERT_TRUE(status.ok()) << status.message() << ", " << name;
                ASSERT_FALSE(problem.has_open_sizes()) << name;
                ASSERT_TRUE(matches(pattern, problem)) << name;
                ASSERT_EQ(name, print(random_problem(pattern, seed, sizes)).c_str());
                drawn.insert(name);
            }
        EXPECT_GE(drawn.size(), 3) << text;
    }
}

TEST(RandomTensors, SizesAndValues) {
    const Problem p = parsed("conv1d-u8.s8.u8-n2-c3-i400-m5-o400-k3-s1-d1-p1,1-g1-xz128-yz7-ncx,nxc-wz-bias");
    const Tensors tensors = random_tensors(p, 1, Offsets::ordinary);
    EXPECT_EQ(tensors[Tensor::x].size(), 2400);
    EXPECT_EQ(tensors[Tensor::bias].size(), 20);
    EXPECT_EQ(tensors[Tensor::scale].size(), 24);
    EXPECT_EQ(tensors[Tensor::zero_points].size(), 20);
    EXPECT_TRUE(tensors[Tensor::residual].empty());
    std::set<double> values;
    for (int64_t i = 0; i < 2400; ++i) values.insert(reference::load(DType::u8, tensors[Tensor::x].data(), i));
    EXPECT_GT(values.size(), 250);
    EXPECT_EQ(tensors[Tensor::x], random_tensors(p, 1, Offsets::ordinary)[Tensor::x]);
    EXPECT_NE(tensors[Tensor::x], random_tensors(p, 2, Offsets::ordinary)[Tensor::x]);
}

TEST(RandomTensors, OffsetsAreHostileWhereAsked) {
    const Problem p = parsed("deformconv2d-f32-n1-c2-i9x7-m2-o9x7-k3x3-s1x1-d1x1-p1x1,1x1-g1-og2-nxc,ncx-mask");
    EXPECT_EQ(elements_of(p, Tensor::offset), 9 * 7 * 2 * 9 * 2);
    EXPECT_EQ(elements_of(p, Tensor::mask), 9 * 7 * 2 * 9);
    // How often positions are on the borders -1, 0, size - 1 and size, and how often not finite.
    const auto count = [&](Offsets offsets) {
        const Tensors tensors = random_tensors(p, 1, offsets);
        int borders = 0, infinite = 0;
        for (int64_t i = 0; i < elements_of(p, Tensor::offset); ++i) {
            // [out][group, tap, axis], as x lies
            const int64_t axis = i % 2, tap = i / 2 % 9, out = i / 36;
            const int64_t base = axis == 0 ? out / 7 + tap / 3 - 1 : out % 7 + tap % 3 - 1;
            const double position =
                static_cast<double>(base) + reference::load(DType::f32, tensors[Tensor::offset].data(), i);
            const double size = axis == 0 ? 9 : 7;
            infinite += !std::isfinite(position);
            borders += position == -1 || position == 0 || position == size - 1 || position == size;
        }
        return std::pair(borders, infinite);
    };
    EXPECT_EQ(count(Offsets::ordinary), std::pair(0, 0));
    EXPECT_GT(count(Offsets::hostile).first, 100);
    EXPECT_GT(count(Offsets::hostile).second, 20);
}

}  // namespace
}  // namespace kiln::harness
