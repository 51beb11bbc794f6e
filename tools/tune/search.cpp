#include "tune/search.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace kiln::tools {
namespace {

constexpr size_t elites = 3;          // whose neighbours are looked at
constexpr int random_pairs = 60;      // neighbours in two numbers, drawn in each turn
constexpr double adventurous = 0.25;  // the share of a batch that is drawn from the pool at random
constexpr double shrinkage = 1;       // of an effect that few points have shown: as if so many more had shown none

}  // namespace

Search::Search(const Problem &problem, const TargetModel &target, uint64_t seed)
    : problem_(problem), spaces_(candidate_spaces(problem, target)), random_(seed ^ hash(problem)) {
    for (size_t space = 1; space < spaces_.size(); space++) {
        first_.push_back({space, spaces_[space].start, 0});
    }
    learn(default_decision(), 1);
}

void Search::suggest(const Decision &decision) {
    for (size_t space = 0; space < spaces_.size(); space++) {
        if (spaces_[space].algorithm != decision.algorithm) {
            continue;
        }
        try {
            // Only what may be tuned is taken over; all else follows from the problem.
            const ScheduleNumbers from(decision.schedule);
            ScheduleNumbers numbers = spaces_[space].start;
            for (const ScheduleSpace::Choice &choice : spaces_[space].space.choices) {
                if (std::count(choice.values.begin(), choice.values.end(), from[choice.name]) > 0) {
                    numbers.set(choice.name, from[choice.name]);
                }
            }
            if (spaces_[space].allows(problem_, numbers)) {
                first_.push_back({space, numbers, 0});
            }
        } catch (const std::invalid_argument &) {  // of another revision
        }
    }
}

void Search::learn(const Decision &decision, double ratio) {
    tried_[decision.algorithm + decision.schedule]++;
    for (size_t space = 0; space < spaces_.size(); space++) {
        if (ratio > 0 && spaces_[space].algorithm == decision.algorithm) {
            points_.push_back({space, ScheduleNumbers(decision.schedule), ratio});
        }
    }
}

// Of equal ratios the one that was learnt first.
std::vector<const Search::Point *> Search::fastest(size_t count) const {
    std::vector<const Point *> sorted;
    for (const Point &point : points_) {
        sorted.push_back(&point);
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const Point *a, const Point *b) { return a->ratio < b->ratio; });
    sorted.resize(std::min(sorted.size(), count));
    return sorted;
}

std::vector<Search::Result> Search::best(size_t count) const {
    std::vector<Result> result;
    for (const Point *point : fastest(count)) {
        result.push_back({decision_of(point->space, point->numbers), point->ratio});
    }
    return result;
}

double Search::best_ratio() const {
    return std::min_element(points_.begin(), points_.end(),
                            [](const Point &a, const Point &b) { return a.ratio < b.ratio; })
        ->ratio;
}

// Whether it is a candidate that was neither tried nor chosen before.
bool Search::is_new(const Point &point, const std::vector<Point> &chosen) const {
    const auto is_same = [&](const Point &other) {
        return other.space == point.space && other.numbers == point.numbers;
    };
    return std::none_of(chosen.begin(), chosen.end(), is_same) && !knows(decision_of(point.space, point.numbers)) &&
           spaces_[point.space].allows(problem_, point.numbers);
}

// Points near the best ones, some of them known or no candidates: a few of hundreds are chosen, and only of these is
// that asked, since it takes most of the search's time.
std::vector<Search::Point> Search::pool() {
    std::vector<Point> result;
    for (const Point *elite : fastest(elites)) {
        const CandidateSpace &space = spaces_[elite->space];
        for (ScheduleNumbers &numbers : space.points_near(elite->numbers, 1)) {
            result.push_back({elite->space, std::move(numbers), 0});
        }
        const auto &choices = space.space.choices;
        for (int draw = 0; draw < random_pairs && choices.size() > 1; draw++) {
            ScheduleNumbers numbers = elite->numbers;
            for (int k = 0; k < 2; k++) {
                const ScheduleSpace::Choice &choice = choices[random_() % choices.size()];
                numbers.set(choice.name, choice.values[random_() % choice.values.size()]);
            }
            result.push_back({elite->space, std::move(numbers), 0});
        }
    }
    return result;
}

Search::Effects Search::effects() const {
    Effects effects(spaces_.size());
    // A few sweeps: each number's effect is the mean of what the others leave unexplained.
    for (int sweep = 0; sweep < 5; sweep++) {
        std::vector<std::map<std::string, std::map<int, std::pair<double, int>>>> sums(spaces_.size());
        for (const Point &point : points_) {
            const double rest = std::log(point.ratio) - expectation(point, effects);
            for (const auto &[name, value] : point.numbers.all()) {
                auto &[sum, count] = sums[point.space][name][value];
                sum += rest + effects[point.space][name][value];
                count++;
            }
        }
        for (size_t space = 0; space < sums.size(); space++) {
            for (const auto &[name, values] : sums[space]) {
                for (const auto &[value, sum] : values) {
                    effects[space][name][value] = sum.first / (sum.second + shrinkage);
                }
            }
        }
    }
    return effects;
}

double Search::expectation(const Point &point, const Effects &effects) const {
    double sum = 0;
    for (const auto &[name, value] : point.numbers.all()) {
        const auto known = effects[point.space].find(name);
        if (known == effects[point.space].end() || known->second.empty()) {
            continue;
        }
        // The nearest value that was seen stands in for one that was not.
        auto near = known->second.begin();
        for (auto at = near; at != known->second.end(); ++at) {
            if (std::abs(at->first - value) < std::abs(near->first - value)) {
                near = at;
            }
        }
        sum += near->second;
    }
    return sum;
}

std::vector<Decision> Search::propose(int count) {
    std::vector<Point> chosen;
    const auto take = [&](const Point &point) {
        if (is_new(point, chosen)) {
            chosen.push_back(point);
        }
    };
    while (!first_.empty() && static_cast<int>(chosen.size()) < count) {
        take(first_.front());
        first_.erase(first_.begin());
    }
    if (static_cast<int>(chosen.size()) < count) {
        std::vector<Point> points = pool();
        const Effects known = effects();
        for (Point &point : points) {
            point.ratio = expectation(point, known);
        }
        std::shuffle(points.begin(), points.end(), random_);
        std::stable_sort(points.begin(), points.end(),
                         [](const Point &a, const Point &b) { return a.ratio < b.ratio; });
        while (!points.empty() && static_cast<int>(chosen.size()) < count) {
            const bool any = random_() % 1000 < adventurous * 1000;
            const size_t at = any ? random_() % points.size() : 0;
            take(points[at]);
            points.erase(points.begin() + static_cast<std::ptrdiff_t>(at));
        }
    }
    std::vector<Decision> result;
    for (const Point &point : chosen) {
        result.push_back(decision_of(point.space, point.numbers));
    }
    return result;
}

}  // namespace kiln::tools
