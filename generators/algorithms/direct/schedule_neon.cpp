// What the direct algorithm's schedule has besides on ARM, whose products take one factor from a lane of a register:
// the inputs of a register tile are read as vectors of neighbouring channels, a register for each position, in place of
// a broadcast for each product.
#include <algorithm>

#include "algorithms/direct/direct.h"

namespace kiln {

using Halide::Var;

bool stages_inputs(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    // Not where positions of phases without taps are clamped, nor where Halide takes what a tile reads to begin before
    // it does: so many positions from there would leave out the tile's last.
    const std::vector<AxisMap> axes = axis_maps(problem);
    const bool regular = std::all_of(axes.begin(), axes.end(), [](const AxisMap &axis) {
        return axis.kernel >= axis.phases && axis.offset_is_bounded();
    });
    return target.lane_indexed_fma && !schedule.has_row_lanes() && !schedule.flattens_tiles() && schedule.unroll > 1 &&
           problem.groups == 1 && schedule.partial_sums == 1 && regular;
}

void stage_inputs(DirectStages &s, const DirectSchedule &schedule, const Halide::RVar &steps) {
    const Halide::Func &sum = s.f16_sums ? s.f16_sums->sums : s.acc;
    Halide::Func staged = s.input.in(sum);
    const std::vector<Var> at = staged.args();
    staged.compute_at(sum, steps).store_in(Halide::MemoryType::Register);
    staged.bound_extent(at[0], schedule.unroll * schedule.dot_width).vectorize(at[0]);
    const int tile[] = {schedule.width(), schedule.rows};
    for (size_t a = 0; a < std::min<size_t>(s.axes.size(), 2); a++) {
        staged.bound_extent(at[a + 1], (tile[a] - 1) * s.axes[a].stride + 1).unroll(at[a + 1]);
    }
}

}  // namespace kiln
