// Timing one kernel's calls.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "harness/gpu.h"
#include "harness/machine/machine.h"
#include "harness/tensors/buffer.h"
#include "harness/tensors/data.h"
#include "kiln/plan.h"

namespace kiln::harness {

double median(std::vector<double> values);

// A problem's kernel with everything a call of it takes.
struct Job {
    Plan plan;
    kiln_run_function run_embedded = nullptr;  // in place of the plan's kernel, where it is not null
    std::array<Buffer, tensor_count> tensors;  // by Tensor; aligned, for a vector across two lines of a cache is slow
    Buffer packed, workspace;
    RunArguments arguments;
    std::unique_ptr<GpuRun> on_gpu;  // null: on the processor
    std::vector<double> times;       // seconds, the best of each round
    double pack_seconds = 0;         // the one time that prepare() packs
    bool cold = false;               // whether the weights are in no cache when a call begins: make_cold()

    // Waits for what run() only queues. Whether it succeeded.
    bool finish() const { return on_gpu == nullptr || on_gpu->finish().ok(); }

    double flops() const { return plan.problem().flops(); }
    double seconds() const { return median(times); }
    double spread() const {
        const auto [low, high] = std::minmax_element(times.begin(), times.end());
        return (*high - *low) / seconds();
    }

    // Whether the call succeeded. Arguments were checked by prepare's first call.
    bool run() const {
        if (on_gpu != nullptr) return on_gpu->start().ok();
        if (plan.kernel().bytes_for != nullptr) return plan.run(arguments).ok();  // the plan knows the open sizes
        const kiln_run_function function = run_embedded != nullptr ? run_embedded : plan.kernel().run;
        return run_kernel(function, arguments, nullptr) == kiln_ok;
    }
};

// Makes a job of random tensors, packs the weights and runs it once.
Status prepare(const Plan &plan, uint64_t seed, const kiln_threads *threads, Job *job);

// From now on, each call that is timed finds its packed weights in memory, as in a model of many layers. unsupported:
// nothing here takes them out of this processor's caches, or they are part of the library.
Status make_cold(Job *job);

// The seconds that something short takes, warm: the median of what several rounds of many calls found.
template <typename F>
double time_repeatedly(const F &call) {
    constexpr int rounds = 9, calls = 100;
    std::vector<double> seconds;
    for (int round = 0; round <= rounds; ++round) {
        const double begin = now();
        for (int i = 0; i < calls; ++i) call();
        if (round > 0) seconds.push_back((now() - begin) / calls);  // the first warms up
    }
    return median(seconds);
}

// The seconds that a plan's run takes beyond the function it calls: arguments are checked on the way.
double time_checks(const Job &job);

// The seconds of one call: the best found in `budget` seconds, and in three samples at the least; of a budget of 0
// those of a single call, which an emulator is given that counts rather than times. On a GPU, of calls that are queued
// one after the other, tensors being there before and after: with CUDA the median of many by the GPU's own clock,
// whatever the budget. NaN where calls fail.
double time_calls(const Job &job, double budget);

// Keeps a single-threaded measurement on the processor it runs on; where that is refused, it may move.
void pin_to_this_cpu();

// Keeps the calling thread on one of the processors it may run on, a different one for each number below how many there
// are.
void pin_to_cpu(int32_t number);

}  // namespace kiln::harness
