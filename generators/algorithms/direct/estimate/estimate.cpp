// What a call by a schedule of the direct algorithm takes: the sum of what the other files here tell of its products,
// planes and groups.
#include "algorithms/direct/estimate/estimate.h"

#include <algorithm>

#include "algorithms/direct/direct.h"
#include "algorithms/direct/estimate/groups.h"
#include "algorithms/direct/estimate/planes.h"
#include "algorithms/direct/estimate/products.h"
#include "algorithms/direct/packing.h"
#include "algorithms/direct/schedule_cpu.h"
#include "algorithms/estimates.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "targets/register_tile.h"

namespace kiln {

double all_products(const Problem &problem, const std::vector<AxisMap> &axes) {
    double products = static_cast<double>(problem.batch * problem.out_channels * problem.in_channels / problem.groups);
    for (const AxisMap &axis : axes) {
        products *= static_cast<double>(axis.count_taps().all);
    }
    return products;
}

ProductsInside products_inside(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                               const TargetModel &target) {
    constexpr double cycles_of_tap = 5;
    if (problem.is_quantized()) {
        return {};  // zero points are in the padding
    }
    const bool parts_rows =
        halide_type(problem.x_type) == operand_type(problem) && reads_row_ends(problem, s, axes, target);
    double of_rows = 1;
    for (size_t a = 1; a < axes.size(); a++) {
        of_rows *= skips_padding(s, axes, a) ? axes[a].share_of_taps_inside() : 1;
    }
    const double share = parts_rows ? of_rows * axes[0].share_of_taps_inside() : of_rows;
    if (share >= counted_share_inside) {
        return {};
    }
    const double positions = static_cast<double>(problem.y_elements()) / s.panel();
    return {share, parts_rows ? cycles_of_tap * of_rows * positions * static_cast<double>(taps_of_phase(axes)) : 0};
}

double output_cycles(const Problem &problem, const std::vector<AxisMap> &axes, int64_t channels,
                     const DirectSchedule &s, const TargetModel &whole) {
    const TargetModel target = for_vectors_of(s.lanes, whole);
    const ProductsInside inside = products_inside(problem, axes, s, target);
    const double products = inside.share * all_products(problem, axes) / static_cast<double>(problem.y_elements());
    const double besides =
        (inside.cycles + copied_rows_cycles(problem, axes, s) + padded_copy_cycles(problem, axes, s, target) +
         planes_cycles(problem, axes, s, target) + gathered_lanes_cycles(problem, s)) /
        static_cast<double>(problem.y_elements());
    const double of_rows = s.has_row_lanes() ? handing_on_cycles(problem, axes, s, target) / s.lanes : 0;
    return products / (s.lanes * target.core.fma_per_cycle) / share_beside_others(problem, axes, channels, s, target) +
           store_cycles(problem, axes, s, target) + of_rows + besides;
}

double direct_cycles(const Problem &problem, const DirectSchedule &schedule, const TargetModel &whole) {
    const TargetModel target = for_vectors_of(schedule.lanes, whole);
    const std::vector<AxisMap> axes = axis_maps(problem);
    const double share = share_of_peak(problem, axes, channels_in_panels(problem, schedule), schedule, target) *
                         share_of_crowded_lines(problem, axes, schedule, target);
    // 16-bit products take an instruction for two and another to sum them.
    const int products = problem.is_quantized() && schedule.dot_width == 2 ? 1 : schedule.dot_width;
    const PackedWeights packed = packed_weights(problem, schedule);
    const double pairs = tile_fit(packed.reduction_channels * packed.joined_taps, packed.dot_width);
    const ProductsInside inside = products_inside(problem, axes, schedule, target);
    return inside.share * all_products(problem, axes) /
               (products * schedule.lanes * target.core.fma_per_cycle * share * pairs) +
           inside.cycles + copied_rows_cycles(problem, axes, schedule) +
           padded_copy_cycles(problem, axes, schedule, target) + gathered_lanes_cycles(problem, schedule) +
           interleaved_groups_cycles(problem, axes, schedule, target);
}

double direct_far_cycles(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    const CoreModel &core = target.core;
    if (!comes_from_far(problem, target)) {
        return 0;
    }
    const double x_bytes = 4.0 * problem.x_elements(), w_bytes = 4.0 * problem.w_elements();
    // Of the tiles that multiply a panel's weights the first alone waits, in each chunk, for what its products leave.
    const std::vector<AxisMap> axes = axis_maps(problem);
    const auto [vectors, broadcasts] = loads_of(axes, schedule);
    const double step = static_cast<double>(vectors) * broadcasts / core.fma_per_cycle;
    const double steps = static_cast<double>(problem.w_elements()) / schedule.panel();
    const int chunks = schedule.chunk == 0 ? 1 : ceil_div(image_iterations(axes, schedule), schedule.chunk);
    const double w_waits = chunks * std::max(0.0, w_bytes / slow_weights_rate(target) - steps * step);
    return x_bytes * unhidden_cycles(core.last.read, target) + w_waits;
}

double direct_call_cycles(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const double stored = problem.y_layout == Layout::ncx ? store_cycles(problem, axes, schedule, target) : 0;
    return direct_cycles(problem, schedule, target) + planes_cycles(problem, axes, schedule, target) +
           stored * static_cast<double>(problem.y_elements());
}

}  // namespace kiln
