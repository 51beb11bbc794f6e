#include "tune/pools/local_pool.h"

#include <filesystem>
#include <utility>

#include "layers/spec.h"

namespace kiln::tools {

void LocalPool::compile(Task task, const Problem &problem, const Decision &decision) {
    compiles_.push_back({task, &problem, decision});
}

void LocalPool::time(Task task, const Problem &problem, const std::vector<CompiledCandidate> &kernels,
                     const TimingRun &run, const std::string &) {
    timings_.push_back({task, &problem, kernels, run});
}

void LocalPool::release(const CompiledCandidate &candidate) {
    std::error_code ignored;
    for (const std::string &file : {candidate.object, candidate.assembly}) {
        std::filesystem::remove(file, ignored);
    }
}

void LocalPool::compile_all(Listener &listener) {
    const std::vector<Compile> tasks = std::exchange(compiles_, {});
    std::vector<Measurement::Wanted> wanted;
    for (const Compile &task : tasks) {
        wanted.push_back({task.problem, task.decision});
    }
    const double begin = now();
    std::vector<CompiledCandidate> candidates = measurement_.compile(wanted);
    compiling_ += now() - begin;
    for (size_t i = 0; i < tasks.size(); i++) {
        listener.compiled(tasks[i].task, std::move(candidates[i]));
    }
}

void LocalPool::time_next(Listener &listener) {
    const Time task = std::move(timings_.front());
    timings_.pop_front();
    const double begin = now();
    std::string error;
    try {
        measurement_.time(*task.problem, task.kernels, task.run, [&](size_t kernel, const Timing &timing) {
            timed_++;
            listener.timed(task.task, kernel, timing, measurement_.machine());
        });
    } catch (const Untimed &untimed) {
        error = untimed.what();
    }
    timing_ += now() - begin;
    listener.ended(task.task, error);
}

void LocalPool::wait(Listener &listener) {
    if (!compiles_.empty()) {
        compile_all(listener);
    } else if (!timings_.empty()) {
        time_next(listener);
    }
}

double LocalPool::now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

std::vector<std::string> LocalPool::processors() const {
    const std::string &processor = measurement_.machine().processor;
    return processor.empty() ? std::vector<std::string>() : std::vector<std::string>{processor};
}

nlohmann::ordered_json LocalPool::describe() const {
    const Machine &machine = measurement_.machine();
    const double all = std::max(now(), 1e-9);
    return {{"machines",
             {{{"host", machine.host},
               {"machine", machine.processor},
               {"calibration", machine.calibration},
               {"timed", timed_},
               {"busy", timing_ / all}}}},
            {"timers_busy", timing_ / all},
            {"compilers_busy", compiling_ / all},
            {"lost", 0},
            {"retried", 0}};
}

}  // namespace kiln::tools
