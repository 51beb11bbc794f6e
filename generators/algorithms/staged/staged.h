// The direct algorithm for GPUs whose blocks stage what they multiply: for some input channels at a time, all weights
// of a panel and the input under a tile are copied to shared memory, and each thread adds the products of its tile of
// channels and positions to sums that stay in its registers. Where a problem has fewer tiles than a GPU has
// multiprocessors, several blocks share one tile's sum, each with a slice of the input channels, and a second kernel
// adds up what they found.
//
// Applies to every Conv and ConvTranspose of one group whose output phases are of one size, with equally many taps.
// Multiplications: those of the definition, those in the padding included, and of the input channels that fill up the
// last chunk. Error: a sum of in_channels * taps / slices products in order, then of the slices.
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

namespace kiln::staged {

// The numbers of its schedule.
struct Schedule {
    int channels = 1;   // a thread sums channels, some vectors of a panel,
    int pixels = 1;     //   by positions along the innermost axis
    int vector = 1;     // channels in one load or store; divides `channels`
    int threads_c = 1;  // a block has threads along the channels,
    int threads_x = 1;  //   along the innermost axis
    int threads_y = 1;  //   and along the next one
    int chunk = 1;      // input channels, or words of four 8-bit ones, that are staged at a time
    int unroll = 1;     // of the sum over them; divides `chunk`
    int slices = 1;     // blocks that share a tile's sum
    int x_vector = 1;   // steps of the sum whose input lies side by side in shared memory: 1, 2 or 4; divides `unroll`
    int buffers = 1;    // of shared memory: with CUDA a chunk is multiplied while the next are copied to the others

    int panel() const { return channels * threads_c; }
    int threads() const { return threads_c * threads_x * threads_y; }
    // Of a block's tile, on an axis.
    int positions(size_t axis) const { return axis == 0 ? pixels * threads_x : axis == 1 ? threads_y : 1; }
    // Chunks that a block goes through.
    int chunks(const Problem &problem) const;

    // Fewer instructions, .97 of the time on an H100; other schedules' kernels are what their estimate was fitted to.
    bool keeps_sums_by_lanes() const { return buffers > 1 || x_vector > 1; }

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless it suits the problem.
    void check(const Problem &problem) const;
};

struct Stages {
    Halide::Var c{"c"}, n{"n"}, slice{"slice"};
    std::vector<Halide::Var> q, phase;  // output positions are q * phases + phase
    std::vector<AxisMap> axes;
    Halide::RDom r;                        // channel (or word of channels) of a chunk, chunk of a slice, taps
    Halide::Func weights;                  // (lane, input channel, taps, panel, phases), as they are packed
    Halide::Func input;                    // (of x_vector, the axes, input channel / x_vector, n), with zeros around x
    Halide::Func acc;                      // (c, q and phase of each axis, n, slice)
    std::optional<Halide::Func> of_slice;  // acc, stored; where there are several slices
    Halide::Func y;                        // (c, q and, where there are several, phase of each axis, n)
};

bool applies(const Problem &problem);

Stages define(const Problem &problem, const Schedule &schedule, const Operands &operands);
void schedule_gpu(Stages &stages, const Problem &problem, const Schedule &schedule);

// [lane][input channel, to whole chunks of all slices][taps...][panel][phases...], the innermost first; words.h has
// those of 8 bits.
std::vector<int> packed_extents(const Problem &problem, const Schedule &schedule);
Halide::Func pack(const Problem &problem, const Schedule &schedule, const Halide::Func &w);

// So many of a thread's copies to shared memory are on their way at a time.
constexpr int copies_together = 8;
// Of what a block stages at a time: float32, or words of 8-bit numbers.
int64_t shared_bytes(const Problem &problem, const Schedule &schedule);
// An estimate of a call's time on the target's GPU, in cycles of its multiprocessors.
double cycles(const Problem &problem, const Schedule &schedule, const TargetModel &target);
// Numbers of channels that are compared as chunks: most of them, half of those, a quarter ...
std::vector<int> chunks_of(int channels);
Schedule default_schedule(const Problem &problem, const TargetModel &target);
// Whether some block's shared memory holds what it stages at a time: not where a kernel has very many taps.
bool fits(const Problem &problem, const TargetModel &target);
ScheduleSpace space(const Problem &problem, const TargetModel &target);

}  // namespace kiln::staged
