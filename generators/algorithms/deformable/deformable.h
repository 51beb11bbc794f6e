// The deformable algorithm: the samples of a block of output points are gathered into scratch, then multiplied by
// packed weights in register tiles.
//
// Applies to every DeformConv; any of its numbers may be read at run time. Multiplications: those of the definition,
// and 2^rank for each sample. Error: a sum of in_channels / groups * taps products in the order of the loops. A
// position is its whole part and its fraction, so that its rounding is the offset's alone.
//
// Points of an image, and of the output, are numbered through, the innermost axis fastest: tensors are seen as
// (channel, point, batch), whatever the rank.
#pragma once

#include <Halide.h>

#include <optional>
#include <vector>

#include "algorithms/algorithm.h"
#include "algorithms/schedule_text.h"
#include "kiln/problem.h"
#include "moves/sliced_sum.h"
#include "targets/target_model.h"

namespace kiln::deformable {

// The numbers a schedule of the deformable algorithm is made of.
struct DeformableSchedule {
    int lanes = 8;          // of a vector: output channels
    int vectors = 1;        // a register tile is vectors of channels
    int pixels = 1;         //   by output points
    int tiles = 1;          // of one block of samples
    int blocks = 1;         // that share one computation of positions: a chunk
    int sample_lanes = 8;   // of a vector of samples: input channels; of positions: output points
    int unroll = 1;         // of the sum over input channels
    bool parallel = false;  // whether the caller's threads share the chunks
    SlicedTile sliced;      // of GPUs, whose threads share sums where it has several slices; not in the text

    int panel() const { return lanes * vectors; }
    int block() const { return pixels * tiles; }
    int chunk() const { return block() * blocks; }

    void list(ScheduleText &text);
};

// The packed weights: [panel lane][input channel of the group][tap][panels][groups], the innermost first; the last
// panel is filled up with zeros. Where the number of groups is open a panel holds channels of one group, and elsewhere
// of any: the last dimension is then 1.
std::vector<Halide::Expr> packed_extents(const Problem &problem, const DeformableSchedule &schedule,
                                         const Sizes &sizes);
Halide::Func pack(const Problem &problem, const DeformableSchedule &schedule, const Sizes &sizes,
                  const Halide::Func &w);

// What stages and schedule both need of the sizes.
struct DeformableSizes {
    Halide::Expr in_points, out_points, taps;
    Halide::Expr offset_channels;  // input channels of an offset group
    bool whole_chunks;  // whether chunks lie within the output; else the last may reach beyond its last point

    DeformableSizes(const Problem &problem, const DeformableSchedule &schedule, const Sizes &sizes);
};

// The stages of the kernel, not scheduled. `channel` stands for c, or for c and h where the number of groups is open.
struct DeformableStages {
    // Corner, channel, output point, tap, offset group, group, batch, axis.
    Halide::Var q{"q"}, c{"c"}, p{"p"}, k{"k"}, g{"g"}, h{"h"}, n{"n"}, a{"a"};
    Halide::RDom r;  // input channel of the group, tap
    // Copies, over (c, p, n), where the operand will not do: of x widened, with channels innermost; of offset and mask,
    // with points innermost. Those that transpose a layout do so in blocks.
    struct Copy {
        Halide::Func result;
        std::optional<Halide::Func> blocks;
    };
    std::optional<Copy> image, offset, mask;
    std::optional<Halide::Expr> x_is_empty;  // where x can be
    Halide::Func origin;                     // (a, p): where the kernel's first tap lies on axis a, the innermost first
    // (q, p, k, g, n): weight, and point of x as the bits of a float; of q = 2^rank: 0, and whether any corner is
    // inside.
    Halide::Func corner;
    Halide::Func sample;  // (c, g, p, k, n): an expression of all its corners, or a sum over `rq` where they are many
    std::optional<Halide::RDom> rq;
    Halide::Func acc;                    // (channel, p, n) and, where a GPU's threads share sums, the slice
    std::optional<SlicedSum> sliced;     // which adds those up
    std::optional<Halide::Func> sums;    // of a register tile, in memory, where y is written by a loop over its points
    Halide::Func product;                // (channel, p, n): the finished sums, a register tile at a time: y itself, or
    std::optional<Halide::Func> blocks;  // what is transposed to y, by these
    Halide::Func y;
};

// Whether a sample's corners are few enough to be written out.
inline bool unrolls_corners(const Problem &problem) {
    return problem.rank <= 3;
}

DeformableStages deformable(const Problem &problem, const DeformableSchedule &schedule, const Operands &operands);

// What the deformable algorithm is compiled with where nobody tuned it.
DeformableSchedule default_deformable_schedule(const Problem &problem, const TargetModel &target);

// What may be tuned of it.
ScheduleSpace deformable_space(const Problem &problem, const TargetModel &target);

void schedule_deformable(DeformableStages &stages, const Problem &problem, const DeformableSchedule &schedule,
                         const Sizes &sizes);

}  // namespace kiln::deformable
