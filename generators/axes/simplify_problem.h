// A smaller problem where that is the same computation: a 1x1 convolution of an image is one of its rows end to end,
// one of a single point needs a single tap, one of a single row is a row's, and patches side by side are pixels of more
// channels.
#pragma once

#include <cstdint>
#include <vector>

#include "expressions/patches.h"
#include "kiln/problem.h"

namespace kiln {

// The same computation on the same memory, without first and last taps that read padding alone (of a ConvTranspose's
// axes, those of stride 1), without axes of one position and one tap beside others, with the pointwise axes (kernel 1,
// stride 1, no padding) at the end made one, and with the batch folded in where channels are innermost. The taps of an
// innermost axis of patches, which share nothing and leave out nothing, are channels there; so are those of planes of 8
// or 16 bits, where there are no fewer than channels, which become an axis outside all others; and so are all taps,
// where each image is one patch. What has one position lies as its other tensor does, where both have one channels
// last; what has one channel, in x and in y, lies channels first. A ConvTranspose of a single input has strides by
// which no two taps meet. Where the batch alone is left to run time, the problem is that of one image, and where the
// image's sizes are, that of its largest part (image_parts()), if there are any.
Problem simplify_problem(const Problem &problem);

// The same, with what packing the given problem's weights for it takes.
struct Simplification {
    Problem problem;
    Problem of_weights;  // whose weights are read: `problem`, or where taps became channels or axes were left out, what
                         // has lost taps alone
    Patches patches;     // what became of taps
    std::vector<int> single_axes;     // of of_weights' axes those that have one position, and `problem` has not
    std::vector<int64_t> first_taps;  // how many first taps of each of the given problem's axes were left out
    bool is_of_one_image = false;     // of as many as a run says: all else is known
    bool is_of_part = false;          // of images whose sizes a run says
};
Simplification simplification_of(const Problem &problem);
// The given problem as it is.
Simplification without_simplification(const Problem &problem);

// The problem of one image where the batch alone is left to run time; else the given one.
Problem of_one_open_image(const Problem &problem);

// That, or the problem of an image's largest part.
Problem of_known_sizes(const Problem &problem);

}  // namespace kiln
