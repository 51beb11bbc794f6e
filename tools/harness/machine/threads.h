// A team of threads as kiln_threads, for programs that have none of their own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kiln/kernel.h"

namespace kiln::harness {

// The calling thread is worker 0. One parallel_for runs at a time, and not from inside a task. Each worker begins with
// a run of neighbouring indices of its own, the same ones in every call, so that it finds in its caches what it had
// there last time; when these are done it takes others' last ones.
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

    // A worker's indices that nobody has taken, on a line of their own: workers would slow each other down on one.
    struct alignas(64) Share {
        std::atomic<uint64_t> range{0};  // begin, and behind it, in the lower half, end

        void set(int32_t begin, int32_t end);
        // Takes the first or the last index. Returns false where none is left.
        bool take(bool first, int32_t *index);
    };

    kiln_threads hook_;
    std::vector<std::thread> helpers_;
    std::mutex mutex_;
    std::condition_variable wake_;
    // The job: written by parallel_for before `job_` counts up, read by helpers after.
    kiln_task task_ = nullptr;
    void *closure_ = nullptr;
    std::unique_ptr<Share[]> shares_;
    bool stop_ = false;
    std::atomic<uint64_t> job_{0};
    std::atomic<int32_t> busy_{0}, error_{kiln_ok};
};

// Calls f(worker) once in each of the threads, all at the same time. They must be as many as the hook says.
template <typename F>
void on_every_worker(const kiln_threads &threads, const F &f) {
    struct Closure {
        const F &f;
        int32_t workers;
        std::atomic<int32_t> arrived{0};
    } closure{f, threads.workers, {0}};
    const auto task = [](void *data, int32_t, int32_t worker) -> int32_t {
        auto &c = *static_cast<Closure *>(data);
        // None begins before all are here: then each runs on a thread of its own.
        for (++c.arrived; c.arrived < c.workers;) std::this_thread::yield();
        c.f(worker);
        return kiln_ok;
    };
    threads.parallel_for(threads.context, task, &closure, threads.workers);
}

}  // namespace kiln::harness
