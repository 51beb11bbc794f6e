// What the direct algorithm is compiled with where nobody tuned it, by an estimate (estimate/) of what it costs.
#include <algorithm>
#include <cstdlib>

#include "algorithms/direct/direct.h"
#include "algorithms/direct/estimate/estimate.h"
#include "algorithms/direct/estimate/groups.h"
#include "algorithms/direct/estimate/panels.h"
#include "algorithms/direct/estimate/planes.h"
#include "algorithms/direct/schedule_cpu.h"
#include "algorithms/direct/search/search.h"
#include "algorithms/estimates.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"

namespace kiln {
namespace {

// The output channels that panels are parts of: a group's, or all where there is one group, or each has one.
int64_t channels_of_panels(const Problem &problem) {
    const int64_t out_of_group = problem.out_channels / problem.groups;
    return out_of_group == 1 ? problem.out_channels : out_of_group;
}

// The share of x's rows that so many iterations over the image read, each at most once.
double rows_of_chunk(const std::vector<AxisMap> &axes, const DirectSchedule &schedule, int chunk) {
    const AxisMap &axis = axes.back();
    const int outputs = chunk * (axes.size() == 1 ? schedule.width() : axes.size() == 2 ? schedule.rows : 1);
    return std::min(1.0, static_cast<double>(std::min(axis.extent_of(outputs), outputs * axis.taps)) / axis.in);
}

// So much of the image that what it reads of x stays in a cache while all panels sweep it; 0 where that is all of it.
// An even number of such parts, for two threads. Dilated taps may read most of x for each part: 3x3 of 320 to 256
// channels with a dilation of 18 at 33x33 takes 3.9 ms by parts of 9 rows and 3.4 by all.
int default_chunk(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    const int64_t element = halide_type(problem.x_type).bytes(), bytes = problem.x_elements() / problem.batch * element;
    const std::vector<AxisMap> axes = axis_maps(problem);
    double read = static_cast<double>(bytes);  // strides may leave positions out
    for (const AxisMap &axis : axes) {
        read *= std::min(1.0, static_cast<double>(axis.taps) / axis.stride);
    }
    // Where weights come from memory, to read them again, by then from the last cache, costs more than x does there.
    const int64_t near = target.cold_weights ? target.core.l2.bytes : target.core.l2.bytes / 2;
    const int parts = round_up(ceil_div(bytes, near), 2);
    // Each part reads the weights again, and where there are none each panel reads x again.
    const double weights = static_cast<double>(problem.w_elements()) * element;
    const bool rereads =
        (parts - 1) * weights > ceil_div(static_cast<int>(problem.out_channels), schedule.panel()) * read;
    const int iterations = image_iterations(axes, schedule), chunk = ceil_div(iterations, parts);
    const bool is_dilated = std::abs(axes.back().tap_step) > axes.back().stride;
    const bool spreads = is_dilated && rows_of_chunk(axes, schedule, chunk) * static_cast<double>(bytes) > 2.0 * near;
    return read <= near || rereads || spreads || chunk == iterations ? 0 : chunk;
}

// Whether tiles go through all panels, rather than rows of tiles: where several groups share x's lines, of which a row
// of tiles reads more than the first cache holds, so that they would come from the second again for each group.
bool puts_tiles_outside(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                        const TargetModel &target) {
    if (!can_put_tiles_outside(problem, s) || !reads_few_of_pixels(problem, target)) {
        return false;
    }
    const auto element = static_cast<int64_t>(sizeof(float));
    const int64_t row_bytes = problem.in_channels * axes[0].in * element;
    return problem.in_channels / problem.groups * element < line_bytes &&
           row_bytes * axes[1].extent_of(s.rows) > target.core.l1.bytes;
}

// Whether a row's taps are summed with their channels: where few channels would leave much of a step empty, most of all
// one, of which no instruction sums several products otherwise. Of fours a tenth is worth it: on a Zen 4 7x7 of three
// channels with stride 2 at 184x320 takes .74 ms in place of .88, 11 taps of three .0068 and .0105.
bool joins_taps(const Problem &problem, const std::vector<AxisMap> &axes, const TargetModel &target) {
    constexpr double most_twos_left = 0.75, most_fours_left = 0.9;
    if (!can_join_taps(problem) || target.lane_indexed_fma || target.int8_products < 2) {
        return false;
    }
    const auto channels = static_cast<int>(problem.in_channels);
    const int by_channels = ceil_div(channels, dot_products(problem, target)) * axes[0].taps;
    const int products = dot_products(problem, target, true);
    const bool fills_pixels = problem.x_layout == Layout::nxc && channels % products != 0;
    const double most_left = products != 4 ? most_twos_left : fills_pixels ? 1 : most_fours_left;
    return ceil_div(channels * axes[0].taps, products) <= most_left * by_channels;
}

}  // namespace

DirectSchedule default_direct_schedule(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int64_t out_of_group = problem.out_channels / problem.groups, channels = channels_of_panels(problem);

    DirectSchedule best;
    best.lanes = lanes_around(channels, target.lanes(sum_type(problem).bits()));
    best.parallel = problem.flops() > least_shared_flops;
    const bool joins = joins_taps(problem, axes, target);
    best.tile = ChannelLanes{1, 1, joins};
    best.dot_width = dot_products(problem, target, joins);
    // Channels-first x has each step's inputs in another page: longer loops hide what that takes (C4 is 6% faster with
    // AVX-512, 10% with AVX2), and elsewhere gain nothing.
    const bool steps_by_pages =
        problem.x_layout == Layout::ncx && problem.x_type == DType::f32 && !target.lane_indexed_fma;
    const int reduction_channels = static_cast<int>(problem.in_channels / problem.groups);
    // Bytes of several steps of joined taps are loaded as one vector and taken apart again: 9x9 of one channel at
    // 180x180 takes 2.1 ms by two steps, and 1.1.
    best.unroll = joins ? 1 : largest_divisor(ceil_div(reduction_channels, best.dot_width), steps_by_pages ? 8 : 4);
    const int64_t weights = dot_types(problem, best.dot_width).w.bytes() * problem.w_elements();
    // Where a few channels of far pixels are read, the next panel's come with them if panels are inside: so they are
    // where the second cache just holds their weights.
    const bool of_far_pixels = reads_few_of_pixels(problem, target) &&
                               problem.x_elements() * static_cast<int64_t>(sizeof(float)) > target.core.l2.bytes / 2;
    best.panels_outside = 2 * weights > target.core.l2.bytes * (of_far_pixels ? 3 : 1);
    DirectSchedule transposed = best;
    best = best_channel_lanes(problem, channels, best, target);
    best.tiles_outside = puts_tiles_outside(problem, axes, best, target);
    best.unroll = unroll_of_tile(problem, axes, best, target);
    if (reads_planes(problem, best) && best.dot_width == 1 && !target.lane_indexed_fma) {
        transposed.transposed_x = true;
        transposed.unroll = largest_divisor(reduction_channels, 4);
        transposed = best_channel_lanes(problem, channels, transposed, target);
        transposed.tiles_outside = puts_tiles_outside(problem, axes, transposed, target);
        transposed.unroll = unroll_of_parted_rows(problem, axes, transposed, target);
        if (output_cycles(problem, axes, channels, transposed, target) <
            output_cycles(problem, axes, channels, best, target)) {
            best = transposed;
        }
    }
    // Products in pairs of rows of 16 bits are half as many: 1x1 of 384 to 64 channels take .31 ms on a Zen 4, and .53
    // by row lanes, 32 to 3 .91 and .23.
    constexpr int64_t few_beside_pairs = 4;
    const bool in_pairs = dot_products(problem, target) > 1 && reduction_channels > 1;
    if (has_row_lanes(problem) && !target.lane_indexed_fma &&
        (!in_pairs || problem.is_quantized() || out_of_group <= few_beside_pairs)) {
        DirectSchedule rows = best_row_lanes(problem, problem.groups == 1 ? channels : out_of_group, target);
        const double waits = direct_group_waits(problem, best, target) / static_cast<double>(problem.y_elements());
        // Vectors of channels of planes that have one output each read and write one element after the other.
        const bool of_planes =
            problem.groups > 1 && problem.in_channels == problem.groups && out_of_group == 1 && axes[0].phases == 1;
        if (of_planes || output_cycles(problem, axes, channels, rows, target) <
                             output_cycles(problem, axes, channels, best, target) + waits) {
            rows.prefetch_output = fetches_output(problem, axes, rows, target);
            return rows;
        }
    }
    best.chunk = best.panels_outside && !best.flattens_tiles() ? default_chunk(problem, best, target) : 0;
    best.prefetch_panels = fetches_panels(problem, best, target);
    return best;
}

DirectSchedule plain_direct_schedule(const Problem &problem, const TargetModel &target) {
    constexpr int few_pixels = 4;
    const int64_t channels = channels_of_panels(problem);
    DirectSchedule plain;
    plain.lanes = lanes_in_group(problem, channels, lanes_around(channels, target.lanes(sum_type(problem).bits())));
    plain.tile = ChannelLanes{std::min(axis_maps(problem)[0].phase_extent, few_pixels)};
    plain.dot_width = products_per_lane(problem);
    plain.parallel = problem.flops() > least_shared_flops;
    return plain;
}

}  // namespace kiln
