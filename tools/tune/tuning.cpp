#include "tune/tuning.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "layers/spec.h"
#include "programs/measure.h"
#include "system/messages.h"
#include "tune/pools/cluster_pool.h"
#include "tune/pools/local_pool.h"
#include "tune/pools/replay_pool.h"
#include "tune/statistics.h"

namespace kiln::tools {
namespace {

constexpr int batch_size = 6;

// A search takes several batches, one after the other, but to settle takes one, which needs no compiler: as many
// problems as there were batches under way, times this, are kept for the end, where they fill the machines that would
// wait for the last searches. The most that were ever under way, since fewer are where many are settled: more would be
// settled then.
constexpr int kept_for_the_end = 2;

}  // namespace

Tuning::Tuning(const TuneOptions &options) : options_(options), target_(checked_target(options)) {
    if (options_.predict.empty()) {
        writer_ = std::make_unique<RecordWriter>(options_.timings);
    } else {
        predictor_.emplace(options_.predict, target_);
    }
    if (!options_.replay.empty()) {
        pool_ = std::make_unique<ReplayPool>(ReplayOptions{options_.replay, &target_, options_.fleet_timers,
                                                           options_.fleet_compilers, options_.cold,
                                                           options_.fleet_task_seconds});
        return;
    }
    if (!options_.cluster.empty()) {
        pool_ = std::make_unique<ClusterPool>(options_, target_);
        return;
    }
    const Toolchain toolchain =
        options_.predict.empty() ? find_toolchain(options_.cxx, options_.runner, target_) : Toolchain();
    pool_ = std::make_unique<LocalPool>(MeasurementOptions{&target_, toolchain, options_.jobs, options_.time_limit,
                                                           options_.seed, folder_.path(), !options_.predict.empty(),
                                                           options_.cold});
}

std::string by_host(const TunedProblem &problem) {
    return problem.host.empty() ? "" : ", by " + problem.host;
}

std::string Tuning::machine() const {
    return predictor_ ? predictor_->name() : fmt::format("{}", fmt::join(pool_->processors(), " | "));
}

double Tuning::spent() const {
    return options_.budget.seconds > 0 ? elapsed() : tried_;
}

// The seconds that the last comparisons will take.
double Tuning::reserve() const {
    if (predictor_) {
        return 0;
    }
    double total = 0, batches = 0;
    for (const TunedProblem &problem : problems_) {
        total += problem.seconds;
        batches += problem.batches;
    }
    const double batch = batches > 0 ? total / batches : 1;
    // A batch compiles as well, so that its comparison takes about half of it.
    const double all = 0.5 * batch * static_cast<double>(problems_.size()) / std::max(1, under_way_);
    return std::min(all, 0.35 * options_.budget.seconds);
}

// A problem that has a budget of its own has its turn, whatever the others took.
bool Tuning::may_go_on() const {
    const TuneOptions::Budget &budget = options_.budget;
    if (candidates_by_layer() || (budget.per_layer && somebody_waits())) {
        return true;
    }
    const double times = budget.per_layer ? problems_.size() : 1;
    return budget.seconds > 0 ? elapsed() + reserve() < budget.seconds * times : tried_ < budget.candidates;
}

// Whether nothing was begun yet of some problem.
bool Tuning::somebody_waits() const {
    return std::any_of(problems_.begin(), problems_.end(), [this](const TunedProblem &problem) {
        return problem.batches == 0 && !problem.batch && may_search(problem);
    });
}

// Whether each layer has its own candidates, so that it does not matter whose turn it is.
bool Tuning::candidates_by_layer() const {
    return options_.budget.per_layer && options_.budget.seconds == 0;
}

bool Tuning::may_search(const TunedProblem &problem) const {
    const TuneOptions::Budget &budget = options_.budget;
    const double used = budget.seconds > 0 ? problem.seconds : problem.tried();
    const double own = budget.seconds > 0 ? budget.seconds : budget.candidates;
    return !problem.exhausted && problem.error.empty() && !problem.settled && !(budget.per_layer && used >= own);
}

// Whether it could be begun, or was before.
bool Tuning::begin_search(TunedProblem &problem) try {
    if (!problem.search) {
        problem.search.emplace(problem.asked, target_, static_cast<uint64_t>(options_.seed));
    }
    return true;
} catch (const std::invalid_argument &error) {
    problem.error = error.what();
    return false;
}

// The one whose next batch should gain most: by what it weighs, what the last batches gained, and how few there were.
TunedProblem *Tuning::most_promising() {
    TunedProblem *best = nullptr;
    double most = 0;
    for (size_t i = settled_; i < problems_.size(); i++) {
        TunedProblem &problem = problems_[i];
        if (problem.batch || !may_search(problem)) {
            continue;
        }
        if (problem.batches == 0 || candidates_by_layer()) {
            return &problem;  // nothing is known of it, or nobody else may have what it is due
        }
        // Roots, so that short layers are not left out altogether.
        const double weight = std::sqrt(problem.layers.size() * problem.default_ms);
        const double cost = problem.seconds / problem.batches;
        const double promise = 0.5 * problem.gain + 0.1 / (1 + problem.batches);
        const double value = predictor_ ? weight * promise : weight * promise / std::sqrt(cost);
        if (best == nullptr || value > most) {
            best = &problem;
            most = value;
        }
    }
    return best;
}

size_t Tuning::index_of(const TunedProblem &problem, const Decision &decision) const {
    for (size_t i = 0; i < problem.compiled.size(); i++) {
        if (problem.compiled[i].decision == decision) {
            return i;
        }
    }
    return problem.compiled.size();
}

void Tuning::record(TunedProblem &problem, const CompiledCandidate &candidate, const Timing &timing, double ratio,
                    const Machine &machine) {
    Record record;
    record.problem = problem.text;
    record.target = target_.name;
    record.decision = candidate.decision;
    record.revision = algorithm_revision(candidate.decision.algorithm);
    record.verdict = timing.verdict;
    if (record.ok()) {
        record.ms = median(timing.seconds) * 1e3;
        record.spread = spread_of(timing.seconds);
        record.ratio = ratio;
        record.noise = timing.beside.empty() ? 0 : error_of_median(ratios(timing, 0));
        record.rounds = static_cast<int>(timing.seconds.size());
    }
    for (size_t i = 0; i < problem.sizes.size(); i++) {
        Record::Size &size = record.sizes.emplace_back(Record::Size{problem.sizes[i]});
        if (i < timing.sizes.size()) {
            size.ms = timing.sizes[i].seconds * 1e3;
            size.ratio = timing.sizes[i].ratio;
        }
    }
    record.compile_seconds = candidate.seconds;
    record.timing_seconds = timing.took;
    record.cold = options_.cold;
    record.final = problem.batch && problem.batch->kind == Batch::Kind::final;
    const std::vector<std::string> processors = pool_->processors();
    record.machine = machine.processor.empty() ? problem.processor : machine.processor;
    if (record.machine.empty() && processors.size() == 1) {
        record.machine = processors[0];  // of a candidate that did not compile
    }
    record.host = machine.host;
    record.calibration = machine.calibration;
    record.load = machine.load;
    record.halide = halide_version();
    record.kiln = KILN_VERSION;
    record.seed = options_.seed;
    if (writer_) {
        writer_->append(record);
    }
    problem.records.push_back(record);
    problem.when.push_back(elapsed());
    if (!record.final) {
        problem.search->learn(record.decision, record.ok() ? ratio : -1);
    }
}

// Ratios of the predicted cycles.
void Tuning::predict(TunedProblem &problem, const std::vector<size_t> &indices) {
    for (const size_t i : indices) {
        const CompiledCandidate &candidate = problem.compiled[i];
        Timing timing = {"ok", {}, {}};
        try {
            const double cycles = predictor_->cycles(candidate);
            if (i == 0) {
                problem.default_ms = cycles;
            }
            timing.seconds = {cycles * 1e-3};
        } catch (const Error &error) {
            timing.verdict = std::string("failed: ") + error.what();
            if (i == 0) {
                problem.error = timing.verdict;
                return;
            }
        }
        record(problem, candidate, timing, timing.seconds.empty() ? -1 : timing.seconds[0] * 1e3 / problem.default_ms,
               {});
    }
}

// Times kernels of a batch, all of them told to timed() and ended().
void Tuning::time(TunedProblem &problem, TimingRun run) {
    run.sizes = problem.sizes;
    tasks_[next_task_] = {&problem, 0};
    pool_->time(next_task_++, problem.asked, problem.batch->kernels, run, problem.processor);
}

// Times what was compiled, beside the default and the best so far.
void Tuning::measure(TunedProblem &problem, const std::vector<size_t> &indices) {
    std::vector<size_t> order = {0};
    TimingRun run;
    if (problem.default_ms != 0) {
        const size_t incumbent = index_of(problem, problem.search->best(1)[0].decision);
        if (incumbent != 0 && incumbent < problem.compiled.size()) {
            order.push_back(incumbent);
        }
        run.references = run.from = static_cast<int>(order.size());
    }
    for (const size_t i : indices) {
        if (i != 0) {
            order.push_back(i);
        }
    }
    for (const size_t i : order) {
        problem.batch->kernels.push_back(problem.compiled[i]);
    }
    time(problem, run);
}

void Tuning::compile(TunedProblem &problem, const std::vector<Decision> &decisions, Batch::Kind kind, int proposed) {
    Batch &batch = problem.batch.emplace();
    batch.kind = kind;
    batch.proposed = proposed;
    batch.begin = elapsed();
    batch.best_before = problem.search->best_ratio();
    batch.candidates.resize(decisions.size());
    batch.compiling = decisions.size();
    most_under_way_ = std::max(most_under_way_, ++under_way_);
    searching_ += kind == Batch::Kind::search;
    for (size_t i = 0; i < decisions.size(); i++) {
        tasks_[next_task_] = {&problem, i};
        pool_->compile(next_task_++, problem.asked, decisions[i]);
    }
    if (decisions.empty()) {
        finish_compiling(problem);
    }
}

// Compiles candidates and finds out what they are worth.
void Tuning::examine(TunedProblem &problem, std::vector<Decision> decisions, Batch::Kind kind) {
    const int proposed = static_cast<int>(decisions.size());
    if (problem.compiled.empty()) {
        decisions.insert(decisions.begin(), problem.search->default_decision());
    }
    tried_ += proposed;
    compile(problem, decisions, kind, proposed);
}

void Tuning::compiled(Pool::Task task, CompiledCandidate candidate) {
    const Work work = tasks_.at(task);
    tasks_.erase(task);
    Batch &batch = *work.problem->batch;
    batch.candidates[work.candidate] = std::move(candidate);
    if (--batch.compiling == 0) {
        finish_compiling(*work.problem);
    }
}

// In the order in which they were proposed, whichever was compiled first.
void Tuning::finish_compiling(TunedProblem &problem) {
    Batch &batch = *problem.batch;
    std::vector<size_t> good;
    for (CompiledCandidate &candidate : batch.candidates) {
        const bool is_default = problem.compiled.empty();
        problem.compiled.push_back(std::move(candidate));
        const CompiledCandidate &compiled = problem.compiled.back();
        if (compiled.error.empty()) {
            good.push_back(problem.compiled.size() - 1);
        } else if (is_default) {
            problem.error = "its default kernel does not compile: " + compiled.error;
            end_batch(problem);
            return;
        } else if (batch.kind != Batch::Kind::final) {
            record(problem, compiled, {"failed: " + compiled.error, {}, {}}, -1, {});
        }
    }
    if (batch.kind == Batch::Kind::final) {
        compare_finalists(problem);
    } else if (predictor_) {
        predict(problem, good);
        end_batch(problem);
    } else if (!good.empty()) {
        measure(problem, good);
    } else {
        end_batch(problem);
    }
}

void Tuning::timed(Pool::Task task, size_t kernel, const Timing &timing, const Machine &machine) {
    TunedProblem &problem = *tasks_.at(task).problem;
    const Batch &batch = *problem.batch;
    problem.processor = machine.processor;
    problem.host = machine.host;
    const bool is_final = batch.kind == Batch::Kind::final;
    if (kernel == 0 && !is_final && timing.verdict != "ok") {
        problem.error = "its default kernel " + timing.verdict;
    } else if (kernel == 0 && !is_final) {
        problem.default_ms = median(timing.seconds) * 1e3;
    }
    const double ratio = timing.verdict != "ok" ? -1 : kernel == 0 ? 1 : median(ratios(timing, 0));
    record(problem, batch.kernels[kernel], timing, ratio, machine);
    if (is_final) {
        judge_finalist(problem, problem.records.back());
    }
}

void Tuning::ended(Pool::Task task, const std::string &error) {
    TunedProblem &problem = *tasks_.at(task).problem;
    tasks_.erase(task);
    if (!error.empty()) {
        problem.error = error;
    }
    end_batch(problem);
}

void Tuning::end_batch(TunedProblem &problem) {
    const Batch batch = *std::exchange(problem.batch, std::nullopt);
    under_way_--;
    searching_ -= batch.kind == Batch::Kind::search;
    if (batch.kind == Batch::Kind::final) {
        finish_settling(problem);
        return;
    }
    if (!problem.error.empty()) {
        tried_ -= batch.proposed;  // others may have what it would have tried
    }
    problem.seconds += elapsed() - batch.begin;
    problem.batches++;
    const double after = problem.search->best_ratio(), before = batch.best_before;
    problem.gain = 0.5 * problem.gain + (problem.batches > 1 || after < before ? 1 - after / before : 0);
    release_slow(problem);
    show(problem);
    if (candidates_by_layer() && is_to_be_settled(problem) && finalists(problem).empty()) {
        settle(problem);  // no machine is needed for it
    }
}

// Keeps the default, and what may be timed again.
void Tuning::release_slow(TunedProblem &problem) {
    const std::vector<Search::Result> best =
        problem.search ? problem.search->best(finalist_pool) : std::vector<Search::Result>();
    for (size_t i = problem.compiled.size(); i-- > 1;) {
        const Decision &decision = problem.compiled[i].decision;
        const bool kept = std::any_of(best.begin(), best.end(),
                                      [&](const Search::Result &result) { return result.decision == decision; });
        if (!kept || problem.settled) {
            pool_->release(problem.compiled[i]);
            problem.compiled.erase(problem.compiled.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
}

void Tuning::show(const TunedProblem &problem) {
    const double ratio = problem.search->best_ratio();
    std::string text = fmt::format("{}: ", problem.layers[0]);
    if (!problem.error.empty()) {
        text += problem.error;
    } else if (predictor_) {
        text += fmt::format("{:.2f} times the default, predicted, {} tried", 1 / ratio, problem.tried());
    } else {
        text += fmt::format("best {:.4g} ms, {:.2f} times the default, {} tried{}", problem.default_ms * ratio,
                            1 / ratio, problem.tried(), by_host(problem));
    }
    progress_->advance_to(static_cast<int>(spent()), text);
}

void Tuning::take_batch(TunedProblem &problem) {
    if (!begin_search(problem)) {
        return;
    }
    if (problem.batches == 0) {
        for (const Decision &decision : known_.suggestions(problem.text, 2)) {
            problem.search->suggest(decision);
        }
    }
    int count = batch_size;
    if (options_.budget.seconds == 0) {
        const int tried = candidates_by_layer() ? problem.tried() : tried_;
        count = std::min(count, options_.budget.candidates - tried);
    }
    const std::vector<Decision> decisions = problem.search->propose(count);
    problem.exhausted = decisions.empty();
    if (!decisions.empty() || problem.batches == 0) {
        examine(problem, decisions, Batch::Kind::search);
    } else {
        show(problem);
    }
}

bool Tuning::begin_something() {
    if (candidates_by_layer() && begin_settling(kept_for_the_end * most_under_way_)) {
        return true;
    }
    TunedProblem *problem = may_go_on() ? most_promising() : nullptr;
    if (problem != nullptr) {
        keep_records();
        take_batch(*problem);
        return true;
    }
    return begin_settling(0);
}

// Each record is on the disk before the next candidate is chosen.
void Tuning::keep_records() {
    if (writer_) {
        const auto begin = std::chrono::steady_clock::now();
        writer_->sync();
        pool_->waited(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
}

void Tuning::work() {
    while (settled_ < problems_.size()) {
        while (pool_->wants_work() && begin_something()) {
        }
        if (under_way_ > 0) {
            pool_->wait(*this);
        }
    }
    keep_records();
}

bool Tuning::run() {
    collect_problems();
    if (problems_.empty()) {
        say_error(fmt::format("nothing is to be tuned{}", options_.shards > 1 ? " in this shard" : ""));
        return good_;
    }
    if (!predictor_) {
        known_ = KnownRecords(options_.timings, target_);
    }
    const TuneOptions::Budget &budget = options_.budget;
    const double total = (budget.seconds > 0 ? budget.seconds : budget.candidates) *
                         (budget.per_layer ? static_cast<double>(problems_.size()) : 1);
    progress_ = std::make_unique<Progress>(budget.seconds > 0 ? "tuning (seconds)" : "tuning",
                                           std::max(1, static_cast<int>(total)));
    try {
        if (options_.resume && !predictor_) {
            resume_all();
        }
        work();
    } catch (...) {
        if (settled_ > 0) {
            write_decisions(true);  // what was decided stays
        }
        throw;
    }
    write_decisions(true);
    pool_->finish();
    progress_.reset();
    return good_;
}

}  // namespace kiln::tools
