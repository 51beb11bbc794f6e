// A fleet that is not there: recorded timings in virtual time. Nothing is compiled or run; a task takes as long as its
// record says that it took, on the first of so many compilers or timers that is free. The processor's time that the
// tuner itself takes is real, and so is that of its records on the disk: the fleet goes on meanwhile, and waits for it
// where it is late.
#pragma once

#include <functional>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "tune/pools/backlog.h"
#include "tune/pools/pool.h"
#include "tune/records.h"

namespace kiln::tools {

struct ReplayOptions {
    std::string timings;  // file
    const TargetModel *target;
    int timers = 1, compilers = 1;
    bool cold = false;
    double task_seconds = 0;  // of the cluster's driver, which hands on one task after the other
};

class ReplayPool : public Pool {
  public:
    // Throws Error where the file has no record of the target.
    explicit ReplayPool(const ReplayOptions &options);

    bool wants_work() const override { return backlog_.wants_work(); }
    void compile(Task task, const Problem &problem, const Decision &decision) override;
    void time(Task task, const Problem &problem, const std::vector<CompiledCandidate> &kernels, const TimingRun &run,
              const std::string &processor) override;
    void wait(Listener &listener) override;
    void waited(double seconds) override;
    double now() const override { return now_; }
    std::vector<std::string> processors() const override { return {processor_}; }
    nlohmann::ordered_json describe() const override;

  private:
    using FreeTimes = std::priority_queue<double, std::vector<double>, std::greater<>>;
    struct Event {
        double time;
        size_t number;  // of equal times the first is the first
        std::function<void(Listener &)> tell;
        bool operator>(const Event &other) const { return std::tie(time, number) > std::tie(other.time, other.number); }
    };
    // What is recorded of a candidate, in the search or in the last comparison.
    using Key = std::tuple<std::string, std::string, std::string, bool>;

    const Record &record_of(const std::string &problem, const Decision &decision, bool final);
    double hand_on();
    void at(double time, std::function<void(Listener &)> tell);
    double take(FreeTimes &free, double seconds);
    void add_own_time();

    ReplayOptions options_;
    std::string processor_;
    std::vector<Record> records_;
    std::map<Key, size_t> by_candidate_;
    std::map<std::string, std::vector<size_t>> good_;  // that can stand for a candidate of the algorithm, or of "" any
    FreeTimes timers_, compilers_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    size_t events_made_ = 0;
    Backlog backlog_;
    double now_ = 0, handed_on_ = 0, own_ = 0;  // seconds
    double timing_seconds_ = 0, compiling_seconds_ = 0;
    size_t exact_ = 0, drawn_ = 0;  // look-ups
    double last_ = 0;               // seconds of the processor's
};

}  // namespace kiln::tools
