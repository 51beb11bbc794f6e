// A DeformConv's products by another algorithm, the staged one or matrix instructions: samples are gathered into the
// workspace as the deformable algorithm does, and what is left is a 1x1 convolution of them, whose input channels are
// those of all taps.
//
// Applies to DeformConv of one group. Multiplications and error: the deformable algorithm's.
#pragma once

#include <Halide.h>

#include "algorithms/staged/staged.h"
#include "expressions/operands.h"
#include "kiln/problem.h"

namespace kiln::staged {

bool samples_apply(const Problem &problem);

// That 1x1 convolution: over points, of float32 with channels innermost.
Problem product_of_samples(const Problem &problem);

// Its input over (channel, point, n), and its weights; samples are scheduled.
Halide::Func gather_samples(const Problem &problem, const Operands &operands);
Halide::Func weights_of_samples(const Problem &problem, const Sizes &sizes, const Halide::Func &w);

}  // namespace kiln::staged
