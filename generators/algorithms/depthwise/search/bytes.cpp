// What the depthwise algorithm's default schedule has of its own for bytes, whose taps an instruction sums by twos or
// fours.
#include <algorithm>
#include <cstdlib>

#include "algorithms/depthwise/search/numbers.h"
#include "expressions/arithmetic.h"

namespace kiln::depthwise {
namespace {

// So many dot products each vector that is gathered takes part in, where rows of taps are a loop.
double uses_of_gathered(const Numbers &n, int dot) {
    double uses = 1;
    for (size_t a = 0; a < n.axes.size(); a++) {
        const AxisMap &axis = n.axes[a];
        uses *= static_cast<double>(ceil_div(axis.taps, a == 0 ? dot : 1)) * axis.out / axis.in;
    }
    return uses;
}

// Whether channels mostly fill pairs of vectors.
bool pairs_fill(const DepthwiseSchedule &schedule, const Numbers &n) {
    constexpr double least_filled = 0.95;
    const auto channels = static_cast<int>(n.problem.out_channels);
    return 2 * schedule.lanes <= channels && tile_fit(ceil_div(channels, schedule.lanes), 2) >= least_filled;
}

// A row at a time of seven positions or eight, which then stay in registers, where rows with strides share nothing that
// is gathered; channels last all channels of them, two vectors of few taps, or where these mostly fill them: 5x5 of 672
// channels to 7x7 takes .0124 ms in place of .0203, of 96 to 56x56 .112 and .150, of 72 to 28x28, by one vector, .027
// and .035, 3x3 of 144 to 28x28 .0245 and .0272. Planes take two vectors of few taps: 3x3 of 64 to 56x56 .084 and .096,
// 5x5 of 72 to 28x28 by one .042 and .046. By 16 registers 5x5 alone is faster so, by one vector: of 96 to 56x56 .169
// and .193, of planes to 7x7 .030 and .040 but to 14x14 .049 and .042. Where vectors are taken in halves it was not
// timed.
bool choose_strided_tile(DepthwiseSchedule &schedule, const Numbers &n, bool transposes) {
    constexpr int most_pixels = 8, preferred = 7;
    const bool few_registers = n.target.vector_registers < 32, many_taps = n.problem.taps() >= least_looped_taps;
    const bool strides = n.axes.size() == 2 && n.axes[0].stride > 1 && n.axes[1].stride > 1;
    if (!strides || schedule.dot_width() != 4 || n.target.core.splits_vectors() ||
        (few_registers && (!many_taps || (transposes && n.width > preferred))) ||
        (!transposes && !is_channels_last(n.problem))) {
        return false;
    }
    const bool two = many_taps ? pairs_fill(schedule, n) && !transposes : 2 * schedule.lanes <= n.problem.out_channels;
    schedule.vectors = two && !few_registers ? 2 : 1;
    schedule.rows = 1;
    const int most = n.width % preferred == 0 ? preferred : most_pixels;
    schedule.tile = ChannelLanes{ceil_div(n.width, ceil_div(n.width, most)), transposes, transposes};
    return true;
}

}  // namespace

int dot_width(const Numbers &n, bool row_lanes) {
    const int dot = n.target.signed_dot ? 1 : n.target.int8_products;
    // One or two channels are no vector.
    if (!n.problem.is_quantized() || dot <= 1 || n.problem.taps() == 1 || (!row_lanes && n.channel_lanes < 4)) {
        return 1;
    }
    return sums_taps(n.problem, dot) ? dot : sums_taps(n.problem, 2) ? 2 : 1;
}

bool transposes_dots(const Numbers &n) {
    constexpr int least_lanes = 8, most_width = 28, most_width_of_wide_vectors = 48, most_width_of_volume = 14;
    const int dot = dot_width(n, false);
    if (dot == 1 || n.axes.size() < 2 || !transposes_planes(n.problem) || n.target.lane_indexed_fma ||
        n.channel_lanes < least_lanes) {
        return false;
    }
    if (n.axes[0].stride > 1) {
        return true;
    }
    if (n.axes.size() > 2) {
        return n.width <= most_width_of_volume;
    }
    return n.width <= (n.target.vector_bits == 512 ? most_width_of_wide_vectors : most_width);
}

void choose_dotted_tile(DepthwiseSchedule &schedule, const Numbers &n, bool transposes) {
    if (choose_strided_tile(schedule, n, transposes)) {
        return;
    }
    // Elements of channels-first y are written one by one, which long unrolled code makes no faster.
    const bool scatters = n.problem.y_layout == Layout::ncx && !transposes;
    // Rows share fours of bytes, and two vectors their interleaving; pairs of 16 bits gain by neither.
    const bool shares = schedule.dot_width() == 4 && !scatters;
    const AxisMap &row = n.axes[0];
    schedule.vectors = 2 * schedule.lanes <= n.problem.out_channels && shares && !transposes ? 2 : 1;
    const int reach = (row.taps - 1) * std::abs(row.tap_step);
    int columns = std::max((16 - reach - 1) / row.stride + 1, 1);
    if (columns < n.width && row.taps <= 3) {  // longer parts of a row are no faster, and slow to compile
        columns = std::min(columns, 8);
    }
    schedule.tile = ChannelLanes{ceil_div(n.width, ceil_div(n.width, scatters ? 2 : columns)), true, transposes};
    // Of three rows two would be computed twice. Rows of taps that lie apart share none.
    const bool shares_rows = shares && !(n.axes.size() > 1 && std::abs(n.axes[1].tap_step) > n.axes[1].stride);
    schedule.rows = !shares_rows ? 1 : n.height == 3 ? 3 : std::min(n.height, 2);
    // Where vectors are taken in halves, a long tile of one vector, whose sums are no more than registers, spills less:
    // on a Zen 4 5x5 with stride 2 of 72 at 56x56 takes .024 ms in place of .038. Rows as short as one such tile share
    // nothing that is worth two of them; transposed planes of 5 taps a row take 4% more by 14 than by 10.
    constexpr int short_row = 10;
    if (n.target.core.splits_vectors() && shares && row.taps > 3) {
        const int most_columns = transposes && row.taps <= 5 ? 10 : 14;
        schedule.vectors = 1;
        const bool outside = transposes || n.axes.size() > 1;
        schedule.tile = ChannelLanes{ceil_div(n.width, ceil_div(n.width, most_columns)), outside, transposes};
        schedule.rows = n.width < short_row ? 1 : schedule.rows;
    }
}

// What all rows and groups of taps read is gathered once then, for each position; by unrolled taps for each group of
// rows or, of a row alone, for each product. That is worth it from some uses on: by AVX-512 3x3 of 960 at 7x7 takes
// .0052 and .0070 ms, 5x5 of 480 at 14x14 .033 and .022, 7x7 of 384 .043 and .020, 31 taps of 256 at 400 .064 and .021,
// 3x3x3 of 54 at 8x28x28 .157 and .107; of planes 31 taps .091 and .029, 7 taps .035 and .026; by AVX2, whose
// instruction sums two, 7x7 of 96 at 56x56 .39 and .28. Rows of three taps fill few lanes, and are no loop unless they
// lie apart. Rows of planes of a volume are as fast by vectors along rows of 16 lanes (54 at 8x28x28 .131 and .149).
bool loops_over_dots(const Numbers &n, int dot) {
    constexpr double least_uses = 3, least_of_pairs = 3.75, least_of_planes = 2, least_of_volume = 12;
    if (dot == 1 || !loops_over_taps(n.problem) || n.target.lane_indexed_fma ||
        n.channel_lanes > n.problem.out_channels) {
        return false;
    }
    if (!unrolls_taps(n.problem)) {
        return true;
    }
    const bool planes = transposes_planes(n.problem), is_row = n.axes.size() == 1;
    if (!planes && !is_channels_last(n.problem)) {
        return false;
    }
    const bool apart = !is_row && std::abs(n.axes[1].tap_step) > n.axes[1].stride;
    if (!is_row && !apart && n.problem.taps() < least_looped_taps) {
        return false;
    }
    const double least = planes && is_row                                             ? least_of_planes
                         : planes && n.axes.size() > 2 && n.target.vector_bits == 512 ? least_of_volume
                         : dot == 2                                                   ? least_of_pairs
                                                                                      : least_uses;
    return uses_of_gathered(n, dot) >= least;
}

// Two vectors of channels, where these mostly fill them, share what is read of a tile's loop, and beside 32 registers
// as many positions as begin two sums a cycle: 7x7 of 768 channels at 7x7 takes .0103 ms in place of .0146 by one, 15
// taps of 256 .017 and .021, but 5x5 of 72 at 56x56 .080 and .073. Not where tiles that are longer know what of their
// taps lies in the padding: 13x13 of 128 at 28x28 takes .080 and .062. Of volumes what is gathered of two vectors is
// far: 5x5x5 of 32 at 8x14x14 .032 and .028; of columns of taps each product reads another vector: 21x1 of 64 at 32x32
// .037 and .025. By AVX2 two vectors leave room for four or five positions, by which planes are slower, and pairs of
// more than a row.
void choose_looped_dots(DepthwiseSchedule &schedule, const Numbers &n, int dot) {
    const bool planes = transposes_planes(n.problem), few_registers = n.target.vector_registers < 32;
    const auto pixels_of = [&](int most) { return ceil_div(n.width, ceil_div(n.width, most)); };
    schedule.taps = TapsInLoop{dot};
    schedule.vectors = 1;
    schedule.tile = ChannelLanes{pixels_of(few_registers ? 8 : 15), true, planes};
    if (!pairs_fill(schedule, n) || n.axes.size() > 2 || (n.axes[0].taps == 1 && !few_registers) ||
        (few_registers && (planes || (dot == 2 && n.axes.size() > 1)))) {
        return;
    }
    DepthwiseSchedule two = schedule;
    two.vectors = 2;
    two.tile = ChannelLanes{pixels_of(!few_registers ? 7 : dot == 2 ? 4 : 5), true, planes};
    if (two.unrolls_row(n.problem) || !schedule.unrolls_row(n.problem)) {
        schedule = two;
    }
}

}  // namespace kiln::depthwise
