// How a filter lies in memory.
#pragma once

#include "kiln/layer.h"

namespace kiln {

// The strides that kiln_pack_function takes, in elements, for a dense filter whose dimensions lie in the order of
// `letters`: O, I and X (all spatial dimensions) once each, the slowest first; "" for the order of kiln_pack_function
// itself. O and I are the output and input channels: of a group where the operator divides them so (Conv divides I,
// ConvTranspose O). invalid_argument: other letters.
Status weight_strides(const Problem &problem, std::string_view letters, int64_t (&strides)[max_rank]);

}  // namespace kiln
