#include "tune/tuning.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include "fmt/format.h"
#include "kiln/cpu.h"
#include "measure.h"
#include "messages.h"
#include "nlohmann/json.hpp"
#include "spec.h"

namespace kiln::tools {
namespace {

using nlohmann::json;

constexpr int batch_size = 6;
constexpr int final_rounds = 15;
constexpr double least_gain = 0.01;  // of a candidate over the default, to be worth a decision

const TargetModel &checked_target(const TuneOptions &options) try {
    if (options.cold && !options.predict.empty()) {
        throw Error("--cold has no meaning with --predict: nothing is timed");
    }
    const TargetModel &target = find_target(options.target.empty() ? "host" : options.target);
    if (!options.runner.empty() || !options.predict.empty()) {
        return target;
    }
    const std::string advice = "give --runner CMD, which starts its programs, or --predict CPU";
    const TargetModel *host = nullptr;
    try {
        host = &find_target("host");
    } catch (const std::invalid_argument &) {
    }
    if (host == nullptr || std::string(host->architecture) != target.architecture ||
        (target.features & ~kiln_cpu_features()) != 0) {
        throw Error(fmt::format("this machine cannot run {}: {}", target.name, advice), StatusCode::unsupported);
    }
    return target;
} catch (const std::invalid_argument &error) {
    throw Error(error.what());
}

std::vector<double> ratios(const Timing &timing, size_t reference) {
    std::vector<double> result;
    for (size_t round = 0; round < timing.seconds.size(); round++) {
        result.push_back(timing.seconds[round] / timing.beside.at(reference).at(round));
    }
    return result;
}

// The standard error of a median, from the median distance to it.
double error_of_median(const std::vector<double> &values) {
    std::vector<double> distances;
    for (const double value : values) {
        distances.push_back(std::abs(value - median(values)));
    }
    return 1.2533 * 1.4826 * median(distances) / std::sqrt(values.size());
}

double spread_of(const std::vector<double> &values) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return (*high - *low) / median(values);
}

// How alike two problems' texts are: the number of equal parts, in order.
int likeness(const std::string &a, const std::string &b) {
    int equal = 0;
    for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        const size_t end_a = std::min(a.find('-', i), a.size()), end_b = std::min(b.find('-', j), b.size());
        equal += a.substr(i, end_a - i) == b.substr(j, end_b - j);
        i = end_a + 1;
        j = end_b + 1;
    }
    return equal;
}

}  // namespace

Tuning::Tuning(const TuneOptions &options) : options_(options), target_(checked_target(options)) {
    if (options_.predict.empty()) {
        writer_ = std::make_unique<RecordWriter>(options_.timings);
    } else {
        predictor_.emplace(options_.predict, target_);
    }
    const Toolchain toolchain =
        options_.predict.empty() ? find_toolchain(options_.cxx, options_.runner, target_) : Toolchain();
    measurement_.emplace(MeasurementOptions{&target_, toolchain, options_.jobs, options_.time_limit, options_.seed,
                                            folder_.path(), !options_.predict.empty(), options_.cold});
}

std::string Tuning::machine() const {
    return predictor_ ? predictor_->name() : measurement_->machine();
}

double Tuning::elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void Tuning::collect_problems() {
    Spec spec = load_spec(options_.spec, options_.spec_options);
    select_layers(&spec, options_.layers);
    for (const Spec::Failure &failure : spec.failures) {
        say_error(fmt::format("layer {}: {}", failure.layer, failure.message));
        good_ = false;
    }
    std::vector<std::string> order;
    std::map<std::string, std::pair<Problem, std::vector<std::string>>> found;
    for (const LayerSpec &layer : spec.layers) {
        try {
            const Problem problem = resolve(layer).problem;
            if (problem.has_open_sizes()) {
                say_error(fmt::format("layer {} leaves sizes open: it keeps its default schedule", layer.name));
                continue;
            }
            const std::string text(print(problem));
            if (found.emplace(text, std::pair(problem, std::vector<std::string>())).second) {
                order.push_back(text);
            }
            found.at(text).second.push_back(layer.name);
        } catch (const Error &error) {
            say_error(fmt::format("layer {}: {}", layer.name, error.what()));
            good_ = false;
        }
    }
    for (size_t i = 0; i < order.size(); i++) {
        if (static_cast<int>(i % options_.shards) != options_.shard - 1) {
            continue;
        }
        const auto &[problem, layers] = found.at(order[i]);
        try {
            problems_.emplace_back(order[i], layers, Search(problem, target_, static_cast<uint64_t>(options_.seed)));
        } catch (const std::invalid_argument &error) {
            say_error(fmt::format("layer {}: {}", layers[0], error.what()));
            good_ = false;
        }
    }
}

