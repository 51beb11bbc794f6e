#include "harness/threads.h"

namespace kiln::harness {

// Layers follow each other within microseconds: a helper looks for the next job this often before it sleeps.
static constexpr int spins = 20000;

ThreadTeam::ThreadTeam(int workers) : hook_{this, workers, parallel_for} {
    for (int32_t worker = 1; worker < workers; ++worker) helpers_.emplace_back([this, worker] { help(worker); });
}

ThreadTeam::~ThreadTeam() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
        ++job_;
    }
    wake_.notify_all();
    for (std::thread &helper : helpers_) helper.join();
}

int32_t ThreadTeam::parallel_for(void *context, kiln_task task, void *closure, int32_t count) {
    auto *team = static_cast<ThreadTeam *>(context);
    {
        const std::lock_guard<std::mutex> lock(team->mutex_);
        team->task_ = task;
        team->closure_ = closure;
        team->count_ = count;
        team->next_ = 0;
        team->error_ = kiln_ok;
        team->busy_ = static_cast<int32_t>(team->helpers_.size());
        ++team->job_;
    }
    team->wake_.notify_all();
    team->work(0);
    while (team->busy_ != 0) std::this_thread::yield();
    return team->error_;
}

void ThreadTeam::help(int32_t worker) {
    for (uint64_t job = 0;;) {
        job = wait_for_job(job);
        if (stop_) return;
        work(worker);
        --busy_;
    }
}

uint64_t ThreadTeam::wait_for_job(uint64_t last) {
    for (int i = 0; i < spins; ++i)
        if (const uint64_t job = job_; job != last) return job;
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait(lock, [&] { return job_ != last; });
    return job_;
}

void ThreadTeam::work(int32_t worker) {
    for (int32_t index; (index = next_++) < count_;)
        if (const int32_t code = task_(closure_, index, worker); code != kiln_ok) error_ = code;
}

}  // namespace kiln::harness
