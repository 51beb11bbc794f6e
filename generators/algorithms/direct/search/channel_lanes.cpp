// The search for the tile of channel lanes that a problem is computed by best.
#include <algorithm>

#include "algorithms/direct/direct.h"
#include "algorithms/direct/estimate/estimate.h"
#include "algorithms/direct/estimate/groups.h"
#include "algorithms/direct/estimate/panels.h"
#include "algorithms/direct/estimate/planes.h"
#include "algorithms/direct/estimate/products.h"
#include "algorithms/direct/search/search.h"
#include "algorithms/estimates.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "targets/register_tile.h"

namespace kiln {
namespace {

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

}  // namespace

// As many lanes as given, or so many fewer that they divide those of a group.
int lanes_in_group(const Problem &problem, int64_t channels, int lanes) {
    while (channels < problem.out_channels && channels % lanes != 0) {
        lanes /= 2;
    }
    return lanes;
}

// The same or, of a core that takes vectors in halves, by vectors of half the lanes, if more of these are filled: 1x1
// of 144 to 24 channels at 56x56 takes .193 ms on a Zen 4 by 3 vectors of 8 lanes by 8 pixels and .248 by 2 of 16.
DirectSchedule best_channel_lanes(const Problem &problem, int64_t channels, const DirectSchedule &like,
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

}  // namespace kiln