void Tuning::read_known() {
    const RecordFile file = read_records(options_.timings);
    for (const std::string &damaged : file.damaged) {
        say_warning(fmt::format("{}; the line is left alone", damaged));
    }
    for (const Record &record : file.records) {
        try {
            if (record.target == target_.name && record.revision == algorithm_revision(record.decision.algorithm)) {
                Record known = record;
                known.decision.schedule = complete_schedule(record.decision);
                known_.push_back(known);
            }
        } catch (const std::invalid_argument &) {  // an algorithm or a number that is no more
        }
    }
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
    return std::min(0.5 * batch * problems_.size(), 0.35 * options_.budget.seconds);
}

bool Tuning::may_go_on() const {
    const TuneOptions::Budget &budget = options_.budget;
    const double times = budget.per_layer ? problems_.size() : 1;
    return budget.seconds > 0 ? elapsed() + reserve() < budget.seconds * times : tried_ < budget.candidates * times;
}

// The one whose next batch should gain most: by what it weighs, what the last batches gained, and how few there were.
TunedProblem *Tuning::most_promising() {
    TunedProblem *best = nullptr;
    double most = 0;
    for (TunedProblem &problem : problems_) {
        const TuneOptions::Budget &budget = options_.budget;
        const double used = budget.seconds > 0 ? problem.seconds : problem.search.tried();
        const double own = budget.seconds > 0 ? budget.seconds : budget.candidates;
        if (problem.exhausted || !problem.error.empty() || (budget.per_layer && used >= own)) {
            continue;
        }
        if (problem.batches == 0) {
            return &problem;  // nothing is known of it
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
        const Decision &other = problem.compiled[i].decision;
        if (other.algorithm == decision.algorithm && other.schedule == decision.schedule) {
            return i;
        }
    }
    return problem.compiled.size();
}

void Tuning::record(TunedProblem &problem, const CompiledCandidate &candidate, const Timing &timing, double ratio,
                    bool final) {
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
    }
    record.compile_seconds = candidate.seconds;
    record.cold = options_.cold;
    record.final = final;
    record.machine = machine();
    record.halide = halide_version();
    record.kiln = KILN_VERSION;
    record.seed = options_.seed;
    if (writer_) {
        writer_->append(record);
    }
    problem.records.push_back(record);
    problem.when.push_back(elapsed());
    if (!final) {
        problem.search.learn(record.decision, record.ok() ? ratio : -1);
    }
}

// Ratios of the predicted cycles.
void Tuning::predict(TunedProblem &problem, const std::vector<size_t> &batch) {
    for (const size_t i : batch) {
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
               false);
    }
}

// Times kernels of a problem. Where nothing of it can be timed, that is the problem's error.
void Tuning::time(TunedProblem &problem, const std::vector<CompiledCandidate> &kernels, const Measurement::Run &run,
                  const std::function<void(size_t kernel, const Timing &timing)> &on_done) try {
    measurement_->time(problem.search.problem(), kernels, run, on_done);
} catch (const Untimed &error) {
    problem.error = error.what();
}

// Times what was compiled, beside the default and the best so far.
void Tuning::measure(TunedProblem &problem, const std::vector<size_t> &batch) {
    std::vector<size_t> order = {0};
    const bool first = problem.default_ms == 0;
    Measurement::Run run;
    if (!first) {
        const size_t incumbent = index_of(problem, problem.search.best(1)[0].decision);
        if (incumbent != 0 && incumbent < problem.compiled.size()) {
            order.push_back(incumbent);
        }
        run.references = run.from = static_cast<int>(order.size());
    }
    for (const size_t i : batch) {
        if (i != 0) {
            order.push_back(i);
        }
    }
    std::vector<CompiledCandidate> kernels;
    for (const size_t i : order) {
        kernels.push_back(problem.compiled[i]);
    }
    time(problem, kernels, run, [&](size_t k, const Timing &timing) {
        if (k == 0 && timing.verdict != "ok") {
            problem.error = "its default kernel " + timing.verdict;
        } else if (k == 0) {
            problem.default_ms = median(timing.seconds) * 1e3;
        }
        const double ratio = timing.verdict != "ok" ? -1 : k == 0 ? 1 : median(ratios(timing, 0));
        record(problem, kernels[k], timing, ratio, false);
    });
}

