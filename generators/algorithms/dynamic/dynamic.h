// The dynamic algorithm: the plain sum of products, with any of the problem's numbers read at run time.
//
// Applies to every Conv and ConvTranspose that leaves something open. Multiplications: those of the definition, and
// those of the positions that a register tile reaches beyond the image's right edge. Error: as the direct algorithm's.
#pragma once

#include <Halide.h>

#include <optional>
#include <vector>

#include "algorithms/algorithm.h"
#include "algorithms/schedule_text.h"
#include "axes/dynamic_axis_map.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// The numbers a schedule of the dynamic algorithm is made of.
struct DynamicSchedule {
    int lanes = 8;    // of a vector: output channels
    int vectors = 1;  // a register tile is vectors of channels
    int pixels = 1;   //   by pixels along the innermost axis
    int unroll = 1;   // of the sum over input channels
    bool parallel = false;

    int panel() const { return lanes * vectors; }

    void list(ScheduleText &text);
};

// The stages of the kernel, not scheduled. Dimensions: c, then g where the number of groups is open, then the spatial
// axes innermost first, then the batch n.
struct DynamicStages {
    Halide::Var c{"c"}, g{"g"}, n{"n"};
    std::vector<Halide::Var> q, phase;  // output positions are q * phases + phase
    std::vector<DynamicAxisMap> axes;
    bool splits_groups = false;
    Halide::RDom r;  // dot and step of the input channel, taps
    // q and phase of the axes that have several phases, where there are any: y is written where they are in the image.
    std::optional<Halide::RDom> out;
    Halide::Func padded;  // the input with channels innermost and zeros around its innermost axis
    std::vector<Halide::Expr> padded_min, padded_extent;  // of padded's dimensions
    Halide::Func acc;                                     // (c, g, q and phase of each axis, n)
    Halide::Func sums;  // acc as it comes out of the registers, so that y's code is there once, not for each pixel
    Halide::Func y;     // (c, g, q and, where there are several, phase of each axis, n)
    std::optional<Halide::Expr> x_is_empty;  // where x can be
};

DynamicStages dynamic(const Problem &problem, const DynamicSchedule &schedule, const Operands &operands);
void schedule_dynamic(DynamicStages &stages, const Problem &problem, const DynamicSchedule &schedule,
                      const Sizes &sizes);
DynamicSchedule default_dynamic_schedule(const Problem &problem, const TargetModel &target);
ScheduleSpace dynamic_space(const Problem &problem, const TargetModel &target);

// [dot][panel lane][steps][taps...][panels][groups], the innermost first; panels and steps are of a group where
// their number is open, and the last dimension is 1 where it is not.
std::vector<Halide::Expr> dynamic_packed_extents(const Problem &problem, const DynamicSchedule &schedule,
                                                 const Sizes &sizes);
Halide::Func dynamic_pack(const Problem &problem, const DynamicSchedule &schedule, const Sizes &sizes,
                          const Halide::Func &w);

}  // namespace kiln
