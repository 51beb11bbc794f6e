// A smaller problem where that is the same computation: a 1x1 convolution of an image is one of its rows end to end,
// and one of a single point needs a single tap.
#pragma once

#include "kiln/problem.h"

namespace kiln {

// The same computation on the same memory, without a Conv's first and last taps that read padding alone, with the
// pointwise axes (kernel 1, stride 1, no padding) at the end made one, and with the batch folded in where channels are
// innermost.
Problem simplify_problem(const Problem &problem);

// How many first taps of each of the problem's axes simplify_problem() leaves out.
Axes first_taps_left_out(const Problem &problem);

}  // namespace kiln
