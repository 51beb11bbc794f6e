// This machine: a batch is compiled on all its processors, then timed on one; nothing is compiled while something is
// timed.
#pragma once

#include <chrono>
#include <deque>

#include "tune/pools/pool.h"

namespace kiln::tools {

class LocalPool : public Pool {
  public:
    explicit LocalPool(const MeasurementOptions &options) : measurement_(options) {}

    bool wants_work() const override { return compiles_.empty() && timings_.empty(); }
    void compile(Task task, const Problem &problem, const Decision &decision) override;
    void time(Task task, const Problem &problem, const std::vector<CompiledCandidate> &kernels, const TimingRun &run,
              const std::string &processor) override;
    void release(const CompiledCandidate &candidate) override;
    void wait(Listener &listener) override;
    double now() const override;
    std::vector<std::string> processors() const override;
    nlohmann::ordered_json describe() const override;

  private:
    struct Compile {
        Task task;
        const Problem *problem;
        Decision decision;
    };
    struct Time {
        Task task;
        const Problem *problem;
        std::vector<CompiledCandidate> kernels;
        TimingRun run;
    };
    void compile_all(Listener &listener);
    void time_next(Listener &listener);

    Measurement measurement_;
    std::vector<Compile> compiles_;
    std::deque<Time> timings_;
    double compiling_ = 0, timing_ = 0;  // seconds
    int timed_ = 0;
    const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace kiln::tools
