// A DeformConv's products by matrix instructions: samples are gathered into the workspace as the deformable algorithm
// does, and what is left is a 1x1 convolution of them, whose input channels are those of all taps.
//
// Applies to DeformConv of one group, of output channels by eights and channels of an offset group by fours.
// Multiplications: the deformable algorithm's. Error: what TF32 leave of samples, and of float32 weights, is multiplied
// by itself; the product of both rests is left out.
#pragma once

#include <Halide.h>

#include "algorithms/mma/mma.h"
#include "expressions/operands.h"
#include "kiln/problem.h"

namespace kiln::mma {

bool samples_apply(const Problem &problem);

// That of the 1x1 convolution.
struct SamplesSchedule : MmaSchedule {
    SamplesSchedule() = default;
    SamplesSchedule(const MmaSchedule &of_product) : MmaSchedule(of_product) {}
    // Of the DeformConv.
    void check(const Problem &problem) const;
};

// y over (channel, point, n), scheduled.
Halide::Func build_samples(const Problem &problem, const MmaSchedule &schedule, const Operands &operands);

Halide::Func pack_samples(const Problem &problem, const MmaSchedule &schedule, const Sizes &sizes,
                          const Halide::Func &w);

}  // namespace kiln::mma
