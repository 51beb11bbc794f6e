// Convolutions of patches that lie side by side.
#pragma once

#include <cstdint>

namespace kiln {

// What becomes of patches' taps where a problem is simplified (axes/simplify_problem.h).
struct Patches {
    int64_t taps = 1;        // of the innermost axis, of which t and channel c become channel t * channels + c
    bool of_planes = false;  // or channel t, and tap c of a new outermost axis
};

}  // namespace kiln
