// What a call by a schedule of the Winograd algorithm takes, in cycles.
#pragma once

#include "algorithms/winograd/winograd.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// Of weights that no cache holds: bytes a cycle, and the share of memory's stream that they reach.
constexpr double cold_read = 10.2, memory_share = 0.85;

struct WinogradEstimate {
    WinogradSchedule schedule;
    double cycles = 0;
    double packed_bytes = 0;  // that are read
    double tensor_waits = 0;  // cycles besides, which other schedules have too
    double chunk_bytes = 0;   // that a chunk passes on between stages
    double displacing = 0;    // and those that a network's other layers wait for what this one displaces from caches
};

// What a schedule takes, but for how far ahead weights are fetched, which is chosen here, and then by single steps.
WinogradEstimate estimate_winograd(const Problem &problem, WinogradSchedule schedule, const TargetModel &target);

// Cycles of a copy of x with whole vectors of so many channels. `beside_halves`: whether the core takes whole vectors
// in halves, and the estimate is known of these.
double image_cycles(const Problem &problem, int lanes, bool beside_halves, const TargetModel &target);

// Cycles that the same takes longer where x comes from a slow last cache and goes back there.
double image_waits(const Problem &problem, const TargetModel &target);

// Whether panels of weights are worth fetching ahead where caches are warm: where several blocks of tiles share them.
bool fetches_warm_panels(const WinogradShape &shape, const WinogradSchedule &schedule, const TargetModel &target);

// Cycles for so many bytes of weights where caches are cold. On an Intel Xeon, whose memory gives 5 bytes a cycle, 3x3
// of 512 channels at 14x14 with stride 2 takes 2.6 ms, 1.3 of which are its products, and 2.1 by the direct algorithm.
double cold_cycles(double bytes, const TargetModel &target);

}  // namespace kiln
