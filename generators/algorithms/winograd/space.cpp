// What may be tuned of the Winograd algorithm's schedule.
#include <algorithm>

#include "algorithms/winograd/transforms/cook_toom.h"
#include "algorithms/winograd/winograd.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "targets/register_tile.h"

namespace kiln {

ScheduleSpace winograd_space(const Problem &problem, const TargetModel &target) {
    const std::vector<WinogradAxis> axes = winograd_axes(problem);
    WinogradSchedule fewest;
    fewest.tap_blocks = fewest_tap_blocks(problem);
    const WinogradShape shape = winograd_shape(problem, fewest);
    const int groups = static_cast<int>(problem.groups), of_group = shape.columns / groups;
    const int most_lanes = groups > 1 ? target.lanes(32) : lanes_around(of_group, target.lanes(32));
    const int batch = static_cast<int>(problem.batch);
    ScheduleSpace space;
    space.choices = {
        {"lanes", halves(most_lanes, most_lanes / 2)},
        {"vectors", whole_range(1, most_winograd_vectors(most_lanes / 2, target))},
        {"block", whole_range(2, 20)},
        {"unroll", divisors_among(shape.steps(), {1, 2, 4})},
        {"rows", {0, 1, 2, 4, 8, 16}},
        {"row_tiles", axes.size() > 1 ? std::vector<int>{0, 1, 2, 4, 8} : std::vector<int>{0}},
        {"images", divisors_among(batch, {1, 2, 4, 8, 16})},
        {"by_phase", whole_range(0, problem.traits().transposed ? 1 : 0)},
        {"by_point", whole_range(0, axes.size() == 3 ? 1 : 0)},
        {"by_panel", whole_range(0, shape.merges_phases ? 0 : 1)},
        {"prefetch_distance", {0, 16, 32, 64}},
        {"prefetch_panels", whole_range(0, target.lane_indexed_fma ? 0 : 1)},
        {"interleaved", whole_range(0, groups > 1 && !target.lane_indexed_fma ? 1 : 0)},
        {"clipped_tail", whole_range(0, problem.y_layout == Layout::nxc && !problem.is_quantized() ? 1 : 0)}};
    const char *names[] = {"x", "y", "z"};
    for (size_t a = 0; a < axes.size(); a++) {
        const std::vector<int> blocks = tap_block_counts(axes[a].taps);
        const int fewest_taps = ceil_div(axes[a].taps, blocks.back());
        const int most = fewest_taps == 1 ? 1 : std::min(axes[a].length, max_cook_toom_points + 1 - fewest_taps);
        space.choices.push_back({"tile_" + std::string(names[a]), whole_range(1, most)});
        space.choices.push_back({"tap_blocks_" + std::string(names[a]), blocks});
    }
    space.constraint = [=, &target](const ScheduleNumbers &n) {
        const int panel = n["lanes"] * n["vectors"];
        const int products = registers_of_added_products(problem, products_per_lane(problem), n["vectors"], target);
        return registers_of_tile(n["vectors"], n["block"], target) + products <= target.vector_registers &&
               panel <= 2 * round_up(of_group, n["lanes"]) && share_of_panels(problem, panel) >= 0.5 &&
               ((n["clipped_tail"] == 0 && n["row_tiles"] == 0) || n["rows"] > 0) &&
               (n["prefetch_panels"] == 0 || n["prefetch_distance"] == 0) &&
               (n["rows"] == 0 || (n["images"] == 1 && n["by_point"] == 0));
    };
    return space;
}

}  // namespace kiln
