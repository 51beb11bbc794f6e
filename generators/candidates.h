// What a problem can be compiled with on a target: every algorithm that applies, each with the values that its
// schedule's numbers may have. Nothing of Halide shows here.
#pragma once

#include <string>
#include <vector>

#include "algorithms/schedule_space.h"
#include "kernel.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

struct CandidateSpace {
    std::string algorithm;
    ScheduleNumbers start;  // the default schedule, a candidate in any case
    ScheduleSpace space;    // values include the default's

    // Whether the schedule's own check takes it, and the space.
    bool allows(const Problem &problem, const ScheduleNumbers &numbers) const;
    // All candidates that differ from `from` in one number or in two.
    std::vector<ScheduleNumbers> neighbours(const Problem &problem, const ScheduleNumbers &from, int numbers) const;
};

// The algorithm that is taken where nobody tuned first. Throws std::invalid_argument where no kernel can be made.
std::vector<CandidateSpace> candidate_spaces(const Problem &problem, const TargetModel &target);

}  // namespace kiln
