// The direct algorithm on a GPU: each thread sums a small tile of channels and positions, a block's threads share a
// panel of packed weights and the input under it. Stages, sums and error are the direct algorithm's.
#pragma once

#include "algorithms/direct/direct.h"
#include "algorithms/schedule_space.h"
#include "algorithms/schedule_text.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// The numbers of its schedule.
struct DirectGpuSchedule {
    int channels = 1;        // a thread sums channels, neighbours,
    int pixels = 1;          //   by positions along the innermost axis
    int vector = 1;          // channels in one load or store; divides `channels`
    int threads_c = 1;       // a block has threads along the channels,
    int threads_x = 1;       //   along the innermost axis
    int threads_y = 1;       //   and along the next one
    int unroll = 1;          // of the sum over input channels
    bool in_shared = false;  // whether a block's input is copied to shared memory first, padding included
    int slices = 1;          // a power of 2: so many threads of a block share a tile, each sums some of the products

    int panel() const { return channels * threads_c; }
    int threads() const { return threads_c * threads_x * threads_y * slices; }  // of a block
    // What threads that share tiles sum; without rows where there is one axis.
    SlicedTile sliced() const;

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless tiles divide the channels and fit into the problem's image.
    void check(const Problem &problem) const;
    // What stages and packing need of it.
    DirectSchedule stages() const;
};

// Whether what a block reads of the input is known to be as much everywhere, so that it may be in shared memory.
bool may_share_input(const Problem &problem);

// estimate/gpu.cpp: what a kernel by a schedule is estimated to take, in cycles of the GPU; and what is taken where
// nobody tuned.
double direct_gpu_cycles(const Problem &problem, const DirectGpuSchedule &schedule, const TargetModel &target);
DirectGpuSchedule default_direct_gpu_schedule(const Problem &problem, const TargetModel &target);
ScheduleSpace direct_gpu_space(const Problem &problem, const TargetModel &target);

// Halide takes one shape of loops for both interfaces.
void schedule_direct_gpu(DirectStages &stages, const Problem &problem, const DirectGpuSchedule &schedule);

}  // namespace kiln