// Compiles candidates and finds out what they are worth.
void Tuning::examine(TunedProblem &problem, std::vector<Decision> decisions) {
    const double begin = elapsed(), before = problem.search.best(1)[0].ratio;
    const int tried_before = tried_;
    const bool first = problem.compiled.empty();
    if (first) {
        decisions.insert(decisions.begin(), problem.search.default_decision());
    }
    std::vector<size_t> batch;
    for (CompiledCandidate &candidate : measurement_->compile(problem.search.problem(), decisions)) {
        const bool is_default = first && problem.compiled.empty();
        problem.compiled.push_back(std::move(candidate));
        const CompiledCandidate &compiled = problem.compiled.back();
        tried_ += is_default ? 0 : 1;
        if (compiled.error.empty()) {
            batch.push_back(problem.compiled.size() - 1);
            continue;
        }
        if (is_default) {
            problem.error = "its default kernel does not compile: " + compiled.error;
            return;
        }
        record(problem, compiled, {"failed: " + compiled.error, {}, {}}, -1, false);
    }
    if (predictor_) {
        predict(problem, batch);
    } else if (!batch.empty()) {
        measure(problem, batch);
    }
    if (!problem.error.empty()) {
        tried_ = tried_before;  // others may have what it would have tried
    }
    problem.seconds += elapsed() - begin;
    problem.batches++;
    const double after = problem.search.best(1)[0].ratio;
    problem.gain = 0.5 * problem.gain + (problem.batches > 1 || after < before ? 1 - after / before : 0);
}

// Takes over what was recorded on this machine.
void Tuning::resume(TunedProblem &problem) {
    for (const Record &record : known_) {
        if (record.problem != problem.text || record.machine != machine() || record.final ||
            record.cold != options_.cold || problem.search.knows(record.decision)) {
            continue;
        }
        problem.search.learn(record.decision, record.ok() ? record.ratio : -1);
        problem.records.push_back(record);
        problem.when.push_back(0);
        tried_++;
    }
}

// What did best for the most alike problems.
void Tuning::start(TunedProblem &problem) {
    std::map<std::string, const Record *> best;  // of each problem
    for (const Record &record : known_) {
        if (record.ok() && record.problem != problem.text) {
            const Record *&other = best[record.problem];
            other = other == nullptr || record.ratio < other->ratio ? &record : other;
        }
    }
    std::vector<const Record *> sorted;
    for (const auto &[text, record] : best) {
        sorted.push_back(record);
    }
    std::stable_sort(sorted.begin(), sorted.end(), [&](const Record *a, const Record *b) {
        return likeness(a->problem, problem.text) > likeness(b->problem, problem.text);
    });
    for (size_t i = 0; i < std::min<size_t>(sorted.size(), 2); i++) {
        problem.search.suggest(sorted[i]->decision);
    }
}

void Tuning::show(const TunedProblem &problem) {
    const double ratio = problem.search.best(1)[0].ratio;
    std::string text = fmt::format("{}: ", problem.layers[0]);
    if (!problem.error.empty()) {
        text += problem.error;
    } else if (predictor_) {
        text += fmt::format("{:.2f} times the default, predicted, {} tried", 1 / ratio, problem.search.tried());
    } else {
        text += fmt::format("best {:.4g} ms, {:.2f} times the default, {} tried", problem.default_ms * ratio, 1 / ratio,
                            problem.search.tried());
    }
    progress_->advance_to(static_cast<int>(spent()), text);
}

void Tuning::take_batch(TunedProblem &problem) {
    if (problem.batches == 0) {
        start(problem);
    }
    int count = batch_size;
    if (options_.budget.seconds == 0) {
        const int all =
            options_.budget.candidates * (options_.budget.per_layer ? static_cast<int>(problems_.size()) : 1);
        count = std::min(count, all - tried_);
        if (options_.budget.per_layer) {
            count = std::min(count, options_.budget.candidates - problem.search.tried());
        }
    }
    const std::vector<Decision> decisions = problem.search.propose(count);
    problem.exhausted = decisions.empty();
    if (!decisions.empty() || problem.batches == 0) {
        examine(problem, decisions);
    }
    show(problem);
}

