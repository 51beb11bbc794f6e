// What may be tuned of the direct algorithm's schedule.
#include <algorithm>

#include "algorithms/direct/schedule.h"
#include "expressions/types.h"
#include "targets/register_tile.h"

namespace kiln {
namespace {

// Whether a tile fits into the registers.
bool fits_registers(const ScheduleNumbers &n, int rows, int partial_sums, const TargetModel &target) {
    return registers_of_sums(n["vectors"], n["pixels"] * rows, partial_sums, target) <= target.vector_registers;
}

// The same of a tile whose vectors are pixels, which must fit into the image too.
bool rows_suit(const Problem &problem, const ScheduleNumbers &n, const std::vector<AxisMap> &axes, bool may_flatten,
               const TargetModel &target) {
    DirectSchedule s;
    s.tile = RowLanes();
    s.dot_width = n["dot_width"];
    const int flattened_rows = n["flattened_rows"];
    const int broadcasts = flattened_rows > 0 ? n["channels"] : n["channels"] * axes[0].phases;
    const bool copied = flattened_rows > 0 || n["copied_planes"] != 0 || copies_rows(axes[0]);
    return n["pixels"] == 1 && (flattened_rows == 0 || may_flatten) && (!copied || n["prefetch_distance"] == 0) &&
           n["lanes"] * n["vectors"] <= axes[0].phase_extent * std::max(flattened_rows, 1) &&
           (n["rows"] == 1 || (flattened_rows == 0 && may_take_rows(problem, axes))) &&
           (flattened_rows == 0 || n["partial_sums"] == 1) && (!problem.is_quantized() || s.dot_width > 1) &&
           registers_of_sums(n["vectors"] * n["rows"], broadcasts, n["partial_sums"], target) +
                   registers_of_products(problem, s, target) <=
               target.vector_registers;
}

}  // namespace

// Longer than a screen, for it is a list: a number of the schedule after the other, and what each is limited by.
ScheduleSpace direct_space(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int64_t out_of_group = problem.out_channels / problem.groups;
    const bool grouped = problem.groups > 1 && out_of_group > 1;
    const int whole_lanes = target.lanes(sum_type(problem).bits());
    const int most_lanes = lanes_around(grouped ? out_of_group : problem.out_channels, whole_lanes);
    // Whether a panel stays within its group, so that its input is one broadcast: it divides the group, or is filled
    // up.
    const auto stays_in_group = [=](const ScheduleNumbers &n, int panel) {
        return !grouped || (n["panels_of_groups"] != 0) != (out_of_group % panel == 0);
    };
    const int height = axes.size() > 1 ? axes[1].phase_extent : 1;
    const int steps = ceil_div(static_cast<int>(problem.in_channels / problem.groups), dot_products(problem, target));
    const bool joins = can_join_taps(problem) && !target.lane_indexed_fma;
    const int sum_steps = steps * static_cast<int>(taps_of_phase(axes));
    const int chunk = default_direct_schedule(problem, target).chunk;
    std::vector<int> lanes = halves(most_lanes, most_lanes / 2), channels = {0}, flattened_rows = {0}, distances = {0};
    if (has_row_lanes(problem) && !target.lane_indexed_fma) {
        lanes = halves(target.lanes(32), std::min(lanes.front(), target.lanes(32) / 2));
        channels = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14};
        if (reads_rows_of_x(problem)) {
            distances = halves(default_prefetch_distance(problem), default_prefetch_distance(problem) / 2);
            distances.insert(distances.begin(), 0);
        }
    }
    const bool flattens = flattens_rows(problem), flattens_tiles = can_flatten_tiles(problem, DirectSchedule());
    if ((flattens || flattens_tiles) && !target.lane_indexed_fma) {
        flattened_rows = divisors_among(height, {2, 4, 7, 8, 14, 16});
        flattened_rows.insert(flattened_rows.begin(), 0);
    }
    const std::vector<int> chunks =
        chunk == 0 ? std::vector<int>{0} : std::vector<int>{0, ceil_div(chunk, 2), chunk, 2 * chunk};
    const std::vector<int> panels_of_groups = grouped ? std::vector<int>{0, 1} : std::vector<int>{0};
    const bool planes = problem.x_layout == Layout::ncx && problem.x_type == DType::f32 && !target.lane_indexed_fma;
    const std::vector<int> transposed_x = planes ? std::vector<int>{0, 1} : std::vector<int>{0};
    std::vector<int> dots;
    for (const int products : {1, 2, 4}) {
        if (is_dot(problem, products, joins) && products <= dot_products(problem, target, joins)) {
            dots.push_back(products);
        }
    }
    std::vector<int> interleaved_groups = {0};
    if (grouped && !target.lane_indexed_fma && !target.is_gpu()) {
        if (std::find(lanes.begin(), lanes.end(), whole_lanes) == lanes.end()) {
            lanes.push_back(whole_lanes);
        }
        for (int groups = 2; groups <= whole_lanes; groups *= 2) {
            interleaved_groups.push_back(groups);
        }
    }
    std::vector<int> row_blocks = {0};
    if (can_block_row(problem) && !target.lane_indexed_fma) {
        row_blocks = {0, 512, 1024, 2048};
    }
    ScheduleSpace space = {
        {{"lanes", lanes},
         {"vectors", whole_range(1, most_panel_vectors)},
         {"pixels", whole_range(1, std::min(axes[0].phase_extent, 28))},
         {"rows", whole_range(1, std::min(height, 4))},
         {"unroll", divisors_among(steps, {1, 2, 3, 4, 8})},
         {"dot_width", dots},
         {"panels_outside", {0, 1}},
         {"chunk", chunks},
         {"channels", channels},
         {"flattened_rows", flattened_rows},
         {"prefetch_distance", distances},
         {"panels_of_groups", panels_of_groups},
         {"transposed_x", transposed_x},
         {"partial_sums", partial_sum_counts(problem)},
         {"prefetch_panels", target.lane_indexed_fma ? std::vector<int>{0} : std::vector<int>{0, 1}},
         {"tiles_outside", grouped ? std::vector<int>{0, 1} : std::vector<int>{0}},
         {"copied_planes",
          can_copy_planes(problem) && !target.lane_indexed_fma ? std::vector<int>{0, 1} : std::vector<int>{0}},
         {"row_block", row_blocks},
         {"interleaved_groups", interleaved_groups},
         {"joined_taps", joins ? std::vector<int>{0, 1} : std::vector<int>{0}}},
        [=, &target](const ScheduleNumbers &n) {
            if (n["channels"] > 0) {
                const bool outside = n["panels_outside"] != 0;
                const bool may_sweep = axes.size() == 1 || sweeps_groups(problem);
                const int block = n["row_block"];
                const bool blocks = !outside && n["flattened_rows"] == 0 && n["prefetch_distance"] == 0 &&
                                    n["copied_planes"] == 0 && n["prefetch_output"] == 0 && n["partial_sums"] == 1 &&
                                    block <= axes[0].phase_extent && block % (n["lanes"] * n["vectors"]) == 0;
                return (block == 0 || blocks) && n["interleaved_groups"] == 0 &&
                       (n["copied_planes"] == 0 || !outside) && n["transposed_x"] == 0 && n["prefetch_panels"] == 0 &&
                       n["tiles_outside"] == 0 && (!outside || (may_sweep && n["flattened_rows"] == 0)) &&
                       (outside || n["chunk"] == chunk) &&
                       (n["prefetch_output"] == 0 ||
                        (n["rows"] == 1 && n["flattened_rows"] == 0 && n["unroll"] < sum_steps)) &&
                       rows_suit(problem, n, axes, flattens, target) && stays_in_group(n, n["channels"]);
            }
            const bool flat = n["flattened_rows"] > 0, joined = n["joined_taps"] != 0;
            // Bytes of several steps are loaded as one vector, and taken apart again.
            if ((joined && (flat || n["dot_width"] == 1 || n["unroll"] > 1)) ||
                !is_dot(problem, n["dot_width"], joined)) {
                return false;
            }
            if (n["prefetch_distance"] > 0 || n["copied_planes"] != 0 || n["row_block"] > 0) {
                return false;
            }
            DirectSchedule panels;
            panels.lanes = n["lanes"];
            panels.vectors = n["vectors"];
            panels.tile = ChannelLanes{n["pixels"], 1, false, std::max(n["interleaved_groups"], 1)};
            panels.unroll = n["unroll"];
            panels.dot_width = n["dot_width"];
            panels.panels_outside = n["panels_outside"] != 0;
            panels.rows = n["rows"];
            panels.panels_of_groups = n["panels_of_groups"] != 0;
            panels.partial_sums = n["partial_sums"];
            panels.tiles_outside = n["tiles_outside"] != 0;
            if (n["interleaved_groups"] > 0) {
                return !flat && !joined && n["transposed_x"] == 0 && n["prefetch_panels"] == 0 &&
                       n["prefetch_output"] == 0 && n["chunk"] == chunk && can_interleave_groups(problem, panels) &&
                       fits_registers(n, n["rows"], 1, target);
            }
            if (n["lanes"] > most_lanes ||
                (flat && (!flattens_tiles || n["rows"] > 1 || n["chunk"] > 0 || n["prefetch_panels"] != 0 ||
                          n["tiles_outside"] != 0 || n["prefetch_output"] != 0))) {
                return false;
            }
            if ((n["prefetch_output"] != 0 && !can_prefetch_output(problem, panels)) ||
                (n["prefetch_panels"] != 0 && !can_prefetch_panels(problem, panels)) ||
                (n["tiles_outside"] != 0 && !can_put_tiles_outside(problem, panels))) {
                return false;
            }
            // Halide does not see that a fourth vector's bytes lie side by side.
            return (n["panels_outside"] != 0 || n["chunk"] == (flat ? 0 : chunk)) &&  // which means nothing then
                   fits_registers(n, n["rows"], n["partial_sums"], target) && gathers_few(problem, panels) &&
                   (n["partial_sums"] == 1 || n["dot_width"] == 1) && (n["dot_width"] < 4 || n["vectors"] < 4) &&
                   stays_in_group(n, n["lanes"] * n["vectors"]) && (n["transposed_x"] == 0 || n["dot_width"] == 1);
        }};
    // Lines of y that the second cache holds need no fetching.
    if (problem.y_elements() * halide_type(problem.y_type).bytes() > target.core.l2.bytes && has_one_phase(axes) &&
        !target.lane_indexed_fma) {
        space.choices.push_back({"prefetch_output", {0, 1}});
    }
    return space;
}

}  // namespace kiln
