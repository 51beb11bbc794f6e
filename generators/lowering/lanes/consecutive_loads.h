// Loads of consecutive elements that Halide takes for gathers, or for several with steps between their elements, which
// it interleaves. An index such as c % panel, of channels and pairs of products vectorised together, is a ramp of ramps
// whose remainder its simplifier leaves as it is, though the panel is a multiple of the vector.
#pragma once

#include <Halide.h>

namespace kiln {

// The lowered statement, in which each vector whose lanes are provably loaded from one place behind the other is one
// dense load.
Halide::Internal::Stmt load_consecutive_lanes_densely(const Halide::Internal::Stmt &statement);

}  // namespace kiln
