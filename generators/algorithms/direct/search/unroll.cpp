// How many steps of a sum are the body of its loop.
#include "algorithms/direct/direct.h"
#include "algorithms/direct/estimate/estimate.h"
#include "algorithms/direct/search/search.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"

namespace kiln {
namespace {

// So many steps of a sum in a loop's body, but not all: without a loop LLVM takes a tile's sums one after the other.
// 1x1 of 8 to 72 channels at 112x112 takes .21 ms on a Zen 4 by 8 steps, .147 by 4 or 1; tiles of few positions are no
// slower without.
int unroll_within_sum(const std::vector<AxisMap> &axes, int steps, int width, int unroll) {
    constexpr int few_positions = 3;
    const bool is_all = taps_of_phase(axes) == 1 && unroll >= steps && width > few_positions;
    return is_all && steps > 1 ? largest_divisor(steps, steps / 2) : unroll;
}

}  // namespace

// So many steps of a sum in a loop's body, or fewer where an instruction of its own adds products: of integers' sums
// LLVM changes the order, products of several steps first, which are registers beside the sums, and it then stores and
// loads many. By AVX2 1x1 of 256 to 128 channels at 40x40 takes .61 ms by one step, in place of .66 or .78, by where
// the stack lies beside x, and 9x9 of 64 to 3 by vectors of rows 1.76 by two in place of 2.03.
int unroll_of_products(const Problem &problem, const DirectSchedule &s, const TargetModel &target) {
    const int most = s.has_row_lanes() ? 2 : 1;
    return spills_products_of_steps(problem, s.dot_width, target) ? largest_divisor(s.unroll, most) : s.unroll;
}

// The same where padding is left out along rows: positions ask one after the other, behind which their products share a
// body's weights. LLVM keeps those in registers, and else stores and loads sums: 9x9 of 64 channels at 5x5 by AVX2,
// much of which is padding, takes .07 ms in place of .15. Of bytes it loads several steps' ahead, where tiles at the
// ends of rows are not as the others: 3x3 of 512 channels in two rows of 51 takes .48 ms by four steps, and .38 by one.
int unroll_of_parted_rows(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                          const TargetModel &target) {
    int unroll = s.unroll;
    const bool much = axes[0].share_of_taps_inside() < counted_share_inside;
    if (!axes[0].reads_outside() || !reads_row_ends(problem, s, axes, target)) {
        return unroll;
    }
    const int64_t steps = problem.in_channels / problem.groups / s.dot_width;
    const bool ends_differ =
        axes[0].phase_extent > s.width() && (axes.size() == 1 || axes[0].phase_extent % s.width() != 0);
    if (problem.is_quantized() && !much && ends_differ && steps > unroll) {
        return 1;
    }
    if (target.vector_registers <= 16 && much) {
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

}  // namespace kiln
