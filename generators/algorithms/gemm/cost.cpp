// What products of matrices are compiled with where nobody tuned them, when they pay, and what may be tuned of them.
#include <algorithm>

#include "algorithms/estimates.h"
#include "algorithms/gemm/gemm.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "targets/register_tile.h"

namespace kiln {
namespace {

constexpr int most_vectors = 4, most_pixels = 28, least_block = 64;

int bytes_of(const Problem &problem) {
    return halide_type(problem.x_type).bytes();
}

// The share of the peak that a part's register tiles reach, of those that its positions and channels fill.
double share_of_peak(const Problem &problem, const GemmSchedule &s, const TargetModel &target) {
    return tile_rate(s.vectors, s.pixels, target) *
           tile_fit(static_cast<int>(problem.out_points()), s.tiles * s.pixels) *
           tile_fit(static_cast<int>(problem.out_channels), s.panel() * s.panels);
}

// A divisor of the input channels, so many that what a tile does once for a block, which is to load its sums and to
// store them, takes little; a panel of their weights comes from the second cache then, as fast as products take it. Of
// planes no more than the first cache holds a line of each, unless that were too few, and they are copied.
int block_of_sum(const Problem &problem, const TargetModel &target) {
    constexpr int64_t most = 256;
    const int64_t lines = first_cache_lines(problem.in_points() * bytes_of(problem), target);
    const bool reads_planes = problem.x_layout == Layout::ncx && lines >= least_block;
    return largest_divisor(static_cast<int>(problem.in_channels),
                           static_cast<int>(reads_planes ? std::min(lines, most) : most));
}

// Whether channels-last positions lie so that the first cache does not hold those of a tile beside their weights: tiles
// of 14 positions of 4096 channels take 19.4 ms on an Intel Xeon where those of 5 take 10.7.
bool crowds_cache(const Problem &problem, const GemmSchedule &s, const TargetModel &target) {
    constexpr double share_of_x = 0.67;
    const int64_t lines = first_cache_lines(problem.in_channels * bytes_of(problem), target);
    return problem.x_layout == Layout::nxc && s.pixels > std::max(1.0, share_of_x * static_cast<double>(lines));
}

// Parts of positions and channels whose sums, and what a block takes of x, are half of the second cache: as few parts
// of positions as may be, each of which reads all weights, and then of channels, each of which copies x.
void divide(const Problem &problem, GemmSchedule &s, const TargetModel &target) {
    constexpr int least_channels = 256;
    const int positions = static_cast<int>(problem.out_points()), channels = static_cast<int>(problem.out_channels);
    const auto most = static_cast<int>(target.core.l2.bytes / 2 / bytes_of(problem));
    const int panels = ceil_div(channels, s.panel()), tiles = ceil_div(positions, s.pixels);
    const int least = std::min(channels, least_channels) + s.block;
    // Several parts are whole, and so may be one that is as large as all tiles.
    const int in_cache = std::max(1, most / least / s.pixels);
    int parts = problem.rank > 1 ? 1 : ceil_div(tiles, in_cache);
    s.tiles = ceil_div(tiles, parts);
    while (parts > 1 && s.tiles * s.pixels > positions) {
        s.tiles--;
    }
    parts = gemm_parts(problem, s);
    const int of_part = std::max(least_channels, most / (s.tiles * s.pixels) - s.block);
    const int channel_parts = ceil_div(panels, std::max(1, of_part / s.panel()));
    s.panels = ceil_div(panels, channel_parts);
    // Threads share a block's products, or else as many parts as may be even.
    if (s.parallel && !work_of_block(problem, s).is_shared()) {
        const int even = SharedWork(problem.flops()).even_parts(static_cast<int>(problem.batch) * parts, panels);
        s.panels = std::min(s.panels, ceil_div(panels, even));
    }
    while (problem.y_layout == Layout::ncx && s.panels < panels && channels % (s.panels * s.panel()) != 0) {
        s.panels++;
    }
}

}  // namespace

bool gemm_runs_on(const Problem &, const TargetModel &target) {
    return !target.is_gpu() && !target.lane_indexed_fma;
}

GemmSchedule default_gemm_schedule(const Problem &problem, const TargetModel &target) {
    const int positions = static_cast<int>(problem.out_points()), channels = static_cast<int>(problem.out_channels);
    GemmSchedule s;
    s.lanes = lanes_within(channels, target.lanes(sum_type(problem).bits()), true);
    s.block = block_of_sum(problem, target);
    s.unroll = largest_divisor(s.block, 4);
    s.parallel = problem.flops() > 2e6;
    // Instructions of 512 bits repeat a number from memory by themselves: 4 vectors by the 7 positions that divide an
    // image of 49 take no register for it.
    const int spared = target.vector_bits == 512 ? 1 : 0;
    double most = 0;
    GemmSchedule best = s;
    for (s.vectors = 1; s.vectors <= most_vectors; s.vectors++) {
        for (s.pixels = 1; s.pixels <= std::min(positions, most_pixels); s.pixels++) {
            if (registers_of_tile(s.vectors, s.pixels, target) - spared > target.vector_registers ||
                crowds_cache(problem, s, target)) {
                continue;
            }
            divide(problem, s, target);
            const double share = share_of_peak(problem, s, target);
            if (share > most) {
                most = share;
                best = s;
            }
        }
    }
    return best;
}

// The direct algorithm's panels are of all input channels, and each of its tiles reads one from the second cache or,
// where that does not hold it, from beyond: from about as deep sums on as here it takes longer, of 16 lanes as of 8, on
// an Intel Xeon (docs/speed/classes.md). Channels-first x it transposes besides. Few positions use weights too few
// times for either to matter.
bool gemm_is_profitable(const Problem &problem, const TargetModel &target) {
    constexpr int64_t deep_bytes = 12 << 10, deep_bytes_of_planes = 8 << 10, least_positions = 12;
    const int64_t bytes = problem.in_channels * bytes_of(problem);
    return bytes >= (problem.x_layout == Layout::nxc ? deep_bytes : deep_bytes_of_planes) &&
           problem.out_points() >= least_positions && block_of_sum(problem, target) >= least_block;
}

ScheduleSpace gemm_space(const Problem &problem, const TargetModel &target) {
    const GemmSchedule s = default_gemm_schedule(problem, target);
    const int positions = static_cast<int>(problem.out_points()), in = static_cast<int>(problem.in_channels);
    return {{{"vectors", whole_range(1, most_vectors)},
             {"pixels", whole_range(1, std::min(positions, most_pixels))},
             {"unroll", divisors_among(s.block, {1, 2, 4, 8})},
             {"block", divisors_among(in, {s.block / 2, s.block, 2 * s.block})},
             {"panels", {ceil_div(s.panels, 2), s.panels, 2 * s.panels}},
             {"tiles", {ceil_div(s.tiles, 2), s.tiles, 2 * s.tiles}}},
            {}};
}

}  // namespace kiln
