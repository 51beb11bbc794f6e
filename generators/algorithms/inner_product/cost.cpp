// What the inner product algorithm is compiled with where nobody tuned it, when it pays, and what may be tuned of it.
#include <algorithm>

#include "algorithms/direct/schedule.h"
#include "algorithms/estimates.h"
#include "algorithms/inner_product/inner_product.h"
#include "algorithms/kn2row/kn2row.h"
#include "algorithms/winograd/winograd.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "targets/register_tile.h"

namespace kiln {
namespace {

constexpr int most_pixels = 28, few_pixels = 4;

int channels_of(const Problem &problem) {
    return static_cast<int>(problem.out_channels);
}

// Weights that one position takes are loaded by its products.
bool fits_registers(const Problem &problem, int pixels, const TargetModel &target) {
    const int channels = channels_of(problem);
    return (pixels == 1 ? channels + 2 : registers_of_tile(channels, pixels, target)) <= target.vector_registers;
}

// Cycles that the lanes of an output's sum take to be added: half of each two vectors, by a shuffle beside another.
double lanes_cycles(int lanes, const TargetModel &target) {
    const double additions = static_cast<double>(lanes - 1) / lanes;
    return additions * (1 / target.core.shuffles_per_cycle + 0.5 / target.core.fma_per_cycle);
}

// Cycles that a step takes to widen so many vectors of 16 bits: beside products, whose units it takes on x86.
double widening_cycles(const Problem &problem, int vectors, const TargetModel &target) {
    return problem.x_type == DType::f16    ? vectors / target.core.f16_widened_per_cycle
           : problem.x_type == DType::bf16 ? vectors / target.core.bf16_widened_per_cycle
                                           : 0;
}

// How many times as long a step takes by vectors of fewer lanes than a register has. What adds a tile's lanes takes
// them as one vector, so that LLVM makes a register of two sums, and takes it apart in each round of the loop: on an
// Intel Xeon 3x3 of 40 to 4 channels at 60x60 takes .27 ms by a step a round, and .074 by five.
double times_of_part(const InnerProductSchedule &s, int whole) {
    return s.lanes == whole ? 1 : s.unroll == 1 || 4 * s.lanes <= whole ? 2.2 : 1.1;
}

// Cycles that a step waits for its weights where the first cache does not hold all: on an Intel Xeon 3x3 of 256 to 8
// channels take 12.4 cycles a step, of which their products take 8, and of 128 to 6 no longer than those.
double weights_wait(const Problem &problem, const InnerProductSchedule &s, const TargetModel &target) {
    constexpr double near_share = 0.9, wait_share = 0.45;
    const int bytes = halide_type(problem.w_type).bytes();
    const bool far = static_cast<double>(problem.w_elements() * bytes) > near_share * target.core.l1.bytes;
    return far ? wait_share * channels_of(problem) * s.lanes * bytes / target.core.l2.read : 0;
}

}  // namespace

double inner_product_call_cycles(const Problem &problem, const InnerProductSchedule &s, const TargetModel &whole) {
    constexpr double cycles_of_tile = 6, cycles_of_tap = 2, cycles_of_line = 0.7, times_of_stored_sums = 1.4;
    const TargetModel target = for_vectors_of(s.lanes, whole);
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int channels = channels_of(problem);
    const auto taps = static_cast<double>(taps_of_phase(axes));
    const double steps = taps * static_cast<double>(problem.in_channels) / s.lanes;
    const double products =
        channels * s.pixels / target.core.fma_per_cycle + widening_cycles(problem, channels + s.pixels, target);
    const double loads = (channels + s.pixels) / target.core.loads_per_cycle;
    const double of_step = std::max<double>({products, loads, target.core.fma_latency}) *
                               times_of_part(s, whole.lanes(sum_type(problem).bits())) *
                               (fits_registers(problem, s.pixels, whole) ? 1 : times_of_stored_sums) +
                           weights_wait(problem, s, target);
    const double of_tile =
        steps * of_step + cycles_of_tap * taps + cycles_of_tile + lanes_cycles(s.lanes, target) * channels * s.pixels;
    double tiles = static_cast<double>(problem.batch) * ceil_div(axes[0].phase_extent, s.pixels);
    for (size_t a = 1; a < axes.size(); a++) {
        tiles *= axes[a].phase_extent;
    }
    const double lines = static_cast<double>(problem.x_elements() * halide_type(problem.x_type).bytes()) / line_bytes;
    return of_tile * tiles + cycles_of_line * lines;
}

InnerProductSchedule default_inner_product_schedule(const Problem &problem, const TargetModel &target) {
    const int row = axis_maps(problem)[0].phase_extent;
    InnerProductSchedule s;
    s.lanes = lanes_within(problem.in_channels, target.lanes(sum_type(problem).bits()), true);
    s.unroll = largest_divisor(problem.in_channels / s.lanes, 5);
    s.parallel = problem.flops() > 2e6;
    InnerProductSchedule best = s;
    double least = 0;
    for (s.pixels = 1; s.pixels <= std::min(row, most_pixels) && fits_registers(problem, s.pixels, target);
         s.pixels++) {
        const double cycles = inner_product_call_cycles(problem, s, target);
        if (least == 0 || cycles < least) {
            least = cycles;
            best = s;
        }
    }
    return best;
}

bool inner_product_is_profitable(const Problem &problem, const TargetModel &target) {
    // Of more channels the estimates are as near as they err, but for sums of one position, which wait for each other.
    constexpr int few_channels = 12;
    const bool many = channels_of(problem) > few_channels && problem.y_elements() != problem.out_channels;
    if (many || !target.interleaves_vectors) {  // of what adds the lanes each shuffle would be a gather of registers
        return false;
    }
    // On ARM instructions were counted alone, of which it is to take a good deal fewer.
    const bool counted = target.vector_bits == 128;
    const double margin = counted ? 0.7 : 1;
    // The direct algorithm's estimate leaves out what it takes to widen 16 bits.
    const double direct_share = halide_type(problem.x_type).bits() == 16 && !counted ? 1.25 : 1;
    const double cycles = inner_product_call_cycles(problem, default_inner_product_schedule(problem, target), target);
    const double direct = direct_call_cycles(problem, default_direct_schedule(problem, target), target);
    const auto kn2row = [&] {
        return kn2row_call_cycles(problem, default_kn2row_schedule(problem, target), target) +
               kn2row_far_copy_cycles(problem, target);
    };
    return cycles < margin * direct_share * direct && !(kn2row_applies(problem) && margin * kn2row() < cycles) &&
           !(winograd_applies(problem) && margin * winograd_cycles(problem, target) < cycles);
}

ScheduleSpace inner_product_space(const Problem &problem, const TargetModel &target) {
    const int row = axis_maps(problem)[0].phase_extent;
    const int most_lanes = lanes_within(problem.in_channels, target.lanes(sum_type(problem).bits()), true);
    return {{{"lanes", halves(most_lanes, std::max(most_lanes / 2, 1))},
             {"pixels", whole_range(1, std::min(row, most_pixels))},
             {"unroll", divisors_among(static_cast<int>(problem.in_channels) / most_lanes, {1, 2, 3, 4, 5, 8})}},
            [problem, &target](const ScheduleNumbers &n) {
                return n["pixels"] <= few_pixels || fits_registers(problem, n["pixels"], target);
            }};
}

}  // namespace kiln
