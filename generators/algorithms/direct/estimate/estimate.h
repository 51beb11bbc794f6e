// What a call by a schedule of the direct algorithm takes, in cycles, beside what direct/schedule.h tells of it.
#pragma once

#include <vector>

#include "algorithms/direct/schedule.h"
#include "axes/axis_map.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// Below which share of products inside the image those that are left out are counted: smaller paddings are in what the
// estimates were compared with.
constexpr double counted_share_inside = 0.67;

// Cycles that an output takes of channels-first y, storing included.
double output_cycles(const Problem &problem, const std::vector<AxisMap> &axes, int64_t channels,
                     const DirectSchedule &s, const TargetModel &target);

}  // namespace kiln
