// Sums in f16: where they apply, and their schedule.
#include "algorithms/f16_accumulate/f16_accumulate.h"

#include "algorithms/direct/schedule_cpu.h"
#include "expressions/arithmetic.h"

namespace kiln {

bool f16_accumulate_applies(const Problem &problem) {
    return problem.accuracy == Accuracy::fast && !problem.traits().deformable && !problem.has_open_sizes() &&
           problem.groups == 1 && problem.x_elements() > 0 && problem.y_elements() > 0 && f16_sum_block(problem) > 1;
}

bool f16_accumulate_runs_on(const Problem &, const TargetModel &target) {
    return target.f16_arithmetic;
}

int f16_sum_block(const Problem &problem) {
    return lanes_within(problem.in_channels, fast_products, true);
}

F16AccumulateSchedule default_f16_accumulate_schedule(const Problem &problem, const TargetModel &target) {
    F16AccumulateSchedule schedule;
    static_cast<DirectSchedule &>(schedule) = default_direct_schedule(problem, target);
    schedule.tile = F16Lanes{schedule.width()};
    schedule.lanes = lanes_around(problem.out_channels, target.lanes(16));
    schedule.vectors = std::min(schedule.vectors, ceil_div(static_cast<int>(problem.out_channels), schedule.lanes));
    schedule.unroll = std::min(f16_sum_block(problem), target.lanes(16));
    return schedule;
}

ScheduleSpace f16_accumulate_space(const Problem &problem, const TargetModel &target) {
    ScheduleSpace space = direct_space(problem, target);
    std::erase_if(space.choices, [](const ScheduleSpace::Choice &choice) {
        return choice.name == "prefetch_output" || choice.name == "lanes" || choice.name == "unroll" ||
               choice.name == "dot_width";
    });
    return space;
}

SumSteps schedule_f16_sums(DirectStages &s, const DirectSchedule &schedule, const SumSteps &steps) {
    auto &[sums, block] = *s.f16_sums;
    sums.compute_at(s.acc, steps.steps).store_in(Halide::MemoryType::Register);
    return schedule_tile_sum(sums, tile_loops(s, schedule, true), {loops_from(block, 0), schedule.unroll});
}

}  // namespace kiln
