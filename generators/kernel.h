// Generating kernels: (problem, algorithm, schedule, target) to an object file. Nothing of Halide shows here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// Which algorithm and schedule a (problem, target) is compiled with.
struct Decision {
    std::string algorithm;
    std::string schedule;
};

// The decision taken where nobody tuned one. Throws std::invalid_argument where Kiln cannot make a kernel for the
// problem, saying which part of it.
Decision default_decision(const Problem &problem, const TargetModel &target);

// The same with one algorithm, or nothing where it does not apply. Throws std::invalid_argument where there is none of
// that name.
std::optional<Decision> default_decision(const Problem &problem, const TargetModel &target,
                                         const std::string &algorithm);

// What is tried where a kernel by `algorithm` does not compile: the last algorithm in the list that applies but for the
// operator's own definition, which does the least to a problem; where it is that, the definition. Nothing where it is
// the definition.
std::optional<Decision> fallback_decision(const Problem &problem, const TargetModel &target,
                                          const std::string &algorithm);

// Throws std::invalid_argument unless the decision's algorithm has this revision, applies to the problem and takes the
// schedule; with a target, unless the algorithm is for that kind of target too.
void check_decision(const Problem &problem, const Decision &decision, int revision,
                    const TargetModel *target = nullptr);

// What is computed in place of arithmetic that the target does not have, or not as fast: "float16 is computed in
// float32"; empty where nothing is.
std::string emulation_note(const Problem &problem, const Decision &decision);

// A decision in today's names: decisions and records of one release before call some algorithms, and numbers of
// schedules, otherwise. `renamed`, where it is not null, is told of each: "algorithm tiles is called amx now".
Decision current_names(const Decision &decision, std::vector<std::string> *renamed = nullptr);

// The revision of an algorithm, for decisions and manifests.
int algorithm_revision(const std::string &algorithm);

// A decision's schedule with all its numbers: a text from before some of them came lacks those. Throws
// std::invalid_argument where it is no schedule of the algorithm's.
std::string complete_schedule(const Decision &decision);

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
    std::vector<GpuLaunch> launches;     // of a GPU's kernel, in order
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

// How many bytes a problem's packed weights have; nothing where that depends on sizes left open.
std::optional<int64_t> packed_weight_bytes(const Problem &problem, const Decision &decision);

}  // namespace kiln
