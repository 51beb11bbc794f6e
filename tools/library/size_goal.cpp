#include "library/size_goal.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "algorithms/algorithm.h"
#include "candidates.h"
#include "fmt/format.h"
#include "kernel.h"
#include "library/jobs.h"
#include "lowering/object_symbols.h"
#include "system/temp_folder.h"

namespace kiln::tools {
namespace {

// Code of less than this part of the weights is not made smaller: the sum would hardly be.
constexpr double code_worth_a_look = 0.02;
// A smaller kernel's neighbours are looked at where it gained at least this part.
constexpr double gain_worth_a_round = 0.01;
constexpr int most_rounds = 3;

std::string key_of(const Problem &problem, const TargetModel &target) {
    return std::string(print(problem)) + " " + target.name;
}

// The candidates of one question, and which of them is the best so far.
class SizeSearch {
  public:
    explicit SizeSearch(const SizeQuestion &question) : question_(question) {
        add(question.usual);
        for (const Algorithm &algorithm : algorithms()) {
            if (const auto decision = default_decision(question.problem, *question.target, algorithm.name)) {
                add(*decision);
            }
        }
        for (CandidateSpace &space : candidate_spaces(question.problem, *question.target)) {
            spaces_.push_back(std::move(space));
        }
    }

    // What is to be compiled next; nothing when all is done.
    std::vector<Decision> wanted() const {
        std::vector<Decision> result;
        for (size_t i = tried_; i < candidates_.size(); i++) {
            result.push_back(candidates_[i].decision);
        }
        return result;
    }

    // What became of the i-th wanted decision; nothing where it does not compile.
    void take(size_t i, const std::optional<SizedDecision> &sized) {
        if (sized) {
            candidates_[tried_ + i] = *sized;
        }
    }

    void end_round() {
        tried_ = candidates_.size();
        const SizedDecision *best = this->best();
        const bool gained =
            best_bytes_ == 0 || (best != nullptr && best->bytes() < (1 - gain_worth_a_round) * best_bytes_);
        if (best == nullptr || !gained || rounds_++ == most_rounds) {
            return;
        }
        best_bytes_ = best->bytes();
        if (best->code_bytes > code_worth_a_look * best->packed_bytes) {
            add_that_unroll_less(Decision(best->decision));  // its place may move
        }
    }

    std::optional<SizeChoice> choice() const {
        const SizedDecision *best = this->best();
        return best == nullptr
                   ? std::nullopt
                   : std::optional<SizeChoice>({*best, candidates_[0], static_cast<int>(candidates_.size())});
    }

    const SizeQuestion &question() const { return question_; }

  private:
    void add(const Decision &decision) {
        const auto same = [&](const SizedDecision &candidate) { return candidate.decision == decision; };
        if (std::none_of(candidates_.begin(), candidates_.end(), same)) {
            candidates_.push_back({decision});
        }
    }

    // Each number of the schedule halved, and at its least.
    void add_that_unroll_less(const Decision &decision) {
        const auto space = std::find_if(spaces_.begin(), spaces_.end(), [&](const CandidateSpace &each) {
            return each.algorithm == decision.algorithm;
        });
        if (space == spaces_.end()) {
            return;  // the definition has no numbers
        }
        const ScheduleNumbers numbers(decision.schedule);
        for (const ScheduleSpace::Choice &choice : space->space.choices) {
            const int now = numbers.has(choice.name) ? numbers[choice.name] : 0;
            const auto half = std::upper_bound(choice.values.begin(), choice.values.end(), now / 2);
            for (const int value : {choice.values.front(), half == choice.values.begin() ? now : *(half - 1)}) {
                ScheduleNumbers less = numbers;
                if (value < now) {
                    less.set(choice.name, value);
                    if (space->allows(question_.problem, less)) {
                        add({decision.algorithm, less.print()});
                    }
                }
            }
        }
    }

    // The smallest that is not too slow, an earlier one where two are as small; none where the usual one failed.
    const SizedDecision *best() const {
        const SizedDecision &usual = candidates_[0], *best = &usual;
        if (usual.code_bytes == 0) {
            return nullptr;
        }
        for (const SizedDecision &candidate : candidates_) {
            if (candidate.code_bytes > 0 && candidate.operations <= most_times_operations * usual.operations &&
                candidate.bytes() < best->bytes()) {
                best = &candidate;
            }
        }
        return best;
    }

