// Compiling a network: its layers and operations, the plan of its memory, and the function that runs it.
#pragma once

#include <string>
#include <vector>

#include "library/library.h"
#include "network/arena.h"
#include "network/network.h"

namespace kiln::tools {

// What Kiln's own programs need besides a network's function.
enum class NetworkExtra {
    none,
    kept,    // NAME_run_kept: every tensor stays in an arena of its own plan, to be looked at
    traced,  // NAME_run_traced: asks the program how often it is to run each step, and tells it of each
};

struct NetworkRequest {
    LibraryRequest library;  // its layers are the network's; embed_weights is packed or raw
    Network network;
    NetworkExtra extra = NetworkExtra::none;
    std::vector<std::string> cxx;  // the compiler's command for C that is generated
    bool tail_source = false;      // that C is written to <name>_tail.c beside the library, and not compiled
};

// An operation's kernel, for one target.
struct OperationKernel {
    std::string symbol, text;
    const TargetModel *target;
    int64_t workspace_bytes = 0, worker_workspace_bytes = 0, stack_bytes = 0;
};

// A network as it was compiled.
struct NetworkFacts {
    std::vector<OperationKernel> operations;
    ArenaPlan arena;               // its blocks are the tensors, then the steps' workspaces
    std::vector<int64_t> offsets;  // of tensors in the arena; -1: not there
    std::vector<int64_t> kept;     // the same in the arena of NAME_run_kept, and
    int64_t kept_bytes = 0;        // its size
    int64_t several_bytes = 0;     // with several workers: more than arena.bytes, and
    int64_t worker_bytes = 0;      // for each worker but the first
    int64_t packed_bytes = 0;      // of weights that the program packs
    int64_t constant_bytes = 0;    // of tensors in the library
};

struct CompiledNetwork {
    CompiledLibrary library;  // with failures, nothing was written
    NetworkFacts facts;
};

// `progress` advances by one for each layer and each operation, items_of(network) in all.
CompiledNetwork compile_network(const NetworkRequest &request, Progress &progress);
int items_of(const NetworkRequest &request);

}  // namespace kiln::tools
