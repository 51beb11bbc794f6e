// What may be tuned of the depthwise algorithm's schedule.
#include <algorithm>

#include "algorithms/depthwise/schedule.h"
#include "axes/axis_map.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"

namespace kiln::depthwise {
namespace {

constexpr int most_written_apart = 256;  // elements of y by a tile

bool may_spread(const Problem &problem, const ScheduleNumbers &n) {
    DepthwiseSchedule spread;
    spread.lanes = n["lanes"];
    spread.vectors = n["vectors"];
    return n["dot_width"] == 1 && !n["along_row"] && can_spread(problem, spread);
}

// Whether taps may be unrolled, or their rows be a loop, by the tile.
bool suits_kind_of_sum(const Problem &problem, const ScheduleNumbers &n, bool loops) {
    if (!loops && !unrolls_taps(problem)) {
        return false;
    }
    if (loops && (n["along_row"] || n["rows"] > 1 || (n.has("merged") && n["merged"]))) {
        return false;
    }
    if (loops && n["dot_width"] > 1 && !n["channels_outside"]) {
        return false;
    }
    return !(n.has("transposed") && n["transposed"]) || (loops && n["channels_outside"]);
}

}  // namespace

ScheduleSpace space(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int height = axes.size() > 1 ? axes[1].phase_extent : 1;
    int phases = 1;
    for (const AxisMap &axis : axes) {
        phases *= axis.phases;
    }
    const int most_lanes = lanes_within(std::max<int64_t>(problem.out_channels, axes[0].phase_extent),
                                        target.lanes(sum_type(problem).bits()));
    const bool planes = is_channels_first(problem);
    std::vector<ScheduleSpace::Choice> choices = {{"lanes", halves(most_lanes, most_lanes / 2)},
                                                  {"vectors", whole_range(1, 4)},
                                                  {"pixels", whole_range(1, std::min(axes[0].phase_extent, 16))},
                                                  {"rows", whole_range(1, std::min(height, 8))},
                                                  {"along_row", planes ? std::vector<int>{0, 1} : std::vector<int>{0}},
                                                  {"channels_outside", {0, 1}}};
    if (merges_rows(problem)) {
        choices.push_back({"merged", {0, 1}});
    }
    if (loops_over_taps(problem)) {
        choices.push_back({"taps_in_loop", {0, 1}});
    }
    if (transposes_planes(problem)) {
        choices.push_back({"transposed", {0, 1}});
    }
    if (problem.out_channels > problem.groups) {
        choices.push_back({"spread", {0, 1}});
    }
    return {choices, [=, &target](const ScheduleNumbers &n) {
                const int sums = n["vectors"] * n["rows"] * phases * (n["along_row"] ? 1 : n["pixels"]);
                const bool loops = n.has("taps_in_loop") && n["taps_in_loop"];
                const int width = n["lanes"] * (n["dot_width"] > 1 || loops ? n["vectors"] : 1);
                const bool spreads = n.has("spread") && n["spread"];
                if (!suits_kind_of_sum(problem, n, loops) || (spreads && !may_spread(problem, n))) {
                    return false;
                }
                if (n.has("merged") && n["merged"]) {
                    return n["dot_width"] == 1 && n["vectors"] == 1 && n["pixels"] == 1 && n["channels_outside"] == 0;
                }
                // Halide takes minutes over woven rows of several phases, and over sums whose channels are written one
                // by one, where they are of several taps a lane or many.
                if (n["along_row"] && axes[0].phases > 1 && n["rows"] > 2) {
                    return false;
                }
                if (!n["along_row"] && !loops && problem.y_layout == Layout::ncx &&
                    (n["dot_width"] > 1 ? sums > 8 : sums * n["lanes"] > most_written_apart)) {
                    return false;
                }
                // Sums of several taps a lane take one vector's registers after the other. Where vectors run along a
                // row, neither pixels nor the channels' place in the loops means anything.
                return sums <= (n["dot_width"] > 1 ? 64 : target.vector_registers) &&
                       (n["along_row"] || width <= problem.out_channels) &&
                       (!n["along_row"] || (n["pixels"] == 1 && n["channels_outside"] == 0));
            }};
}

}  // namespace kiln::depthwise
