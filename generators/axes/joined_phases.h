// Output phases as channels: where all phases of a transposed convolution's innermost axis read the same input, its
// outputs are those of a stride-1 convolution that has a channel for each of them.
#pragma once

#include <Halide.h>

#include "kiln/problem.h"

namespace kiln {

// How many phases can be channels: all of the innermost axis, where they have as many taps each, begin at the same
// input and lie side by side in y as its channels do, that is in channels-last y or in that of one channel; else 1.
int joined_phases(const Problem &problem);

// The problem with them as channels of channels-last y (Implementation::phases_as_channels): channel c of phase p is
// c + p * channels. The same where none are.
Problem join_phases(const Problem &problem);

// Its weights, over the dimensions of a ConvTranspose's, of those of `problem`.
Halide::Func join_weights(const Problem &problem, const Halide::Func &w);

}  // namespace kiln
