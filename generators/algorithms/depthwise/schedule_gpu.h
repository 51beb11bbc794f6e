// The depthwise algorithm on a GPU: each thread computes a few positions of a few channels, and reads every element of
// the input that they need once. Stages, weights and error are the depthwise algorithm's.
#pragma once

#include "algorithms/depthwise/depthwise.h"
#include "algorithms/schedule_space.h"
#include "algorithms/schedule_text.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln::depthwise {

// The numbers of its schedule. A thread's tile takes all output phases of its positions.
struct DepthwiseGpuSchedule {
    int vector = 1;             // a thread takes channels, neighbours in one load or store,
    int pixels = 1;             //   by positions along the innermost axis
    int rows = 1;               //   by positions along the next one
    int threads_c = 1;          // a block has threads along the channels,
    int threads_x = 1;          //   along the innermost axis
    int threads_y = 1;          //   and along the next one
    bool in_registers = false;  // whether a thread's input is read ahead of its sums, padding included

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless vectors divide the channels and a tile fits into the problem's image.
    void check(const Problem &problem) const;
    // What stages and packing need of it.
    DepthwiseSchedule stages() const;
};

DepthwiseGpuSchedule default_depthwise_gpu_schedule(const Problem &problem, const TargetModel &target);
ScheduleSpace depthwise_gpu_space(const Problem &problem, const TargetModel &target);

void schedule_depthwise_gpu(DepthwiseStages &stages, const Problem &problem, const DepthwiseGpuSchedule &schedule);

}  // namespace kiln::depthwise
