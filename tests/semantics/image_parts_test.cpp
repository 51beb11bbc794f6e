// Images in parts, with a kernel of the test's own: what parts are given of x and residual, where y's parts go, by one
// worker and by several.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "kiln/kernel.h"

namespace {

constexpr int64_t channels = 2, fill = 3;

// What a kernel of parts is told of itself here, for it is a plain function.
struct Part {
    int64_t in[2], out[2], stride, taps;
    bool channels_last, strided;
};
Part part_of_kernel[3];

// How often kernels wrote y where it is, and how often elsewhere.
std::atomic<int> written_in_place, written_elsewhere;
const uint8_t *image_begin, *image_end;

int64_t at(bool channels_last, int64_t c, int64_t row, int64_t column, int64_t rows, int64_t columns) {
    return channels_last ? (row * columns + column) * channels + c : (c * rows + row) * columns + column;
}

// y's element is the sum of taps x taps of x's at the stride, and of the residual's. The workspace is written from end
// to end.
template <int kernel>
int32_t sum_up(const void *x, const void *packed, const void *, const void *residual, const void *, const void *,
               const float *, void *y, const int32_t *strides, void *workspace, const kiln_threads *threads) {
    const Part &part = part_of_kernel[kernel];
    const auto *const written = static_cast<const uint8_t *>(y);
    (written >= image_begin && written < image_end ? written_in_place : written_elsewhere)++;
    EXPECT_EQ(packed, &channels);
    EXPECT_EQ(threads, nullptr);
    std::memset(workspace, 0x77, 64);
    const auto *const bytes = static_cast<const uint8_t *>(x), *const added = static_cast<const uint8_t *>(residual);
    for (int64_t c = 0; c < channels; c++) {
        for (int64_t i = 0; i < part.out[0]; i++) {
            for (int64_t j = 0; j < part.out[1]; j++) {
                const int64_t strided =
                    part.channels_last ? i * strides[1] + j * channels + c : c * strides[0] + i * strides[1] + j;
                const int64_t place =
                    part.strided ? strided : at(part.channels_last, c, i, j, part.out[0], part.out[1]);
                int sum = added[place];
                for (int64_t tap = 0; tap < part.taps * part.taps; tap++) {
                    const int64_t row = i * part.stride + tap / part.taps, column = j * part.stride + tap % part.taps;
                    const int64_t dense = at(part.channels_last, c, row, column, part.in[0], part.in[1]);
                    const int32_t *const of_x = strides + kiln_part_axes;
                    const int64_t apart = part.channels_last ? row * of_x[1] + column * channels + c
                                                             : c * of_x[0] + row * of_x[1] + column;
                    sum += bytes[part.strided ? apart : dense];
                }
                static_cast<uint8_t *>(y)[place] = static_cast<uint8_t>(sum);
            }
        }
    }
    return kiln_ok;
}

int32_t fail(const void *, const void *, const void *, const void *, const void *, const void *, const float *, void *,
             const int32_t *, void *, const kiln_threads *) {
    return kiln_unsupported;
}

kiln_image_parts parts_of(bool channels_last, int64_t stride, int64_t taps = 3, bool strided = false) {
    const int64_t reach = taps - 1;
    kiln_image_parts parts = {};
    parts.rank = 2;
    parts.x_channels = parts.y_channels = channels;
    parts.x_element_bytes = parts.y_element_bytes = 1;
    parts.x_channels_last = parts.y_channels_last = channels_last ? 1 : 0;
    parts.fill = fill;
    parts.pointwise = taps == 1 ? 1 : 0;
    parts.has_residual = 1;
    parts.batch = {0, 0};
    // sizes: batch, two of x, two of y, the rows' pad; the columns' pad is known.
    parts.axes[0] = {{0, 1}, {0, 3}, {0, 5}, stride, reach};
    parts.axes[1] = {{0, 2}, {0, 4}, {reach / 2, -1}, stride, reach};
    parts.kernel_count = 3;
    // Of a row of positions where each output is of one input.
    const int64_t outs[3][2] = {{taps == 1 ? 1 : 5, 6}, {taps == 1 ? 1 : 2, 3}, {1, 2}}, cycles[3] = {30, 10, 5};
    for (int k = 0; k < 3; k++) {
        parts.kernels[k].cycles = cycles[k];
        parts.kernels[k].x_strided = parts.kernels[k].y_strided = strided ? 1 : 0;
        part_of_kernel[k] = {{}, {}, stride, taps, channels_last, strided};
        for (int axis = 0; axis < 2; axis++) {
            parts.kernels[k].out[axis] = part_of_kernel[k].out[axis] = outs[k][axis];
            parts.kernels[k].in[axis] = part_of_kernel[k].in[axis] = (outs[k][axis] - 1) * stride + reach + 1;
        }
    }
    parts.x_bytes = 512;
    parts.y_bytes = 64;
    parts.scratch_bytes = parts.x_bytes + 2 * parts.y_bytes + 64;
    return parts;
}

std::vector<uint8_t> numbers(int64_t count, int step) {
    std::vector<uint8_t> result;
    for (int64_t i = 0; i < count; i++) {
        result.push_back(static_cast<uint8_t>(i * step + 1));
    }
    return result;
}

// Runs pieces backwards, worker after worker.
int32_t run_backwards(void *, kiln_task task, void *closure, int32_t count) {
    for (int32_t index = count - 1; index >= 0; index--) {
        if (const int32_t code = task(closure, index, index % 3); code != kiln_ok) return code;
    }
    return kiln_ok;
}

void check(bool channels_last, int64_t stride, int64_t taps, const int32_t (&sizes)[6], const kiln_threads *threads,
           bool strided = false) {
    const kiln_image_parts parts = parts_of(channels_last, stride, taps, strided);
    const int64_t in[2] = {sizes[1], sizes[2]}, out[2] = {sizes[3], sizes[4]}, pads[2] = {sizes[5], (taps - 1) / 2};
    const int64_t x_image = channels * in[0] * in[1], y_image = channels * out[0] * out[1];
    const std::vector<uint8_t> x = numbers(sizes[0] * x_image, 7), residual = numbers(sizes[0] * y_image, 11);
    std::vector<uint8_t> y(residual.size()), expected(residual.size());
    for (int64_t n = 0; n < sizes[0]; n++) {
        for (int64_t c = 0; c < channels; c++) {
            for (int64_t i = 0; i < out[0]; i++) {
                for (int64_t j = 0; j < out[1]; j++) {
                    const int64_t place = n * y_image + at(channels_last, c, i, j, out[0], out[1]);
                    int sum = residual[static_cast<size_t>(place)];
                    for (int64_t tap = 0; tap < taps * taps; tap++) {
                        const int64_t row = i * stride + tap / taps - pads[0];
                        const int64_t column = j * stride + tap % taps - pads[1];
                        const bool inside = row >= 0 && row < in[0] && column >= 0 && column < in[1];
                        sum +=
                            inside
                                ? x[static_cast<size_t>(n * x_image + at(channels_last, c, row, column, in[0], in[1]))]
                                : static_cast<uint8_t>(fill);
                    }
                    expected[static_cast<size_t>(place)] = static_cast<uint8_t>(sum);
                }
            }
        }
    }
    std::vector<uint64_t> workspace(static_cast<size_t>(parts.scratch_bytes) * 3 / sizeof(uint64_t));
    image_begin = y.data();
    image_end = y.data() + y.size();
    ASSERT_EQ(kiln_run_parts(&parts, sum_up<0>, sum_up<1>, sum_up<2>, x.data(), &channels, nullptr, residual.data(),
                             nullptr, y.data(), sizes, workspace.data(), threads),
              kiln_ok);
    EXPECT_EQ(y, expected) << channels_last << " " << stride << ": " << in[0] << "x" << in[1] << " to " << out[0] << "x"
                           << out[1];
}

TEST(ImageParts, are_the_whole_image) {
    const int32_t shapes[][6] = {{1, 5, 6, 5, 6, 1},  {3, 11, 13, 11, 13, 1}, {2, 2, 1, 2, 1, 1},
                                 {1, 3, 3, 9, 12, 4}, {1, 9, 9, 4, 5, -2},    {0, 4, 4, 4, 4, 1},
                                 {1, 4, 4, 0, 4, 1},  {2, 0, 4, 3, 4, 1},     {2, 23, 31, 23, 31, 1}};
    kiln_threads threads = {nullptr, 3, run_backwards};
    for (const bool channels_last : {false, true}) {
        for (const int64_t stride : {1, 2}) {
            for (const auto &sizes : shapes) {
                for (const bool strided : {false, true}) {
                    check(channels_last, stride, 3, sizes, nullptr, strided);
                    check(channels_last, stride, 3, sizes, &threads, strided);
                }
            }
        }
    }
}

// Positions are one row, of all images channels last, which parts read and write where they are; but where y has others
// than x.
TEST(ImageParts, of_single_taps_are_rows) {
    const int32_t shapes[][6] = {{1, 5, 6, 5, 6, 0}, {3, 7, 5, 7, 5, 0}, {2, 1, 1, 1, 1, 0}, {2, 4, 3, 5, 3, 0},
                                 {1, 4, 7, 4, 5, 0}, {0, 4, 4, 4, 4, 0}, {2, 0, 4, 0, 4, 0}};
    kiln_threads threads = {nullptr, 3, run_backwards};
    for (const bool channels_last : {false, true}) {
        for (const auto &sizes : shapes) {
            for (const bool strided : {false, true}) {
                check(channels_last, 1, 1, sizes, nullptr, strided);
                check(channels_last, 1, 1, sizes, &threads, strided);
            }
        }
    }
}

// What the largest parts leave at the ends is covered by smaller ones: 11x12 by two of 5x6 a row, twice, and by six of
// 1x2.
TEST(ImageParts, of_several_sizes_cover_an_image) {
    const kiln_image_parts parts = parts_of(false, 1);
    const int64_t out[] = {11, 12}, few[] = {1, 2}, odd[] = {4, 6};
    EXPECT_EQ(kiln_parts_cycles(&parts, out), 4 * 30 + 6 * 5);
    EXPECT_EQ(kiln_parts_cycles(&parts, few), 5);
    EXPECT_EQ(kiln_parts_cycles(&parts, odd), 30);  // as four of 2x3 would take 40
}

// Parts that lie in the image whole are written there, others beside it.
TEST(ImageParts, are_written_where_they_are_in_the_image) {
    const int32_t whole[] = {1, 11, 12, 11, 12, 1}, beyond[] = {1, 4, 6, 4, 6, 1};
    for (const bool channels_last : {false, true}) {
        written_in_place = written_elsewhere = 0;
        check(channels_last, 1, 3, whole, nullptr, true);
        EXPECT_EQ(written_in_place, 10);
        EXPECT_EQ(written_elsewhere, 0);
        check(channels_last, 1, 3, beyond, nullptr, true);
        EXPECT_EQ(written_elsewhere, 1);
    }
}

// A worker waits for the others no longer than a part takes: three share 5x6 as parts of 2x3.
TEST(ImageParts, are_smaller_for_several_workers) {
    const int32_t sizes[] = {1, 5, 6, 5, 6, 1};
    kiln_threads threads = {nullptr, 3, run_backwards};
    written_in_place = written_elsewhere = 0;
    check(false, 1, 3, sizes, &threads, true);
    EXPECT_GT(written_in_place + written_elsewhere, 1);
}

TEST(ImageParts, pass_a_kernels_code_on) {
    const kiln_image_parts parts = parts_of(true, 1);
    const int32_t sizes[] = {1, 5, 6, 5, 6, 1};
    const std::vector<uint8_t> x = numbers(channels * 30, 1);
    std::vector<uint8_t> y(x.size());
    std::vector<uint64_t> workspace(static_cast<size_t>(parts.scratch_bytes) / sizeof(uint64_t));
    EXPECT_EQ(kiln_run_parts(&parts, fail, fail, fail, x.data(), &channels, nullptr, x.data(), nullptr, y.data(), sizes,
                             workspace.data(), nullptr),
              kiln_unsupported);
}

}  // namespace
