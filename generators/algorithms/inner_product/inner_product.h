// The inner product algorithm, for few output channels of channels-last x: a vector is neighbouring input channels of a
// position, whose products with an output channel's weights are summed lane by lane, and the lanes at the end.
//
//   partial(lane, c, o) = sum of w(c, k + lane, tap) * x(k + lane, o, tap) over taps and every `lanes`-th channel k
//   y(c, o)             = sum of partial(lane, c, o) over lanes
//
// Vectors of output channels would have few lanes in use, and positions, whose channels lie side by side, are vectors
// only of a transposed copy. Neighbouring lanes of a tile's sums are added two vectors at a time, until what is left is
// vectors of y.
//
// Applies to Conv and ConvTranspose of floats in one group, channels last or of one position, of one output phase,
// whose input channels are whole vectors. Multiplications: those of the definition, less those in the padding. Error: a
// sum of in_channels * taps products in another order.
#pragma once

#include <Halide.h>

#include <vector>

#include "algorithms/direct/packing.h"
#include "algorithms/schedule_space.h"
#include "algorithms/schedule_text.h"
#include "axes/axis_map.h"
#include "expressions/operands.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// The numbers of its schedule.
struct InnerProductSchedule {
    int lanes = 8;   // of a vector: input channels
    int pixels = 1;  // positions of a tile, along the innermost axis; all output channels of each
    int unroll = 1;  // of the sum over vectors of input channels
    bool parallel = false;

    void list(ScheduleText &text);
    // Throws std::invalid_argument unless a tile fits into the image, and vectors divide the input channels.
    void check(const Problem &problem) const;
};

// [lane][output channel][vectors of input channels][taps...], the innermost first.
PackedWeights inner_product_weights(const Problem &problem, const InnerProductSchedule &schedule);

// The stages of the kernel, not scheduled.
struct InnerProductStages {
    std::vector<AxisMap> axes;
    std::vector<Halide::Var> q;  // positions
    Halide::Var lane{"lane"}, c{"c"}, n{"n"};
    Halide::RDom r;      // vectors of input channels, taps
    Halide::RDom lanes;  // of a vector
    Halide::Func acc;    // partial sums: (lane, c, q of each axis, n)
    Halide::Func sums;   // (c, q of each axis, n)
    Halide::Func y;      // the same
};

bool inner_product_applies(const Problem &problem);
bool inner_product_is_profitable(const Problem &problem, const TargetModel &target);

InnerProductStages inner_product(const Problem &problem, const InnerProductSchedule &schedule,
                                 const Operands &operands);

void schedule_inner_product(InnerProductStages &stages, const Problem &problem, const InnerProductSchedule &schedule);

// cost.cpp: what it is compiled with where nobody tuned it, what a call takes by that in cycles, and what may be tuned
// of it.
InnerProductSchedule default_inner_product_schedule(const Problem &problem, const TargetModel &target);
double inner_product_call_cycles(const Problem &problem, const InnerProductSchedule &schedule,
                                 const TargetModel &target);
ScheduleSpace inner_product_space(const Problem &problem, const TargetModel &target);

}  // namespace kiln
