// The loops that a core is measured with. Each repeats one instruction so that its rate, or its latency, is all that
// holds it up: the same text is run on a machine and put through llvm-mca for a processor that is not here.
#pragma once

#include <string>
#include <vector>

#include "targets/target_model.h"

namespace kiln::tools {

struct CoreLoop {
    std::string figure;  // what its cycles tell: "fma", ...
    int bits = 0;        // of its vectors; 0: it has none
    int count = 0;       // of what its figure is by, in one pass: instructions, or bytes of a stream
    std::vector<std::string> before, lines;  // instructions: once, and of a pass, the loop's own at their end
};

// Of every width of vectors that the target has, the widest last. Throws Error where the architecture has no loops.
std::vector<CoreLoop> core_loops(const TargetModel &target);

// The loops as C++ for tools/calibration_program/main.cpp: functions in assembly, and KILN_LOOPS, which lists them.
std::string loops_header(const std::vector<CoreLoop> &loops, const TargetModel &target);

}  // namespace kiln::tools
