// The dimensions of an output, and of one whose axes have phases.
#pragma once

#include <Halide.h>

#include <string>
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

// y's dimensions: channel, position on each axis, image.
struct OutputVars {
    Halide::Var c{"c"}, n{"n"};
    std::vector<Halide::Var> position;

    explicit OutputVars(size_t rank) {
        for (size_t a = 0; a < rank; a++) {
            position.emplace_back("x" + std::to_string(a));
        }
    }
    std::vector<Halide::Var> all() const {
        std::vector<Halide::Var> at = {c};
        at.insert(at.end(), position.begin(), position.end());
        at.push_back(n);
        return at;
    }
};

}  // namespace kiln
