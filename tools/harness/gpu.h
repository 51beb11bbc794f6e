// Running a plan whose kernel is for a GPU: its memory there, and back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kiln/plan.h"

namespace kiln::harness {

// A plan with all it takes on a GPU.
class GpuRun {
  public:
    virtual ~GpuRun() = default;
    virtual Status start() = 0;   // queues a run
    virtual Status finish() = 0;  // waits for those that were queued
    virtual Status read() = 0;    // copies y back
};

// Puts what `host` points to, all of it in the program's memory, onto the first GPU of the kernel's interface
// ($KILN_GPU: onto that number). Where a GPU shares the processor's memory tensors stay where they are, so that guard
// pages catch a kernel's stray accesses.
Status place_on_gpu(const Plan &plan, const RunArguments &host, std::unique_ptr<GpuRun> *run);

// The name of the GPU that place_on_gpu takes for an interface.
Status name_gpu(int32_t api, std::string *name);

// The seconds that runs which follow each other take together, by the GPU's own clock, what the processor takes to
// queue them left out: of each of `times` times that all of them run, some before those left out. Empty where that
// clock cannot be asked.
std::vector<double> time_in_a_row(int32_t api, const std::vector<GpuRun *> &runs, int times);

// Set to the functions above by support_gpus() (commands.h), where the library's target is a GPU; null otherwise.
struct GpuSupport {
    decltype(&place_on_gpu) place = nullptr;
    decltype(&name_gpu) name = nullptr;
    decltype(&time_in_a_row) time = nullptr;
};
extern GpuSupport gpu_support;

// Runs a plan where its kernel is for; the arguments are in the program's memory.
Status run_plan(const Plan &plan, const RunArguments &arguments);

}  // namespace kiln::harness
