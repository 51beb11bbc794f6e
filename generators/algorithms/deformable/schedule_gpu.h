// The deformable algorithm on a GPU: one kernel finds every sample's corners, one gathers the samples, both into the
// workspace, and one multiplies them by packed weights, a tile of channels and points a thread. Stages, sums and error
// are the deformable algorithm's.
#pragma once

#include "algorithms/deformable/deformable.h"
#include "algorithms/schedule_space.h"
#include "algorithms/schedule_text.h"
#include "kiln/problem.h"
#include "moves/sliced_sum.h"
#include "targets/target_model.h"

namespace kiln::deformable {

// The numbers of its schedule.
struct DeformableGpuSchedule {
    int channels = 1;   // a thread sums channels, neighbours,
    int points = 1;     //   by output points
    int vector = 1;     // channels in one load or store; divides `channels`
    int threads_c = 1;  // a block has threads along the channels
    int threads_p = 1;  //   and along the points
    int unroll = 1;     // of the sum over input channels
    int slices = 1;     // a power of 2: so many threads of a block share a tile, each sums some of the products

    int threads() const { return threads_c * threads_p * slices; }  // of a block
    SlicedTile sliced() const { return {{{channels, threads_c}, {points, threads_p}}, vector, slices}; }

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless tiles divide the channels and fit into the problem's image.
    void check(const Problem &problem) const;
    // What stages and packing need of it.
    DeformableSchedule stages() const;
};

DeformableGpuSchedule default_deformable_gpu_schedule(const Problem &problem, const TargetModel &target);
ScheduleSpace deformable_gpu_space(const Problem &problem, const TargetModel &target);

// x with its channels innermost, corners for all channels of an offset group together, and the samples, by a kernel
// each: neighbours' threads are neighbours in memory. `offset_channels`: input channels of an offset group. Unless
// `copies_image`, samples are of x as it is, its channels being innermost already.
void schedule_samples_gpu(DeformableStages &stages, int offset_channels, bool copies_image = true);

void schedule_deformable_gpu(DeformableStages &stages, const Problem &problem, const DeformableGpuSchedule &schedule);

}  // namespace kiln::deformable
