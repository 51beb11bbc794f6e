#include "harness/machine/threads.h"

namespace kiln::harness {

namespace {

// Layers follow each other within microseconds: a helper looks for the next job this often before it sleeps, and the
// calling thread for the end of a job before it lets others run.
constexpr int spins = 20000;

}  // namespace

void ThreadTeam::Share::set(int32_t begin, int32_t end) {
    range = static_cast<uint64_t>(begin) << 32 | static_cast<uint32_t>(end);
}

bool ThreadTeam::Share::take(bool first, int32_t *index) {
    uint64_t now = range;
    for (;;) {
        const auto begin = static_cast<int32_t>(now >> 32), end = static_cast<int32_t>(now);
        if (begin >= end) return false;
        *index = first ? begin : end - 1;
        if (range.compare_exchange_weak(now, first ? now + (uint64_t{1} << 32) : now - 1)) return true;
    }
}

ThreadTeam::ThreadTeam(int workers) : hook_{this, workers, parallel_for}, shares_(new Share[workers]) {
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
        const auto share = [&](int64_t worker) { return static_cast<int32_t>(worker * count / team->hook_.workers); };
        for (int32_t worker = 0; worker < team->hook_.workers; ++worker)
            team->shares_[worker].set(share(worker), share(worker + 1));
        team->error_ = kiln_ok;
        team->busy_ = static_cast<int32_t>(team->helpers_.size());
        ++team->job_;
    }
    team->wake_.notify_all();
    team->work(0);
    for (int i = 0; team->busy_ != 0; ++i)
        if (i >= spins) std::this_thread::yield();
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
    const int32_t workers = hook_.workers;
    int32_t index = 0;
    for (int32_t i = 0; i < workers; ++i) {  // its own share, then the others'
        Share &share = shares_[(worker + i) % workers];
        while (share.take(i == 0, &index))
            if (const int32_t code = task_(closure_, index, worker); code != kiln_ok) error_ = code;
    }
}

}  // namespace kiln::harness
