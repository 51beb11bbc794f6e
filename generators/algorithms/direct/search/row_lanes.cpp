// The search for the tile of row lanes that a problem is computed by best.
#include <algorithm>
#include <cmath>

#include "algorithms/direct/direct.h"
#include "algorithms/direct/estimate/estimate.h"
#include "algorithms/direct/estimate/planes.h"
#include "algorithms/direct/schedule_cpu.h"
#include "algorithms/direct/search/search.h"
#include "algorithms/estimates.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"

namespace kiln {
namespace {

// What a schedule's cycles count for beside those of others that round more: twice as many partial sums are worth 4%.
// Four of 256 products err by .4 times what one does, which a logarithm behind them makes much of (basic_pitch's least
// powers), and on a Zen 5 take as long: 7 vectors by 4 .089 ms for 21922 outputs, 8 by one .0905.
double rounding_weight(const DirectSchedule &s) {
    return std::pow(0.96, std::log2(s.partial_sums));
}

// The search for the best tile whose vectors are pixels.
struct RowLanesSearch {
    const Problem &problem;
    const TargetModel &target;
    int64_t channels;  // of a group
    std::vector<AxisMap> axes = axis_maps(problem);
    DirectSchedule best = {};
    double least = 0;  // cycles of an output by it

    // Tiles like `s` of vectors of so many lanes at the most: of `flattened_rows` or, where that is 0, of rows as they
    // are.
    void try_tiles(DirectSchedule s, int flattened_rows, int most_lanes);

    void try_tile(const DirectSchedule &s);

