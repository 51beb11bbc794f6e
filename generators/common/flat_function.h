// From a lowered Halide pipeline to a function of plain pointers that needs nothing of Halide's runtime.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

// The names of a flat function's arguments, in order; each is a pointer. A tensor argument holds the data of the
// pipeline's buffer of that name, and null is passed where the pipeline has no such buffer.
struct FlatSignature {
    std::vector<std::string> arguments;
    std::string output;   // the one the pipeline writes
    std::string strides;  // holds the strides (int64_t, in elements) of the buffer `strided`
    std::string strided;
    std::string workspace;  // what large allocations are taken from
    std::string threads;    // kiln_threads, or null
};

struct Scratch {
    int64_t bytes = 0;         // of the workspace, before any worker's share
    int64_t worker_bytes = 0;  // of each worker's share
};

// Appends the functions of a lowered pipeline to `result`, the first under the name `symbol`. Throws
// Halide::InternalError where an allocation's size is not a constant.
Scratch append_flat(Halide::Module &result, const Halide::Module &lowered, const std::string &symbol,
                    const FlatSignature &signature);

}  // namespace kiln
