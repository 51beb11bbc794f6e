// Machines of a Ray cluster. What they do, and where, is Ray's affair and that of tools/cluster/driver.py, a process
// that is told tasks and tells what became of them, a line of JSON each; kernels' objects never come here.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tune/options.h"
#include "tune/pools/backlog.h"
#include "tune/pools/pool.h"

namespace kiln::tools {

class ClusterPool : public Pool {
  public:
    // Starts the driver, and waits until it has found machines. Throws Error where there is no Ray, no cluster, or none
    // that can time the target.
    ClusterPool(const TuneOptions &options, const TargetModel &target);
    ~ClusterPool() override;
    ClusterPool(const ClusterPool &) = delete;
    ClusterPool &operator=(const ClusterPool &) = delete;

    bool wants_work() const override { return backlog_.wants_work(); }
    void compile(Task task, const Problem &problem, const Decision &decision) override;
    void time(Task task, const Problem &problem, const std::vector<CompiledCandidate> &kernels, const TimingRun &run,
              const std::string &processor) override;
    void release(const CompiledCandidate &candidate) override;
    void wait(Listener &listener) override;
    double now() const override;
    std::vector<std::string> processors() const override;
    nlohmann::ordered_json describe() const override;
    void finish() override;

  private:
    struct Driver {
        pid_t process = -1;
        int input = -1, output = -1;
    };
    void start(const std::vector<std::string> &command);
    void say(const nlohmann::json &line);
    nlohmann::json hear();
    void handle(const nlohmann::json &said, Listener &listener);
    void take_state(const nlohmann::json &said);
    [[noreturn]] void fail_for_good();

    Driver driver_;
    std::string pending_;  // what came of a line whose end did not
    std::map<Task, Decision> compiling_;
    Backlog backlog_;
    nlohmann::ordered_json state_;
    const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace kiln::tools
