// The numbers that a kernel of the direct algorithm is made by, and which of them are legal.
#pragma once

#include <Halide.h>

#include <variant>
#include <vector>

#include "algorithms/schedule_space.h"
#include "algorithms/schedule_text.h"
#include "axes/axis_map.h"
#include "kiln/problem.h"
#include "moves/sliced_sum.h"
#include "targets/target_model.h"

namespace kiln {

// What the lanes of a register tile's vectors are, and what the tile is besides `vectors` of them and rows:
//
// output channels, by positions along the innermost axis or, where that is more than 1, of so many rows end to end, so
// that tiles of a narrow image overlap little: can_flatten_tiles();
struct ChannelLanes {
    int pixels = 1;
    int flattened_rows = 1;
    bool joins_taps = false;  // whether a row's taps are one sum with their channels: can_join_taps()
    // So many groups, all of whose output channels are a panel, lie in its vectors lane by lane: a copy of x has their
    // channels so, of which a step repeats one of each group. can_interleave_groups(). 1: none.
    int interleaved_groups = 1;
};
// positions along the innermost axis, by channels, so that rows of x are read where they are, or as a copy has them,
// and rows of y written whole, while weights are broadcast: has_row_lanes();
struct RowLanes {
    int channels = 1;
    int prefetch_distance = 0;   // steps of the sum before which x's vectors are fetched; 0: when they are read
    bool copies_planes = false;  // whether a tile reads a copy that it makes of its positions of all channels, ahead of
                                 // all panels: can_copy_planes()
};
// positions of several rows, which a copy of x has end to end: flattens_rows();
struct FlattenedRowLanes {
    int channels = 1;
    int rows = 2;
};
// positions of a block of one long row, whose sums the first cache keeps while x's channels pass, some at a time:
// can_block_row();
struct BlockedRowLanes {
    int channels = 1;
    int block = 1;  // positions, a multiple of a tile's
};
// output channels, whose products are summed in f16 at first (f16_accumulate.h);
struct F16Lanes {
    int pixels = 1;
};
// those of AMX's matrix tiles (amx.h), of which there are `blocks` along the innermost axis.
struct AmxLanes {
    int blocks = 1;
    int pixels = 1;              // of a matrix tile
    int steps = 1;               // of the sum that an instruction takes
    bool pixel_lanes = false;    // whether a row of a matrix tile is pixels of one channel
    bool copies_groups = false;  // whether x is read from a copy of each group by itself: RowsOfGroups
    bool joins_taps = false;     // of that: whether an output's taps along a row are one sum with their channels
};

// The numbers a schedule of the direct algorithm is made of.
struct DirectSchedule {
    int lanes = 8;    // of a vector
    int vectors = 1;  // a register tile is vectors
    std::variant<ChannelLanes, RowLanes, FlattenedRowLanes, BlockedRowLanes, F16Lanes, AmxLanes> tile;
    int rows = 1;                 //   by rows along the axis after the innermost
    int unroll = 1;               // of the sum over input channels
    int dot_width = 1;            // neighbouring input channels that one lane of an instruction sums: is_dot()
    bool panels_outside = false;  // whether a panel of weights sweeps the whole image, or each row all panels
    bool parallel = false;        // whether the caller's threads share the outermost loop
    int chunk = 0;  // where panels are outside, how much of the image, in iterations of its outermost loop, all of
                    // them sweep before they sweep the next part; 0: all of it
    bool transposed_x = false;  // whether channels-first x is read from a copy with channels innermost: reads_planes()
    bool panels_of_groups = false;  // whether each group has panels of its own, the last filled up with zeros; else
                                    // panels divide groups, or are of several
    bool prefetch_panels = false;   // whether the tiles that multiply by a panel of weights fetch the next one, each a
                                    // share: can_prefetch_panels()
    bool tiles_outside = false;     // where panels are inside, whether each tile, rather than each row of tiles, goes
                                    // through all panels: can_put_tiles_outside()
    bool prefetch_output = false;   // whether each tile fetches the lines of y that it will write, beside its products:
                                    // can_prefetch_output()
    int partial_sums = 1;           // of each sum, which take the innermost axis' taps in turn: sums_in_parts()
    SlicedTile sliced;              // of GPUs, whose threads share sums where it has several slices; not in the text

