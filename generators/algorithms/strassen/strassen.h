// One level of Strassen's algorithm for layers that are a product of matrices, positions by input channels times input
// channels by outputs: halves of all three, the positions' in blocks of neighbours along the innermost axis, and seven
// products of them where the definition has eight.
//
// Applies to Conv and ConvTranspose of float32 and float64 in one group with even numbers of channels, where each
// output meets one tap, inside x: kernels of 1, and ConvTranspose with kernels as large as strides. Widths need not be
// even: the last block overlaps the one before. Multiplications: 7/8 of the definition's, if blocks fit the width.
// Error: as of sums of half as many products, 3.2 times as large, relative to the largest of x and w anywhere, which
// halves mix; infinities and NaN spread to the other half's outputs (tests/reference/error_bound.h).
#pragma once

#include <Halide.h>

#include <optional>
#include <vector>

#include "algorithms/direct/direct.h"
#include "algorithms/schedule_space.h"
#include "algorithms/schedule_text.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// The numbers of its schedule.
struct StrassenSchedule {
    int lanes = 8;    // of a vector: output channels
    int vectors = 1;  // a register tile is vectors of channels
    int pixels = 1;   //   by positions of half a block
    int rows = 1;     //   by rows along the next axis
    int unroll = 1;   // of the sum over input channels
    int chunk = 1;  // how much of the image, in iterations of its outermost loop, is summed before all weights pass it
    bool parallel = false;

    int panel() const { return lanes * vectors; }

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless blocks fit into the problem's image and panels into half its channels.
    void check(const Problem &problem) const;

    // Of the products, which are a direct convolution of products().
    DirectSchedule direct() const;
};

// The seven products as a problem of their own: a Conv or ConvTranspose of as many groups, whose rows are the positions
// of a block's half, block by block.
Problem strassen_products(const Problem &problem, const StrassenSchedule &schedule);

// How many iterations of the loop along axis a cover the image: blocks, rows of tiles, positions.
int strassen_iterations(const std::vector<AxisMap> &axes, size_t a, const StrassenSchedule &schedule);

// The weights that those take, from w as Implementation::pack gets it, over the same dimensions.
Halide::Func strassen_weights(const Problem &problem, const Halide::Func &w);

// The stages of the kernel, not scheduled.
struct StrassenStages {
    Halide::Var k{"k"}, i{"i"}, t{"t"}, u{"u"}, block{"block"};
    Halide::Func sums;      // of halves of x: (k, product i, t, block, the other axes' positions, n)
    DirectStages products;  // `product` is over (c, i, q and, where there are several, phase of each axis, n)
    // Channels-first y is written in blocks that are transposed in registers: (c, output u of a half's row, block,
    // half, half of the channels, the other axes' positions and phases, n).
    std::optional<Halide::Func> transposed_block;
    // Of y's update, the innermost first: over a vector and, of a transposed block, its channels; halves of the
    // channels and of a block; vectors or blocks by channels and along the half's row, rows of a tile; blocks, rows of
    // tiles and the other axes' positions; phases; panels; chunks of the image.
    struct Loops {
        Halide::RVar lane, row, channel_half, half, vector, position, tile_row;
        std::vector<Halide::RVar> image, phases;
        Halide::RVar panel, chunk;
    } loops;
    Halide::Func y;
};

bool strassen_applies(const Problem &problem);
bool strassen_is_profitable(const Problem &problem, const TargetModel &target);
bool strassen_runs_on(const Problem &problem, const TargetModel &target);

StrassenStages strassen(const Problem &problem, const StrassenSchedule &schedule, const Operands &operands,
                        const TargetModel &target);

StrassenSchedule default_strassen_schedule(const Problem &problem, const TargetModel &target);

// What may be tuned of it.
ScheduleSpace strassen_space(const Problem &problem, const TargetModel &target);

void schedule_strassen(StrassenStages &stages, const Problem &problem, const StrassenSchedule &schedule);

}  // namespace kiln
