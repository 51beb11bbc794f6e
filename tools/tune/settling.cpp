// What is decided in the end, and the file that says so.
#include <algorithm>
#include <fstream>
#include <map>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tune/statistics.h"
#include "tune/tuning.h"

namespace kiln::tools {
namespace {

using nlohmann::json;

constexpr int final_rounds = 15;
constexpr double least_gain = 0.01;  // of a candidate over the default, to be worth a decision

}  // namespace

// The best, where they gain something.
std::vector<Decision> Tuning::finalists(const TunedProblem &problem) const {
    std::vector<Decision> result;
    for (const Search::Result &best : problem.search->best(finalist_pool)) {
        if (best.ratio < 1 - least_gain && result.size() < 2) {
            result.push_back(best.decision);
        }
    }
    return result;
}

// Compares the best with the default once more, at length and in every mode of running, and decides.
void Tuning::settle(TunedProblem &problem) {
    if (problem.error.empty() && problem.batches == 0 && problem.tried() == 0) {
        problem.error = "the budget was spent before its turn";
    }
    if (!problem.error.empty()) {
        finish_settling(problem);
        return;
    }
    problem.decision = problem.search->default_decision();
    problem.ratio = 1;
    if (judge_by_earlier_comparison(problem)) {
        finish_settling(problem);
        return;
    }
    if (problem.batches == 0) {
        examine(problem, {}, Batch::Kind::baseline);
        return;
    }
    const std::vector<Decision> best = finalists(problem);
    if (best.empty()) {
        finish_settling(problem);
        return;
    }
    if (predictor_) {
        problem.decision = best[0];
        problem.ratio = problem.search->best_ratio();
        finish_settling(problem);
        return;
    }
    std::vector<Decision> missing;  // of an earlier run
    for (const Decision &decision : best) {
        if (index_of(problem, decision) == problem.compiled.size()) {
            missing.push_back(decision);
        }
    }
    compile(problem, missing, Batch::Kind::final, 0);
}

// Once all that compile are compiled.
void Tuning::compare_finalists(TunedProblem &problem) {
    std::vector<CompiledCandidate> &kernels = problem.batch->kernels;
    kernels.push_back(problem.compiled[0]);
    for (const Decision &decision : finalists(problem)) {
        const CompiledCandidate &compiled = problem.compiled[index_of(problem, decision)];
        if (compiled.error.empty()) {
            kernels.push_back(compiled);
        }
    }
    TimingRun run;
    run.from = 1;
    run.rounds = final_rounds;
    run.thorough = true;
    time(problem, run);
}

void Tuning::judge_finalist(TunedProblem &problem, const Record &record) {
    if (!record.ok() || record.rounds != final_rounds) {
        return;
    }
    if (record.ratio < problem.ratio && 1 - record.ratio > std::max(least_gain, 3 * record.noise)) {
        problem.decision = record.decision;
        problem.ratio = record.ratio;
    }
    problem.noise = std::max(problem.noise, record.noise);
}

// Whether an earlier run compared the same finalists with the default, to the end; then that decides again.
bool Tuning::judge_by_earlier_comparison(TunedProblem &problem) {
    std::vector<Record> found;
    for (const Decision &decision : finalists(problem)) {
        const auto last = std::find_if(problem.compared.rbegin(), problem.compared.rend(),
                                       [&](const Record &record) { return record.decision == decision; });
        if (last == problem.compared.rend()) {
            return false;
        }
        found.push_back(*last);
    }
    for (const Record &record : found) {
        if (problem.default_ms == 0 && record.ok()) {
            problem.default_ms = record.ms / record.ratio;
        }
        problem.host = record.host;
        problem.records.push_back(record);
        problem.when.push_back(0);
        judge_finalist(problem, record);
    }
    return !found.empty();
}

void Tuning::finish_settling(TunedProblem &problem) {
    problem.settled = true;
    while (settled_ < problems_.size() && problems_[settled_].settled) {
        settled_++;
    }
    if (!problem.error.empty()) {
        progress_->note(fmt::format("kiln: {}: {}", problem.layers[0], problem.error));
        good_ = false;
    } else if (!predictor_) {
        progress_->note(fmt::format("{}: done, {:.4g} ms, {:.2f} times the default, {} tried{}", problem.layers[0],
                                    problem.default_ms * problem.ratio, 1 / problem.ratio, problem.tried(),
                                    by_host(problem)));
    }
    release_slow(problem);
    if (!problem.compiled.empty()) {
        pool_->release(problem.compiled[0]);
        problem.compiled.clear();
    }
    write_decisions(false);
}

// The decisions file: other lines stay as they are, where they are.
void Tuning::write_decisions(bool now) {
    const auto begin = std::chrono::steady_clock::now();
    if (!now && begin - written_ < 20 * writing_) {
        return;  // a long file would take most of the time otherwise
    }
    std::map<std::string, std::string> fresh;  // by problem
    for (const TunedProblem &problem : problems_) {
        if (!problem.settled || !problem.error.empty()) {
            continue;
        }
        nlohmann::ordered_json line = {{"problem", problem.text},
                                       {"target", target_.name},
                                       {"algorithm", problem.decision.algorithm},
                                       {"revision", algorithm_revision(problem.decision.algorithm)},
                                       {"schedule", problem.decision.schedule},
                                       {"kiln", KILN_VERSION}};
        if (!problem.sizes.empty()) {
            line["sizes"] = problem.sizes;
        }
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
    written_ = std::chrono::steady_clock::now();
    writing_ = written_ - begin;
}

bool Tuning::is_to_be_settled(const TunedProblem &problem) const {
    return !problem.settled && !problem.batch && !(candidates_by_layer() && may_search(problem));
}

// Settles a problem that is searched no more, where more than `keep` of them wait. Where the budget is one of
// candidates for each layer, that may be as soon as its own is spent, and what is settled needs no memory any more; any
// other budget belongs to all, so that nobody is settled before the search is over.
bool Tuning::begin_settling(int keep) {
    if (!candidates_by_layer() && searching_ > 0) {
        return false;
    }
    TunedProblem *first = nullptr;
    int waiting = 0;
    for (size_t i = settled_; i < problems_.size(); i++) {
        TunedProblem &problem = problems_[i];
        if (is_to_be_settled(problem)) {
            first = first == nullptr ? &problem : first;
            waiting++;
        }
        // Problems are begun in their order: those behind the first that is not have nothing to settle.
        if (candidates_by_layer() && !problem.search && may_search(problem)) {
            break;
        }
    }
    if (waiting <= keep) {
        return false;
    }
    keep_records();
    settle(*first);
    return true;
}

}  // namespace kiln::tools
