// What a call by a schedule of the direct algorithm takes, in cycles, beside what direct/schedule.h tells of it.
#pragma once

#include <vector>

#include "algorithms/direct/schedule.h"
#include "axes/axis_map.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// Cycles that an output takes of channels-first y, storing included.
double output_cycles(const Problem &problem, const std::vector<AxisMap> &axes, int64_t channels,
                     const DirectSchedule &s, const TargetModel &target);

}  // namespace kiln
