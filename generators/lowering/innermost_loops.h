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

// Of a lowered module's functions. Where a loop's extent is not constant its bound counts.
std::vector<InnermostLoop> innermost_loops(const Halide::Module &module, int vector_bits);

}  // namespace kiln
