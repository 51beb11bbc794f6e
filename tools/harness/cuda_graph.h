// Calls of CUDA kernels timed by the GPU itself: captured into a graph, between two events.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kiln/plan.h"

struct kiln_gpu;

namespace kiln::harness {

// A CUDA graph of some calls, which costs the processor one launch: what is between its two events is the GPU's work.
class CudaGraph {
  public:
    virtual ~CudaGraph() = default;
    // Launches it so many times in a row, and tells the seconds of each; none where a launch failed. All are queued
    // before the first is waited for, so that no time has the processor's in it.
    virtual std::vector<double> seconds(int launches) = 0;
};

// A stream of this program's own in a device's primary context.
class CudaStream {
  public:
    virtual ~CudaStream() = default;
    // The context and the stream for kiln_gpu_wrap_cuda().
    virtual void *context() const = 0;
    virtual void *stream() const = 0;
    // What `queue` queues in the stream. Null where the driver refuses.
    virtual std::unique_ptr<CudaGraph> capture(const std::function<bool()> &queue) = 0;
};

// Null where there is no such device, or no driver that captures: kiln_gpu_open() then tells what is wrong.
std::unique_ptr<CudaStream> open_cuda_stream(int32_t index);

}  // namespace kiln::harness
