// The kn2row algorithm, for few output channels: the innermost axis' taps are output channels of products at x's own
// positions, which are then shifted to where their outputs are, and added up.
//
//   product(c, tap, i) = sum of w(c, tap, ...) * x(..., i) over input channels and the other axes' taps
//   y(c, o)            = sum of product(c, tap, i) over those taps and positions that meet at o
//
// Vectors run along rows of x, whatever the number of channels, each is loaded once for all taps and phases, where it
// is aligned, and weights are broadcast. Of a ConvTranspose it is what others call GEMM and col2im, a row at a time.
// After A. Vasudevan, A. Anderson, D. Gregg, "Parallel Multi Channel Convolution using General Matrix Multiplication"
// (ASAP 2017).
//
// Applies to Conv and ConvTranspose of floats in one group, with few output channels times taps and, of a Conv, stride
// 1 along the innermost axis, whose output phases are all of one size (operators/complete_phases.h makes them so).
// Multiplications: those of the definition. Error: a sum of in_channels * taps products in another order.
#pragma once

#include <Halide.h>

#include <optional>
#include <vector>

#include "algorithms/direct/direct.h"
#include "algorithms/schedule_space.h"
#include "algorithms/schedule_text.h"
#include "axes/axis_map.h"
#include "expressions/operands.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// The numbers of its schedule.
struct Kn2rowSchedule {
    int lanes = 8;              // of a vector: positions
    int vectors = 1;            // a register tile is vectors
    int channels = 1;           //   by output channels of the products
    int unroll = 1;             // of the sum over input channels
    int prefetch_distance = 0;  // steps of the sum before which x's vectors are fetched; 0: when they are read
    bool parallel = false;
    bool copied_planes = false;  // whether channels-first x is copied, rows side by side: can_copy_rows()

    int width() const { return lanes * vectors; }

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless a tile fits into a row of x.
    void check(const Problem &problem) const;

    // Of the products, which are a direct convolution of kn2row_products().
    DirectSchedule direct() const;
};

// The products as a problem of their own: of output channels by taps as output channels, pointwise along the innermost
// axis.
Problem kn2row_products(const Problem &problem);

// The weights that those take, from w as Implementation::pack gets it, over the same dimensions.
Halide::Func kn2row_weights(const Problem &problem, const Halide::Func &w);

// Rows of x, those of all channels side by side: over (c, the spatial axes, n), rows innermost. Channels-last x is
// transposed, a block in registers at a time.
struct CopiedRows {
    Halide::Func rows, block;
};

// The stages of the kernel, not scheduled.
struct Kn2rowStages {
    DirectStages products;  // whose `acc` is all that is used of them
    std::optional<CopiedRows> copied;
    // The products of rows: over (position, channel by tap, q and phase of the other axes, n). Updates write zeros
    // beyond the ends of x's rows and then, a tile at a time, what is between them; the last of a row's tiles overlaps
    // the one before.
    Halide::Func shifted;
    Halide::Var position{"position"}, channel{"channel"};
    Halide::RDom tiles;  // lane and number of a tile
    std::vector<AxisMap> axes;
    std::vector<Halide::Var> q, phase;  // output positions are q * phases + phase
    Halide::Var c{"c"}, n{"n"};
    Halide::Func y;  // (c, q and, where there are several, phase of each axis, n)
};

// Whether products can read x where it is; else a copy, or widened by and by.
bool reads_x_itself(const Problem &problem);
// Whether x is channels-first and has rows to copy side by side: those of planes that lie whole pages apart share sets
// of the caches.
bool can_copy_rows(const Problem &problem);

bool kn2row_applies(const Problem &problem);
bool kn2row_is_profitable(const Problem &problem, const TargetModel &target);

Kn2rowStages kn2row(const Problem &problem, const Kn2rowSchedule &schedule, const Operands &operands,
                    const TargetModel &target);

void schedule_kn2row(Kn2rowStages &stages, const Problem &problem, const Kn2rowSchedule &schedule);

// cost.cpp: cycles by which channels-last x is transposed more slowly ahead of all products, where the second cache
// does not hold it with its copy: that is written to the last and read again. The direct algorithm copies such x with
// its padding.
double kn2row_far_copy_cycles(const Problem &problem, const TargetModel &target);

// What it is compiled with where nobody tuned it, and what may be tuned of it.
Kn2rowSchedule default_kn2row_schedule(const Problem &problem, const TargetModel &target);
ScheduleSpace kn2row_space(const Problem &problem, const TargetModel &target);

}  // namespace kiln
