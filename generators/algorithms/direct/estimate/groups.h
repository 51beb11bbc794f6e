// What the direct algorithm takes besides its products where groups are of a few of a pixel's channels.
#pragma once

#include <vector>

#include "algorithms/direct/schedule.h"
#include "axes/axis_map.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// Whether groups read a few channels each of channels-last x's pixels, which lie as far apart as x has channels. Where
// products take inputs by lane, and of other types, it was not timed.
bool reads_few_of_pixels(const Problem &problem, const TargetModel &target);

// The share of their rate that tiles keep where lines of channels-last x, of which steps read one channel after the
// other, fall into so few sets of the first cache that they do not stay from one step to the next: of 512 channels,
// every second pixel is in the same set. Of other layouts and algorithms' tiles, 1.
double share_of_crowded_lines(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                              const TargetModel &target);

// Cycles that copies of x and shuffles of sums take where a panel's groups lie lane by lane: a load and a store of each
// vector of x, for each row of tiles that reads it, and a shuffle with each further vector of the panel's channels; and
// as many shuffles for each vector of y as the panel has.
double interleaved_groups_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                                 const TargetModel &target);

// Cycles that each vector of their sums takes to copy x with its padding ahead of all of them, where tiles span rows.
double group_copy_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                         const TargetModel &target);

// Cycles to gather what products read of x, where a lane is the only output channel of a group of several input
// channels: neighbouring lanes' elements lie a group's channels, or as many planes, apart.
double gathered_lanes_cycles(const Problem &problem, const DirectSchedule &s);

}  // namespace kiln
