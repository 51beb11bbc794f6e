// Convolutions of patches that lie side by side.
#pragma once

#include <cstdint>
#include <vector>

namespace kiln {

// What becomes of patches' taps where a problem is simplified (axes/simplify_problem.h).
struct Patches {
    int64_t taps = 1;        // of the innermost axis, of which t and channel c become channel t * channels + c
    bool of_planes = false;  // or channel t, and tap c of a new outermost axis
    // Where each image is one patch: the taps of its axes, the innermost last. `taps` are all of them, of which t, as
    // they lie in an image, and channel c become channel t * channels + c, of planes c * taps + t.
    std::vector<int64_t> image;
};

}  // namespace kiln
