// The figures of a core: measured where a target's programs run, or predicted for a processor that is not here.
#pragma once

#include <string>
#include <vector>

#include "calibrate/calibrate_command.h"
#include "targets/target_model.h"

namespace kiln::tools {

struct MeasuredCache {
    int64_t bytes = 0;  // 0: memory
    int cores = 1;      // that share it
    double read = 0, write = 0, latency = 0;
};

// One width of vectors: values of core_figures(), in their order.
struct MeasuredWidth {
    int bits = 0;
    std::vector<double> figures;  // 0: there is no such instruction
};

struct MeasuredCore {
    std::string processor, figures;            // what it is, and where its figures come from
    double load = 0, gigahertz = 0;            // 0: predicted
    std::vector<MeasuredWidth> widths;         // the widest last
    std::vector<MeasuredCache> memory_levels;  // the nearest first, memory last; none: predicted

    // What a target's row says of it, figures but two digits long. `figures` points into this.
    CoreModel row() const;
};

// Builds a program for the target and runs it, for half a minute. Throws Error.
MeasuredCore measure_core(const CalibrateOptions &options, const TargetModel &target);

// By llvm-mca's model of a processor, which has no caches. Throws Error.
MeasuredCore predict_core(const std::string &cpu, const TargetModel &target);

}  // namespace kiln::tools
