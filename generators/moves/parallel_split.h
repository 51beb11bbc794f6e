// Work for the caller's threads.
#pragma once

#include <Halide.h>

#include <vector>

namespace kiln {

struct SharedLoop {
    Halide::VarOrRVar var;
    int extent;
};

// Makes the outermost loops of a stage, the outermost first, pieces that the caller's threads share: several loops one
// where the outermost have too few iterations to be even for 2, 4 and 8 threads, or runs of neighbouring iterations
// where handing out each would cost too much. Updates must allow it (allow_race_conditions).
void share_loops(Halide::Stage stage, const std::vector<SharedLoop> &loops);

}  // namespace kiln
