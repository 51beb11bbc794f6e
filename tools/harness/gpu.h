// Running a plan whose kernel is for a GPU: its memory there, and back.
#pragma once

#include <memory>

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
using PlaceOnGpu = Status (*)(const Plan &plan, const RunArguments &host, std::unique_ptr<GpuRun> *run);
Status place_on_gpu(const Plan &plan, const RunArguments &host, std::unique_ptr<GpuRun> *run);

// Set by main.cpp to place_on_gpu where the library's target is a GPU, so that other programs need nothing of it.
extern PlaceOnGpu gpu_support;

// Runs a plan where its kernel is for; the arguments are in the program's memory.
Status run_plan(const Plan &plan, const RunArguments &arguments);

}  // namespace kiln::harness
