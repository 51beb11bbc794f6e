// What may be tuned of the deformable algorithm's schedule.
#include <algorithm>

#include "algorithms/deformable/deformable.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"

namespace kiln::deformable {

ScheduleSpace deformable_space(const Problem &problem, const TargetModel &target) {
    const int most_lanes = target.lanes(sum_type(problem).bits());
    const bool open = problem.has_open_sizes();
    const int points = open ? 0 : static_cast<int>(problem.out_points());
    const bool grouped = !open && problem.groups > 1;
    const int64_t out_of_group = grouped ? problem.out_channels / problem.groups : 0;
    const int reduction_channels = open ? 1 : static_cast<int>(problem.in_channels / problem.groups);
    return {{{"lanes", halves(most_lanes, most_lanes / 2)},
             {"vectors", whole_range(1, 4)},
             {"pixels", whole_range(1, 14)},
             {"tiles", {1, 2, 3, 4, 6, 8, 12, 16}},
             {"blocks", {1, 2, 3, 4, 6, 8, 12, 16}},
             {"sample_lanes", halves(most_lanes, most_lanes / 2)},
             {"unroll", divisors_among(reduction_channels, {1, 2, 4, 8})}},
            [=, &target](const ScheduleNumbers &n) {
                const int chunk = n["pixels"] * n["tiles"] * n["blocks"];
                return n["vectors"] * (n["pixels"] + 1) + 1 <= target.vector_registers &&
                       (open ? n["tiles"] == 1 && chunk <= 64 : chunk <= std::max(points, n["pixels"])) &&
                       (!grouped || out_of_group % (n["lanes"] * n["vectors"]) == 0);
            }};
}

}  // namespace kiln::deformable
