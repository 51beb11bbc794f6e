// What a call by a schedule of the direct algorithm takes, in cycles, beside what direct/schedule.h tells of it.
#pragma once

#include <vector>

#include "algorithms/direct/schedule.h"
#include "axes/axis_map.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// Of all sums, those in the padding too: a ConvTranspose's flops() are of its inputs' taps, wherever they lead.
double all_products(const Problem &problem, const std::vector<AxisMap> &axes);

// Below which share of products inside the image those that are left out are counted: smaller paddings are in what the
// estimates were compared with.
constexpr double counted_share_inside = 0.67;

// What is left of a problem's products where those in the padding are left out.
struct ProductsInside {
    double share = 1;   // of all products
    double cycles = 0;  // to find them: where the ends of rows are parted, each position of a panel asks at each tap
};
ProductsInside products_inside(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                               const TargetModel &target);

// Cycles that an output takes of channels-first y, storing included.
double output_cycles(const Problem &problem, const std::vector<AxisMap> &axes, int64_t channels,
                     const DirectSchedule &s, const TargetModel &target);

}  // namespace kiln