    const SizeQuestion &question_;
    std::vector<CandidateSpace> spaces_;
    std::vector<SizedDecision> candidates_;  // the usual one first; code_bytes is 0 where one was not compiled
    size_t tried_ = 0;
    int rounds_ = 0;
    int64_t best_bytes_ = 0;
};

// In a child process: a kernel's "CODE_BYTES PACKED_BYTES OPERATIONS".
std::string size_up(const SizeQuestion &question, const Decision &decision, const std::string &object) {
    const KernelFacts facts = generate_kernel({question.problem, decision, question.target, "kiln_sized"}, object);
    double operations = 0;
    for (const LoopCount &loop :
         count_loops({question.problem, serial_decision(decision), question.target, "kiln_sized"})) {
        operations += loop.passes * (loop.products + loop.operations);
    }
    const int64_t code = loaded_bytes_of_object(object);
    std::filesystem::remove(object);
    return fmt::format("{} {} {}", code, facts.packed_bytes, operations);
}

// Compiles what the searches want, and hands each its own.
void run_round(std::vector<SizeSearch> &searches, const std::string &folder, int jobs, double time_limit) {
    struct Wanted {
        SizeSearch *search;
        size_t index;
        Decision decision;
    };
    std::vector<Wanted> wanted;
    for (SizeSearch &search : searches) {
        const std::vector<Decision> decisions = search.wanted();
        for (size_t i = 0; i < decisions.size(); i++) {
            wanted.push_back({&search, i, decisions[i]});
        }
    }
    std::vector<Job> work;
    for (const Wanted &one : wanted) {
        work.push_back([&one, object = fmt::format("{}/{}.o", folder, work.size())] {
            return size_up(one.search->question(), one.decision, object);
        });
    }
    run_jobs(work, jobs, time_limit, [&](size_t index, const JobResult &result) {
        SizedDecision sized = {wanted[index].decision};
        std::istringstream text(result.text);
        const bool good = result.ok && text >> sized.code_bytes >> sized.packed_bytes >> sized.operations;
        wanted[index].search->take(wanted[index].index, good ? std::optional(sized) : std::nullopt);
    });
    for (SizeSearch &search : searches) {
        search.end_round();
    }
}

std::string kilobytes(const SizedDecision &sized) {
    return fmt::format("code {:.1f} KB, packed {:.1f} KB", sized.code_bytes / 1024.0, sized.packed_bytes / 1024.0);
}

}  // namespace

double SizeChoice::times_operations() const {
    return usual.operations > 0 ? taken.operations / usual.operations : 1;
}

std::string SizeChoice::text() const {
    if (taken.decision == usual.decision) {
        return fmt::format("for size, as for speed: {}", kilobytes(taken));
    }
    return fmt::format("for size: {}; for speed {}: {}; {:.2f} times its operations", kilobytes(taken),
                       usual.decision.algorithm, kilobytes(usual), times_operations());
}

std::string no_size_goal(const Problem &problem, const TargetModel &target) {
    if (target.is_gpu()) {
        return std::string(target.name) + " is a GPU";
    }
    return problem.has_open_sizes() ? "its sizes are open" : "";
}

std::vector<std::optional<SizeChoice>> smallest_decisions(const std::vector<SizeQuestion> &questions, int jobs,
                                                          double time_limit) {
    const TempFolder folder;
    std::vector<SizeSearch> searches;
    for (const SizeQuestion &question : questions) {
        searches.emplace_back(question);
    }
    const auto is_done = [](const SizeSearch &search) { return search.wanted().empty(); };
    while (!std::all_of(searches.begin(), searches.end(), is_done)) {
        run_round(searches, folder.path(), jobs, time_limit);
    }
    std::vector<std::optional<SizeChoice>> choices;
    for (const SizeSearch &search : searches) {
        choices.push_back(search.choice());
    }
    return choices;
}

void SizeChoices::ask(const SizeQuestion &question) {
    questions_.insert({key_of(question.problem, *question.target), question});
}

void SizeChoices::choose(int jobs, double time_limit) {
    std::vector<SizeQuestion> asked;
    for (const auto &[key, question] : questions_) {
        asked.push_back(question);
    }
    const auto choices = smallest_decisions(asked, jobs, time_limit);
    for (size_t i = 0; i < asked.size(); i++) {
        if (choices[i]) {
            choices_.insert({key_of(asked[i].problem, *asked[i].target), *choices[i]});
        }
    }
}

const SizeChoice *SizeChoices::find(const Problem &problem, const TargetModel &target) const {
    const auto found = choices_.find(key_of(problem, target));
    return found == choices_.end() ? nullptr : &found->second;
}

}  // namespace kiln::tools
