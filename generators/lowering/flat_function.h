// From a lowered Halide pipeline to a function of plain pointers that needs nothing of Halide's runtime.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

// The names of a flat function's arguments, in order; each is a pointer. A tensor argument holds the data of the
// pipeline's buffer of that name, and null is passed where the pipeline has no such buffer.
struct FlatSignature {
    std::vector<std::string> arguments;
    std::string output;        // the one the pipeline writes
    std::string strides = {};  // holds the strides (int64_t, in elements) of the buffer `strided`
    std::string strided = {};
    std::vector<int64_t> origin = {};  // where in that, as `strides` count, the pipeline's (0, 0, ...) lies
    int strided_bytes = 0;             //   and the size of its elements
    std::string workspace = {};        // what large allocations are taken from
    std::string threads = {};          // kiln_threads, or null
    std::string sizes = {};            // holds the pipeline's parameters open_name(i), int32_t each
    // Numbers that depend on open sizes, which Halide would read from a buffer: {"x.stride.1", ...}.
    std::vector<std::pair<std::string, Halide::Expr>> dimensions = {};
    // A pipeline that reads a tensor whether it is null or not, and ignores what it read: {"bias", "packed"} reads
    // packed in place of a null bias.
    std::vector<std::pair<std::string, std::string>> null_substitutes = {};
    // A parameter that tells whether a tensor is there: {"has_bias", "bias"}.
    std::vector<std::pair<std::string, std::string>> presences = {};
    // Funcs of which no update writes an element that another one writes (lowering/joined_loops.h).
    std::set<std::string> disjoint = {};
};

// In bytes, 64-bit; constants unless they depend on open sizes, the variables open_name(i).
struct Scratch {
    Halide::Expr bytes;         // of the workspace, before any worker's share
    Halide::Expr worker_bytes;  // of a worker's share
    Halide::Expr stride;        // from one worker's share to the next one's
};

// Appends the functions of a lowered pipeline to `result`, the first under the name `symbol`. Throws
// Halide::InternalError where an allocation's size is known only inside a loop.
Scratch append_flat(Halide::Module &result, const Halide::Module &lowered, const std::string &symbol,
                    const FlatSignature &signature);

// Appends a kiln_bytes_function for `open` parameters: it refuses (kiln_unsupported) what does not fit the 32 bits that
// kernels count in.
void append_bytes_function(Halide::Module &result, const std::string &symbol, int open,
                           const Halide::Expr &packed_bytes, const Scratch &scratch);

}  // namespace kiln
