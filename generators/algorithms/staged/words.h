// The staged algorithm's operands where x and w are 8-bit: words of four neighbouring input channels, whose products an
// instruction sums.
//
// x is as it is stored, and around it stands its zero point; what that adds to a sum is the same for all sums of a
// channel, and is packed with the weights, below zero: for each output channel and phase, behind its last word.
#pragma once

#include <Halide.h>

#include <vector>

#include "algorithms/staged/staged.h"

namespace kiln::staged {

constexpr int channels_of_word = 4;

// Numbers of an input channel, or words of four, that a sum goes through for each tap.
int steps(const Problem &problem);
// Of those that blocks read, beyond which there are zeros.
int padded_steps(const Problem &problem, const Schedule &schedule);

// Whether sums of products as they are stored differ from those of the numbers that they stand for.
bool is_compensated(const Problem &problem);

// Whether a word's bytes lie apart in x, or begin anywhere.
bool gathers_bytes(const Problem &problem);

// x's word of input channels from 4 * step on.
Halide::Expr input_word(const Problem &problem, const Operands &operands, const std::vector<Halide::Expr> &at);
// The word that stands for four zeros.
Halide::Expr zero_word(const Problem &problem);

// The weights' words, of w as 32-bit numbers, over packed_extents().
Halide::Func pack_words(const Problem &problem, const Schedule &schedule, const Halide::Func &w);

}  // namespace kiln::staged
