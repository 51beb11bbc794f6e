// Generating kernels: (problem, algorithm, schedule, target) to an object file. Nothing of Halide shows here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decision.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// "21.0.0"
std::string halide_version();

struct KernelRequest {
    Problem problem;
    Decision decision;
    const TargetModel *target;
    std::string symbol;    // of the kernel; <symbol>_pack packs, <symbol>_bytes is there where sizes are open
    bool listing = false;  // whether an assembly file, <object>.s, is wanted too: LLVM then generates all code twice
    // Whether registers are to be had by plainer means, in slower code: LLVM's basic allocator, for the whole process,
    // as its usual one ends LLVM 21 where a vector of ones gets a register that AVX2's encoding does not reach; and of
    // matrix tiles, for which that sets up none, fewer at a time.
    bool plain_registers = false;
};

// What a kernel hands to a GPU: one entry of its device code, for each of its stages.
struct GpuLaunch {
    std::string entry;
    int64_t threads = 0;       // of a block
    int64_t shared_bytes = 0;  // of a block; 0 where it is known at run time only
};

// What is known of a kernel once it is lowered.
struct KernelFacts {
    // Zeros where the problem leaves sizes open: <symbol>_bytes tells them then.
    int64_t packed_bytes = 0;
    int64_t workspace_bytes = 0;         // with one worker
    int64_t worker_workspace_bytes = 0;  // more for each further one
    int64_t stack_bytes = 0;             // of the kernel's own frames
    // Whether y may lie where the residual does: each element of that is read once, for the one of y that it is added
    // to, and each of y is written once.
    bool residual_in_place = false;
    std::vector<GpuLaunch> launches;  // of a GPU's kernel, in order
};

// Writes an object with these functions (kiln/kernel.h gives their signatures). Throws std::runtime_error with
// Halide's message where it refuses, or where the object needs at link time what no kernel may
// (lowering/object_symbols.h). LLVM may abort: call it in a child process.
KernelFacts generate_kernel(const KernelRequest &request, const std::string &object_file);

// A kernel's innermost loops, and how often each runs.
struct LoopCount {
    double passes;
    double products, operations;  // of a pass, in registers: multiplications; additions, loads and stores
};

// Of the request's kernel, whose loops must not be parallel; throws as generate_kernel does.
std::vector<LoopCount> count_loops(const KernelRequest &request);

}  // namespace kiln
