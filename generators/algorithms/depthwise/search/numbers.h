// The numbers that the default schedule of the depthwise algorithm for processors is chosen by (cost.cpp beside this
// folder), and the choices for bytes.
#pragma once

#include <vector>

#include "algorithms/depthwise/schedule.h"
#include "axes/axis_map.h"
#include "expressions/types.h"
#include "kiln/problem.h"
#include "targets/register_tile.h"
#include "targets/target_model.h"

namespace kiln::depthwise {

constexpr int least_looped_taps = 20;

// So many taps are a loop over rows of them. Of a row alone, channels last, those of its neighbours that a tile in
// registers reads once are worth it from fewer on, the more where registers are few: 9 taps of 256 channels at 1600
// take .071 ms by AVX2 in place of .101, 31 .130 in place of .193; by AVX-512 15 .118 in place of .112, 19 .148 in
// place of .207. Planes of a row are transposed for them. On 32-bit ARM, where a product takes a register, those of a
// row alone spill.
int least_looped(const Problem &problem, const TargetModel &target);

// What the choice is made by.
struct Numbers {
    const Problem &problem;
    const TargetModel &target;
    std::vector<AxisMap> axes = axis_maps(problem);
    int lanes = target.lanes(sum_type(problem).bits()), width = axes[0].phase_extent;
    int height = axes.size() > 1 ? axes[1].phase_extent : 1;
    // Of float32, and of 16 bits where these are stored under masks, vectors may be partly used; not where rows of taps
    // have to be a loop.
    bool masks = sum_type(problem) == Halide::Float(32) && unrolls_taps(problem) &&
                 (target.masked_stores || (problem.x_type == DType::f32 && problem.y_type == DType::f32));
    // Whether columns of taps can be unrolled, which share what the rows of a tile read: 21x1 of 64 channels at 32x32
    // takes .026 ms in place of .084, whose loop would be over rows of one tap.
    bool unrolls_columns = is_channels_last(problem) && axes.size() > 1 && axes[0].taps == 1 && unrolls_taps(problem);
    // Whether rows of taps may be a loop: of bytes, unless a lane sums several (loops_over_dots()), where they must be.
    bool loops = loops_over_taps(problem) && (!problem.is_quantized() || !unrolls_taps(problem));
    // Whether taps are many enough for it.
    bool many_taps = loops && !unrolls_columns && problem.taps() >= least_looped(problem, target);
    // Planes of floats in registers; measured on x86 alone.
    bool transposes = loops && transposes_planes(problem) && !target.lane_indexed_fma;
    // Whether rows are so short that half of a vector along them would be empty: 3x3 of 960 channels at 7x7 takes .009
    // ms in place of .018, of 576 with stride 2 to 7x7 .012 in place of .022; at 14x14 .024 in place of .016.
    bool half_rows = transposes && (problem.rank > 1 || width >= 5) && 2 * width <= lanes;
    // Whether planes whose rows have strides are transposed too: where rows are less than a vector, and where vectors
    // are taken in halves, but of few taps or where the planes of a vector are far. On a Zen 4 3x3 with stride 2 of 192
    // channels at 28x28 takes .025 ms in place of .046, of 144 at 56x56 .069 in place of .076, of 32 at 112x112 .065 in
    // place of .084, and at 224x224 .336 in place of .317; 2x2 of 48 at 64x64 .037 in place of .023.
    bool strided_rows = transposes && axes.size() == 2 && axes[0].stride > 1 && target.masked_stores &&
                        (width < lanes || (target.core.splits_vectors() && problem.taps() >= 9 && width < 7 * lanes));
    int phases = 1;
    int channel_lanes = 1;  // of a vector of channels

    Numbers(const Problem &p, const TargetModel &t);

    // Whether vectors of half the lanes cost no more, and leave enough fewer of them empty: by which lines are read in
    // halves. On a Zen 4 5x5 of 40 channels at 28x28 takes .0124 ms in place of .0151, of 120 .0373 and .0404, 3x3 of
    // 24 at 56x56 .0122 and .0159, of 120 at 112x112 .289 and .267; with stride 2 of 40 at 56x56 .0063 and .0063. What
    // bfloat16 is widened and rounded by takes as long for half a vector: 3x3 of 24 at 56x56 .031 and .022.
    bool fills_halves() const;

    // Whether rows of taps are a loop, beside tiles of channels.
    bool sums_in_loop() const { return many_taps || half_rows || strided_rows; }

    bool few_channels() const { return masks && !target.lane_indexed_fma && problem.out_channels < lanes; }
    // Of a tile. Sums in flight hide an addition's latency; those beyond a third of the registers crowd out what they
    // share. Where there are many taps, longer code than this no longer keeps what outputs share in registers.
    int most_sums(bool row_lanes) const;
};

// bytes.cpp:
//
// How many taps a lane is to sum; of one, those of floats too.
int dot_width(const Numbers &n, bool row_lanes);

// Whether planes of bytes are transposed in registers, and the sums of dot products back, where rows of taps are no
// loop: of strides, whose rows of x would be parted by vectors, and of images whose rows are few vectors. On a Zen 4
// 3x3 of 960 channels at 7x7 takes .012 ms in place of .049, with stride 2 of 64 at 112x112 .067 in place of .100, but
// 3x3 of 32 at 112x112 .077 in place of .058; by AVX2 .021 and .047, .123 and .162, .187 and .172. 3x3x3 of 54 channels
// takes .21 ms and .13 at 8x28x28, with stride 2 of 8x56x56 .31 and .46.
bool transposes_dots(const Numbers &n);

// Whether rows of taps are a loop, in which a lane sums so many neighbours of a row.
bool loops_over_dots(const Numbers &n, int dot);

// The tile where all taps of dot products are unrolled, and where rows of them are a loop.
void choose_dotted_tile(DepthwiseSchedule &schedule, const Numbers &n, bool transposes);
void choose_looped_dots(DepthwiseSchedule &schedule, const Numbers &n, int dot);

}  // namespace kiln::depthwise
