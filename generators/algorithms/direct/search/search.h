// What the default schedule of the direct algorithm for processors is looked for by (cost.cpp beside this folder).
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/direct/schedule.h"
#include "axes/axis_map.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

constexpr double least_shared_flops = 2e6;  // that threads share

// As many lanes as given, or so many fewer that they divide those of a group.
int lanes_in_group(const Problem &problem, int64_t channels, int lanes);

// The best tile whose vectors are output channels, `channels` of which have panels together, with all else as `like`
// has it.
DirectSchedule best_channel_lanes(const Problem &problem, int64_t channels, const DirectSchedule &like,
                                  const TargetModel &target);

// The best whose vectors are positions along rows, of so many channels of a group.
DirectSchedule best_row_lanes(const Problem &problem, int64_t channels, const TargetModel &target);

// Steps of the sum in a loop's body: by channel lanes, of which `s` has so many where nothing else is known,
int unroll_of_tile(const Problem &problem, const std::vector<AxisMap> &axes, DirectSchedule s,
                   const TargetModel &target);
// where much of rows is padding that is left out,
int unroll_of_parted_rows(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                          const TargetModel &target);
// and no more than leave registers to what adds products (expressions/types.h).
int unroll_of_products(const Problem &problem, const DirectSchedule &s, const TargetModel &target);

}  // namespace kiln
