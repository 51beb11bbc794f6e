// What Winograd's schedule has besides on ARM, whose products take one factor from a lane of a register: as
// direct/schedule_neon.cpp has it for direct sums.
#include "algorithms/winograd/winograd.h"

namespace kiln {

void stage_inputs(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule,
                  const WinogradSteps &steps) {
    if (schedule.unroll == 1 || problem.groups > 1) {
        return;
    }
    for (size_t k = 0; k < s.products.size(); k++) {
        WinogradStages::Product &stage = s.products[k];
        Halide::Func staged = stage.transformed.in(stage.acc);
        staged.compute_at(stage.acc, steps[k]).store_in(Halide::MemoryType::Register);
        staged.bound_extent(s.c, schedule.unroll).vectorize(s.c).unroll(s.tile);
    }
}

}  // namespace kiln
