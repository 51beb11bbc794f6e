#include "algorithms/depthwise/search/numbers.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "algorithms/estimates.h"
#include "expressions/arithmetic.h"

namespace kiln::depthwise {

int least_looped(const Problem &problem, const TargetModel &target) {
    constexpr int least_of_row = 17, least_of_few_registers = 5;
    const bool few_registers = target.vector_registers < 32;
    const AxisMap row = axis_maps(problem)[0];
    if (problem.rank == 1 && target.lane_indexed_fma && few_registers) {
        return std::numeric_limits<int>::max();
    }
    if (problem.rank > 1 || is_channels_first(problem) || target.lane_indexed_fma || row.stride > 1 ||
        std::abs(row.tap_step) > 2) {
        return least_looped_taps;
    }
    return few_registers ? least_of_few_registers : least_of_row;
}

Numbers::Numbers(const Problem &p, const TargetModel &t) : problem(p), target(t) {
    for (const AxisMap &axis : axes) {
        phases *= axis.phases;
    }
    // Of fewer channels than a vector all are one, a part of it under a mask (3 of 4 take 44% less time than 2 and 1).
    channel_lanes =
        few_channels() ? lanes_around(problem.out_channels, lanes) : lanes_within(problem.out_channels, lanes);
    channel_lanes /= fills_halves() ? 2 : 1;
}

bool Numbers::fills_halves() const {
    const double least_gain = axes[0].stride > 1 ? (many_taps ? 1.1 : 1.2) : many_taps ? 1.06 : 1.1;
    const int64_t channels = problem.out_channels, x_bytes = problem.x_elements() * halide_type(problem.x_type).bytes();
    const bool comes_near = axes[0].stride == 1 || x_bytes <= target.core.l2.bytes;
    return masks && is_channels_last(problem) && comes_near && channels > lanes && problem.x_type != DType::bf16 &&
           fills_half_vectors(channels, lanes, target) &&
           static_cast<double>(round_up(channels, lanes)) >= least_gain * round_up(channels, lanes / 2);
}

int Numbers::most_sums(bool row_lanes) const {
    constexpr int most_tile_products = 128;
    const int most = std::max(1, most_tile_products / static_cast<int>(problem.taps()));
    const int registers = target.vector_registers / 4;
    return std::max(1, (row_lanes ? registers : std::min(registers, most)) / phases);
}

}  // namespace kiln::depthwise
