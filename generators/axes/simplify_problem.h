// A smaller problem where that is the same computation: a 1x1 convolution of an image is one of its rows end to end,
// one of a single point needs a single tap, and patches side by side are pixels of more channels.
#pragma once

#include "expressions/patches.h"
#include "kiln/problem.h"

namespace kiln {

// The same computation on the same memory, without a Conv's first and last taps that read padding alone, with the
// pointwise axes (kernel 1, stride 1, no padding) at the end made one, and with the batch folded in where channels are
// innermost. The taps of an innermost axis of patches, which share nothing and leave out nothing, are channels there;
// so are those of planes of 8 or 16 bits, where there are no fewer than channels, which become an axis outside all
// others.
Problem simplify_problem(const Problem &problem);

// What simplify_problem() makes of taps.
Patches patches_of(const Problem &problem);

// The problem whose weights pack functions read: simplify_problem()'s, or where that makes taps channels, what it has
// left out taps of alone.
Problem problem_of_weights(const Problem &problem);

// How many first taps of each of the problem's axes simplify_problem() leaves out.
Axes first_taps_left_out(const Problem &problem);

}  // namespace kiln
