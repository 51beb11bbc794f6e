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
    LibraryRequest library;  // its layers are those of all networks; embed_weights is packed or raw
    NetworkSet set;
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

// The memory of one network.
struct NetworkMemory {
    ArenaPlan arena;                         // its blocks are those of tensors, then the steps' workspaces
    std::vector<int64_t> offsets;            // of tensors in the arena; -1: not there
    std::vector<int64_t> workspace_offsets;  // of steps
    // The same in the arena of NAME_run_kept, and its size.
    std::vector<int64_t> kept, kept_workspace_offsets;
    int64_t kept_bytes = 0;
    int64_t several_bytes = 0;  // with several workers: more than arena.bytes, and
    int64_t worker_bytes = 0;   // for each worker but the first
};

// What one network takes of the library, that it shares with others too.
struct NetworkShare {
    int64_t code_bytes = 0;      // of kernels, for all targets
    int64_t own_code_bytes = 0;  // of such that no other network calls
};

// Networks as they were compiled.
struct NetworkFacts {
    std::vector<OperationKernel> operations;
    std::vector<NetworkMemory> memory;  // of each network
    std::vector<NetworkShare> shares;   // of each network
    int64_t packed_bytes = 0;           // of weights that the program packs
    int64_t constant_bytes = 0;         // of tensors in the library

    // What is enough for all.
    int64_t arena_bytes() const;
    int64_t several_bytes() const;  // behind arena_bytes()
    int64_t worker_bytes() const;
};

struct CompiledNetwork {
    CompiledLibrary library;  // with failures, nothing was written
    NetworkFacts facts;
};

// `progress` advances by one for each layer and each operation, items_of(network) in all.
CompiledNetwork compile_network(const NetworkRequest &request, Progress &progress);
int items_of(const NetworkRequest &request);

}  // namespace kiln::tools
