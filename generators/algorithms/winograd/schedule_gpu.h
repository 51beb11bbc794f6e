// The Winograd algorithm's schedule for GPUs, of three kernels: one transforms all tiles of the input, one multiplies
// them by packed weights for every point, a tile of channels and tiles a thread, and one transforms the products to y.
// What lies between them is in the workspace.
//
// Applies as winograd.h says, on one or two axes and without groups, dilation or phases of unequal sizes; all tiles of
// an axis are of one size (TileOrder).
#pragma once

#include <Halide.h>

#include <vector>

#include "algorithms/schedule_space.h"
#include "algorithms/schedule_text.h"
#include "algorithms/winograd/winograd.h"
#include "kiln/problem.h"
#include "moves/sliced_sum.h"
#include "targets/target_model.h"

namespace kiln {

// The numbers of its schedule.
struct WinogradGpuSchedule {
    int channels = 1;                // a thread sums channels, neighbours,
    int tiles = 1;                   //   by tiles, for one point
    int vector = 1;                  // channels in one load or store; divides `channels`
    int threads_c = 1;               // a block has threads along the channels
    int threads_t = 1;               //   and along the tiles
    int unroll = 1;                  // of the sum over input channels
    int slices = 1;                  // a power of 2: so many threads share a tile, each sums some of the products
    std::vector<int> tile = {1, 1};  // outputs m of a tile on each axis, the innermost first

    int threads() const { return threads_c * threads_t * slices; }  // of a block that multiplies
    SlicedTile sliced() const { return {{{channels, threads_c}, {tiles, threads_t}}, vector, slices}; }

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless the tiles suit the problem.
    void check(const Problem &problem) const;
    // What the algorithm's definition and packing need of it.
    WinogradSchedule stages() const;
};

bool winograd_gpu_applies(const Problem &problem);
WinogradGpuSchedule default_winograd_gpu_schedule(const Problem &problem, const TargetModel &target);
ScheduleSpace winograd_gpu_space(const Problem &problem, const TargetModel &target);

// Of stages whose tiles are numbered.
void schedule_winograd_gpu(WinogradStages &stages, const Problem &problem, const WinogradGpuSchedule &schedule);

}  // namespace kiln
