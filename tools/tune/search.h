// Which candidates of one problem to try next.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "candidates.h"

namespace kiln::tools {

class Search {
  public:
    // Throws std::invalid_argument where no kernel can be made.
    Search(const Problem &problem, const TargetModel &target, uint64_t seed);

    const Problem &problem() const { return problem_; }
    Decision default_decision() const { return decision_of(0, spaces_[0].start); }

    // A decision that did well elsewhere, to try early: taken where it is a candidate here.
    void suggest(const Decision &decision);

    // Up to `count` candidates that were not tried, none twice; fewer, or none, where the space is exhausted. First the
    // defaults of all algorithms and what was suggested; then neighbours of the best ones, those first that a sum of
    // the numbers' own effects, fitted to all that was learnt, expects the most of, and some at random.
    std::vector<Decision> propose(int count);

    // What a candidate's time came to, as a share of the default's; negative where it failed.
    void learn(const Decision &decision, double ratio);
    bool knows(const Decision &decision) const { return tried_.count(decision.algorithm + decision.schedule) > 0; }

    struct Result {
        Decision decision;
        double ratio;
    };
    // The best so far, the fastest first; the default is among them from the start.
    std::vector<Result> best(size_t count) const;
    double best_ratio() const;                                         // of the first of them
    int tried() const { return static_cast<int>(tried_.size()) - 1; }  // but for the default

  private:
    struct Point {
        size_t space;
        ScheduleNumbers numbers;
        double ratio;
    };
    // What the logarithm of the ratio gains by each value of each number, of each space.
    using Effects = std::vector<std::map<std::string, std::map<int, double>>>;

    Decision decision_of(size_t space, const ScheduleNumbers &numbers) const {
        return {spaces_[space].algorithm, numbers.print()};
    }
    bool is_new(const Point &point, const std::vector<Point> &chosen) const;
    std::vector<const Point *> fastest(size_t count) const;
    std::vector<Point> pool();
    Effects effects() const;
    double expectation(const Point &point, const Effects &effects) const;

    Problem problem_;
    std::vector<CandidateSpace> spaces_;
    std::mt19937_64 random_;
    std::vector<Point> first_;   // to try before all else
    std::vector<Point> points_;  // that succeeded
    std::map<std::string, int> tried_;
};

}  // namespace kiln::tools