    // The same of blocks of one long row, by tiles of so many channels.
    void try_blocks(DirectSchedule s, int panel);
};

// Positions of a block, as many as leave half the first cache to x and weights beside all channels' sums, but several
// lines of each plane, and not more than a run of lines needs to arrive as fast as it does; of long rows, so few that
// threads have four blocks to share.
int default_row_block(const Problem &problem, int positions, int width, const TargetModel &target) {
    constexpr int least = 512, most = 2048, shared = 4, least_shared = 1024;
    const auto of_cache = static_cast<int>(target.core.l1.bytes / 2 / sizeof(float) / problem.out_channels);
    const int blocks = std::max(ceil_div(positions, std::clamp(of_cache, least, most)),
                                std::clamp(positions / least_shared, 1, shared));
    return std::min(round_up(ceil_div(positions, blocks), width), positions / width * width);
}

void RowLanesSearch::try_tile(const DirectSchedule &s) {
    const double cycles = output_cycles(problem, axes, channels, s, target) * rounding_weight(s);
    if (least == 0 || cycles < least) {
        least = cycles;
        best = s;
    }
}

void RowLanesSearch::try_blocks(DirectSchedule s, int panel) {
    constexpr int most_steps = 8;
    if (s.partial_sums > 1 || s.width() * static_cast<int>(sizeof(float)) != line_bytes) {
        return;
    }
    s.panels_outside = false;
    s.tile = BlockedRowLanes{panel, default_row_block(problem, axes[0].phase_extent, s.width(), target)};
    s.unroll = largest_divisor(problem.in_channels, most_steps);
    try_tile(s);
}

// What such tiles read of x lies in another page in each step, beyond which the processor fetches nothing ahead by
// itself: C4 takes 5% less where it is told to, and 13% where the core is shared.
void RowLanesSearch::try_tiles(DirectSchedule s, int flattened_rows, int most_lanes) {
    // Whether rows of y that are written in turn wait for the last cache. By AVX2, whose products hide that, 480 to 112
    // channels at 14x14 take .228 ms by panels that go through a row one by one, and .187 otherwise.
    const bool waits = unhidden_cycles(target.core.last.write, target) > 0;
    const int prefetch_distance = reads_rows_of_x(problem) ? default_prefetch_distance(problem) : 0;
    // Of other planes what copying takes is as much as it saves.
    const bool copies_planes =
        can_copy_planes(problem) && planes_are_crowded(axes, halide_type(problem.x_type).bytes(), target);
    const bool waits_in_turn = lines_in_turn_cycles(problem, axes, target) > 0;
    const bool by_groups = flattened_rows == 0 && sweeps_groups(problem);
    const int positions = axes[0].phase_extent * std::max(flattened_rows, 1);
    const int least_panel = problem.y_layout == Layout::nxc ? static_cast<int>(channels) : 1;
    s.lanes = lanes_within(positions, most_lanes);
    for (s.vectors = 1; s.lanes * s.vectors <= positions && s.vectors <= 8; s.vectors++) {
        for (int panel = least_panel; panel <= std::min<int64_t>(channels, 16); panel++) {
            if (flattened_rows > 0) {
                s.tile = FlattenedRowLanes{panel, flattened_rows};
            } else {
                s.tile = RowLanes{panel, prefetch_distance};
            }
            s.panels_of_groups = problem.groups > 1 && channels % panel != 0;
            const bool of_row = waits && axes.size() == 1 && flattened_rows == 0 && panel < channels;
            for (const bool outside : {by_groups, !by_groups}) {  // the first of those that cost as much
                s.panels_outside = outside;
                if (!outside || of_row || by_groups) {
                    try_tile(s);
                }
            }
            // Of one long row, which nothing flattens, whole lines: 1x1 of 320 to 64 channels at 64x64 takes 3.4 ms on
            // a Zen 3 by vectors that copy each line twice, and 2.4 by two of them.
            if (copies_planes && s.width() * static_cast<int>(sizeof(float)) >= line_bytes) {
                s.panels_outside = false;
                s.tile = RowLanes{panel, 0, true};
                try_tile(s);
            }
            if (waits_in_turn) {
                try_blocks(s, panel);
            }
        }
    }
}

}  // namespace

std::vector<int> partial_sum_counts(const Problem &problem) {
    constexpr int least_taps = 8;  // of each partial sum
    std::vector<int> counts = {1};
    DirectSchedule s;
    const bool one_channel = problem.in_channels == problem.groups;
    for (s.partial_sums = 2; one_channel && s.partial_sums <= 8; s.partial_sums *= 2) {
        if (sums_in_parts(problem, s) && axis_maps(problem)[0].taps >= least_taps * s.partial_sums) {
            counts.push_back(s.partial_sums);
        }
    }
    return counts;
}

int default_prefetch_distance(const Problem &problem) {
    // What the last steps fetch is for nothing: they are to be few.
    return static_cast<int>(std::min<int64_t>(problem.in_channels / problem.groups / 16, 8));
}

// The best tile whose vectors are pixels.
DirectSchedule best_row_lanes(const Problem &problem, int64_t channels, const TargetModel &target) {
    RowLanesSearch search = {problem, target, channels};
    const std::vector<AxisMap> &axes = search.axes;
    const int reduction_channels = static_cast<int>(problem.in_channels / problem.groups);
    const int width = axes[0].phase_extent, height = axes.size() > 1 ? axes[1].phase_extent : 1;
    const int lanes = target.lanes(sum_type(problem).bits());
    DirectSchedule s;
    s.dot_width = problem.is_quantized() ? dot_products(problem, target) : 1;
    s.unroll = largest_divisor(ceil_div(reduction_channels, s.dot_width), 4);
    s.tile = RowLanes();
    s.unroll = unroll_of_products(problem, s, target);
    s.parallel = problem.flops() > least_shared_flops;
    const int most_rows = may_take_rows(problem, axes) ? std::min(height, 4) : 1;
    for (const int partial_sums : partial_sum_counts(problem)) {
        s.partial_sums = partial_sums;
        for (s.rows = 1; s.rows <= most_rows; s.rows++) {
            search.try_tiles(s, 0, lanes);
            if (problem.is_quantized() && target.core.splits_vectors()) {
                search.try_tiles(s, 0, lanes / 2);
            }
        }
    }
    // What a block of flattened rows reads stays in a cache while all panels pass.
    s.rows = s.partial_sums = 1;
    const int64_t row_bytes = static_cast<int64_t>(width) * reduction_channels * halide_type(problem.x_type).bytes();
    const int most_rows_together =
        flattens_rows(problem) ? std::min<int64_t>(height, target.core.l2.bytes / 2 / row_bytes) : 0;
    for (int rows = 2; rows <= most_rows_together; rows++) {
        search.try_tiles(s, rows, lanes);
    }
    DirectSchedule best = search.best;
    constexpr int enough_panels = 16;  // for any number of threads
    if (best.panels_outside && problem.groups * ceil_div(static_cast<int>(channels), best.panel()) < enough_panels) {
        best.chunk = ceil_div(image_iterations(axes, best), 2);
    }
    return best;
}

}  // namespace kiln
