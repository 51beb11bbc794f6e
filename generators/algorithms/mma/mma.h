// The direct algorithm by a GPU's matrix instructions: a warp multiplies tiles of 16 positions by 8 channels, of
// float16 or bfloat16, and sums products in float32.
//
// Applies to Conv and ConvTranspose of one group, channels-last, of channels by eights. Multiplications: those of the
// direct algorithm, taps in the padding and channels up to the next 32 included, as zeros. Error: the instruction adds
// 16 products at a time, whose digits below the greatest one's it cuts off.
#pragma once

#include <Halide.h>

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
    int channels = 1;           // tiles of 8 channels, by
    int columns = 1;            //   tiles of 16 positions along the innermost axis, by
    int rows = 1;               //   tiles along the next
    int warps = 1;              // of a block,
    bool side_by_side = false;  //   along the channels rather than the innermost axis
    int unroll = 1;             // of the sum, 32 input channels each: what is loaded for so many comes at once

    int panel() const { return 8 * channels; }  // channels of a warp
    int width() const { return 2 * columns; }   // a thread's positions along the innermost axis

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless a block's channels and steps divide the problem's.
    void check(const Problem &problem) const;
};

// Of the sum of one tap, each of which takes 32 input channels, two instructions a tile.
int steps(const Problem &problem);

bool applies(const Problem &problem);
bool runs_on(const Problem &problem, const TargetModel &target);
MmaSchedule default_schedule(const Problem &problem, const TargetModel &target);
ScheduleSpace space(const Problem &problem, const TargetModel &target);

// The output, scheduled.
Halide::Func build(const Problem &problem, const MmaSchedule &schedule, const Operands &operands);

// Weights as threads read them, 8 input channels of an output channel at once: over (input channel, thread of 4, output
// channel of 8, tile of channels, step, tap of each axis, panel, phase of each axis).
std::vector<int> packed_extents(const Problem &problem, const MmaSchedule &schedule);
Halide::Func pack(const Problem &problem, const MmaSchedule &schedule, const Halide::Func &w);

}  // namespace kiln::mma
