// The numbers of products by a GPU's matrix instructions: which to take where nobody tuned them, and what tuning may
// make of them.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "algorithms/empty/empty.h"
#include "algorithms/mma/mma.h"
#include "expressions/arithmetic.h"
#include "kiln/kernel.h"

namespace kiln::mma {

void MmaSchedule::list(ScheduleText &text) {
    text.number("channels", channels, 1, 16);
    text.number("columns", columns, 1, 16);
    text.number("rows", rows, 1, 16);
    text.number("warps", warps, 1, 32);
    text.flag("side_by_side", side_by_side);
    text.number("unroll", unroll, 1, 16);
}

void MmaSchedule::check(const Problem &problem) const {
    const int of_block = panel() * (side_by_side ? warps : 1);
    if (problem.out_channels % of_block != 0) {
        throw std::invalid_argument("schedule: a block has " + std::to_string(of_block) + " channels, which do not " +
                                    "divide " + std::to_string(problem.out_channels));
    }
    if (steps(problem) % unroll != 0) {
        throw std::invalid_argument("schedule: " + std::to_string(unroll) + " steps at once do not divide " +
                                    std::to_string(steps(problem)));
    }
    if (problem.rank == 1 && rows > 1) {
        throw std::invalid_argument("schedule: " + std::to_string(rows) + " rows, of one axis");
    }
}

bool applies(const Problem &problem) {
    const bool narrow = problem.x_type == DType::f16 || problem.x_type == DType::bf16;
    return narrow && !problem.traits().deformable && !problem.has_open_sizes() && !is_empty(problem) &&
           problem.groups == 1 && problem.x_layout == Layout::nxc && problem.y_layout == Layout::nxc &&
           problem.in_channels % 8 == 0 && problem.out_channels % 8 == 0 && phases_are_whole(axis_maps(problem));
}

bool runs_on(const Problem &, const TargetModel &target) {
    return target.gpu.api == kiln_gpu_cuda;
}

MmaSchedule default_schedule(const Problem &problem, const TargetModel &) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int width = axes[0].phase_extent, height = axes.size() > 1 ? axes[1].phase_extent : 1;
    const int channels = static_cast<int>(problem.out_channels);
    MmaSchedule s;
    s.channels = largest_divisor(channels / 8, 8);
    const int across = ceil_div(width, 16);
    s.columns = across % 2 == 0 || across > 4 ? 2 : 1;
    s.rows = s.columns == 1 && height > 1 ? 2 : 1;
    const int warps_c = largest_divisor(channels / s.panel(), 4), warps_x = std::min(ceil_div(across, s.columns), 4);
    s.side_by_side = warps_c >= warps_x;
    s.warps = std::max(warps_c, warps_x);
    s.unroll = largest_divisor(steps(problem), 2);
    return s;
}

// A thread's sums leave registers for operands.
ScheduleSpace space(const Problem &problem, const TargetModel &target) {
    const bool has_rows = problem.rank > 1;
    const int most = target.gpu.threads_per_block / target.gpu.warp;
    return {{{"channels", divisors_among(static_cast<int>(problem.out_channels) / 8, {1, 2, 3, 4, 5, 6, 7, 8})},
             {"columns", {1, 2, 4}},
             {"rows", has_rows ? std::vector<int>{1, 2} : std::vector<int>{1}},
             {"warps", halves(most, 1)},
             {"side_by_side", {0, 1}},
             {"unroll", divisors_among(steps(problem), {1, 2, 4})}},
            [panels = static_cast<int>(problem.out_channels) / 8](const ScheduleNumbers &n) {
                const int of_block = n["channels"] * (n["side_by_side"] != 0 ? n["warps"] : 1);
                return n["channels"] * n["columns"] * n["rows"] <= 32 && panels % of_block == 0;
            }};
}

}  // namespace kiln::mma
