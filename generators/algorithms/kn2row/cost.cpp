// What the kn2row algorithm is compiled with where nobody tuned it, when it pays, and what may be tuned of it.
#include <algorithm>

#include "algorithms/direct/estimate/planes.h"
#include "algorithms/estimates.h"
#include "algorithms/kn2row/kn2row.h"
#include "algorithms/winograd/winograd.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "targets/register_tile.h"

namespace kiln {
namespace {

constexpr int most_tile_channels = 28;

// The share of the peak that a tile of products reaches, those counted of which only a part is needed.
double share_of_peak(const Problem &products, const Kn2rowSchedule &s, const TargetModel &target) {
    return tile_rate(s.vectors, s.channels, target) *
           tile_fit(static_cast<int>(products.in[products.rank - 1]), s.width()) *
           tile_fit(static_cast<int>(products.out_channels), s.channels);
}

// Whether copying rows that lie apart takes less than reading them anew by each tap and phase of the second axis. Where
// those are few, only copies that stay near do: others are written to a last cache and read again. On a Zen 3, with
// copies and without, a ConvTranspose of 9x9 taps and stride 3 of 56 channels to one from 64x64 takes .51 and .83 ms,
// 3x3 of 64 to 3 channels there .21 and .24, 5x5 of 64 to one at 256x256 8.1 and 11, but 3x3 of 128 to 3 channels at
// 128x128 4.6 and 3.6.
bool copying_rows_pays(const Problem &problem, const TargetModel &target) {
    constexpr int few_reads = 3;
    if (!can_copy_rows(problem)) {
        return false;
    }
    const AxisMap rows = axis_maps(problem)[1];
    const double bytes = static_cast<double>(problem.x_elements()) * sizeof(float);
    return rows.taps * rows.phases > few_reads || bytes <= 2.0 * static_cast<double>(target.core.l2.bytes);
}

}  // namespace

double kn2row_far_copy_cycles(const Problem &problem, const TargetModel &target) {
    const double bytes = static_cast<double>(problem.x_elements()) * sizeof(float);
    const CacheModel &last = target.core.last;
    const bool far = 2 * bytes > static_cast<double>(target.core.l2.bytes) && unhidden_cycles(last.read, target) > 0;
    return problem.x_layout == Layout::nxc && far ? bytes * (1 / last.read + 1 / last.write) : 0;
}

double kn2row_call_cycles(const Problem &problem, const Kn2rowSchedule &s, const TargetModel &target) {
    const Problem products = kn2row_products(problem);
    const AxisMap row = axis_maps(problem)[0];
    const bool weaves = row.phases > 1 || (problem.y_layout == Layout::nxc && problem.out_channels > 1);
    // Cycles for a vector of what is transposed or copied, of products that are stored, and of y. What is transposed
    // takes four shuffles, a load and a store: 6 to 8 cycles on an Intel Xeon.
    const double transposed = 2 + 4 / target.core.shuffles_per_cycle;
    const double of_copy = problem.x_layout == Layout::nxc ? transposed : s.copied_planes ? 2 : 0;
    const double copied = of_copy * problem.x_elements();
    const double stored = 1.0 * products.y_elements();
    const double outputs = (row.taps + 2.0 + (weaves ? 3 : 0)) * problem.y_elements();
    return products.flops() / 2 / (s.lanes * target.core.fma_per_cycle * share_of_peak(products, s, target)) +
           (copied + stored + outputs) * target.core.halves() / s.lanes;
}

Kn2rowSchedule default_kn2row_schedule(const Problem &problem, const TargetModel &target) {
    const Problem products = kn2row_products(problem);
    const int64_t row = products.in[products.rank - 1];
    Kn2rowSchedule best, s;
    s.lanes = lanes_within(row, target.lanes(sum_type(problem).bits()));
    s.unroll = largest_divisor(problem.in_channels, 4);
    // Planes that share sets of the caches push each other's rows out before the next row of y reads them, and what is
    // fetched ahead of them takes the place of what was.
    const bool is_crowded = planes_are_crowded(axis_maps(problem), halide_type(problem.x_type).bytes(), target);
    s.copied_planes = is_crowded && copying_rows_pays(problem, target);
    const bool fetches = reads_x_itself(problem) && !is_crowded;
    s.prefetch_distance = fetches ? default_prefetch_distance(problem) : 0;
    s.parallel = problem.flops() > 2e6;
    best = s;
    double most = 0;
    for (s.vectors = 1; s.width() <= row && s.vectors <= 8; s.vectors++) {
        for (s.channels = 1; s.channels <= std::min<int64_t>(products.out_channels, most_tile_channels); s.channels++) {
            const double share = share_of_peak(products, s, target);
            if (share > most && registers_of_tile(s.vectors, s.channels, target) <= target.vector_registers) {
                most = share;
                best = s;
            }
        }
    }
    return best;
}

bool kn2row_is_profitable(const Problem &problem, const TargetModel &target) {
    const double cycles = kn2row_call_cycles(problem, default_kn2row_schedule(problem, target), target);
    const double direct = direct_cycles(problem, default_direct_schedule(problem, target), target);
    const double margin = target.lane_indexed_fma ? 0.9 : 0.98;  // measured on x86 alone
    // Winograd's estimate has what x takes to come from a slow last cache.
    const double far =
        kn2row_far_copy_cycles(problem, target) +
        (comes_from_far(problem, target) ? 4.0 * problem.x_elements() * unhidden_cycles(target.core.last.read, target)
                                         : 0);
    // By AVX-512 on Intel this estimate has a tenth too little: 3x3 of 8 channels at 16x28x28 takes .086 ms by Winograd
    // in place of .118.
    const double most_share = target.vector_bits == 512 && !target.core.has_separate_adders() ? 1.2 : 1.1;
    return axis_maps(problem)[0].kernel > 1 && cycles < margin * direct &&
           !(winograd_applies(problem) && winograd_cycles(problem, target) < most_share * (cycles + far));
}

ScheduleSpace kn2row_space(const Problem &problem, const TargetModel &target) {
    const Problem products = kn2row_products(problem);
    const int row = static_cast<int>(products.in[products.rank - 1]);
    const int most_lanes = lanes_within(row, target.lanes(sum_type(problem).bits()));
    std::vector<int> distances = {0};
    if (const int distance = default_prefetch_distance(problem); distance > 0 && reads_x_itself(problem)) {
        append(distances, halves(distance, std::max(distance / 2, 1)));
    }
    return {
        {{"lanes", halves(most_lanes, most_lanes / 2)},
         {"vectors", whole_range(1, 8)},
         {"channels", whole_range(1, static_cast<int>(std::min<int64_t>(products.out_channels, most_tile_channels)))},
         {"unroll", divisors_among(static_cast<int>(problem.in_channels), {1, 2, 3, 4, 8})},
         {"prefetch_distance", distances},
         {"copied_planes", can_copy_rows(problem) ? std::vector<int>{0, 1} : std::vector<int>{0}}},
        [row, &target](const ScheduleNumbers &n) {
            return (n["copied_planes"] == 0 || n["prefetch_distance"] == 0) && n["lanes"] * n["vectors"] <= row &&
                   registers_of_tile(n["vectors"], n["channels"], target) <= target.vector_registers;
        }};
}

}  // namespace kiln
