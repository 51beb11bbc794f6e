// What kiln compile is asked, of layers and of whole models.
#pragma once

#include <string>
#include <vector>

#include "layers/spec.h"

namespace kiln::tools {

// kiln compile SPEC -o DIR
struct CompileOptions {
    std::string spec;                  // .toml or .onnx
    std::string output;                // folder, made if need be
    std::vector<std::string> targets;  // as given; empty: the file's, else this machine's
    std::string name;                  // of the library; "": the file's
    std::string decisions;             // file; "": none
    int jobs = 1;                      // kernels compiled at once; at least 1
    Embedding embed_weights = Embedding::none;
    std::vector<std::string> layers;  // only these, by name; empty: all
    std::string save_weights;         // folder for the layers' own weights, for programs that verify; "": none
    bool skip_unsupported = false;    // layers that Kiln cannot take are left out, and that is no failure
    double time_limit = 60;           // seconds of the processor's for one kernel
    bool fallbacks = true;            // a kernel that does not compile as decided is made by a plainer algorithm
    bool explain = false;             // also prints what `kiln explain` does
    std::string cxx;                  // of a network: what compiles C that is generated, as ProgramOptions'
    bool tail_source = false;         // of a network: that C is written beside the library, not compiled into it
    bool traced = false;              // of a network: that it has a function which tells of each step, to time them
    SpecOptions spec_options;         // --shape
};

}  // namespace kiln::tools
