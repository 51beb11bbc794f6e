// The steps of one network: where in its memory each finds what it takes, and how the network's function calls it.
#pragma once

#include <map>
#include <string>

#include "network/network_files.h"
#include "network/network_library.h"
#include "network_function.h"

namespace kiln::tools {

// What generated C calls its functions, made the library's own.
std::string with_own_names(std::string text, const std::string &library);

class NetworkSteps {
  public:
    // All of it has to stay where it is. `facts` need to have operations alone.
    NetworkSteps(const Network &network, const LibraryContents &contents, const NetworkFacts &facts)
        : network_(network), contents_(contents), facts_(facts) {}

    // The kernels that they call, for all targets: those of operations and of layers.
    std::vector<std::string> kernels() const;

    NetworkMemory plan() const;

    // What is the same for all functions of a library.
    struct Places {
        const NetworkArguments &arguments;
        const std::map<std::string, int64_t> &packed_offsets;  // of layers whose weights the program packs
        const std::map<std::string, int> &constants;           // in the module, by their files
    };
    // `kept`: every tensor stays.
    NetworkFunction function(const NetworkMemory &memory, const Places &places, bool kept) const;

  private:
    struct Workspace {
        int64_t bytes = 0, worker_bytes = 0;
    };
    struct Making {
        const NetworkMemory &memory;
        const Places &places;
        bool kept;
    };

    const LibraryLayer &layer_of(const NetworkStep &step) const;
    Workspace workspace_of(const NetworkStep &step) const;
    bool is_in_arena(int tensor) const;
    // Of tensors that lie in the arena, with the steps that need them, by their roots. in_place_of(): the tensor that a
    // step's y is written over, or -1.
    using Tensors = std::map<int, ArenaBlock>;
    Tensors arena_tensors() const;
    int in_place_of(int step, const Tensors &tensors) const;
    int field_of(int tensor) const;
    NetworkPointer place(int tensor, const Making &making) const;
    NetworkPointer workspace(size_t step, const Making &making) const;
    NetworkCall call(size_t index, const Making &making) const;
    std::vector<NetworkPointer> layer_arguments(size_t index, const Making &making) const;

    const Network &network_;
    const LibraryContents &contents_;
    const NetworkFacts &facts_;
};

}  // namespace kiln::tools
