// What a call by a schedule is estimated to cost, in cycles: of algorithms that are chosen by it (their cost.cpp).
#pragma once

#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// Bytes of a page of memory, beyond whose end a processor fetches nothing ahead by itself; also of a first cache's way.
constexpr int64_t page_bytes = 4096;

// Cycles that a byte of a cache's stream takes beyond what products hide, by the bytes a cycle that it reaches: nobody
// waits for a Zen 5's last cache, which reaches 27.
constexpr double unhidden_cycles(double rate) {
    constexpr double hidden_rate = 25;
    return rate < hidden_rate ? 1 / rate - 1 / hidden_rate : 0;
}

// Bytes a cycle that the first products by weights from a slow cache reach of its stream, fetched ahead or not.
constexpr double slow_weights_rate(const CacheModel &cache) {
    constexpr double share = 0.77;
    return unhidden_cycles(cache.read) > 0 ? share * cache.read : cache.read;
}

// Whether a call of float32 finds x, weights and y in the last cache: they are together more than the second one holds.
inline bool comes_from_far(const Problem &problem, const TargetModel &target) {
    const double bytes = 4.0 * (problem.x_elements() + problem.w_elements() + problem.y_elements());
    // A core that shares its second cache with nobody has twice what it may count on.
    return problem.x_type == DType::f32 && !target.cold_weights &&
           bytes > 2 * static_cast<double>(target.core.l2.bytes);
}

// Whether panels of weights are worth fetching ahead: where the last cache is slow. It was not timed elsewhere.
inline bool waits_for_panels(const TargetModel &target) {
    return !target.is_gpu() && !target.lane_indexed_fma && unhidden_cycles(target.core.last.read) > 0;
}

struct DirectSchedule;
struct Kn2rowSchedule;
struct WinogradSchedule;

// With what it takes to read and write channels-first tensors, which direct_cycles() leaves out.
double direct_call_cycles(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target);

// Weights are fetched as far ahead as is estimated best, whatever the schedule says.
double winograd_call_cycles(const Problem &problem, const WinogradSchedule &schedule, const TargetModel &target);

double kn2row_call_cycles(const Problem &problem, const Kn2rowSchedule &schedule, const TargetModel &target);

}  // namespace kiln
