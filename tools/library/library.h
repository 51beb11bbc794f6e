// Compiling layers into a library: an archive of kernels, a header and a manifest.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "layers/spec.h"
#include "library/contents.h"
#include "system/progress.h"

namespace kiln::tools {

struct LibraryRequest {
    std::string name;  // a C identifier, in front of every symbol
    std::vector<LayerSpec> layers;
    std::vector<std::string> targets;  // of one architecture; a program picks among their kernels when it runs
    std::string folder;                // made if need be
    std::string decisions;             // file; "": the defaults
    int jobs = 1;                      // kernels compiled at once
    double time_limit = 60;            // seconds of the processor's for one kernel
    Embedding embed_weights = Embedding::none;
    std::vector<Spec::Failure> left_out;  // layers that never came so far; the manifest names them too
    // What goes into the library besides, made once its layers are, all of them; it may use the folder for its objects.
    // Throws Error where that cannot be, and then nothing is written.
    std::function<LibraryAddition(const LibraryContents &contents, const std::string &folder)> addition;
    bool fallbacks = true;  // a kernel that does not compile as decided is made by a plainer algorithm
    // Without them, as the harness needs none, the archive has kernels alone, in less time: it calls them through the
    // library's table. Only where nothing is embedded.
    bool layer_functions = true;
    bool cold_caches = false;  // defaults are for calls that find their weights in no cache, as a network's
};

struct CompiledLibrary {
    std::string name, folder;
    std::string archive, header, manifest;  // paths
    LibraryContents contents;               // what the archive and the header hold
    bool on_gpu = false;                    // whether its targets are GPUs: programs then link Kiln's GPU runtime
    std::vector<Spec::Failure> failures;    // layers that are not in the library
    // Decisions that were refused, and kernels that did not compile by the algorithm that was decided.
    std::vector<std::string> warnings;
    std::string slowest_kernel;  // to compile: "up for x86-64-avx2"
    double slowest_seconds = 0;
    std::vector<std::string> weights_left;  // layers whose weights the model computes: there is nothing to embed
    std::vector<std::string> biases_left;   // layers whose weights are embedded, and whose bias nothing tells
    // Of all layers of known filters, as they have them and as their kernels read them, those of the target that needs
    // most; what several layers have together is counted once.
    int64_t weight_bytes = 0, packed_bytes = 0;
    // What is computed in place of arithmetic that a target lacks (kernel.h), and the layers it is so for.
    std::map<std::string, std::vector<std::string>> emulation_notes;
};

// The targets by architecture, so that those of one share a library. Throws Error where there is no such target.
std::map<std::string, std::vector<std::string>> by_architecture(const std::vector<std::string> &targets);

// Writes lib<name>.a, <name>.h and <name>.json; the same request gives the same bytes. `progress` advances by one for
// each layer. Throws Error where nothing can be made: a target or a decisions file that is wrong, a folder that can't
// be written.
CompiledLibrary compile_library(const LibraryRequest &request, Progress &progress);

}  // namespace kiln::tools
