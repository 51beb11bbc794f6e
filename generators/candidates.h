// What a problem can be compiled with on a target: every algorithm that applies, each with the values that its
// schedule's numbers may have. Nothing of Halide shows here.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "algorithms/schedule_space.h"
#include "decision.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

struct CandidateSpace {
    std::string algorithm;
    ScheduleNumbers start;  // the default schedule, a candidate in any case
    ScheduleSpace space;    // values include the default's

    // Whether the schedule's own check takes it, and the space.
    bool allows(const Problem &problem, const ScheduleNumbers &numbers) const;
    // All points of the space that differ from `from` in one number or in two, whether they are allowed or not: to ask
    // takes longer than to name them.
    std::vector<ScheduleNumbers> points_near(const ScheduleNumbers &from, int numbers) const;
    // Those that are candidates.
    std::vector<ScheduleNumbers> neighbours(const Problem &problem, const ScheduleNumbers &from, int numbers) const;
    // One candidate, each number drawn by itself; nothing where none of `tries` such points is one.
    std::optional<ScheduleNumbers> draw(const Problem &problem, std::mt19937_64 &random, int tries) const;
};

// A decision with another value of a number of its schedule, if that has it.
Decision with_number(const Decision &decision, const std::string &name, int value);

// The same without loops that threads share.
Decision serial_decision(const Decision &decision);

// The algorithm that is taken where nobody tuned first. Throws std::invalid_argument where no kernel can be made.
std::vector<CandidateSpace> candidate_spaces(const Problem &problem, const TargetModel &target);

// The cycles that a call by the decision is estimated to take, everything warm; nothing where its algorithm is not
// chosen by such an estimate, or sizes are open.
std::optional<double> estimated_cycles(const Problem &problem, const Decision &decision, const TargetModel &target);

// One of the algorithms that apply, and a candidate for it: the same for the same seed and problem. What is right for
// every one of them is right however a library was tuned.
Decision drawn_decision(const Problem &problem, const TargetModel &target, uint64_t seed);

}  // namespace kiln
