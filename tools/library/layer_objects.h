// The functions of layers that a program calls, and the objects that hold them and the weights that are embedded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "library/library.h"

namespace kiln::tools {

// What functions a layer has, for its kernels and what of it is embedded; without the bytes of those constants.
LayerFunctions layer_functions(const std::string &library, const LayerSpec &spec, const LibraryLayer &layer);

// A layer whose functions are to be compiled, and what came of it.
struct LayerObject {
    const LayerSpec *spec;
    const LibraryLayer *layer;
    std::string file = {};                    // the object's; of layers that share an object the first has it
    std::optional<std::string> failure = {};  // why there is none
};

// Compiles them into `folder`, in child processes. Returns how many bytes of packed weights are embedded, of the target
// that needs most.
int64_t compile_layer_objects(const LibraryRequest &request, const std::string &folder,
                              std::vector<LayerObject> &layers);

}  // namespace kiln::tools
