// What the direct algorithm takes besides its products where groups are of a few of a pixel's channels, the next of
// which lie beyond all other groups'.
#include "algorithms/direct/estimate/groups.h"

#include <algorithm>

#include "algorithms/direct/estimate/estimate.h"
#include "algorithms/direct/estimate/products.h"
#include "algorithms/estimates.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"

namespace kiln {

bool reads_few_of_pixels(const Problem &problem, const TargetModel &target) {
    return problem.groups > 1 && problem.out_channels > problem.groups && problem.x_layout == Layout::nxc &&
           problem.x_type == DType::f32 && !problem.traits().transposed && !target.lane_indexed_fma;
}

double share_of_crowded_lines(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                              const TargetModel &target) {
    // Of the second cache's latency, for each line. On a Zen 4, whose first cache has eight ways, 1x1 of 1024 to 256
    // channels at 14x14 takes 1.11 ms by 14 positions, which lie a page apart, and .88 by seven.
    constexpr double wait_of_group = 0.01, wait_of_all = 0.035;
    const bool reads_all = problem.groups == 1 && problem.x_layout == Layout::nxc &&
                           s.with<ChannelLanes>() != nullptr && !target.lane_indexed_fma && !target.is_gpu();
    if ((!reads_few_of_pixels(problem, target) && !reads_all) || s.interleaved_groups() > 1) {
        return 1;
    }
    const double wait = reads_all ? wait_of_all : wait_of_group;
    const int64_t pixel_bytes = problem.in_channels * halide_type(problem.x_type).bytes();
    const int64_t apart = pixel_bytes * (s.partial_sums > 1 ? 1 : axes[0].stride);
    const int lines = elements_of_x(axes, s);
    if (lines <= first_cache_lines(apart, target)) {
        return 1;
    }
    const double step =
        static_cast<double>(s.partial_sums) * s.vectors * s.width() * s.rows / target.core.fma_per_cycle;
    return step / (step + wait * target.core.l2.latency * lines);
}

double interleaved_groups_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                                 const TargetModel &target) {
    constexpr double cycles_of_vector = 3, cycles_of_shuffle = 1;
    if (s.interleaved_groups() == 1) {
        return 0;
    }
    // By AVX2 a vector of y is of two shuffles and a blend for each of a panel's.
    const double of_output = (target.vector_bits == 512 ? 1 : 2.5) * s.vectors;
    const double of_panel = static_cast<double>(s.interleaved_groups() * problem.in_channels / problem.groups);
    const double shuffles = std::max(0.0, of_panel / s.lanes - 1);  // of a vector with others
    const double times = axes.size() > 1 ? axes[1].extent_of(s.rows) / (static_cast<double>(s.rows) * axes[1].stride)
                                         : axes[0].extent_of(s.width()) / static_cast<double>(s.width());
    return times * static_cast<double>(problem.x_elements()) / s.lanes *
               (cycles_of_vector + cycles_of_shuffle * shuffles) +
           of_output * static_cast<double>(problem.y_elements()) / s.lanes;
}

double group_copy_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                         const TargetModel &target) {
    constexpr double cycles_of_vector = 3;
    if (!reads_few_of_pixels(problem, target) || s.rows == 1 || !axes[1].reads_outside()) {
        return 0;
    }
    // Where the second cache does not hold both, the copy is written to the last and read again.
    const auto x_elements = static_cast<double>(problem.x_elements());
    const bool far = 2 * x_elements * sizeof(float) > static_cast<double>(target.core.l2.bytes);
    const double far_cycles = s.lanes * sizeof(float) * (1 / target.core.last.read + 1 / target.core.last.write);
    return (cycles_of_vector + (far ? far_cycles : 0)) * x_elements / static_cast<double>(problem.y_elements());
}

double gathered_lanes_cycles(const Problem &problem, const DirectSchedule &s) {
    // Of two channels whole vectors are loaded and halves of them taken; of more, an element after the other is put
    // into a vector: on a Zen 4 that takes .55 cycles of 8 lanes and 1.3 of 16, and of two no more than the products.
    const double cycles_of_element =
        problem.in_channels == 2 * problem.groups ? 0.12 : std::max(0.0, 0.08 * s.lanes - 0.1);
    const bool gathers =
        problem.out_channels == problem.groups && problem.in_channels > problem.groups && !s.has_row_lanes();
    return gathers ? cycles_of_element * all_products(problem, axis_maps(problem)) : 0;
}

double direct_group_waits(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    constexpr double wait_share = 0.62;         // of the second cache's latency, for a line that nothing fetched ahead
    constexpr double waits_beside_taps = 0.45;  //   of it, where a line is asked for by several taps at once
    const int64_t bytes = problem.in_channels / problem.groups * halide_type(problem.x_type).bytes();
    const std::vector<AxisMap> axes = axis_maps(problem);
    const bool one_phase = has_one_phase(axes);
    const bool lanes = problem.out_channels == problem.groups && (one_phase || problem.x_layout == Layout::nxc);
    if (problem.groups == 1 || lanes || schedule.has_row_lanes() || schedule.interleaved_groups() > 1 ||
        bytes > line_bytes) {
        return 0;
    }
    double lines = static_cast<double>(problem.batch * problem.groups);
    for (size_t a = 0; a < axes.size(); a++) {
        const AxisMap &axis = axes[a];
        const int together = a == 0   ? axis.phase_extent
                             : a == 1 ? schedule.rows
                                      : 1;  // outputs that share what they read
        lines *= axis.phases * ceil_div(axis.phase_extent, together) *
                 std::min(axis.extent_of(together), together * axis.taps);
    }
    // Where tiles take a row's taps at once, strided ones wait for nothing that was seen, unless four groups or more
    // read a line in turn. What Winograd's estimate has too much of groups at stride 1, a part of those waits stands
    // for. Of channels-first groups these waits stand for what planes take where transforms go on beside products: 32
    // groups of 16 channels at 28x28, stride 2, take 1.44 ms on a Zen 4, by Winograd .26; channels last .238 and .272.
    const bool waits_less =
        schedule.partial_sums > 1 && (problem.x_layout == Layout::nxc || !target.core.has_separate_adders());
    const bool strided = axes[0].stride > 1 && 4 * bytes > line_bytes;
    // Nor was it seen of strided pairs of 16 bits: 32 groups of 8 channels of bfloat16 at 28x28, stride 2, take .062 ms
    // on a Zen 4, by Winograd .095.
    const bool strided_pairs = axes[0].stride > 1 && problem.x_type == DType::bf16 && schedule.dot_width == 2;
    const double share = strided_pairs ? 0 : !waits_less ? 1 : strided ? 0 : waits_beside_taps;
    return lines * share * wait_share * target.core.l2.latency;
}

}  // namespace kiln
