// What verify and bench share: from a SPEC to a program that holds its kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layers/sizes.h"
#include "layers/spec.h"
#include "programs/programs.h"

namespace kiln::tools {

// What both are asked: a library is made of SPEC for one target and a small program is run against it.
struct MeasureOptions : ProgramOptions {
    std::string spec;
    std::vector<std::string> layers;  // only these, by name; empty: all
    int64_t seed = 1;                 // of random tensors, and of what a layer leaves open
    int draws = 3;                    // problems that a layer with open sizes is checked or timed with
    TimedShapes sizes;                // that open sizes are checked or timed at, besides those that layers say
    SpecOptions spec_options;
};

struct MeasuredLibrary {
    std::optional<Program> program;       // none where no layer could be compiled
    std::vector<Spec::Failure> failures;  // layers that are not in it
    std::vector<std::string> sizes;       // LAYER=PROBLEM, that what layers leave open is checked or timed at
    std::string weights_folder;           // what the program's --weights-dir names; "" where no layer has its own
};

// What the programs take for weights: random numbers, or the layers' own where they have any.
enum class Weights { random, own };

// Reads the SPEC, compiles the wanted layers for the target into `folder`, and builds the harness. What went wrong with
// a layer is said on stderr too. Throws Error where nothing can be done.
MeasuredLibrary build_measured(const MeasureOptions &options, const std::string &folder, Weights weights);

// The start of the program's command line: what to do, and the options that both take.
std::vector<std::string> measure_arguments(const std::string &verb, const MeasureOptions &options,
                                           const MeasuredLibrary &library);

}  // namespace kiln::tools
