// What the direct algorithm is compiled with where nobody tuned it, by an estimate (estimate/) of what it costs.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "algorithms/direct/direct.h"
#include "algorithms/direct/estimate/estimate.h"
#include "algorithms/direct/estimate/groups.h"
#include "algorithms/direct/estimate/panels.h"
#include "algorithms/direct/estimate/planes.h"
#include "algorithms/direct/estimate/products.h"
#include "algorithms/direct/schedule_cpu.h"
#include "algorithms/estimates.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "targets/register_tile.h"

namespace kiln {
namespace {

constexpr double least_shared_flops = 2e6;  // that threads share

// The output channels that panels are parts of: a group's, or all where there is one group, or each has one.
int64_t channels_of_panels(const Problem &problem) {
    const int64_t out_of_group = problem.out_channels / problem.groups;
    return out_of_group == 1 ? problem.out_channels : out_of_group;
}

// As many lanes as given, or so many fewer that they divide those of a group.
int lanes_in_group(const Problem &problem, int64_t channels, int lanes) {
    while (channels < problem.out_channels && channels % lanes != 0) {
        lanes /= 2;
    }
    return lanes;
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

// How many vectors of channels a panel may have, with all else as `like` has it.
int most_vectors_of(const Problem &problem, const DirectSchedule &like, const TargetModel &target) {
    const bool depthwise = problem.groups > 1 && problem.out_channels == problem.groups;
    // Vectors of channels that are a group each share no input: on a Zen 5 1-D layers of 31 taps take 1.5 times as long
    // by 3 vectors by 4 positions as by one vector.
    if (depthwise && !target.lane_indexed_fma) {
        return 1;
    }
    // Of one channel there are no pairs: weights of 16 bits are widened for each vector, which positions share: 7 taps
    // of 1 to 32 channels take .10 ms on a Zen 4 by one vector, and .14 by two or four.
    if ((problem.x_type == DType::bf16 || problem.x_type == DType::f16) && like.dot_width == 1 &&
        problem.in_channels == 1 && target.core.splits_vectors()) {
        return 1;
    }
    // Halide does not see that a fourth vector's bytes lie side by side. Weights of a far cache come the faster the
    // fewer of them a step reads (mobilenet_last, 5 vectors by 5 pixels: 2% more time than 3 by 7).
    const int most = like.dot_width == 4 ? 3 : like.panels_outside ? 4 : most_panel_vectors;
    // Panels of which two stay in the second cache may be fetched ahead. 3x3 of 512 channels with stride 2, 7x7 behind
    // it, takes 2.1 ms with cold weights by 3 vectors on an Intel Xeon and 1.5 by 2, which may be.
    DirectSchedule vector = like;
    vector.vectors = 1;
    const auto of_vector = static_cast<double>(panel_bytes(problem, vector));
    auto near = static_cast<int>(most_panel_bytes(target) / of_vector);
    near = near > 1 ? near : static_cast<int>(most_cold_panel_bytes(target) / of_vector);
    return like.panels_outside && fetches_by_shares(target) && near > 1 ? std::min(most, near) : most;
}

// Cycles that each vector of their sums takes where tiles go across rows: to begin each tap's loop at as many places as
// the tile has positions, and to hand sums on by way of a buffer.
double flattening_cycles(const std::vector<AxisMap> &axes, const DirectSchedule &s) {
    constexpr double cycles_of_place = 4, cycles_of_buffer = 2;
    return s.flattens_tiles()
               ? cycles_of_place * static_cast<double>(taps_of_phase(axes)) / s.vectors + cycles_of_buffer
               : 0;
}

// How many rows tiles may be of that go across them, none of which is read beyond its ends: divisors of an image's,
// whose sums the first cache holds beside what they are of. Of groups, of other types and where there are more
// registers it was not timed.
std::vector<int> flattened_row_counts(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                                      const TargetModel &target) {
    constexpr double near_share = 0.5;
    std::vector<int> counts;
    const bool pads = std::any_of(axes.begin(), axes.end(), [](const AxisMap &axis) { return axis.reads_outside(); });
    if (pads || !can_flatten_tiles(problem, s) || problem.groups > 1 || problem.x_type != DType::f32 ||
        target.vector_registers > 16) {
        return counts;
    }
    for (int rows = 2; rows <= axes[1].phase_extent; rows++) {
        const int64_t bytes = static_cast<int64_t>(sizeof(float)) * s.panel() * rows * axes[0].phase_extent;
        if (axes[1].phase_extent % rows == 0 && bytes <= near_share * static_cast<double>(target.core.l1.bytes)) {
            counts.push_back(rows);
        }
    }
    return counts;
}

// What tiles of channel lanes score: their lanes, by the share of the peak that they reach with what else they take; 0
// where they are not legal. `waits`: cycles of a call that are not counted here.
double score_of_tile(const Problem &problem, const std::vector<AxisMap> &axes, int64_t channels,
                     const DirectSchedule &s, const TargetModel &target, double waits = 0) {
    const bool depthwise = problem.groups > 1 && problem.out_channels == problem.groups;
    const bool interleaves = s.interleaved_groups() > 1;
    if (interleaves ? !can_interleave_groups(problem, s) : !depthwise && !is_panel_in_group(problem, s)) {
        return 0;
    }
    // A tile of one vector has a load for each product, beside which nothing is fetched: with AVX-512 on an Intel Xeon
    // a ConvTranspose of 64 to 48 channels takes 33 us by one vector by 8 positions by 2 rows, and 26 by 3 by 8. And
    // tiles of several rows multiply by all taps, of which an image smaller than these needs few.
    const bool few_taps = s.rows > 1 && axes[1].in < axes[1].taps;
    if (s.prefetch_panels && (s.vectors == 1 || few_taps)) {
        return 0;
    }
    // Weights of a far cache come the faster the fewer of them a step reads, those of memory the faster the more of
    // them it asks for: with weights in no cache 1x1 1024->512 at 14x14 takes .76 ms by 3 vectors by 7 pixels on Zen 5
    // and .86 by 2 by 14, 256->1024 .385 and .40.
    const auto share = s.panels_outside && !target.cold_weights ? share_of_peak : share_beside_others;
    // Cycles of a sum at the peak.
    const double steps = products_inside(problem, axes, s, target).share * static_cast<double>(problem.flops()) / 2 /
                         (problem.y_elements() * target.core.fma_per_cycle);
    const double of_peak = share(problem, axes, channels, s, target) * share_of_crowded_lines(problem, axes, s, target);
    const double of_panels = s.prefetch_panels ? panels_wait(problem, s, target) : 0;
    const double of_call = waits + of_panels + padded_copy_cycles(problem, axes, s, target) +
                           interleaved_groups_cycles(problem, axes, s, target);
    const double besides = handing_on_cycles(problem, axes, s, target) + group_copy_cycles(problem, axes, s, target) +
                           flattening_cycles(axes, s) + far_pixels_cycles(problem, s, target) +
                           of_call * s.lanes / static_cast<double>(problem.y_elements());
    return s.lanes * of_peak / (1 + of_peak * besides / steps);
}

// Panels of whole vectors whose groups lie in them lane by lane: if there are any, of two vectors at least, which share
// what is repeated of x. Of one 32 groups of 8 channels at 14x14 take .054 ms on an Intel Xeon, of two .046.
std::vector<DirectSchedule> interleaved_panels(const Problem &problem, const DirectSchedule &like,
                                               const TargetModel &target) {
    constexpr int most_vectors = 6;
    const auto of_group = static_cast<int>(problem.out_channels / problem.groups);
    std::vector<DirectSchedule> result;
    DirectSchedule s = like;
    s.lanes = target.lanes(sum_type(problem).bits());
    if (target.is_gpu() || target.vector_bits < 256) {
        return result;  // not timed there
    }
    for (int groups = 2; groups <= s.lanes; groups *= 2) {
        s.vectors = groups * of_group / s.lanes;
        s.tile = ChannelLanes{1, 1, false, groups};
        const bool fills_half = s.vectors == 1 && 2 * of_group >= s.lanes;  // half vectors are as fast
        if (s.vectors > 0 && !fills_half && s.vectors <= most_vectors && can_interleave_groups(problem, s)) {
            result.push_back(s);
        }
    }
    if (result.size() > 1 && result.front().vectors == 1) {
        result.erase(result.begin());
    }
    return result;
}

// The search for the best tile whose vectors are channels.
struct ChannelLanesSearch {
    const Problem &problem;
    const TargetModel &target;
    int64_t channels;  // of panels
    // Of a panel that is wider than all channels only those vectors are computed, which are counted as if all were.
    int most_vectors;
    std::vector<AxisMap> axes = axis_maps(problem);
    DirectSchedule best = {};
    double most = 0;  // that it scores

    // Tiles like `panels`, of at least and at most so many vectors.
    void try_vectors(const DirectSchedule &panels, int least, int vectors, int flattened_rows = 1);

    // Of any number of vectors, and across rows.
    void try_tiles(DirectSchedule panels);

    // Those that groups of several channels alone may have.
    void try_groups(const DirectSchedule &like);
};

void ChannelLanesSearch::try_vectors(const DirectSchedule &panels, int least, int vectors, int flattened_rows) {
    const bool one_row = axes.size() == 1 || flattened_rows > 1 || panels.interleaved_groups() > 1;
    const auto with = [&](const RegisterTile &tile) {
        DirectSchedule s = panels;
        s.vectors = tile.vectors;
        s.rows = tile.rows;
        s.tile = ChannelLanes{tile.pixels, flattened_rows, panels.joins_taps(), panels.interleaved_groups()};
        return s;
    };
    const auto score = [&](const RegisterTile &tile) {
        return score_of_tile(problem, axes, channels, with(tile), target);
    };
    const RegisterTile tile =
        best_tile(least, vectors, one_row ? 1 : axes[1].phase_extent, axes[0].phase_extent * flattened_rows, score);
    if (score(tile) > most) {
        most = score(tile);
        best = with(tile);
    }
}

void ChannelLanesSearch::try_tiles(DirectSchedule panels) {
    try_vectors(panels, 1, most_vectors);
    for (panels.vectors = 1; panels.vectors <= most_vectors; panels.vectors++) {
        for (const int rows : flattened_row_counts(problem, axes, panels, target)) {
            try_vectors(panels, panels.vectors, panels.vectors, rows);
        }
    }
}

void ChannelLanesSearch::try_groups(const DirectSchedule &like) {
    // A group of few channels has a vector of weights for each element of x, whose loads are the limit then: those of a
    // row's taps at once share elements. Of more taps weights take too many registers: with AVX-512 groups of 16
    // channels at 28x28 take .0605 ms by 7 taps at once, .050 by Winograd.
    constexpr int most_taps = 4;
    DirectSchedule panels = like;
    panels.lanes = lanes_in_group(problem, channels, panels.lanes);
    panels.partial_sums = axes[0].taps;
    if (reads_few_of_pixels(problem, target) && axes[0].taps <= most_taps && sums_in_parts(problem, panels)) {
        try_tiles(panels);
    }
    panels = like;
    panels.panels_of_groups = true;
    try_tiles(panels);
    const std::vector<DirectSchedule> interleaved_groups = interleaved_panels(problem, like, target);
    // They wait for no lines of groups, which pointwise products do not either.
    if (!interleaved_groups.empty() && taps_of_phase(axes) > 1) {
        const double waits = direct_group_waits(problem, best, target);
        most = score_of_tile(problem, axes, channels, best, target, waits);
    }
    for (const DirectSchedule &interleaved : interleaved_groups) {
        try_vectors(interleaved, interleaved.vectors, interleaved.vectors);
    }
}

// The best tile whose vectors are channels, with all else as `like` has it.
DirectSchedule channel_lanes_schedule(const Problem &problem, int64_t channels, const DirectSchedule &like,
                                      const TargetModel &target) {
    const int most_vectors =
        std::min(most_vectors_of(problem, like, target), ceil_div(static_cast<int>(channels), like.lanes));
    ChannelLanesSearch search = {problem, target, channels, most_vectors};
    // A panel stays within its group, so that its input is one broadcast: it divides the group or is filled up.
    DirectSchedule panels = like;
    panels.lanes = lanes_in_group(problem, channels, panels.lanes);
    search.try_tiles(panels);
    if (problem.groups > 1 && problem.out_channels > problem.groups) {
        search.try_groups(like);
    }
    return search.best;
}

// The same or, where weights come from memory, panels outside that fetch each other, if the call waits less for them
// so: of weights that the first cache would not hold from one tile to the next anyway, and x and y that the second
// holds, or nearly so. On an Intel Xeon 1x1 layers of 6x6 to 28x28 take 2 to 34% less with cold weights, 3x3 with
// stride 2 and few outputs 12 to 24%. With warm ones most take as long, those 3x3 up to 20% longer.
DirectSchedule channel_lanes_or_panels(const Problem &problem, int64_t channels, const DirectSchedule &like,
                                       const TargetModel &target) {
    const DirectSchedule inside = channel_lanes_schedule(problem, channels, like, target);
    const int64_t x_bytes = problem.x_elements() * halide_type(problem.x_type).bytes(),
                  y_bytes = problem.y_elements() * halide_type(problem.y_type).bytes(),
                  w_bytes = problem.w_elements() * halide_type(problem.w_type).bytes();
    // A residual is read by panels as y is written: 128 to 512 channels at 28x28 take 4 to 10% longer so with one.
    const int64_t near = target.core.l2.bytes, written = y_bytes * (problem.residual ? 2 : 1);
    if (!target.cold_weights || inside.panels_outside || problem.groups > 1 || w_bytes <= target.core.l1.bytes ||
        x_bytes > near || x_bytes + written > 2 * near) {
        return inside;
    }
    DirectSchedule outside = like;
    outside.panels_outside = outside.prefetch_panels = true;
    outside = channel_lanes_schedule(problem, channels, outside, target);
    const auto cycles = [&](const DirectSchedule &s) {
        return direct_cycles(problem, s, target) + panels_wait(problem, s, target);
    };
    return fetches_panels(problem, outside, target) && cycles(outside) < cycles(inside) ? outside : inside;
}

// The same or, of a core that takes vectors in halves, by vectors of half the lanes, if more of these are filled: 1x1
// of 144 to 24 channels at 56x56 takes .193 ms on a Zen 4 by 3 vectors of 8 lanes by 8 pixels and .248 by 2 of 16.
DirectSchedule whole_or_half_vectors(const Problem &problem, int64_t channels, const DirectSchedule &like,
                                     const TargetModel &target) {
    const DirectSchedule whole = channel_lanes_or_panels(problem, channels, like, target);
    // A pair of 16 bits that is repeated in a whole vector takes a place among the products, of which a tile of one
    // vector has one for each: by two of half the lanes 32 strided groups of 16 channels at 56x56 take .16 ms in place
    // of .31 on a Zen 4, 1x1 of 128 to 16 channels at 55x55 .062 in place of .075.
    const bool repeats_pairs = problem.x_type == DType::bf16 && like.dot_width == 2 && whole.vectors == 1 &&
                               whole.lanes == target.lanes(32) && target.core.splits_vectors();
    if (!repeats_pairs && !fills_half_vectors(channels, like.lanes, target)) {
        return whole;
    }
    DirectSchedule half = like;
    half.lanes /= 2;
    const TargetModel of_half = for_vectors_of(half.lanes, target);
    half = channel_lanes_or_panels(problem, channels, half, of_half);
    const auto rate = [&](const DirectSchedule &s, const TargetModel &t) {
        return score_of_tile(problem, axis_maps(problem), channels, s, t) * t.core.fma_per_cycle;
    };
    return repeats_pairs || rate(half, of_half) > rate(whole, target) ? half : whole;
}

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
    const bool by_groups = flattened_rows == 0 && copies_rows_of_groups(problem);
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

// So many steps of a sum in a loop's body, or fewer where an instruction of its own adds products: of integers' sums
// LLVM changes the order, products of several steps first, which are registers beside the sums, and it then stores and
// loads many. By AVX2 1x1 of 256 to 128 channels at 40x40 takes .61 ms by one step, in place of .66 or .78, by where
// the stack lies beside x, and 9x9 of 64 to 3 by vectors of rows 1.76 by two in place of 2.03.
int unroll_of_products(const Problem &problem, const DirectSchedule &s, const TargetModel &target) {
    const int most = s.has_row_lanes() ? 2 : 1;
    return spills_products_of_steps(problem, s.dot_width, target) ? largest_divisor(s.unroll, most) : s.unroll;
}

// The best tile whose vectors are pixels.
DirectSchedule row_lanes_schedule(const Problem &problem, int64_t channels, const TargetModel &target) {
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
    if (best.panels_outside && ceil_div(static_cast<int>(channels), best.panel()) < enough_panels) {
        best.chunk = ceil_div(image_iterations(axes, best), 2);
    }
    return best;
}

// So many steps of a sum in a loop's body, but not all: without a loop LLVM takes a tile's sums one after the other.
// 1x1 of 8 to 72 channels at 112x112 takes .21 ms on a Zen 4 by 8 steps, .147 by 4 or 1; tiles of few positions are no
// slower without.
int unroll_within_sum(const std::vector<AxisMap> &axes, int steps, int width, int unroll) {
    constexpr int few_positions = 3;
    const bool is_all = taps_of_phase(axes) == 1 && unroll >= steps && width > few_positions;
    return is_all && steps > 1 ? largest_divisor(steps, steps / 2) : unroll;
}

// The same where much of rows is padding that is left out: positions ask one after the other, behind which their
// products share a body's weights. LLVM keeps those in registers, and else stores and loads sums: 9x9 of 64 channels at
// 5x5 by AVX2 takes .07 ms in place of .15.
int unroll_of_parted_rows(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                          const TargetModel &target) {
    int unroll = s.unroll;
    if (target.vector_registers <= 16 && reads_row_ends(problem, s, axes, target) &&
        axes[0].share_of_taps_inside() < counted_share_inside) {
        while (unroll > 1 && s.vectors * (s.width() + unroll) > target.vector_registers) {
            unroll = largest_divisor(unroll, unroll - 1);
        }
    }
    return unroll;
}

// Steps of the sum in a loop's body by channel lanes, of which `s` has so many where nothing else is known.
int unroll_of_tile(const Problem &problem, const std::vector<AxisMap> &axes, DirectSchedule s,
                   const TargetModel &target) {
    const bool pointwise = axes.size() == 1 && axes[0].taps == 1 && problem.groups == 1;
    if (s.vectors == 1 && target.vector_bits == 512 && problem.x_type == DType::f32 && pointwise) {
        // Each broadcast is a product's load, of which two a cycle are as many as there are: lines of x arrive the
        // earlier the more of them the loop's body reads. 1x1 of 128 to 16 channels at 55x55 takes 5% less by 8 steps.
        s.unroll = largest_divisor(static_cast<int>(problem.in_channels), 8);
    }
    if (s.vectors == 1 && 2 * s.lanes >= target.lanes(32) && target.vector_registers <= 16) {
        // Each broadcast is used once, in whose register LLVM then leaves the sum: of two steps' it stores and loads
        // most (120 to 8 channels of 28x28 by AVX2 .0265 ms in place of .0196).
        s.unroll = 1;
    }
    s.unroll = unroll_of_products(problem, s, target);
    s.unroll = unroll_within_sum(axes, static_cast<int>(problem.in_channels / problem.groups) / s.dot_width, s.width(),
                                 s.unroll);
    if (s.interleaved_groups() > 1) {
        // Of more steps LLVM keeps weights in more registers than there are beside sums: 12 groups of 20 channels at
        // 14x14 with stride 2 take .164 ms by four steps, and .113 by one or two.
        s.unroll = largest_divisor(s.unroll, 2);
    }
    if (s.tiles_outside) {
        // Bodies of few steps come to the next row of taps earlier, whose lines are far: 3x3 groups of 8 channels with
        // stride 2 take .27 ms by 2 steps and .33 by 4.
        s.unroll = largest_divisor(s.unroll, 2);
    }
    s.unroll = unroll_of_parted_rows(problem, axes, s, target);
    while (s.unroll > 1 && !gathers_few(problem, s)) {
        s.unroll = largest_divisor(s.unroll, s.unroll - 1);
    }
    return s.unroll;
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
    return ceil_div(channels * axes[0].taps, products) <=
           (products == 4 ? most_fours_left : most_twos_left) * by_channels;
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
    best = whole_or_half_vectors(problem, channels, best, target);
    best.tiles_outside = puts_tiles_outside(problem, axes, best, target);
    best.unroll = unroll_of_tile(problem, axes, best, target);
    if (reads_planes(problem, best) && best.dot_width == 1 && !target.lane_indexed_fma) {
        transposed.transposed_x = true;
        transposed.unroll = largest_divisor(reduction_channels, 4);
        transposed = whole_or_half_vectors(problem, channels, transposed, target);
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
        DirectSchedule rows = row_lanes_schedule(problem, problem.groups == 1 ? channels : out_of_group, target);
        const double waits = direct_group_waits(problem, best, target) / static_cast<double>(problem.y_elements());
        if (output_cycles(problem, axes, channels, rows, target) <
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