    template <class Lanes>
    const Lanes *with() const {
        return std::get_if<Lanes>(&tile);
    }
    bool has_row_lanes() const;
    int flattened_rows() const;      // 1 where none are
    bool flattens_tiles() const;     // whether those are channel lanes'
    int interleaved_groups() const;  // of a panel; 1 where none are
    int panel() const;               // output channels of a tile
    int width() const;               // of a tile, along the innermost axis
    bool joins_taps() const;         // whether an output's taps along a row are one sum with their channels
    bool copies_planes() const;      // whether each tile of row lanes does
    bool reads_flat_rows() const;    // whether channel lanes do that, from rows whose pixels' channels lie side by side

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless a tile fits into the problem's image.
    void check(const Problem &problem) const;
};

// Whether vectors may be of row lanes: floats that are summed in float32 or bytes of several channels and one group,
// channels-first x and y (of bytes to few channels, channels-last ones too), phases along the innermost axis that all
// have as many taps. Those phases' vectors are interleaved to rows. Rows that are padded or strided are copied, and
// those of bytes always (has_row_lanes_of_dots()). Channels that are a group each, which are lanes otherwise, have row
// lanes where there are several such phases (elements of a vector of channels would be written one by one) and where
// positions of a row share no taps.
bool has_row_lanes(const Problem &problem);
bool copies_rows(const AxisMap &row);

// Whether row lanes sum the dot products of bytes. They read a copy of x in which a position's neighbouring channels
// lie side by side, with what stands for 0 around the image.
bool has_row_lanes_of_dots(const Problem &problem, const DirectSchedule &schedule);

// Whether tiles of row lanes may be of several rows: not where these are padded, unless a copy has the padding.
bool may_take_rows(const Problem &problem, const std::vector<AxisMap> &axes);

// Whether those store a position's channels together, of channels-last y.
bool interleaves_channels(const Problem &problem, const DirectSchedule &schedule);

// Whether row lanes are loaded from x as they are multiplied, neither copied nor converted, and may be fetched ahead.
bool reads_rows_of_x(const Problem &problem);

// Whether each tile of row lanes may copy what it reads of one long row of channels-first x, which would be loaded from
// where it is. Planes that lie whole pages apart have a position's channels in one set of a first cache, which each
// panel would find empty again.
bool can_copy_planes(const Problem &problem);

// Whether blocks of one long row of channels-first x, which is loaded from where it is, may keep their sums in a cache
// while its channels pass. A tile that takes all channels at once reads a line or two of each plane, which a far cache
// or memory hands out far more slowly than what follows.
bool can_block_row(const Problem &problem);

// Whether panels of row lanes may each sweep the image: of groups, which read no channels of each other's, so that what
// rows share stays in a first cache, and rows that are copied are of one group alone.
bool sweeps_groups(const Problem &problem);

// Whether rows may be flattened besides: every output phase is a pointwise product, so that neither rows' ends nor
// their length matter to its sums.
bool flattens_rows(const Problem &problem);

// Whether channel lanes may sum a row's taps and their channels together, so that an instruction's products are of
// neighbouring taps: of bytes whose pixels lie side by side. What follows the last tap is the next pixel's, which is
// multiplied by 0.
bool can_join_taps(const Problem &problem);

// Whether the groups of a panel may lie in its vectors lane by lane: whole panels of channels-last floats, of one
// phase, that sweep rows of tiles. A vector of one group's channels would leave lanes of narrow groups empty.
bool can_interleave_groups(const Problem &problem, const DirectSchedule &schedule);

// Whether tiles of channel lanes may go across rows: of an image of two axes or more, whose positions are y's.
bool can_flatten_tiles(const Problem &problem, const DirectSchedule &schedule);

// Whether pixels of 16 bits are widened by the tile of channel lanes that reads them, ahead of all panels: of one long
// row that is read once. All of x, widened ahead of the first tile, would come from far again.
bool widens_tiles(const Problem &problem, const DirectSchedule &schedule);

// Whether a padded copy of rows is made a row of tiles at a time, or of one long row a tile at a time, so that what it
// reads stays in a near cache (rows of many channels of a copy of all of x fall into few sets of it): not where each
// row would be copied many times, nor by a tile for each panel.
bool copies_by_tile_rows(const Problem &problem, const DirectSchedule &schedule);

// Whether sums may be of so many partial sums, which are added at their end: of floats, by channel or row lanes, where
// as many taps of the innermost axis are each one's. A sum of n products in one chain errs by about the square root of
// n roundings, each partial sum by that of fewer, and the chains of a tile of few sums wait for each other less.
bool sums_in_parts(const Problem &problem, const DirectSchedule &schedule);

// Whether the next panel of weights may be fetched while the image is swept by one: of channel lanes, and of whole
// lines of a cache.
bool can_prefetch_panels(const Problem &problem, const DirectSchedule &schedule);

// Whether each tile of a row may go through all panels before the next tile's turn: of channel lanes, where the image
// is more than one row, and channels-last y has one phase.
bool can_put_tiles_outside(const Problem &problem, const DirectSchedule &schedule);

// Whether tiles may fetch the lines of y that they will write: they write vectors themselves, of one row and phase.
bool can_prefetch_output(const Problem &problem, const DirectSchedule &schedule);

// How many register tiles along the two innermost axes multiply by a panel of weights before the next one's turn.
int tiles_of_panel(const Problem &problem, const DirectSchedule &schedule);

// The bytes of a panel of packed weights.
int64_t panel_bytes(const Problem &problem, const DirectSchedule &schedule);

// Channels that panels are counted off from: of all groups, or of each where it has panels of its own.
int channels_in_panels(const Problem &problem, const DirectSchedule &schedule);

// Whether vectors of channels read channels-first x where it is, one element after the other: then a step's lie in
// another page than those of the one before, and `transposed_x` may say that a copy is read.
bool reads_planes(const Problem &problem, const DirectSchedule &schedule);

// Whether all lanes of a panel are of one group.
bool is_panel_in_group(const Problem &problem, const DirectSchedule &schedule);

// Whether a step of the sum puts in few enough elements of x one by one, where a panel's lanes read other groups' each
// and these do not lie side by side. LLVM 21's optimizer takes some milliseconds for 512 of them, and for 768 it has
// not ended in minutes.
bool gathers_few(const Problem &problem, const DirectSchedule &schedule);

// Whether channels-first y is written in rows, by blocks of sums that are transposed in registers: a vector of sums is
// one channel after the other there. Those of 8 and 16 bits would be taken out of a vector one by one, and where they
// lie a power of two apart they fall into few sets of a cache: u8 of 64 to 256 channels by 1x1 at 64x64 takes .56 ms in
// place of 1.22 on Zen 4, and at 56x56 .39 in place of .47. Not where panels of sums, which are kept for it, share
// lines.
bool transposes_output(const Problem &problem, const DirectSchedule &schedule);

// How many channels a block of y has that is transposed; the last block overlaps the one before where it is not whole.
int transposed_block_channels(const Problem &problem);

// Whether a processor's kernel picks y's elements from whole phases: those of y have unequal sizes, or y is transposed.
bool picks_output(const Problem &problem, const DirectSchedule &schedule);

// In how many phases direct() sees each axis of y on a processor (Implementation::output_phases); on a GPU
// whole_phases().
std::vector<int> output_phases(const Problem &problem, const DirectSchedule &schedule);

// cost.cpp: what the direct algorithm is compiled with where nobody tuned it.
DirectSchedule default_direct_schedule(const Problem &problem, const TargetModel &target);
// One vector of channels by few pixels, and no option.
DirectSchedule plain_direct_schedule(const Problem &problem, const TargetModel &target);
int default_prefetch_distance(const Problem &problem);

// So many vectors a panel may have where registers suffice: with those of 34 channels in one, 4 groups of 28x28 by AVX2
// take .078 ms in place of .157 by five.
inline constexpr int most_panel_vectors = 10;

// How many partial sums are worth a choice: 1 and, of one input channel and many taps, powers of two. By default row
// lanes have several: vectors of weights would be read again for every few positions.
std::vector<int> partial_sum_counts(const Problem &problem);

// estimate/: what a register tile needs and a call costs.
//
// The registers of a tile that loads so many vectors of one operand and elements of the other in a step, each partial
// sum's products after the others'.
int registers_of_sums(int vectors, int broadcasts, int partial_sums, const TargetModel &target);
// How many more registers products need that an instruction of their own adds to sums: by AVX2, 64 to 8 channels of
// bytes at 40x40 take .040 ms by 3 vectors of rows by 4 channels and .0137 by 2, and 1x1 of 96 to 384 at 56x56 channels
// last 1.84 by 3 vectors of channels by 4 positions and 1.43 by 2 by 6.
int registers_of_products(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target);

// An estimate of what a call costs with everything in caches, in cycles.
double direct_cycles(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target);

// What a call waits besides for x and weights where they come from the last cache, and that is slow: an Intel Xeon's
// gives 8 bytes a cycle, and what has 8 MB of weights takes up to 1.7 times the estimate above there.
double direct_far_cycles(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target);

// What it waits for x where a group's channels of a pixel are within a line: the next pixel's lie beyond all other
// groups', and nothing fetches those ahead. Groups of one channel are a vector's lanes, which wait for nothing, but
// what they write of several phases of planes is scattered, which as many waits stand for. Winograd's estimate is
// compared with it; among the direct algorithm's schedules it decides nothing.
double direct_group_waits(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target);

// space.cpp: what may be tuned of it.
ScheduleSpace direct_space(const Problem &problem, const TargetModel &target);

}  // namespace kiln