// Compares the best with the default once more, at length and in every mode of running, and decides.
void Tuning::settle(TunedProblem &problem) {
    problem.decision = problem.search.default_decision();
    problem.ratio = 1;
    std::vector<Decision> finalists;
    for (const Search::Result &result : problem.search.best(3)) {
        if (result.ratio < 1 - least_gain && finalists.size() < 2) {
            finalists.push_back(result.decision);
        }
    }
    if (!problem.error.empty() || finalists.empty()) {
        return;
    }
    if (predictor_) {
        problem.decision = finalists[0];
        problem.ratio = problem.search.best(1)[0].ratio;
        return;
    }
    std::vector<CompiledCandidate> kernels;
    for (const Decision &decision : finalists) {
        if (index_of(problem, decision) == problem.compiled.size()) {  // of an earlier run
            problem.compiled.push_back(measurement_->compile(problem.search.problem(), {decision})[0]);
        }
        const CompiledCandidate &compiled = problem.compiled[index_of(problem, decision)];
        if (compiled.error.empty()) {
            kernels.push_back(compiled);
        }
    }
    kernels.insert(kernels.begin(), problem.compiled[0]);
    Measurement::Run run;
    run.from = 1;
    run.rounds = final_rounds;
    run.thorough = true;
    time(problem, kernels, run, [&](size_t k, const Timing &timing) {
        const bool whole = timing.verdict == "ok" && timing.seconds.size() == final_rounds;
        const double ratio = timing.verdict != "ok" ? -1 : median(ratios(timing, 0));
        record(problem, kernels[k], timing, ratio, true);
        if (!whole) {
            return;
        }
        const double error = error_of_median(ratios(timing, 0));
        if (ratio < problem.ratio && 1 - ratio > std::max(least_gain, 3 * error)) {
            problem.decision = kernels[k].decision;
            problem.ratio = ratio;
        }
        problem.noise = std::max(problem.noise, error);
    });
}

// The decisions file: other lines stay as they are, where they are.
void Tuning::write_decisions() const {
    std::map<std::string, std::string> fresh;  // by problem
    for (const TunedProblem &problem : problems_) {
        if (problem.decision.algorithm.empty() || !problem.error.empty()) {
            continue;
        }
        nlohmann::ordered_json line = {{"problem", problem.text},
                                       {"target", target_.name},
                                       {"algorithm", problem.decision.algorithm},
                                       {"revision", algorithm_revision(problem.decision.algorithm)},
                                       {"schedule", problem.decision.schedule},
                                       {"kiln", KILN_VERSION}};
        if (predictor_) {
            line["predicted_for"] = options_.predict;
        } else {
            line["caches"] = options_.cold ? "cold" : "warm";
        }
        fresh[problem.text] = line.dump();
    }
    std::string text;
    std::ifstream file(options_.decisions);
    for (std::string line; std::getline(file, line);) {
        const json entry = json::parse(line, nullptr, false);
        const bool known = entry.is_object() && entry.value("target", json()) == target_.name &&
                           entry.contains("problem") && entry["problem"].is_string();
        const auto replacement = known ? fresh.find(entry["problem"]) : fresh.end();
        if (replacement == fresh.end()) {
            text += line + "\n";
        } else if (!replacement->second.empty()) {
            text += replacement->second + "\n";
            replacement->second.clear();
        }
    }
    for (const TunedProblem &problem : problems_) {
        if (const auto line = fresh.find(problem.text); line != fresh.end() && !line->second.empty()) {
            text += line->second + "\n";
        }
    }
    write_whole(options_.decisions, text);
}

bool Tuning::run() {
    collect_problems();
    if (problems_.empty()) {
        say_error(fmt::format("nothing is to be tuned{}", options_.shards > 1 ? " in this shard" : ""));
        return good_;
    }
    if (!predictor_) {
        read_known();
    }
    const TuneOptions::Budget &budget = options_.budget;
    const double total = (budget.seconds > 0 ? budget.seconds : budget.candidates) *
                         (budget.per_layer ? static_cast<double>(problems_.size()) : 1);
    progress_ = std::make_unique<Progress>(budget.seconds > 0 ? "tuning (seconds)" : "tuning",
                                           std::max(1, static_cast<int>(total)));
    for (TunedProblem &problem : problems_) {
        if (!options_.resume || predictor_) {
            break;
        }
        if (machine().empty()) {
            examine(problem, {});  // the default alone: says what it runs on
        }
        resume(problem);
    }
    while (may_go_on()) {
        TunedProblem *problem = most_promising();
        if (problem == nullptr) {
            break;
        }
        take_batch(*problem);
    }
    for (TunedProblem &problem : problems_) {
        if (problem.error.empty() && problem.batches == 0 && problem.search.tried() == 0) {
            problem.error = "the budget was spent before its turn";
        } else if (problem.error.empty() && problem.batches == 0) {
            examine(problem, {});
        }
        settle(problem);
        if (!problem.error.empty()) {
            progress_->note(fmt::format("kiln: {}: {}", problem.layers[0], problem.error));
            good_ = false;
        }
        write_decisions();
    }
    progress_.reset();
    return good_;
}

}  // namespace kiln::tools
