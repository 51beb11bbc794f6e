// The plan of a network's memory.
#include "network/arena.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"

namespace kiln::tools {
namespace {

constexpr int64_t alignment = 64;

// Whether no two blocks that live at one step share a byte, and all lie in the arena.
void check(const std::vector<ArenaBlock> &blocks, const ArenaPlan &plan) {
    ASSERT_EQ(plan.offsets.size(), blocks.size());
    for (size_t a = 0; a < blocks.size(); a++) {
        EXPECT_EQ(plan.offsets[a] % alignment, 0);
        EXPECT_GE(plan.offsets[a], 0);
        EXPECT_LE(plan.offsets[a] + blocks[a].bytes, plan.bytes);
        for (size_t b = 0; b < a; b++) {
            const bool at_once = blocks[a].first <= blocks[b].last && blocks[b].first <= blocks[a].last;
            const bool apart = plan.offsets[a] + blocks[a].bytes <= plan.offsets[b] ||
                               plan.offsets[b] + blocks[b].bytes <= plan.offsets[a];
            EXPECT_TRUE(!at_once || apart || blocks[a].bytes == 0 || blocks[b].bytes == 0) << a << " and " << b;
        }
    }
    EXPECT_GE(plan.bytes, plan.bound);
}

TEST(Arena, AChainNeedsItsTwoLargestNeighbours) {
    const std::vector<ArenaBlock> blocks = {{64, 0, 1}, {640, 1, 2}, {320, 2, 3}, {64, 3, 4}};
    const ArenaPlan plan = plan_arena(blocks, alignment);
    check(blocks, plan);
    EXPECT_EQ(plan.bound, 960);
    EXPECT_EQ(plan.bytes, 960);
}

TEST(Arena, SizesAreRoundedUp) {
    const ArenaPlan plan = plan_arena({{1, 0, 0}, {65, 0, 0}, {0, 0, 0}}, alignment);
    EXPECT_EQ(plan.bytes, 192);
    EXPECT_EQ(plan.bound, 192);
}

TEST(Arena, Nothing) {
    const ArenaPlan plan = plan_arena({}, alignment);
    EXPECT_EQ(plan.bytes, 0);
    EXPECT_EQ(plan.bound, 0);
}

TEST(Arena, AllKept) {
    const std::vector<ArenaBlock> blocks = {{64, 0, 1}, {100, 5, 6}};
    const ArenaPlan plan = keep_all(blocks, alignment);
    EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 64}));
    EXPECT_EQ(plan.bytes, 192);
}

// Networks at random: a step reads some of what was made before, a few of it long ago, and needs some memory for
// itself.
std::vector<ArenaBlock> random_network(std::mt19937 &random) {
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    const int steps = 2 + below(60);
    std::vector<ArenaBlock> tensors, all;
    for (int step = 0; step < steps; step++) {
        for (int reads = 1 + below(3); reads-- > 0 && !tensors.empty();) {
            const int back = below(5) == 0 ? below(static_cast<int>(tensors.size())) : below(2);
            tensors[std::max(0, static_cast<int>(tensors.size()) - 1 - back)].last = step;
        }
        tensors.push_back({1 + below(1 << (4 + below(16))), step, step});
        if (below(2) == 0) all.push_back({below(5000), step, step});
    }
    all.insert(all.end(), tensors.begin(), tensors.end());
    return all;
}

// Steps without a workspace have blocks of no bytes: they cost the search nothing.
TEST(Arena, BlocksOfNoBytesChangeNothing) {
    std::mt19937 random(5);
    for (int i = 0; i < 20; i++) {
        std::vector<ArenaBlock> blocks = random_network(random);
        const ArenaPlan plan = plan_arena(blocks, alignment);
        for (int step = 0; step < 300; step++) blocks.push_back({0, step % 60, step % 60});
        const ArenaPlan same = plan_arena(blocks, alignment);
        check(blocks, same);
        EXPECT_EQ(same.bytes, plan.bytes);
    }
}

TEST(Arena, RandomNetworks) {
    std::mt19937 random(7);
    double sum = 0;
    constexpr int networks = 200;
    for (int i = 0; i < networks; i++) {
        const std::vector<ArenaBlock> blocks = random_network(random);
        const ArenaPlan plan = plan_arena(blocks, alignment);
        check(blocks, plan);
        EXPECT_EQ(plan_arena(blocks, alignment).offsets, plan.offsets);
        sum += static_cast<double>(plan.bytes) / static_cast<double>(plan.bound);
        EXPECT_LE(plan.bytes, plan.bound * 3 / 2) << "network " << i;
    }
    EXPECT_LT(sum / networks, 1.05);
}

}  // namespace
}  // namespace kiln::tools
