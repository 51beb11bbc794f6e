// Layers of one tap as products of matrices, positions by input channels times input by output channels, whose sums are
// made a block of input channels at a time: what a block takes of x and a panel of its weights stay in caches, however
// many channels there are, and all weights are read once for a part of the image.
//
// Applies to Conv of float32 and float64 in one group whose outputs have one tap each, inside x, without phases.
// Multiplications: those of the definition. Error: a sum of in_channels products, blocks of them one after the other.
#pragma once

#include <Halide.h>

#include <optional>

#include "algorithms/direct/direct.h"
#include "algorithms/schedule_space.h"
#include "algorithms/schedule_text.h"
#include "kiln/problem.h"
#include "moves/parallel_split.h"
#include "targets/target_model.h"

namespace kiln {

// The numbers of its schedule.
struct GemmSchedule {
    int lanes = 8;    // of a vector: output channels
    int vectors = 1;  // a register tile is vectors of channels
    int pixels = 1;   //   by positions
    int unroll = 1;   // of a block's sum
    int block = 1;    // input channels that are summed before the next ones: a divisor of theirs
    int panels = 1;   // of a part of y, of vectors * lanes channels each
    int tiles = 1;    // of a part of y, of so many positions each
    bool parallel = false;

    int panel() const { return lanes * vectors; }

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless blocks and parts are of the problem.
    void check(const Problem &problem) const;

    // Of the products, which are a direct convolution of gemm_products().
    DirectSchedule direct() const;
};

// The products as a problem of their own: a Conv of one row, whose groups are blocks of input channels.
Problem gemm_products(const Problem &problem, const GemmSchedule &schedule);

// The weights that those take, from w as Implementation::pack gets it, over the same dimensions.
Halide::Func gemm_weights(const Problem &problem, const GemmSchedule &schedule, const Halide::Func &w);

// How many parts of an image's positions there are, each with a part of all sums.
int gemm_parts(const Problem &problem, const GemmSchedule &schedule);

// And parts of its channels.
int gemm_channel_parts(const Problem &problem, const GemmSchedule &schedule);

// What threads share of a block's products, within a part of y: none where parts are even as they are, or a block has
// too few.
SharedWork work_of_block(const Problem &problem, const GemmSchedule &schedule);

// The stages of the kernel, not scheduled.
struct GemmStages {
    Halide::Var k{"k"}, c{"c"}, p{"p"}, n{"n"};
    Halide::Func x;         // what products read of x, or a copy: (k, p, n)
    bool copies_x = false;  // of what a block takes
    DirectStages products;  // of a block: `acc` is over (c of a block, p, phase, n)
    Halide::RDom blocks;
    Halide::Func sums;  // over (c, p, n), where positions p are numbered as they lie in y
    // Channels-first y is written in blocks that are transposed in registers.
    std::optional<Halide::Func> transposed_block;
    Halide::Func y;
};

bool gemm_applies(const Problem &problem);
bool gemm_is_profitable(const Problem &problem, const TargetModel &target);
bool gemm_runs_on(const Problem &problem, const TargetModel &target);

GemmStages gemm(const Problem &problem, const GemmSchedule &schedule, const Operands &operands,
                const TargetModel &target);

GemmSchedule default_gemm_schedule(const Problem &problem, const TargetModel &target);

// What may be tuned of it.
ScheduleSpace gemm_space(const Problem &problem, const TargetModel &target);

// `packed`: the weights.
void schedule_gemm(GemmStages &stages, const Problem &problem, const GemmSchedule &schedule,
                   const Halide::Func &packed);
SharedPrefetches shared_gemm_prefetches(const Problem &problem, const GemmSchedule &schedule);

}  // namespace kiln
