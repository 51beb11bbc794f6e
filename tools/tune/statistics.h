// What is made of rounds of timings.
#pragma once

#include <vector>

#include "tune/pools/measurement.h"

namespace kiln::tools {

// Of each round's time to that of a reference.
std::vector<double> ratios(const Timing &timing, size_t reference);

// The standard error of a median, from the median distance to it.
double error_of_median(const std::vector<double> &values);

// (slowest - fastest) / median
double spread_of(const std::vector<double> &values);

}  // namespace kiln::tools
