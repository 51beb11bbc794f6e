// How often a kernel's innermost loops run: with what a loop's pass costs on some processor, a prediction of its time.
#pragma once

#include <Halide.h>

#include <vector>

namespace kiln {

struct InnermostLoop {
    double passes = 0;
    double products = 0;    // multiplications in a pass, in registers of the target
    double operations = 0;  // additions, loads and stores, in the same measure
};

// Of a lowered module's functions. Extents and conditions that depend on one loop around them count by their means over
// it, other extents by their bounds, other conditions as if they held.
std::vector<InnermostLoop> innermost_loops(const Halide::Module &module, int vector_bits);

}  // namespace kiln
