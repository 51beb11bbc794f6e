// A team of threads as kiln_threads, for programs that have none of their own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "kiln/kernel.h"

namespace kiln::harness {

// The calling thread is worker 0. One parallel_for runs at a time, and not from inside a task.
class ThreadTeam {
  public:
    explicit ThreadTeam(int workers);
    ~ThreadTeam();
    ThreadTeam(const ThreadTeam &) = delete;
    ThreadTeam &operator=(const ThreadTeam &) = delete;

    const kiln_threads *hook() const { return &hook_; }

  private:
    static int32_t parallel_for(void *context, kiln_task task, void *closure, int32_t count);
    void help(int32_t worker);
    void work(int32_t worker);
    uint64_t wait_for_job(uint64_t last);

    kiln_threads hook_;
    std::vector<std::thread> helpers_;
    std::mutex mutex_;
    std::condition_variable wake_;
    // The job: written by parallel_for before `job_` counts up, read by helpers after.
    kiln_task task_ = nullptr;
    void *closure_ = nullptr;
    int32_t count_ = 0;
    bool stop_ = false;
    std::atomic<uint64_t> job_{0};
    std::atomic<int32_t> next_{0}, busy_{0}, error_{kiln_ok};
};

}  // namespace kiln::harness
