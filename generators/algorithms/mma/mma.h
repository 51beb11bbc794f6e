// The direct algorithm by a GPU's matrix instructions: a warp multiplies tiles of 16 positions by 8 channels, of
// float16, bfloat16 or TF32, and sums products in float32. A float32 is taken as two TF32, a product of two as three.
//
// Several warps of a block may share a tile's sum, each with some of the products. All sums of a block meet in its
// shared memory, from which its threads finish neighbouring elements of y.
//
// Applies to Conv and ConvTranspose of one group, of output channels by eights and input channels by 16 bytes; x with
// channels first is copied at first. Multiplications: those of the direct algorithm, taps in the padding and channels
// up to the next 64 bytes included, as zeros. Error: the instruction adds 16 products at a time, of TF32 8, whose
// digits below the greatest one's it cuts off. Of float32 the product of what both leave besides their first TF32 is
// left out.
#pragma once

#include <Halide.h>

#include <optional>
#include <vector>

#include "algorithms/schedule_space.h"
#include "algorithms/schedule_text.h"
#include "axes/axis_map.h"
#include "expressions/operands.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln::mma {

// The numbers of its schedule: a warp's sums are a tile of instructions' tiles, four numbers of each in a thread.
struct MmaSchedule {
    int channels = 1;  // tiles of 8 channels, by
    int columns = 1;   //   tiles of 16 positions along the innermost axis, by
    int rows = 1;      //   tiles along the next
    int warps_c = 1;   // warps of a block along the channels,
    int warps_x = 1;   //   by those along the innermost axis,
    int slices = 1;    //   by those that share a tile's sums: each has some of the products
    int unroll = 1;    // of the sum, 64 bytes of input channels each: what is loaded for so many comes at once

    int panel() const { return 8 * channels; }  // channels of a warp
    int width() const { return 2 * columns; }   // a thread's positions along the innermost axis
    int warps() const { return warps_c * warps_x * slices; }
    int threads() const { return 32 * warps(); }
    int tiles() const { return channels * columns * rows; }  // of a warp
    // Of a block: the sums of all slices.
    int64_t shared_bytes() const;

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless it suits the problem.
    void check(const Problem &problem) const;
};

// Of the sum of one tap, each of which takes 64 bytes of input channels, two instructions a tile.
int steps(const Problem &problem);
// Of the loops over a sum: what is loaded at once is multiplied in one turn. First those of a tap, then each axis'
// taps.
std::vector<int> turns(const Problem &problem, const MmaSchedule &schedule);
// Into how many parts slices part each of those loops, evenly; none where they do not.
std::vector<int> slices_of_turns(const Problem &problem, const MmaSchedule &schedule);

// Those counts of slices up to `most` that part a sum evenly, where one step is multiplied in a turn.
std::vector<int> slices_among(const Problem &problem, int most);
// Whether a block's registers and shared memory are there, its numbers suit the problem, and no half of it would have
// nothing to do.
bool fits(const Problem &problem, const MmaSchedule &schedule, const TargetModel &target);

// Neighbouring channels of y that a thread finishes together: where they lie so, 16 bytes at the most, and less where
// there would be too few for all threads.
int channels_together(const Problem &problem, const MmaSchedule &schedule);

bool applies(const Problem &problem);
// Whether it applies to what is left of a DeformConv (algorithms/staged/samples.h): of one group, and channels of an
// offset group by fours. Weights of 16 bits are TF32 as they are.
bool samples_apply(const Problem &problem);
bool runs_on(const Problem &problem, const TargetModel &target);
// Whether it is estimated to be faster than the staged algorithm, where that applies.
bool is_profitable(const Problem &problem, const TargetModel &target);
// How many instructions multiply two numbers. Of two float32 three do, of TF32: of what both begin with, and of what
// that leaves of either; of a float32 and 16 bits, which are TF32 as they are, two; of numbers of 16 bits one.
int instructions_per_product(const Problem &problem);
// How many words of 32 bits a thread has of weights for two instructions: 4, as of x, or 2 where only the weights are
// of 16 bits.
int weight_words(const Problem &problem);
// An estimate of a call's time on the target's GPU, in cycles of its multiprocessors.
double cycles(const Problem &problem, const MmaSchedule &schedule, const TargetModel &target);
MmaSchedule default_schedule(const Problem &problem, const TargetModel &target);
ScheduleSpace space(const Problem &problem, const TargetModel &target);

// A thread of a warp is (t, g), of 4 by 8.
struct Stages {
    std::vector<AxisMap> axes;
    Halide::Var c{"c"}, n{"n"};
    std::vector<Halide::Var> q, phase;  // output positions are q * phases + phase
    // Of the sums: a warp's tiles; and threads, numbered through along the channels, the first axis and the second.
    Halide::Var tile_c{"tile_c"}, tile_x{"tile_x"}, tile_y{"tile_y"};
    Halide::Var along_c{"along_c"}, along_x{"along_x"}, along_y{"along_y"};
    std::vector<Halide::Var> slice;  // of each loop over the sum
    // Of operands: a thread's words, four or weight_words(); rows of positions.
    Halide::Var word{"word"}, half{"half"}, step{"step"};
    // Which instruction of a step and which step, in a turn; and turns of a slice, of each loop over the sum.
    std::vector<Halide::RVar> of_turn, turns;
    std::optional<Halide::Func> turn;  // the sums of a turn, where they are not added to acc at once
    // Where the channels of x do not lie side by side: x over (c, point, n), and the tile of it that a block copies.
    std::optional<Halide::Func> image, tile;
    Halide::Func pixels{"pixels"}, weights{"weights"}, acc{"acc"};
    // Over a thread's channels and positions, and then as the sums: those; and in shared memory, channels in vectors.
    Halide::Var lane{"lane"}, vector{"vector"}, channel{"channel"}, column{"column"}, row{"row"};
    Halide::Func sums{"sums"}, shared{"shared"};
    Halide::Func y{"y"};  // over (c, q and, where there are several, phase of each axis, n)

    Halide::Expr t() const { return along_c % 4; }
    Halide::Expr g() const { return along_x % 8; }
    Halide::Expr panel() const { return along_c / 4; }
    // The last dimensions of pixels, acc, sums and shared, slices excepted.
    std::vector<Halide::Var> outer() const;
};

Stages define(const Problem &problem, const MmaSchedule &schedule, const Operands &operands);
void schedule_gpu(Stages &stages, const Problem &problem, const MmaSchedule &schedule);

// Weights as threads read them, weight_words() of an output channel at once: over (input channel, thread of 4, output
// channel of 8, tile of channels, step, tap of each axis, panel, phase of each axis).
std::vector<int> packed_extents(const Problem &problem, const MmaSchedule &schedule);
Halide::Func pack(const Problem &problem, const MmaSchedule &schedule, const Halide::Func &w);

}  // namespace kiln::mma
