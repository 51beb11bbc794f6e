// What the direct algorithm waits for where panels of weights sweep the image, or come from beyond the second cache.
#include "algorithms/direct/estimate/panels.h"

#include <algorithm>

#include "algorithms/estimates.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"

namespace kiln {

double most_panel_bytes(const TargetModel &target) {
    constexpr double share = 0.375;
    return share * static_cast<double>(target.core.l2.bytes);
}

double most_cold_panel_bytes(const TargetModel &target) {
    return most_panel_bytes(target) * (target.cold_weights ? 2 : 1);
}

bool fetches_panels(const Problem &problem, const DirectSchedule &s, const TargetModel &target) {
    return can_prefetch_panels(problem, s) && fetches_by_shares(target) && tiles_of_panel(problem, s) > 1 &&
           problem.out_channels > s.panel() &&
           static_cast<double>(panel_bytes(problem, s)) <= most_cold_panel_bytes(target);
}

namespace {

double cold_weights_wait(const Problem &problem, const DirectSchedule &s, const TargetModel &target) {
    constexpr double memory_share = 0.85;  // of memory's stream
    if (!target.cold_weights || !fetches_by_shares(target)) {
        return 0;
    }
    int panels = ceil_div(static_cast<int>(problem.out_channels), s.panel());
    for (const AxisMap &axis : axis_maps(problem)) {
        panels *= axis.phases;
    }
    const double read = static_cast<double>(panel_bytes(problem, s)) / (memory_share * target.core.memory.read);
    const double of_panel = static_cast<double>(problem.flops()) / 2 / (s.lanes * target.core.fma_per_cycle * panels);
    const double of_tile = of_panel / tiles_of_panel(problem, s);
    const double first = std::max(0.0, read - of_tile);
    return fetches_panels(problem, s, target) ? first + (panels - 1) * std::max(0.0, read - of_panel) : panels * first;
}

double swept_x_wait(const Problem &problem, const DirectSchedule &s, const TargetModel &target) {
    constexpr double near_share = 0.33;  // of the first cache, that x may take
    constexpr double wait = 0.03;        // of the second cache's latency, for each line
    const double bytes = static_cast<double>(problem.x_elements()) * halide_type(problem.x_type).bytes();
    const double of_group = bytes / static_cast<double>(problem.batch * problem.groups);
    if (!s.panels_outside || of_group <= near_share * static_cast<double>(target.core.l1.bytes)) {
        return 0;
    }
    const int panels = ceil_div(static_cast<int>(problem.out_channels / problem.groups), s.panel());
    return panels * bytes / line_bytes * wait * target.core.l2.latency;
}

}  // namespace

double panels_wait(const Problem &problem, const DirectSchedule &s, const TargetModel &target) {
    return cold_weights_wait(problem, s, target) + swept_x_wait(problem, s, target);
}

}  // namespace kiln
