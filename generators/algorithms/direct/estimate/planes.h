// What the direct algorithm takes besides its products where x or y is channels-first.
#pragma once

#include <vector>

#include "algorithms/direct/schedule.h"
#include "axes/axis_map.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// Whether panels of row lanes go one after the other through all of one long row.
bool sweeps_row_by_panels(const std::vector<AxisMap> &axes, const DirectSchedule &s);

// Whether channels-first planes, of so many bytes an element, lie a multiple of half a page apart, so that a position's
// channels share one or two sets of a first cache. It was seen by AVX2, and not with AVX-512, whose tiles read x for
// more channels at once; elsewhere nobody measured.
bool planes_are_crowded(const std::vector<AxisMap> &axes, int element, const TargetModel &target);

// Cycles that row lanes take besides their sums where rows are padded or strided: to copy x, each row of tiles what it
// reads, or a tile of one long row, unless that is too much (copies_by_tile_rows()); and to begin and end rows, and the
// loops over a tile's taps. Vectors of strided elements are shuffled, or gathered one by one where they are far apart.
double copied_rows_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s);

// Cycles that tiles of channel lanes take besides their sums where they read a copy of x that has its padding: rows'
// ends of channels-first x, and of bytes that are not read in place, and of either layout the rows beyond an image of
// which tiles span several: 3x3 of 64 channels of bytes to 32 at 256x256 takes 3.15 ms by tiles of two rows, and 2.88.
double padded_copy_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                          const TargetModel &target);

// Cycles that a call waits for lines of one long row of many channels-first planes, where tiles take those of all
// channels in turn, a few of each plane, rather than blocks: can_block_row(). Nothing is fetched ahead by itself of so
// many planes, and those that are crowded push each other out of the first cache besides. By AVX2 on a Zen 3, beside
// sums in blocks, ms: 64 to 2 channels 1.6 and .36 at 240x240, 2.1 and .45 at 256x256, .14 and .08 at 128x128; 256 to 8
// at 128x128 7.1 and 1.4, at 64x64 .33 and .23; 128 to 2 at 32x32 .018 and .009. At 120x120 64 to 2 take .06 and .07:
// the last cache has them. With AVX-512 nobody measured.
double lines_in_turn_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const TargetModel &target);

// Cycles that channels-first x costs beside the sums: waits for its lines, or the copy with channels innermost. A step
// of the sum reads lines of another channel than the one before; what neighbouring tiles read of all channels stays in
// the first cache or comes from the second and, where it is too much or the planes lie so far apart that they fall into
// few of its sets, from beyond.
double planes_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                     const TargetModel &target);

// Whether tiles of row lanes fetch the lines of y that they will write. Each row of a tile lies in a page of its own,
// and a processor fetches those of few by itself: beyond the second cache tiles wait for them at their ends. Not where
// a tile's rows, and those of x that are fetched ahead, fall into few of the first cache's sets; nor, where x is
// fetched ahead, by more lines than products, or if that cache holds y as far as nobody shares it. On an Intel Xeon
// with AVX-512 3x3 of 2 to 128 channels at 112x112 takes .36 ms in place of .44, 1x1 of 24 to 144 .51 of .62, wav2vec's
// first layer .247 of .284; on a Zen 4, whose products go on for longer beside as many lines, 1x1 of 96 to 384 at 56x56
// 2.03 of 2.37, and where rows fall into few sets and are not copied, 32 to 64 at 256x256 4.0 of 5.7. By AVX2 layers
// whose rows are copied take 7% more to 38% less, and do not.
bool fetches_output(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                    const TargetModel &target);

// Cycles to store an element of channels-first y. One of a vector of channels is not stored with others (7% of C4's
// time, a tile of which has 448 of them): slower where its line is of a far cache. Flattened and blocked rows are
// written twice.
double store_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                    const TargetModel &target);

// Cycles that each vector of channels-last y waits for memory where panels write a few vectors of pixels, each beyond
// the other panels' of the pixel before. It was not timed but on a Zen 4: 24 to 96 channels at 240x240 take 2.4 ms by 3
// vectors and 3.1 by one, 64 to 64 at 256x256 5.0 by 4 and 6.9.
double far_pixels_cycles(const Problem &problem, const DirectSchedule &s, const TargetModel &target);

}  // namespace kiln
