// The move that sums of products are scheduled by: a register tile, whose sums stay in registers while the loops over
// what is summed go round them.
#pragma once

#include <Halide.h>

#include <optional>
#include <vector>

namespace kiln {

// The loops over the elements of a tile. All of it is unrolled.
struct TileLoops {
    Halide::Var along;  // vectors of `lanes` run along this
    int lanes = 1;
    std::vector<Halide::Var> interleaved = {};  // phases of `along`, whose vectors are stored woven
    std::vector<Halide::Var> others = {};       // around the vectors, the innermost first
};

// Splits a stage's vectors off, and unrolls them and the others. Returns the tile's loops, the innermost first, for the
// stage to be reordered by.
std::vector<Halide::VarOrRVar> unroll_tile(Halide::Stage stage, const TileLoops &tile,
                                           Halide::TailStrategy tail = Halide::TailStrategy::Auto);

// What is summed.
struct SumLoops {
    std::vector<Halide::RVar> loops;  // the innermost first,
    int unroll = 1;                   // of the first of which so many iterations are a step, unrolled
    // Within those: neighbouring products, `dot_width` of which one lane of an instruction sums.
    std::optional<Halide::RVar> neighbours = std::nullopt;
    int dot_width = 1;
};

// Loops that a sum was given, for what else is done in them.
struct SumSteps {
    Halide::RVar steps;
    Halide::RVar innermost;  // over a step's iterations or, where that is one, over steps
};

// Schedules the definition and the update of a sum that is computed a tile at a time. `tail`: where the former's
// vectors do not divide the tile.
SumSteps schedule_tile_sum(Halide::Func sum, const TileLoops &tile, const SumLoops &sums,
                           Halide::TailStrategy tail = Halide::TailStrategy::Auto);

// Schedules a copy of a tile's sums to memory, in the loop around the tile. What reads the copy need not be unrolled as
// registers' readers are: its code is there once, in a loop.
void store_tile(Halide::Func copy, const Halide::LoopLevel &around, const TileLoops &tile);

// The loops of a reduction domain from dimension `first` on.
std::vector<Halide::RVar> loops_from(const Halide::RDom &r, int first);

}  // namespace kiln
