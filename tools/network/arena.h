// The plan of a network's memory: which tensor lies where in the arena, so that none that is still needed is written
// over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::tools {

// Memory that is needed from step `first` to step `last`, both included.
struct ArenaBlock {
    int64_t bytes;
    int first, last;
};

struct ArenaPlan {
    std::vector<int64_t> offsets;  // of the blocks
    int64_t bytes = 0;             // of the arena
    int64_t bound = 0;             // the most that any step needs: no plan can do with less
    std::string planner;           // which of several found it
};

// Offsets are multiples of `alignment`, and blocks are counted as if they were too. The same blocks give the same plan.
ArenaPlan plan_arena(const std::vector<ArenaBlock> &blocks, int64_t alignment);

// Every block at a place of its own.
ArenaPlan keep_all(const std::vector<ArenaBlock> &blocks, int64_t alignment);

}  // namespace kiln::tools
