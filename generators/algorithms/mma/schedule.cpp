// The numbers of products by a GPU's matrix instructions: which a problem has, and what tuning may make of them.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "algorithms/empty/empty.h"
#include "algorithms/mma/mma.h"
#include "algorithms/staged/samples.h"
#include "expressions/arithmetic.h"
#include "kiln/kernel.h"

namespace kiln::mma {

void MmaSchedule::list(ScheduleText &text) {
    text.number("channels", channels, 1, 16);
    text.number("columns", columns, 1, 16);
    text.number("rows", rows, 1, 16);
    text.number("warps_c", warps_c, 1, 32);
    text.number("warps_x", warps_x, 1, 32);
    text.number("slices", slices, 1, 32);
    text.number("unroll", unroll, 1, 16);
}

int64_t MmaSchedule::shared_bytes() const {
    return int64_t{4} * threads() * 2 * channels * width() * rows;
}

void MmaSchedule::check(const Problem &of_layer) const {
    const Problem problem = of_layer.traits().deformable ? staged::product_of_samples(of_layer) : of_layer;
    const int of_block = panel() * warps_c;
    if (problem.out_channels % of_block != 0) {
        throw std::invalid_argument("schedule: a block has " + std::to_string(of_block) + " channels, which do not " +
                                    "divide " + std::to_string(problem.out_channels));
    }
    if (steps(problem) % unroll != 0) {
        throw std::invalid_argument("schedule: " + std::to_string(unroll) + " steps at once do not divide " +
                                    std::to_string(steps(problem)));
    }
    if (slices < 1 || slices_of_turns(problem, *this).empty()) {
        throw std::invalid_argument("schedule: " + std::to_string(slices) + " slices do not part the sum evenly");
    }
    if (threads() > 1024) {
        throw std::invalid_argument("schedule: a block of " + std::to_string(threads()) + " threads: 1024 is the most");
    }
    if (problem.rank == 1 && rows > 1) {
        throw std::invalid_argument("schedule: " + std::to_string(rows) + " rows, of one axis");
    }
}

int channels_together(const Problem &problem, const MmaSchedule &s) {
    const int of_thread = 4 * s.channels * s.columns * s.rows / s.slices;  // elements of y
    return problem.y_layout == Layout::nxc ? lanes_within(2 * s.channels, std::clamp(of_thread, 2, 8), true) : 1;
}

bool applies(const Problem &problem) {
    const bool is_multiplied =
        problem.x_type == DType::f16 || problem.x_type == DType::bf16 || problem.x_type == DType::f32;
    return is_multiplied && problem.accuracy != Accuracy::strict && !problem.traits().deformable &&
           !problem.has_open_sizes() && !is_empty(problem) && problem.groups == 1 &&
           problem.in_channels * size_of(problem.x_type) % 16 == 0 && problem.out_channels % 8 == 0 &&
           phases_are_whole(axis_maps(problem));
}

bool samples_apply(const Problem &problem) {
    return staged::samples_apply(problem) && problem.in_channels / problem.offset_groups % 4 == 0 &&
           applies(staged::product_of_samples(problem));
}

bool runs_on(const Problem &, const TargetModel &target) {
    return target.gpu.api == kiln_gpu_cuda;
}

std::vector<int> slices_among(const Problem &problem, int most) {
    std::vector<int> result;
    MmaSchedule schedule;
    for (schedule.slices = 1; schedule.slices <= most; schedule.slices++) {
        if (!slices_of_turns(problem, schedule).empty()) {
            result.push_back(schedule.slices);
        }
    }
    return result;
}

// A thread's sums leave registers for operands.
ScheduleSpace space(const Problem &problem, const TargetModel &target) {
    const bool has_rows = problem.rank > 1;
    const int panels = static_cast<int>(problem.out_channels) / 8;
    return {{{"channels", divisors_among(panels, {1, 2, 3, 4, 5, 6, 7, 8})},
             {"columns", {1, 2, 4}},
             {"rows", has_rows ? std::vector<int>{1, 2, 4} : std::vector<int>{1}},
             {"warps_c", halves(8, 1)},
             {"warps_x", halves(8, 1)},
             {"slices", slices_among(problem, 32)},
             {"unroll", divisors_among(steps(problem), {1, 2, 4})}},
            [=, &target](const ScheduleNumbers &n) {
                return fits(problem, parse_schedule<MmaSchedule>(n.print()), target);
            }};
}

}  // namespace kiln::mma
