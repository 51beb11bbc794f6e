#include "tune/pools/replay_pool.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "layers/spec.h"

namespace kiln::tools {
namespace {

uint64_t hash_text(const std::string &text) {
    uint64_t digest = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : text) {
        digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    return digest ^ digest >> 32;
}

// That this process has used. A clock on the wall would count what else the machine is busy with.
double processor_seconds() {
    timespec used = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// Of a problem with open sizes, times at other sizes are another's.
std::string key_of(const std::string &problem, const std::vector<std::string> &sizes) {
    return fmt::format("{} {}", problem, fmt::join(sizes, " "));
}

// Rounds whose median, spread, ratio and standard error are those of the record.
Timing rounds_of(const Record &record, bool is_default, const TimingRun &run) {
    Timing timing = {record.verdict, {}, {}};
    if (!record.ok()) {
        return timing;
    }
    for (size_t i = 0; i < run.sizes.size(); i++) {
        // Of a record that stands for another problem's nothing is known at its sizes.
        const bool own = record.size_texts() == run.sizes;
        timing.sizes.push_back(
            {(own ? record.sizes[i].ms : record.ms) * 1e-3, own ? record.sizes[i].ratio : record.ratio});
    }
    const int rounds = record.rounds > 0 ? record.rounds : run.rounds;
    timing.seconds.assign(rounds, record.ms * 1e-3);
    if (rounds > 1) {
        timing.seconds.front() *= 1 - record.spread / 2;
        timing.seconds.back() *= 1 + record.spread / 2;
    }
    if (is_default) {
        return timing;
    }
    // The median of distances to the median is this one, and what the tuner makes a standard error of.
    const double distance = record.noise * std::sqrt(rounds) / (1.2533 * 1.4826);
    timing.beside.resize(run.references);
    for (int round = 0; round < rounds; round++) {
        const int side = rounds % 2 != 0 && round == rounds / 2 ? 0 : round < rounds / 2 ? -1 : 1;
        for (std::vector<double> &beside : timing.beside) {
            beside.push_back(timing.seconds[round] / (record.ratio + side * distance));
        }
    }
    return timing;
}

}  // namespace

ReplayPool::ReplayPool(const ReplayOptions &options) : options_(options), last_(processor_seconds()) {
    for (const Record &record : read_records(options.timings).records) {
        if (record.target != options.target->name || record.cold != options.cold) {
            continue;
        }
        const size_t index = records_.size();
        records_.push_back(record);
        processor_ = record.machine + "; replayed";
        // How long it took to compile does not depend on the sizes.
        for (const std::string &problem : {key_of(record.problem, {}), key_of(record.problem, record.size_texts())}) {
            by_candidate_[{problem, record.decision.algorithm, record.decision.schedule, record.final}] = index;
        }
        if (record.ok() && !record.final) {
            good_[record.decision.algorithm].push_back(index);
            good_[""].push_back(index);
        }
    }
    if (good_.empty()) {
        throw Error(fmt::format("--replay {}: there is no timing for {}{} in it", options.timings, options.target->name,
                                options.cold ? ", cold" : ""));
    }
    backlog_.set_machines(options.timers, options.compilers);
    for (int i = 0; i < options.timers; i++) {
        timers_.push(0);
    }
    for (int i = 0; i < options.compilers; i++) {
        compilers_.push(0);
    }
}

// The candidate's own record; else one that is drawn for it, the same each time, of its algorithm where that has any.
const Record &ReplayPool::record_of(const std::string &problem, const Decision &decision, bool final) {
    for (const bool as_final : {final, !final}) {
        const auto found = by_candidate_.find({problem, decision.algorithm, decision.schedule, as_final});
        if (found != by_candidate_.end()) {
            exact_++;
            return records_[found->second];
        }
    }
    drawn_++;
    const auto of_algorithm = good_.find(decision.algorithm);
    const std::vector<size_t> &from = of_algorithm == good_.end() ? good_.at("") : of_algorithm->second;
    return records_[from[hash_text(problem + decision.algorithm + decision.schedule) % from.size()]];
}

// When a task reaches its machine: a cluster's driver hands on one after the other.
double ReplayPool::hand_on() {
    handed_on_ = std::max(handed_on_, now_) + options_.task_seconds;
    return handed_on_;
}

void ReplayPool::at(double time, std::function<void(Listener &)> tell) {
    events_.push({time, events_made_++, std::move(tell)});
}

// The first machine that is free, for so long; when it is done.
double ReplayPool::take(FreeTimes &free, double seconds) {
    const double begin = std::max(free.top(), hand_on());
    free.pop();
    free.push(begin + seconds);
    return begin + seconds;
}

void ReplayPool::compile(Task task, const Problem &problem, const Decision &decision) {
    const Record &record = record_of(key_of(std::string(print(problem)), {}), decision, false);
    CompiledCandidate candidate;
    candidate.decision = decision;
    candidate.seconds = record.compile_seconds;
    const bool compiled = record.ok() || record.timing_seconds > 0;
    if (!compiled) {
        candidate.error = record.verdict.substr(std::min(record.verdict.size(), std::string("failed: ").size()));
    }
    backlog_.compile(1);
    compiling_seconds_ += candidate.seconds;
    at(take(compilers_, candidate.seconds), [this, task, candidate](Listener &listener) {
        backlog_.compile(-1);
        listener.compiled(task, candidate);
    });
}

void ReplayPool::time(Task task, const Problem &problem, const std::vector<CompiledCandidate> &kernels,
                      const TimingRun &run, const std::string &) {
    const std::string text = key_of(std::string(print(problem)), run.sizes);
    const bool final = run.thorough;
    std::vector<std::pair<size_t, const Record *>> parts;
    double seconds = 0;
    for (size_t k = run.from; k < kernels.size(); k++) {
        parts.emplace_back(k, &record_of(text, kernels[k].decision, final));
        seconds += parts.back().second->timing_seconds;
    }
    backlog_.time(1);
    timing_seconds_ += seconds;
    double time = take(timers_, seconds) - seconds;
    for (const auto &[k, record] : parts) {
        time += record->timing_seconds;
        Timing timing = rounds_of(*record, k == 0, run);
        timing.took = record->timing_seconds;
        const Machine machine = {processor_, record->host, record->calibration, record->load};
        at(time, [task, k = k, timing, machine](Listener &listener) { listener.timed(task, k, timing, machine); });
    }
    at(time, [this, task](Listener &listener) {
        backlog_.time(-1);
        listener.ended(task, "");
    });
}

void ReplayPool::waited(double seconds) {
    own_ += seconds;
    now_ += seconds;
}

// The clock goes on while the tuner itself is at work.
void ReplayPool::add_own_time() {
    const double used = processor_seconds();
    waited(used - last_);
    last_ = used;
}

void ReplayPool::wait(Listener &listener) {
    add_own_time();
    if (events_.empty()) {
        return;
    }
    now_ = std::max(now_, events_.top().time);
    // All that has come by now, so that records are brought to the disk together where the tuner is late.
    while (!events_.empty() && events_.top().time <= now_) {
        const auto tell = events_.top().tell;
        events_.pop();
        tell(listener);
    }
}

nlohmann::ordered_json ReplayPool::describe() const {
    const double all = std::max(now_, 1e-9);
    return {{"replayed", options_.timings},
            {"timers", options_.timers},
            {"compilers", options_.compilers},
            {"timers_busy", timing_seconds_ / all / options_.timers},
            {"compilers_busy", compiling_seconds_ / all / options_.compilers},
            {"own_seconds", own_},
            {"recorded", exact_},
            {"drawn", drawn_},
            {"lost", 0},
            {"retried", 0}};
}

}  // namespace kiln::tools
