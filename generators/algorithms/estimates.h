// What a call by a schedule is estimated to cost, in cycles: of algorithms that are chosen by it (their cost.cpp).
#pragma once

#include <algorithm>

#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// Bytes of a page of memory, beyond whose end a processor fetches nothing ahead by itself; also of a first cache's way.
constexpr int64_t page_bytes = 4096;

// Cycles that a byte of a cache's stream takes beyond what products hide, by the bytes a cycle that it reaches: nobody
// waits for a Zen 5's last cache, which reaches 27. Products of shorter vectors go on for longer beside as many bytes,
// and so do those of fewer a cycle: nor does anybody for a Zen 4's, which reaches 15.
inline double unhidden_cycles(double rate, const TargetModel &target) {
    constexpr double hidden_rate = 12.5 / 512;  // for each bit of a vector of each product a cycle
    const double hidden = hidden_rate * target.vector_bits * target.core.fma_per_cycle;
    return rate < hidden ? 1 / rate - 1 / hidden : 0;
}

// The target as vectors of so many lanes of 32 bits meet it: a core that takes whole vectors in halves takes those of
// half their size, or less, at twice the rate. On a Zen 4 groups of 8 channels take .55 of what they would otherwise.
inline TargetModel for_vectors_of(int lanes, TargetModel target) {
    CoreModel &core = target.core;
    if (2 * lanes <= target.lanes(32)) {
        const int halves = core.halves();
        core.fma_per_cycle *= halves;
        core.fma_beside_adds *= halves;
        core.loads_per_cycle *= halves;
        core.stores_per_cycle *= halves;
    }
    return target;
}

// Whether vectors of half the lanes leave fewer of them empty of so many channels, and cost no more for each lane: 24
// channels are one and a half vectors of 16.
inline bool fills_half_vectors(int64_t channels, int lanes, const TargetModel &target) {
    const int64_t of_last = channels % lanes;
    return target.core.splits_vectors() && lanes == target.lanes(32) && 0 < of_last && of_last <= lanes / 2;
}

// Bytes a cycle that the first products by weights from a slow last cache reach of its stream, fetched ahead or not.
inline double slow_weights_rate(const TargetModel &target) {
    constexpr double share = 0.77;
    const double rate = target.core.last.read;
    return unhidden_cycles(rate, target) > 0 ? share * rate : rate;
}

// How many lines the first cache holds of those that lie so many bytes apart: a power of two leaves them few of its
// sets.
inline int64_t first_cache_lines(int64_t apart, const TargetModel &target) {
    const int64_t sets = std::max<int64_t>(1, page_bytes / std::max<int64_t>(line_bytes, apart & -apart));
    return sets * (target.core.l1.bytes / page_bytes);  // a way is a page
}

// Whether a call of float32 finds x, weights and y in the last cache: they are together more than the second one holds.
inline bool comes_from_far(const Problem &problem, const TargetModel &target) {
    const double bytes = 4.0 * (problem.x_elements() + problem.w_elements() + problem.y_elements());
    // A core that shares its second cache with nobody has twice what it may count on.
    return problem.x_type == DType::f32 && !target.cold_weights &&
           bytes > 2 * static_cast<double>(target.core.l2.bytes);
}

// Whether what a call of float32 reads and writes is more than the last cache holds too.
inline bool comes_from_memory(const Problem &problem, const TargetModel &target) {
    const double bytes = 4.0 * (problem.x_elements() + problem.w_elements() + problem.y_elements());
    return problem.x_type == DType::f32 && bytes > static_cast<double>(target.core.last.bytes);
}

// So many rows, each in a page of its own, a processor fetches ahead by itself.
constexpr int fetched_rows = 32;

// Cycles that a vector of channels-first rows waits for its line in the last cache where more rows than those are read
// or written side by side, a vector of each.
constexpr double plane_vector_wait(const CoreModel &core) {
    constexpr double share = 0.12;  // of the latency
    return share * core.last.latency;
}

// Whether panels of weights are worth fetching ahead: where the last cache is slow. It was not timed elsewhere.
inline bool waits_for_panels(const TargetModel &target) {
    return !target.is_gpu() && !target.lane_indexed_fma && unhidden_cycles(target.core.last.read, target) > 0;
}

// Whether by shares, one for each of the tiles that multiply by the panel before. By AVX2, whose steps take as long for
// half as many weights, those that are fetched by their distance arrive as early: layers of an Intel Xeon take 1 to 5%
// longer by shares, a ConvTranspose of 21 channels by 16x16 taps 13%.
inline bool fetches_by_shares(const TargetModel &target) {
    return waits_for_panels(target) && target.vector_bits == 512;
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
