// What a library holds: kernels, the layers that they compute, and what they take.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel.h"
#include "kiln/kernel.h"
#include "kiln/layer.h"
#include "layer_functions.h"
#include "layers/spec.h"
#include "library/size_goal.h"
#include "nlohmann/json.hpp"

namespace kiln::tools {

// The bytes of memory from a multiple of KILN_ALIGNMENT up to another that hold so many.
inline int64_t aligned(int64_t bytes) {
    return (bytes + KILN_ALIGNMENT - 1) / KILN_ALIGNMENT * KILN_ALIGNMENT;
}

// A kernel of the library, for one target.
struct LibraryKernel {
    std::string symbol;
    Problem problem;
    Decision decision;
    const TargetModel *target;
    KernelFacts facts;
    std::optional<SizeChoice> size = {};  // where size was the goal
};

// A layer and the kernels that compute it, the most demanding target's first.
struct LibraryLayer {
    std::string name;
    LayerSpec::Source source;
    Resolution resolution;
    std::vector<std::shared_ptr<const LibraryKernel>> kernels;
    LayerFunctions functions;
    Embedding embedded = Embedding::none;  // of its weights
    bool bias_embedded = false;

    int64_t weight_bytes() const;            // as the layer has them; open_size where its sizes are open
    int64_t embedded_bytes() const;          // of constants in the library
    int64_t packed_bytes() const;            // the most of any kernel's
    int64_t workspace_bytes() const;         // with one worker
    int64_t worker_workspace_bytes() const;  // more for each further one
};

struct LibraryContents {
    std::string name;
    std::vector<const TargetModel *> targets;
    std::vector<std::shared_ptr<const LibraryKernel>> kernels;
    std::vector<LibraryLayer> layers;
    std::vector<Spec::Failure> left_out;  // layers that are not in it
};

// The library with some of its layers alone, by their places in it, and the kernels that those need.
LibraryContents with_layers(const LibraryContents &library, const std::vector<size_t> &layers);

// What a library holds beside its layers: a network's operations and its function.
struct LibraryAddition {
    std::vector<std::string> objects;  // files
    std::string declarations;          // of the header, in C
    nlohmann::ordered_json manifest;   // keys and values
};

// "for size: 3 kernels, code 14.2 KB in place of 71.0, packed 2610.5 KB in place of 3402.5, up to 3.10 times the
// operations (c1 for x86-64-avx2)"; empty where size was no layer's goal.
std::string size_summary(const LibraryContents &library);

}  // namespace kiln::tools
