// What a call by a schedule is estimated to cost, in cycles: of algorithms that are chosen by it (their cost.cpp).
#pragma once

#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

struct DirectSchedule;
struct Kn2rowSchedule;
struct WinogradSchedule;

// With what it takes to read and write channels-first tensors, which direct_cycles() leaves out.
double direct_call_cycles(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target);

// Weights are fetched as far ahead as is estimated best, whatever the schedule says.
double winograd_call_cycles(const Problem &problem, const WinogradSchedule &schedule, const TargetModel &target);

double kn2row_call_cycles(const Problem &problem, const Kn2rowSchedule &schedule, const TargetModel &target);

}  // namespace kiln
