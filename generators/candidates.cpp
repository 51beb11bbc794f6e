#include "candidates.h"

#include <algorithm>
#include <stdexcept>

#include "algorithms/algorithm.h"
#include "axes/simplify_problem.h"

namespace kiln {

bool CandidateSpace::allows(const Problem &problem, const ScheduleNumbers &numbers) const {
    if (numbers == start) {
        return true;
    }
    if (space.constraint && !space.constraint(numbers)) {
        return false;
    }
    try {
        check_decision(problem, {algorithm, numbers.print()}, algorithm_revision(algorithm));
        return true;
    } catch (const std::invalid_argument &) {
        return false;
    }
}

std::vector<ScheduleNumbers> CandidateSpace::points_near(const ScheduleNumbers &from, int numbers) const {
    std::vector<ScheduleNumbers> result;
    const auto vary = [&](const ScheduleNumbers &at, size_t first, int left, const auto &again) -> void {
        for (size_t k = first; k < space.choices.size(); k++) {
            const ScheduleSpace::Choice &choice = space.choices[k];
            for (const int value : choice.values) {
                if (value == at[choice.name]) {
                    continue;
                }
                ScheduleNumbers next = at;
                next.set(choice.name, value);
                result.push_back(next);
                if (left > 1) {
                    again(next, k + 1, left - 1, again);
                }
            }
        }
    };
    vary(from, 0, numbers, vary);
    return result;
}

std::vector<ScheduleNumbers> CandidateSpace::neighbours(const Problem &problem, const ScheduleNumbers &from,
                                                        int numbers) const {
    std::vector<ScheduleNumbers> result = points_near(from, numbers);
    std::erase_if(result, [&](const ScheduleNumbers &point) { return !allows(problem, point); });
    return result;
}

Decision with_number(const Decision &decision, const std::string &name, int value) {
    ScheduleNumbers numbers(decision.schedule);
    if (numbers.has(name)) {
        numbers.set(name, value);
    }
    return {decision.algorithm, numbers.print()};
}

Decision serial_decision(const Decision &decision) {
    return with_number(decision, "parallel", 0);
}

std::vector<CandidateSpace> candidate_spaces(const Problem &problem, const TargetModel &target) {
    const Decision taken = default_decision(problem, target);
    std::vector<CandidateSpace> spaces;
    for (const Algorithm &algorithm : algorithms()) {
        const Problem simplified = simplification_by(algorithm.name, problem).problem;
        if (algorithm.is_definition || !algorithm.applies_on(simplified, target)) {
            continue;
        }
        const std::string start =
            algorithm.name == taken.algorithm ? taken.schedule : algorithm.default_schedule(simplified, target);
        CandidateSpace space = {algorithm.name, ScheduleNumbers(start), algorithm.space_of(simplified, target)};
        for (ScheduleSpace::Choice &choice : space.space.choices) {
            choice.values.push_back(space.start[choice.name]);
            std::sort(choice.values.begin(), choice.values.end());
            choice.values.erase(std::unique(choice.values.begin(), choice.values.end()), choice.values.end());
        }
        spaces.insert(algorithm.name == taken.algorithm ? spaces.begin() : spaces.end(), std::move(space));
    }
    return spaces;
}

std::optional<ScheduleNumbers> CandidateSpace::draw(const Problem &problem, std::mt19937_64 &random, int tries) const {
    for (int i = 0; i < tries; i++) {
        ScheduleNumbers numbers = start;
        for (const ScheduleSpace::Choice &choice : space.choices) {
            numbers.set(choice.name, choice.values[random() % choice.values.size()]);
        }
        if (allows(problem, numbers)) {
            return numbers;
        }
    }
    return std::nullopt;
}

std::optional<double> estimated_cycles(const Problem &problem, const Decision &decision, const TargetModel &target) {
    const Algorithm &algorithm = find_algorithm(decision.algorithm);
    const Problem simplified = simplification_by(decision.algorithm, problem).problem;
    if (algorithm.cycles == nullptr || simplified.has_open_sizes()) {
        return std::nullopt;
    }
    return algorithm.cycles(simplified, decision.schedule, target);
}

Decision drawn_decision(const Problem &problem, const TargetModel &target, uint64_t seed) {
    // FNV-1a, which is the same everywhere.
    uint64_t hash = UINT64_C(14695981039346656037);
    for (const char c : std::string(print(problem))) {
        hash = (hash ^ static_cast<unsigned char>(c)) * UINT64_C(1099511628211);
    }
    std::mt19937_64 random(seed ^ hash);
    const std::vector<CandidateSpace> spaces = candidate_spaces(problem, target);
    const CandidateSpace &space = spaces[random() % spaces.size()];
    return {space.algorithm, space.draw(problem, random, 300).value_or(space.start).print()};
}

}  // namespace kiln
