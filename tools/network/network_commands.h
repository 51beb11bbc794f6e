// What the commands of kiln are asked of a whole model, and their entry points, as in commands/commands.h.
#pragma once

#include <cstdint>
#include <string>

#include "library/compile_options.h"

namespace kiln::tools {

// kiln compile MODEL --network -o DIR
int compile_network_command(const CompileOptions &options);

// What kiln run, verify and bench of a whole model share.
struct NetworkOptions {
    std::string model;
    std::string inputs;               // .npz; "": random ones, by `seed`
    std::string target, runner, cxx;  // as ProgramOptions'
    std::string decisions;            // as CompileOptions'
    int jobs = 1;
    int threads = 1;  // that a call's work is for
    int64_t seed = 1;
    double time_limit = 60;  // as CompileOptions'
    bool fallbacks = true;   // as CompileOptions'
    SpecOptions spec_options;
};
// kiln run MODEL --network --inputs IN.npz -o DIR
struct NetworkRunOptions : NetworkOptions {
    std::string output;  // folder, made if need be
};
int run_network_command(const NetworkRunOptions &options);
// kiln verify MODEL --network
struct NetworkVerifyOptions : NetworkOptions {
    std::string reference;  // the model that it is compared with; "": the same
    double tolerance = 0;   // of an output's largest value; 0: by the types of the model
    bool json = false;
};
int verify_network_command(const NetworkVerifyOptions &options);
// kiln bench MODEL --network
struct NetworkBenchOptions : NetworkOptions {
    double seconds = 2;        // for timing
    std::string json, report;  // files; "": none
};
int bench_network_command(const NetworkBenchOptions &options);

}  // namespace kiln::tools
