// What the depthwise algorithm is compiled with where nobody tuned it.
#include <algorithm>
#include <numeric>

#include "algorithms/depthwise/schedule.h"
#include "algorithms/depthwise/search/numbers.h"
#include "algorithms/estimates.h"
#include "axes/axis_map.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "targets/register_tile.h"

namespace kiln::depthwise {
namespace {

constexpr int most_merged_channels = 5, most_merged_channels_of_bf16 = 8;
constexpr int least_transposed_taps = 40;  // of images with rows of whole vectors
constexpr int least_sums = 8;              // two additions begin in a cycle, and take four
constexpr int most_swept_pixels = 8;
constexpr int most_tall_rows = 8;

// Vectors along rows need rows; short ones go by channels, through a copy that transposes x. Of float32 they may be
// part of a vector.
bool takes_row_lanes(const Numbers &n) {
    const bool planes = is_channels_first(n.problem);
    // Sums of many taps that share what they read are worth that copy, where rows are short or taps many enough: 7x7 of
    // 768 channels at 7x7 takes .022 ms in place of .189, of 96 at 56x56 .28 in place of .78. Where planes are
    // transposed in registers, so are all of 16 registers, of which few rows share what they load (28x28 by AVX2 .071
    // in place of .103, 56x56 .175 in place of .221), and all whose channels mostly fill vectors: on an Intel Xeon 5x5
    // of 128 channels at 28x28 takes .057 ms in place of .077, of 240 at 56x56 .468 in place of .626, of 96 at stride 2
    // .078 in place of .104, 3x3x3 of 48 at 8x28x28 .193 in place of .249, but of 54 .258 in place of .236, 5x5 of 24
    // at 48x48 .038 in place of .030. On a Zen 5, which shuffles several vectors a cycle, so it is of images of stride
    // 1: 5x5 of 240 channels at 28x28 takes .081 in place of .111, of 96 at 56x56 .137 in place of .172, of 24 at 48x48
    // .026 in place of .023. Of others rows of up to a vector and a half: 5x5 of 480 channels at 14x14 .049 in place of
    // .074.
    constexpr double least_filled = 0.85;
    const bool is_row = n.axes.size() == 1;
    const bool as_measured =
        n.target.core.shuffles_per_cycle < 2 || is_row || (n.axes.size() == 2 && n.axes[0].stride == 1);
    const bool fills = as_measured && tile_fit(static_cast<int>(n.problem.out_channels), n.lanes) >= least_filled;
    const bool rows_share = n.target.vector_registers >= 32 && !fills && !(is_row && n.masks);
    const int least_width = !n.transposes ? 8 : rows_share ? n.lanes * 3 / 2 : n.width + 1;
    // A copy for two outputs a channel is worth it from as many taps on as are a loop: 5x5 of 32 to 64 channels at
    // 28x28 takes .021 ms in place of .043, held to AVX2 .033 in place of .055.
    const bool of_two = n.problem.out_channels == 2 * n.problem.groups;
    const int least_taps = of_two && !n.target.lane_indexed_fma ? least_looped_taps : least_transposed_taps;
    const bool transposes = (!is_row || n.transposes) && n.sums_in_loop() && n.problem.out_channels >= n.lanes &&
                            (n.width < least_width || n.problem.taps() >= least_taps);
    // Elements of planes that share a cache's sets are copied slowly one by one: 3x3x3 with stride 3 of 64 channels of
    // bytes at 16x16x16 takes .042 ms on a Zen 4 along rows of 6, and .74.
    constexpr int64_t crowding_bytes = 1024;
    int64_t plane = n.problem.x_elements() / n.problem.batch / n.problem.in_channels;
    plane *= halide_type(n.problem.x_type).bytes();
    const bool crowds = !n.transposes && plane % crowding_bytes == 0 && n.problem.in_channels >= n.lanes;
    const int least = n.masks ? 5 : crowds ? 4 : 8;
    return planes && n.width >= least && !transposes && unrolls_taps(n.problem);
}

void choose_row_lanes(DepthwiseSchedule &schedule, const Numbers &n) {
    schedule.tile = RowLanes();
    schedule.lanes = n.masks && n.width < n.lanes ? lanes_around(n.width, n.lanes) : lanes_within(n.width, n.lanes);
    schedule.rows = std::min({n.height, n.most_sums(true), schedule.sums<DotTaps>() ? 8 : 7});
    if (n.axes[0].phases > 1) {
        // The rows of phases that take turns are interleaved: halves of vectors to whole ones (T4 takes 9% less time),
        // and several at a time make Halide slow (1.6 s for two), and nothing faster.
        schedule.lanes = std::max(schedule.lanes / 2, std::min(schedule.lanes, 8));
        schedule.rows = 1;
    }
}

// Bytes that a tile of all channels reads: so many positions of x, and all weights.
int64_t bytes_of_window(int64_t positions, const Numbers &n) {
    return (positions * n.problem.in_channels + (n.problem.taps() + 1) * n.problem.out_channels) *
           sum_type(n.problem).bytes();
}

// The same of a tile of `rows` by `pixels`, with the rows between dilated taps.
int64_t bytes_of_tile(int rows, int pixels, const Numbers &n) {
    int64_t window = n.axes[0].extent_of(pixels);
    for (size_t a = 1; a < n.axes.size(); a++) {
        window *= n.axes[a].extent_of(a == 1 ? rows : 1);
    }
    return bytes_of_window(window, n);
}

// Whether the next tile of all channels finds nothing of this one's window of x, or of the weights, in the first cache,
// or in what is so many times as large.
bool outgrows_first_cache(int rows, int pixels, const Numbers &n, double times = 1) {
    return static_cast<double>(bytes_of_tile(rows, pixels, n)) > times * static_cast<double>(n.target.core.l1.bytes);
}

// How many lines the first cache holds of those that lie a position of channels-last x apart.
double lines_of_positions(const Numbers &n) {
    const int64_t position = n.problem.in_channels * halide_type(n.problem.x_type).bytes();
    return static_cast<double>(first_cache_lines(position, n.target));
}

// The lines of channels-last x that a tile of `rows` by `pixels` reads of a vector of channels, and half of those of y.
double lines_of_tile(int rows, int pixels, const Numbers &n) {
    double lines = std::min(pixels * n.axes[0].taps, n.axes[0].extent_of(pixels));
    for (size_t a = 1; a < n.axes.size(); a++) {
        const int outputs = a == 1 ? rows : 1;
        lines *= std::min(outputs * n.axes[a].taps, n.axes[a].extent_of(outputs));
    }
    return lines + rows * pixels / 2.0;
}

// Whether channels are a power of two, so that positions of channels-last images share few sets, where that was
// measured.
bool crowds_sets(const Numbers &n) {
    const int64_t channels = n.problem.in_channels;
    return is_channels_last(n.problem) && n.target.core.splits_vectors() && n.axes.size() == 2 && n.phases == 1 &&
           (channels & (channels - 1)) == 0;
}

// The positions of a tile that takes all channels, of an image that comes from a slow last cache; 0 where a sweep is
// faster. A sweep reads a line of each position, which no processor fetches ahead. Tiles are even parts of a row, of
// `most` positions, or half of them where the first cache then holds what they read and else hardly; with strides, as
// tiles share less, as few positions as a row has taps, or four, where it holds that. On an Intel Xeon 7x7 of 96
// channels at 112x112 takes .90 ms in place of 1.46 by sweeps, of 384 at 56x56 .93 and 1.38, 5x5 of 144 at 112x112 with
// stride 2 .38 and .59, of 960 at 28x28 .16 and .22; rows of a volume that are one tile each .40 and .36, and 31x31 of
// 128 at 80x80, of which a tile reads more than the second cache holds, 9.8 and 8.2.
int pixels_of_far_image(int most, const Numbers &n) {
    constexpr int least_strided = 4;
    constexpr double much_of_first_cache = 0.7;
    const auto even = [&](int pixels) { return ceil_div(n.width, ceil_div(n.width, std::min(pixels, most))); };
    const int half = even(ceil_div(most, 2)), few = even(std::max(least_strided, n.axes[0].taps));
    if (n.axes[0].stride > 1) {
        return outgrows_first_cache(1, few, n) ? half : few;
    }
    if ((n.axes.size() == 3 && n.width <= most) || bytes_of_tile(1, most, n) > n.target.core.l2.bytes) {
        return 0;
    }
    return outgrows_first_cache(1, most, n, much_of_first_cache) && !outgrows_first_cache(1, half, n) ? half : most;
}

// The positions of a tile that takes all channels, as many as `most` of a row's even parts, so that its window of x and
// all weights stay in the first cache; 0 where only less than half of them do, or where x is not channels last or the
// second cache holds it. A sweep of the image for each vector of channels reads such an x from beyond each time: 3x3x3
// of 54 channels at 8x28x28 takes .19 ms by such tiles on a Xeon whose last cache is slow, and .235 by sweeps. Windows
// that the first cache does not hold take from as long to 1.4 times (7x7 of 96 at 56x56), as tensors lie. Beside
// vectors that are taken in halves a third of them may come from the second: 3x3x3 of 54 channels at 8x56x56, stride 2,
// takes .47 ms by such tiles on a Zen 4, and .65 by sweeps. Measured on x86 alone.
int pixels_of_all_channels(int most, const Numbers &n) {
    const double times = n.target.core.splits_vectors() ? 1.5 : 1;
    const int64_t x_bytes = n.problem.x_elements() / n.problem.batch * halide_type(n.problem.x_type).bytes();
    // A sweep of images that share few sets finds none of its lines again: 5x5 of 512 channels at 14x14 takes .040 ms
    // on a Zen 4 by tiles of all channels in place of .069, of 2048 at 7x7 .049 and .070. With strides tiles share less
    // (256 at 28x28 .035 and .030), and rows of more taps take as long either way.
    constexpr double few_lines = 32;
    constexpr int most_taps = 5;
    if (crowds_sets(n) && n.axes[0].stride == 1 && n.axes[0].taps <= most_taps && lines_of_positions(n) <= few_lines) {
        return most;
    }
    if (!is_channels_last(n.problem) || n.target.lane_indexed_fma) {
        return 0;
    }
    // Nor does a sweep of a volume whose rows are several tiles, each of which reads more lines than such sets hold:
    // 3x3x3 of 128 channels at 8x28x28 takes .98 ms by sweeps, .54 by 14 positions of all channels and .49 by 7, with
    // stride 2 .39, .29 and .26. In an image it is as tensors lie: 5x5 of 128 at 28x28 .034 and .027, of 256 .085 and
    // .11.
    if (n.axes.size() == 3 && most < n.width && lines_of_tile(1, most, n) > lines_of_positions(n)) {
        return ceil_div(most, 2);
    }
    if (x_bytes <= n.target.core.l2.bytes) {
        return 0;
    }
    if (x_bytes > 2 * n.target.core.l2.bytes && unhidden_cycles(n.target.core.last.read, n.target) > 0) {
        return pixels_of_far_image(most, n);
    }
    int parts = ceil_div(n.width, most);
    while (parts < n.width && outgrows_first_cache(1, ceil_div(n.width, parts), n, times)) {
        parts++;
    }
    const int pixels = ceil_div(n.width, parts);
    return 2 * pixels >= most ? pixels : 0;
}

// Whether of a vector's transposed planes, with their padding and sums, half a vector's alone stay in the first cache,
// which are as fast where vectors are taken in halves: on a Zen 4 5x5 of 672 channels at 14x14 takes .068 ms in place
// of .083, 9x9 of 256 .056 in place of .062; at 20x20, where a half just fits, .0241 in place of .0222.
bool halves_stay_in_first_cache(const Numbers &n) {
    constexpr double most_share = 0.75;
    int64_t positions = 1, outputs = 1;
    for (const AxisMap &axis : n.axes) {
        positions *= axis.extent_of(axis.phase_extent);
        outputs *= axis.phase_extent;
    }
    const int64_t bytes = n.lanes * static_cast<int64_t>(sizeof(float)) * (positions + outputs);
    const auto cache = static_cast<double>(n.target.core.l1.bytes);
    return n.target.core.splits_vectors() && static_cast<double>(bytes) > cache &&
           static_cast<double>(bytes) / 2 <= most_share * cache;
}

// Of many taps a row's at a time, for as much of a row of outputs as leaves registers to their weights, a vector of
// channels after the other, so that the rows it reads stay in the first cache: 7x7 of 768 channels at 7x7 takes .016 ms
// in place of .077; 27x27 of 192 at 14x14 .125, and .54 by the direct algorithm. Of large images each tile takes all
// channels, where it can. Registers that do not hold both sums and weights hold as many sums as hide an addition's
// latency, or a short row of them: by AVX2 7x7 of 96 channels at 56x56 takes .262 ms by 8 in place of .282 by 7.
void choose_looped_tile(DepthwiseSchedule &schedule, const Numbers &n) {
    const int beside_weights = (n.target.vector_registers - 2) / 2;
    const int most_pixels = n.target.lane_indexed_fma ? beside_weights : std::max(beside_weights, least_sums);
    const bool is_short = n.width == least_sums + 1 && !n.target.lane_indexed_fma;
    const int pixels = is_short ? n.width : ceil_div(n.width, ceil_div(n.width, most_pixels));
    const int vectors = 2 * schedule.lanes <= n.problem.out_channels ? 2 : 1;
    schedule.vectors = pixels * vectors <= most_pixels ? vectors : 1;
    // What a vector's planes take stays in the first cache, and two vectors' does not, unless they are narrow: 7x7 of
    // 256 channels at 4x4 takes .0019 ms by two in place of .0023.
    if (n.transposes && 2 * pixels > least_sums) {
        schedule.vectors = 1;
        schedule.lanes /= schedule.lanes == n.lanes && halves_stay_in_first_cache(n) ? 2 : 1;
    }
    // Each tile takes all channels in a row alone too: a sweep of it would find the weights in the cache, but hardly
    // ever what it reads of x (31 of 512 channels at 400 take .11 ms in place of .25).
    const bool is_part_of_row = n.axes.size() == 1 && !n.transposes && pixels < n.width;
    const int of_all_channels = is_part_of_row ? pixels : pixels_of_all_channels(pixels, n);
    schedule.tile =
        of_all_channels > 0 ? ChannelLanes{of_all_channels, false} : ChannelLanes{pixels, true, n.transposes};
    schedule.taps = TapsInLoop();
}

// A tile of all channels before the next tile reads its window of x, and all weights, once more. Where those outgrow
// the first cache, a vector of channels sweeps the image instead, and reads each line once: 3x3 of 576 channels at 7x7
// takes .0016 ms in place of .0034, of 672 at 14x14 .012 in place of .018. That wants vectors of whole lines, or rows
// so short that each is a tile, where it is known what of its taps lies outside; and the rows that taps share must be
// found in the cache: those of 256 channels at 28x28, which lie in four of its sets, are lost each time, and take 2.5
// times as long.
bool sweeps_image(const DepthwiseSchedule &schedule, int pixels, const Numbers &n) {
    const AxisMap &row = n.axes[0];
    const int64_t element = sum_type(n.problem).bytes(), position = n.problem.in_channels * element;
    int64_t rows = 1;
    for (size_t a = 1; a < n.axes.size(); a++) {
        rows *= n.axes[a].extent_of(1);
    }
    const int64_t least_bytes = n.width <= most_swept_pixels ? line_bytes / 2 : line_bytes;  // of a vector
    return n.phases == 1 && !n.problem.is_quantized() && schedule.lanes * element >= least_bytes &&
           outgrows_first_cache(schedule.rows, pixels, n) &&
           rows * row.in + n.width <= first_cache_lines(position, n.target);
}

// Where it cannot, for the lines of a sweep share few sets, tiles of all channels read x from the second cache. Those
// of one or two columns as tall as the image, or half of it, read it fewest times, and by two vectors at a time lines
// that follow each other: 3x3 of 1024 channels at 7x7 takes .009 ms in place of .014, of 512 at 14x14 .011 in place of
// .019. What the second cache does not hold is read faster by fewer streams (1536 at 12x12 takes 13% longer by tall
// tiles), and of 16 registers tiles of less than the image's height gain nothing.
void make_tile_tall(DepthwiseSchedule &schedule, int pixels, const Numbers &n) {
    constexpr double second_cache_share = 0.8;  // that x may take
    const int vectors = 2, rows = ceil_div(n.height, ceil_div(n.height, most_tall_rows));
    const int columns = std::min(2, n.target.vector_registers / (vectors * rows));
    const int64_t element = sum_type(n.problem).bytes();
    const double x_bytes = static_cast<double>(n.problem.x_elements() / n.problem.batch * element);
    if (n.phases > 1 || n.problem.is_quantized() || n.axes.size() != 2 || n.axes[0].stride > 1 ||
        n.height > 2 * most_tall_rows || (columns == 1 && rows < n.height) || n.width < columns ||
        schedule.lanes * element < line_bytes / 2 || !outgrows_first_cache(schedule.rows, pixels, n) ||
        x_bytes > second_cache_share * n.target.core.l2.bytes) {
        return;
    }
    schedule.vectors = vectors;
    schedule.rows = rows;
    schedule.tile = ChannelLanes{columns, false};
}

// Whether so many rows of outputs had better be tiles of their own, for they are dilated: they read none of x in
// common, or all that a tile reads leaves the first cache.
bool parts_dilated_rows(int rows, int pixels, const Numbers &n) {
    if (n.axes.size() == 1 || n.axes[1].taps == 1 || std::abs(n.axes[1].tap_step) <= n.axes[1].stride) {
        return false;
    }
    return rows * n.axes[1].stride <= std::abs(n.axes[1].tap_step) ||
           bytes_of_tile(rows, pixels, n) > n.target.core.l1.bytes * 3 / 4;
}

// Of dilated rows that are tiles of their own: what neighbouring tiles share comes from the second cache where one
// outgrows the first, so they are even parts of a row, as long as registers allow, if their positions then share what
// they read: 3x3 of 576 channels with a dilation of 4 at 28x28 takes .077 ms in place of .109, by AVX2 .104 in place of
// .143, of 384 at 14x14 .0095 in place of .013 (.013, .016). Images that half of the last cache does not hold with
// their outputs are read faster by fewer streams: 512 channels at 64x64 take .58 ms by 16 positions, .53 by 8.
void make_tile_long(DepthwiseSchedule &schedule, int pixels, const Numbers &n) {
    constexpr double first_cache_share = 1.4;  // that a tile takes where no next one finds what it shares
    const AxisMap &row = n.axes[0];
    const int columns = ceil_div(n.width, ceil_div(n.width, n.target.vector_registers / 2));
    int64_t window = row.extent_of(pixels);
    for (size_t a = 1; a < n.axes.size(); a++) {
        window *= n.axes[a].taps;
    }
    const auto bytes = static_cast<double>(bytes_of_window(window, n));
    const int64_t x_bytes = n.problem.x_elements() / n.problem.batch * sum_type(n.problem).bytes();
    if (bytes > first_cache_share * static_cast<double>(n.target.core.l1.bytes) && columns > pixels &&
        columns * row.stride > std::abs(row.tap_step) && 2 * x_bytes <= n.target.core.last.bytes / 2) {
        schedule.tile = ChannelLanes{columns, false};
    }
}

// Whether two vectors of channels are a line of a cache, which is read and written at once then: of one row, whose
// tiles share little else, and of several phases. By AVX2 on an Intel Xeon 3 taps of 512 channels take .214 ms in place
// of .226 at 1600 positions, .0229 in place of .0260 at 400, 9 of 256 .276 in place of .290 at 4000; ConvTransposes of
// 4x4 taps and stride 2 of 64 channels at 56x56 .132 in place of .167, of 512 at 14x14 .0623 in place of .0758.
bool fills_lines_by_two(const DepthwiseSchedule &schedule, const Numbers &n) {
    const int two = 2 * schedule.lanes;
    return n.masks && !n.target.lane_indexed_fma && n.problem.y_layout == Layout::nxc &&
           n.target.vector_bits / 8 * 2 == line_bytes && two * static_cast<int>(sizeof(float)) == line_bytes &&
           n.problem.out_channels % two == 0;
}

// Of so many positions of a row, those whose lines leave some of the sets that they fall into. On a Zen 4 3 taps of 512
// channels with a dilation of 16 take .064 ms at 800 positions by two in place of .146 by eight, of 1024 without .061
// at 400 in place of .108. Numbers of 16 bits, which take longer to convert, may be a few more: 3 taps of 2048 at 200
// .045 by four in place of .094. Of more than five taps what positions share is worth more.
int uncrowded_pixels(int most, const Numbers &n) {
    constexpr int most_taps = 5;
    const double most_share = n.problem.x_type == DType::f32 ? 0.65 : 1.25;
    if (!is_channels_last(n.problem) || n.target.lane_indexed_fma || n.problem.taps() > most_taps) {
        return most;
    }
    int pixels = most;
    while (pixels > 1 && lines_of_tile(1, pixels, n) > most_share * lines_of_positions(n)) {
        pixels--;
    }
    return pixels;
}

// Of images whose channels are a power of two a tile whose lines share few sets is made two by two positions of two
// vectors, lines side by side, unless it is as tall as the image and reads most lines once. On a Zen 4 3x3 of 256
// channels at 14x14 takes .0073 ms in place of .0105, with stride 2 at 28x28 .015 and .020, of 512 .047 and .059 to
// .077; of 768 at 14x14 .036 and .034. Of more channels at stride 1 it is as tensors lie: of 512 at 14x14 .025 and
// .033, or .024 and .021.
void part_crowded_tile(DepthwiseSchedule &schedule, const Numbers &n) {
    constexpr double most_share = 0.65, least_lines_of_steps = 32;
    const double lines = lines_of_positions(n);
    const bool known = crowds_sets(n) && (n.axes[0].stride > 1 || lines >= least_lines_of_steps);
    if (!known || 2 * schedule.lanes > n.problem.out_channels || schedule.rows == n.height) {
        return;
    }
    if (lines_of_tile(schedule.rows, schedule.pixels(), n) > most_share * lines) {
        schedule.vectors = 2;
        schedule.rows = std::min(n.height, 2);
        schedule.tile = ChannelLanes{std::min(n.width, 2), false};
    }
}

// Tall tiles read rows of x fewer times. With strides that pays where the image is large (C7 takes 7% less time, half
// its size 20% more), and where rows are dilated if they share what they read: 3x3 of 256 channels at 32x32 takes .037
// ms in place of .113 by a row at a time with a dilation of 4, .038 in place of .044 with one of 2.
void choose_unrolled_tile(DepthwiseSchedule &schedule, const Numbers &n) {
    // A row alone has no rows to share what they read: its positions do, of as many taps as they may be (15 taps of 512
    // channels take .025 ms in place of .044). Of 16 registers many taps leave none to them.
    if (n.axes.size() == 1 && (n.target.vector_registers >= 32 || n.problem.taps() < least_looped_taps)) {
        if (n.phases == 1 && fills_lines_by_two(schedule, n)) {
            schedule.vectors = 2;
            schedule.tile = ChannelLanes{std::min(n.width, n.problem.taps() <= 3 ? 3 : 2), false};
            return;
        }
        const int most = std::min(n.width, std::max(1, n.target.vector_registers / 4 / n.phases));
        const int pixels = uncrowded_pixels(most, n);
        schedule.vectors = pixels < most && 2 * schedule.lanes <= n.problem.out_channels ? 2 : 1;  // lines side by side
        schedule.tile = ChannelLanes{pixels, false};
        return;
    }
    const int sums = n.most_sums(false);
    if (n.phases > 1 && sums == 1 && fills_lines_by_two(schedule, n)) {
        schedule.vectors = 2;
        return;
    }
    const int most_pixels = n.unrolls_columns ? 1 : n.axes[0].stride > 1 && n.width < 28 ? 7 : 2;
    int pixels = std::min({n.width, sums, most_pixels});
    schedule.rows = std::min(n.height, std::max(1, sums / pixels));
    const bool one_row = schedule.rows > 1 && parts_dilated_rows(schedule.rows, pixels, n);
    if (one_row) {
        pixels = std::min(n.width, sums);
        schedule.rows = 1;
    }
    schedule.tile = ChannelLanes{pixels, false};
    if (sweeps_image(schedule, pixels, n)) {
        const bool whole = n.width <= most_swept_pixels || one_row;
        const int parts = ceil_div(n.width, most_swept_pixels);
        schedule.tile = ChannelLanes{whole ? ceil_div(n.width, parts) : most_swept_pixels / 2, true};
        schedule.rows = whole ? 1 : std::min(n.height, 2);
    } else if (!one_row) {
        make_tile_tall(schedule, pixels, n);
        part_crowded_tile(schedule, n);
    } else {
        make_tile_long(schedule, pixels, n);
    }
}

// Whether vectors of 16 bits, which are widened by each tile that reads them, had better be spread too: a copy is
// widened once. On an Intel Xeon 7x7 of 64 to 256 channels of bfloat16 at 28x28 takes .123 ms by a copy and .134 so, of
// 40 to 160 at 56x56, whose copy the second cache does not hold, .50 and .36, 7 taps of 16 to 128 by 250 .0043 and
// .0029.
bool spread_beside_conversions(const DepthwiseSchedule &schedule, const Numbers &n) {
    constexpr int least_outputs = 4;
    const int64_t copied = n.problem.x_elements() / n.problem.in_channels * n.problem.out_channels;
    const bool far = copied * sum_type(n.problem).bytes() > n.target.core.l2.bytes * n.problem.batch;
    const bool shares = n.axes[0].taps > 1;
    return !shares || far ||
           (schedule.sums<UnrolledTaps>() && n.problem.out_channels >= least_outputs * n.problem.groups);
}

// Vectors of groups of several outputs spread what they read of channels-last floats over their lanes, by a shuffle of
// each vector, in place of a copy of x that has each channel as many times: on an Intel Xeon 64 drawn layers of two to
// eight outputs a channel take half the time in geometric mean (by AVX2 .57 of it), 7x1 of 96 to 768 channels by 256
// .0307 ms in place of .39, 5x5 with stride 2 of 16 to 128 at 56x56 .035 and .14. Where outputs do not divide vectors
// as many of these as begin at a group together do so, each of two loads: of few taps or where a row's share nothing,
// 7x1 of 24 to 72 channels by 500 takes .0105 ms in place of .0332, 3x3 of 50 to 250 at 28x28 .19 in place of .42, but
// 7x7 of 96 to 288 at 14x14 .042 in place of .025.
void choose_spread(DepthwiseSchedule &schedule, const Numbers &n) {
    constexpr int most_vectors = 5, few_pixels = 4, few_rows = 2;
    const auto outputs = static_cast<int>(n.problem.out_channels / n.problem.groups);
    const auto *channel = schedule.with<ChannelLanes>();
    const bool is_column = n.axes.size() > 1 && n.axes[0].taps == 1;
    // A vector that is partly used reads x under a mask, of a row's taps again and again.
    const bool masked = schedule.lanes > n.problem.out_channels;
    if (outputs == 1 || channel == nullptr || schedule.dot_width() > 1 || (masked && !is_column)) {
        return;
    }
    ChannelLanes tile = *channel;
    tile.spread = true;
    DepthwiseSchedule spread = schedule;
    if (is_column && !masked && n.problem.out_channels == 3 * schedule.lanes / 2) {
        spread.lanes = schedule.lanes / 2;  // of two whole vectors the second would begin amid the first
    }
    const int together = outputs % spread.lanes == 0 ? 1 : std::lcm(spread.lanes, outputs) / spread.lanes;
    if (is_column) {
        // Without rows of outputs that share them, taps are a loop as soon as they are many, and positions hide an
        // addition's latency. Two rows share most of what they read, of which more would take registers.
        spread.vectors = together;
        spread.rows = std::min(schedule.rows, few_rows);
        if (n.height == 1 && !masked && loops_over_taps(n.problem) && n.problem.taps() >= least_looped_taps) {
            spread.taps = TapsInLoop();
            tile.pixels = std::min(n.width, least_sums);
            // Two vectors read more of a line at once: 32x1 of 32 to 64 channels by 128 takes .0060 ms, and .0115 by
            // one.
            const bool fits_two = n.target.vector_registers >= 32 && n.problem.out_channels % (2 * spread.lanes) == 0;
            spread.vectors = together == 1 && fits_two ? 2 : spread.vectors;
        } else if (n.height == 1) {
            tile.pixels = std::min(n.width, few_pixels);
        }
    } else if (together > 1 && schedule.sums<UnrolledTaps>() && n.phases == 1) {
        spread.vectors = together;
        spread.rows = std::min(n.height, few_rows);
        tile.pixels = std::min(n.width, n.height == 1 || together > 3 ? few_pixels : 2);
    }
    spread.tile = tile;
    const bool converts = n.problem.x_type != DType::f32 && n.problem.x_type != DType::f64;
    if (converts && !spread_beside_conversions(spread, n)) {
        return;
    }
    if (spread.vectors <= most_vectors && can_spread(n.problem, spread)) {
        schedule = spread;
    }
}

// Whether the direct algorithm is faster for channels-first rows, whose positions are its vectors.
//
// For columns of taps, of which positions share nothing, where it reads x itself: on an Intel Xeon 40x1 of 8 to 64
// channels by 4x256 positions take .025 ms in place of .639, 3x1 of 16 to 128 by 128 .0012 and .0030, 21x1 of 96 by 128
// .0069 and .0334.
//
// For several outputs of each channel, which share what it reads, and a copy's rows: where taps are of one row (1x7 of
// 40 to 80 channels at 22x250 take .070 and .164, held to AVX2 .094 and .142), of images that it reads themselves (3x3
// of 32 to 64 at 28x28 .0087 and .0097, .0104 and .0153), of most strided ones (7x7 of 8 to 64 at 112x112 .138 and
// .614, .30 and .86), and of many outputs beside so many taps that their rows are a loop here: 5x5 of 8 to 64 at 56x56
// .059 and .107 (.124 and .155), of 8 to 16 .031 and .022 (.032 and .031), 7x7 of 16 to 64 at 28x28 .091 and .061 (.12
// and .21).
bool is_direct_of_rows(const Problem &problem, const std::vector<AxisMap> &axes, bool is_row,
                       const TargetModel &target) {
    constexpr int least_taps_of_x = 8, least_strided = 32, least_long = 48;  // the latter two are a row's positions
    const AxisMap &row = axes[0];
    const int taps = static_cast<int>(problem.taps());
    const int64_t outputs = problem.out_channels / problem.groups;
    if (!is_channels_first(problem) || row.phases > 1 || row.out < target.lanes(32)) {
        return false;
    }
    const bool reads_x = !row.reads_outside() && row.stride == 1;
    if (reads_x && axes.size() > 1 && row.taps == 1) {
        return true;
    }
    const bool few_registers = target.vector_registers < 32;
    const bool is_loop_here = taps >= least_transposed_taps;
    const bool is_strided = row.stride > 1 && (row.out >= least_strided || (few_registers && !is_loop_here));
    const int least_outputs = !is_loop_here ? 3 : few_registers || row.out >= least_long ? 4 : 8;
    const bool of_x = reads_x && taps >= least_taps_of_x && !is_loop_here;
    return outputs > 1 && (is_row || row.taps == taps || is_strided || of_x ||
                           (taps >= least_looped_taps && outputs >= least_outputs));
}

// Whether a row's taps are so dilated that outputs of a tile share none, and the tile has only as many sums as
// registers are few: the direct algorithm has more. 31 taps of 128 channels at 800, 8 apart, take .150 ms by AVX2, and
// .241.
bool is_direct_of_dilated(const Problem &problem, const std::vector<AxisMap> &axes, const TargetModel &target) {
    return problem.rank == 1 && is_channels_last(problem) && problem.out_channels == problem.groups &&
           problem.groups >= target.lanes(32) && target.vector_registers < 32 && problem.taps() >= least_looped_taps &&
           std::abs(axes[0].tap_step) >= least_sums;
}

}  // namespace

bool is_profitable(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const bool is_row = std::all_of(axes.begin() + 1, axes.end(), [](const AxisMap &axis) { return axis.out == 1; });
    const bool floats = problem.x_type == DType::f32 && problem.y_type == DType::f32;
    // Of fewer, the direct algorithm's vectors are filled better.
    if (!unrolls_taps(problem) && problem.out_channels < std::min(target.lanes(sum_type(problem).bits()), 8)) {
        return false;
    }
    if (!floats || problem.traits().transposed || target.lane_indexed_fma) {
        return true;
    }
    return !is_direct_of_rows(problem, axes, is_row, target) && !is_direct_of_dilated(problem, axes, target);
}

DepthwiseSchedule default_depthwise_schedule(const Problem &problem, const TargetModel &target) {
    const Numbers n(problem, target);
    const bool transposes = transposes_dots(n), row_lanes = !transposes && takes_row_lanes(n);
    DepthwiseSchedule schedule;
    schedule.parallel = problem.flops() > 1e6;
    schedule.lanes = n.channel_lanes;
    if (const int dot = dot_width(n, false); loops_over_dots(n, dot)) {
        choose_looped_dots(schedule, n, dot);
        return schedule;
    }
    if (const int dot = dot_width(n, row_lanes); dot > 1) {
        schedule.taps = DotTaps{dot};
    }
    // Rows of few channels fill whole vectors, but are copied, and weights repeat after many lanes: of 16 lanes, 3
    // channels take 60% less time than under a mask, 5 46% and 7 40% more; of 8, 42%, 8% and 27% more. Of bfloat16,
    // which takes as long for half a vector, 6 channels take half the time by 16 lanes, and 8 three quarters.
    const int most_merged = problem.x_type == DType::bf16 ? most_merged_channels_of_bf16 : most_merged_channels;
    if (n.few_channels() && merges_rows(problem) && problem.out_channels <= most_merged &&
        n.width * problem.out_channels >= std::lcm(n.lanes, problem.out_channels)) {
        schedule.tile = MergedRowLanes();
        schedule.lanes = n.lanes;
        schedule.rows = std::min({n.height, n.most_sums(false), 7});
        return schedule;
    }
    if (row_lanes) {
        choose_row_lanes(schedule, n);
    } else if (schedule.sums<DotTaps>()) {
        choose_dotted_tile(schedule, n, transposes);
    } else if (n.sums_in_loop() && schedule.lanes <= problem.out_channels) {
        choose_looped_tile(schedule, n);
    } else {
        choose_unrolled_tile(schedule, n);
    }
    choose_spread(schedule, n);
    return schedule;
}

}  // namespace kiln::depthwise
