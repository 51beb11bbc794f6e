// What the products of the direct algorithm's register tiles reach of a core's peak: by the registers, loads and
// weights that a step needs.
#include "algorithms/direct/estimate/products.h"

#include <algorithm>

#include "algorithms/direct/schedule_cpu.h"
#include "algorithms/estimates.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "targets/register_tile.h"

namespace kiln {
namespace {

// Whether the last panel's sums are only of the vectors that it needs: loops or LLVM part those from whole panels', if
// vectors are whole, and tasks are not panels of chunks, and y does not pick from the product (schedule_cpu.cpp). By
// AVX2, whose panels are of two or three vectors, what is gained was not seen. Where panels are outside, tasks of one
// long row are whole panels; with warm weights that was not timed.
bool cuts_last_panel(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                     const TargetModel &target) {
    const bool outside = s.panels_outside && !(target.cold_weights && s.prefetch_panels && problem.rank == 1);
    return s.with<ChannelLanes>() != nullptr && !outside && s.chunk == 0 && !s.panels_of_groups &&
           problem.out_channels % s.lanes == 0 && problem.x_type == DType::f32 && target.vector_bits == 512 &&
           !picks_output(problem, s) && !shares_panels_with_image(problem, axes, s);
}

// Cycles that a step of a tile of channel lanes waits for its weights, besides so many that it takes: where the first
// cache does not hold those that come between one tile and the next, and the second gives no more of them than that.
// Tiles of one long row go through all panels. With AVX-512 on an Intel Xeon 7 vectors by 3 positions take 12 cycles a
// step and 8 by 2 12.5, of 10.5 and 8 that their products take.
double weights_wait(const Problem &problem, const DirectSchedule &s, int vectors, double cycles,
                    const TargetModel &target) {
    constexpr double near_share = 0.5;     // of the first cache, that they may take
    constexpr double rate_share = 0.82;    // of the second cache's stream, that they reach
    constexpr double beside_share = 0.85;  // of a step, beside which they come
    const int element = halide_type(problem.w_type).bytes();
    const int64_t of_group = problem.w_elements() / problem.groups * element;
    const auto between = static_cast<double>(s.panels_outside || problem.rank > 1 ? panel_bytes(problem, s) : of_group);
    if (s.has_row_lanes() || target.lane_indexed_fma ||
        between <= near_share * static_cast<double>(target.core.l1.bytes)) {
        return 0;
    }
    const double read = s.partial_sums * vectors * s.lanes * element / (rate_share * target.core.l2.read);
    return std::max(0.0, read - beside_share * cycles);
}

// In how many parts a tile's vectors are counted of a core that takes whole ones in halves. Other numbers than float32
// are no operands that a product repeats from memory: with pairs of bfloat16, 512 to 128 channels at 28x28, tiles of
// one vector take 1.35 times as long as of two. Groups' are counted as whole: what these wait for besides, which
// Winograd's estimate is compared with, is known so. Vectors of half the lanes or less are no parts, but tiles that
// read channels-last x are chosen as if they were: 64 taps of one channel to 8 take .109 ms on a Zen 4 by 12 positions
// and .115 by 28, and in planes .114 and .110.
int parts_of_vectors(const Problem &problem, const DirectSchedule &s, const TargetModel &target) {
    const bool whole = 2 * s.lanes > target.lanes(32) || problem.x_layout == Layout::nxc;
    return problem.groups == 1 && problem.x_type == DType::f32 && whole ? target.core.halves() : 1;
}

// Whether vectors of planes, all of whose positions are one row, reach into one line more, for which a Zen 4 waits as
// for two: 1x1 of 128 to 64 channels at 33x33 takes .173 ms by four sums of a vector and .155 by 16, at 24x24 all take
// as long.
bool begins_inside_lines(const std::vector<AxisMap> &axes, const TargetModel &target) {
    return target.core.splits_vectors() && axes.size() == 1 && axes[0].taps == 1 &&
           axes[0].in * static_cast<int64_t>(sizeof(float)) % line_bytes != 0;
}

// The share of the peak that tiles reach whose sums are in the first cache between one step and the next: on a Zen 3
// 1x1 of 128 channels at 32x32 takes 7.0 us to one channel by two vectors, 8.7 to two, 13.1 to four. By tiles of six
// LLVM stores and loads some: 23 us to six channels, 21.6 by tiles of three. Sums of many channels come from the second
// cache: 32 to 32 channels at 128x128 reach half the peak.
double share_in_blocks(const DirectSchedule &s, int64_t channels, int vectors, int broadcasts,
                       const TargetModel &target) {
    constexpr int few_sums = 8;
    constexpr double cycles_of_sum = 2.5, cycles_of_far_sum = 2.8;  // beyond those
    const int sums = vectors * broadcasts;
    const bool far =
        channels * s.with<BlockedRowLanes>()->block * static_cast<int64_t>(sizeof(float)) > target.core.l1.bytes;
    const double cycles_of_step =
        7 + cycles_of_sum * std::max(0, sums - few_sums) + (far ? cycles_of_far_sum * sums : 0);
    const double products = s.unroll * sums / target.core.fma_per_cycle;
    const double loads = (s.unroll * (vectors + broadcasts) + sums) / target.core.loads_per_cycle;
    return products / (std::max(products, loads) + cycles_of_step);
}

// The share of their products' rate that tiles of row lanes reach beside what they wait for of rows of x; 1 of others.
double share_of_rows(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                     const TargetModel &target) {
    if (!s.has_row_lanes()) {
        return 1;
    }
    const auto [vectors, broadcasts] = loads_of(axes, s);
    // Where x itself is read by vectors they mostly are of the second cache, and each line delays a step a little.
    const double step = static_cast<double>(vectors) * broadcasts / target.core.fma_per_cycle;
    const double lines = vectors * target.vector_bits / 512.0 + (begins_inside_lines(axes, target) ? 2 : 0);
    if (problem.is_quantized() || !(copies_rows(axes[0]) || s.copies_planes())) {
        return step / (step + 0.1 * lines);
    }
    if (!copies_rows(axes[0])) {
        return 1;
    }
    // Vectors of whole lines are all split, whose second loads are counted below: on an Intel Xeon layers of which the
    // first cache holds what a row of outputs reads wait besides for sums that begin and end. On a Zen 5, and of more,
    // what comes near is taken.
    const int64_t rows = taps_of_phase(axes) / axes[0].taps, groups_of_row = s.panels_outside ? problem.groups : 1;
    const int64_t row_bytes = problem.in_channels * axes[0].in * static_cast<int64_t>(sizeof(float));
    const bool is_row_near = rows * row_bytes <= target.core.l1.bytes * groups_of_row;
    if (target.vector_bits == 512) {
        constexpr int few_channels = 3;  // of a group
        const bool near = problem.groups == 1 || s.panels_outside
                              ? is_row_near
                              : problem.in_channels / problem.groups <= few_channels;
        // Of sums of so many products: 3x3 of one channel reach .76 of the peak, of three .90, 3x3x3 of three .96.
        constexpr double products_of_sum = 3, near_share = 0.9;
        const auto steps = static_cast<double>(taps_of_phase(axes) * problem.in_channels);
        const double of_near = problem.groups == 1 ? steps / (steps + products_of_sum) : near_share;
        return near && unhidden_cycles(target.core.last.write, target) > 0 ? of_near : 0.6;
    }
    // By AVX2 3x3 of 20 groups of 12 channels at 28x28 with stride 2 takes .86 ms by all groups of a row in turn, .63
    // by groups whose rows are read alone.
    constexpr double far_share = 0.75;
    return problem.groups > 1 && axes.size() > 1 && !is_row_near ? far_share : 1;
}

}  // namespace

TileLoads loads_of(const std::vector<AxisMap> &axes, const DirectSchedule &s) {
    if (!s.has_row_lanes()) {
        return {s.vectors, s.width() * s.rows};
    }
    return {s.vectors * s.rows, s.panel() * (s.with<RowLanes>() != nullptr ? axes[0].phases : 1)};
}

int elements_of_x(const std::vector<AxisMap> &axes, const DirectSchedule &s) {
    const AxisMap &row = axes[0];
    const int pixels = s.width(), parts = s.partial_sums;
    const bool shares = row.tap_step == 1 && row.stride < parts;
    return s.rows * (shares ? (pixels - 1) * row.stride + parts : pixels * parts);
}

int registers_of_sums(int vectors, int broadcasts, int partial_sums, const TargetModel &target) {
    const int sums = partial_sums * vectors * broadcasts;
    // A vector that is of one product is loaded by it. Tiles of single chains are counted as elsewhere.
    return partial_sums > 1 && broadcasts == 1
               ? sums + 2
               : sums + registers_of_tile(vectors, broadcasts, target) - vectors * broadcasts;
}

int registers_of_products(const Problem &problem, const DirectSchedule &s, const TargetModel &target) {
    if (s.has_row_lanes()) {
        return has_row_lanes_of_dots(problem, s) && s.dot_width == 2 ? 1 : 0;
    }
    return registers_of_added_products(problem, s.dot_width, s.vectors, target);
}

double share_of_peak(const Problem &problem, const std::vector<AxisMap> &axes, int64_t of_panels,
                     const DirectSchedule &s, const TargetModel &target) {
    const int64_t channels = s.interleaved_groups() > 1 ? problem.out_channels : of_panels;
    const auto [vectors, broadcasts] = loads_of(axes, s);
    if (registers_of_sums(vectors, broadcasts, s.partial_sums, target) + registers_of_products(problem, s, target) >
        target.vector_registers) {
        return 0;
    }
    if (const auto *blocked = s.with<BlockedRowLanes>()) {
        return share_in_blocks(s, channels, vectors, broadcasts, target) *
               tile_fit(axes[0].phase_extent, blocked->block) * tile_fit(static_cast<int>(channels), s.panel());
    }
    const double waits = share_of_rows(problem, axes, s, target);
    // Vectors of rows that are read at each tap begin anywhere: those that reach into another line are loaded twice.
    const double split = s.has_row_lanes() && axes[0].taps > 1 ? vectors * (target.vector_bits / 8 - 4) / 64.0 : 0;
    // Each partial sum's products have loads of their own.
    const double more_loads = s.has_row_lanes() ? s.partial_sums * split + (s.partial_sums - 1) * broadcasts
                                                : elements_of_x(axes, s) - broadcasts;
    const int parts = parts_of_vectors(problem, s, target);
    // What a tile of so many vectors takes, in times of one vector's at the peak.
    const auto time_of = [&, of_broadcasts = broadcasts](int of_panel) {
        const int of_step = s.partial_sums * of_panel;
        const double rate = tile_rate(of_step, of_broadcasts, target, more_loads, parts);
        const double at_peak = s.partial_sums * of_panel * of_broadcasts / target.core.fma_per_cycle;
        const double wait = weights_wait(problem, s, of_panel, at_peak / rate, target);
        return of_panel * (1 / rate + wait / at_peak);
    };
    const double fit = tile_fit(axes[0].phase_extent * s.flattened_rows(), s.width()) *
                       tile_fit(axes.size() > 1 ? axes[1].phase_extent : 1, std::max(s.rows, s.flattened_rows()));
    if (!cuts_last_panel(problem, axes, s, target)) {
        return waits * fit * vectors / time_of(vectors) * tile_fit(static_cast<int>(channels), s.panel());
    }
    const int whole = static_cast<int>(channels / s.panel()),
              last = ceil_div(static_cast<int>(channels % s.panel()), s.lanes);
    const double time = whole * time_of(vectors) + (last > 0 ? time_of(last) : 0);
    return waits * fit * static_cast<double>(channels) / s.lanes / time;
}

double share_beside_others(const Problem &problem, const std::vector<AxisMap> &axes, int64_t channels,
                           const DirectSchedule &s, const TargetModel &target) {
    constexpr double cycles_of_load = 0.05;
    const auto [vectors, broadcasts] = loads_of(axes, s);
    const bool row_lanes = s.has_row_lanes();
    const int sums = row_lanes ? 1 : s.partial_sums, parts = parts_of_vectors(problem, s, target);
    const double step = static_cast<double>(sums) * vectors * broadcasts / target.core.fma_per_cycle;
    const double elements = row_lanes ? broadcasts : elements_of_x(axes, s);
    const double loads = sums * vectors + elements / parts;
    const double cycles = target.lane_indexed_fma ? 0 : cycles_of_load / parts * loads;
    return share_of_peak(problem, axes, channels, s, target) * step / (step + cycles);
}

double handing_on_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                         const TargetModel &target) {
    constexpr int sums_beside_products = 12, few_sums = 16;
    const auto [vectors, broadcasts] = loads_of(axes, s);
    const int sums = s.partial_sums * vectors * broadcasts;
    const bool of_copies = s.with<RowLanes>() != nullptr && copies_rows(axes[0]) && problem.groups == 1;
    if (s.has_row_lanes() && (!of_copies || target.core.has_separate_adders())) {
        return 0;  // it was not seen there
    }
    if (s.dot_width == 4 && target.core.splits_vectors()) {
        // What is done with sums of bytes, ten instructions a vector, is done beside the next tile's products, where
        // both are few enough to wait together: on a Zen 4 1x1 of 16 to 128 channels at 28x28 takes .0114 ms by 8 sums,
        // .0121 by 12 and .0141 by 28, of 64 .0323, .0328 and .0342.
        constexpr int sums_beside_next = 8;
        return s.dot_width * 0.06 * std::max(0, sums - sums_beside_next);
    }
    const bool has_adders = target.core.has_separate_adders();
    const double cycles_of_few = has_adders ? 0.15 : 0.07, cycles_of_sum = has_adders ? 0.15 : 0.2;
    const bool delays = target.vector_bits == 512 && s.dot_width == 1;  // elsewhere it was not seen
    const int few = std::clamp(sums - sums_beside_products, 0, few_sums - sums_beside_products);
    const double several = parts_of_vectors(problem, s, target) > 1 && s.vectors > 1 ? 0.5 : 0;
    return delays ? several + cycles_of_few * few + cycles_of_sum * std::max(0, sums - few_sums) : 0;
}

}  // namespace kiln
