// Fewer, longer axes where that is the same computation: a 1x1 convolution of an image is one of its rows end to end.
#pragma once

#include "kiln/problem.h"

namespace kiln {

// The same computation on the same memory, with the pointwise axes (kernel 1, stride 1, no padding) at the end made
// one, and with the batch folded in where channels are innermost.
Problem fold_pointwise_axes(const Problem &problem);

}  // namespace kiln
