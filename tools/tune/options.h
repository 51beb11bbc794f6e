// What kiln tune is asked.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "layers/sizes.h"
#include "layers/spec.h"
#include "targets/target_model.h"

namespace kiln::tools {

// kiln tune SPEC
struct TuneOptions {
    struct Budget {
        double seconds = 0;  // or, where that is 0,
        int candidates = 0;
        bool per_layer = false;  // else for all together
    };
    std::string spec;
    std::string target, runner, cxx;  // as ProgramOptions'
    std::vector<std::string> layers;  // only these, by name; empty: all
    Budget budget;
    std::string decisions = "decisions.jsonl", timings = "timings.jsonl";  // files
    std::string predict;       // a processor, for llvm-mca; "": candidates are timed
    std::string report;        // file; "": none
    TimedShapes sizes;         // that open sizes are timed at, besides those that layers say themselves
    std::string cluster;       // the address of a Ray cluster; "": this machine alone
    std::string boards;        // a file that names boards of the cluster; "": none
    double cluster_wait = 60;  // seconds that it waits for machines where none is left
    std::string replay;        // a timings file, whose times stand for those of a fleet; "": candidates are timed
    int fleet_timers = 1, fleet_compilers = 1;  // of that fleet
    double fleet_task_seconds = 0;              // that its driver takes to hand on one task
    int shard = 1, shards = 1;                  // only each shards-th problem, from the shard-th on
    bool cold = false;                          // as BenchOptions'
    bool resume = false;                        // takes over what the timings file has of this machine
    bool json = false;
    int jobs = 1;            // candidates compiled at once
    double time_limit = 60;  // seconds of the processor's for compiling one, and for its program to say something
    int64_t seed = 1;
    SpecOptions spec_options;
};

// The target that is asked for. Throws Error where options contradict each other or the target, or where this machine
// cannot time it.
const TargetModel &checked_target(const TuneOptions &options);

}  // namespace kiln::tools
