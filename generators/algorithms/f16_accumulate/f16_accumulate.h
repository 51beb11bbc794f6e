// The direct algorithm with sums in f16: products are summed in f16, up to fast_products of a tap's, and these sums in
// f32.
//
// Applies to Conv and ConvTranspose of float16 without groups where accuracy is fast, on targets with f16 arithmetic.
// Multiplications: the direct algorithm's, twice as many an instruction. Error: tests/reference/error_bound.h; sums of
// up to fast_products products must be in float16's range.
#pragma once

#include "algorithms/direct/direct.h"

namespace kiln {

struct F16AccumulateSchedule : DirectSchedule {
    F16AccumulateSchedule() { tile = F16Lanes(); }
};

bool f16_accumulate_applies(const Problem &problem);
bool f16_accumulate_runs_on(const Problem &problem, const TargetModel &target);

// How many of a tap's products are summed in f16.
int f16_sum_block(const Problem &problem);

F16AccumulateSchedule default_f16_accumulate_schedule(const Problem &problem, const TargetModel &target);

// The direct algorithm's, of vectors as the default has them.
ScheduleSpace f16_accumulate_space(const Problem &problem, const TargetModel &target);

// The f16 sums of a register tile, in a step of the f32 ones that schedule_direct() scheduled.
SumSteps schedule_f16_sums(DirectStages &stages, const DirectSchedule &schedule, const SumSteps &steps);

}  // namespace kiln
