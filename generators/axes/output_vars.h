// The dimensions of an output whose axes have phases.
#pragma once

#include <Halide.h>

#include <vector>

#include "axes/axis_map.h"

namespace kiln {

// Of each axis its position and, where there are several, its phase.
inline std::vector<Halide::Var> positions_and_phases(const std::vector<AxisMap> &axes,
                                                     const std::vector<Halide::Var> &position,
                                                     const std::vector<Halide::Var> &phase) {
    std::vector<Halide::Var> at;
    for (size_t a = 0; a < axes.size(); a++) {
        at.push_back(position[a]);
        if (axes[a].phases > 1) {
            at.push_back(phase[a]);
        }
    }
    return at;
}

}  // namespace kiln
