// The depthwise algorithm's packed weights.
//
// [dot][channels, filled up with zeros to whole vectors, or repeated through a period][taps...][phases...], the
// innermost first, or [dot][taps...][phases...][channels] with row lanes; the taps of the dotted axis in groups of
// `dot`, filled up with zeros.
#pragma once

#include <Halide.h>

#include <cstddef>
#include <vector>

#include "algorithms/depthwise/schedule.h"
#include "axes/axis_map.h"
#include "kiln/problem.h"

namespace kiln::depthwise {

std::vector<int> packed_extents(const Problem &problem, const DepthwiseSchedule &schedule);
Halide::Type packed_type(const Problem &problem, const DepthwiseSchedule &schedule);
Halide::Func pack(const Problem &problem, const DepthwiseSchedule &schedule, const Halide::Func &w);

// The axis whose taps a lane sums: rows, which the taps of all their columns then share; or positions of a row, where
// there is but one, or rows of taps are a loop.
size_t dotted_axis(const std::vector<AxisMap> &axes, const DepthwiseSchedule &schedule);

// The taps of each axis, groups of them on the dotted one.
std::vector<int> tap_extents(const std::vector<AxisMap> &axes, const DepthwiseSchedule &schedule);

// How many neighbouring rows of outputs one group of taps serves, by weights that are shifted: 4 rows hold 3 taps
// twice.
int rows_of_group(const std::vector<AxisMap> &axes, const DepthwiseSchedule &schedule);

// A number of each axis.
std::vector<int> each(const std::vector<AxisMap> &axes, int AxisMap::*number);

}  // namespace kiln::depthwise
