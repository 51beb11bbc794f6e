// Decisions: which algorithm and schedule a problem is compiled with on a target. Nothing of Halide shows here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "axes/simplify_problem.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// Which algorithm and schedule a (problem, target) is compiled with.
struct Decision {
    std::string algorithm;
    std::string schedule;
};

inline bool operator==(const Decision &a, const Decision &b) {
    return a.algorithm == b.algorithm && a.schedule == b.schedule;
}

// The decision taken where nobody tuned one. Throws std::invalid_argument where Kiln cannot make a kernel for the
// problem, saying which part of it.
Decision default_decision(const Problem &problem, const TargetModel &target);

// The same with one algorithm, or nothing where it does not apply. Throws std::invalid_argument where there is none of
// that name.
std::optional<Decision> default_decision(const Problem &problem, const TargetModel &target,
                                         const std::string &algorithm);

// A decision for one of image_parts(), which reads weights that are packed for `decision`: its schedule says in another
// order of loops how the part is computed, if that is estimated to take less time.
Decision decision_of_part(const Problem &part, const Decision &decision, const TargetModel &target);

// What is tried where a kernel does not compile as `failed` says: the last algorithm in the list that applies but for
// the operator's own definition, which does the least to a problem; where it is that, its plain schedule; where it is
// that too, the definition. Nothing where it is the definition.
std::optional<Decision> fallback_decision(const Problem &problem, const TargetModel &target, const Decision &failed);

// Throws std::invalid_argument unless the decision's algorithm has this revision, applies to the problem and takes the
// schedule; with a target, unless the algorithm is for that kind of target too.
void check_decision(const Problem &problem, const Decision &decision, int revision,
                    const TargetModel *target = nullptr);

// What is computed in place of arithmetic that the target does not have, or not as fast: "float16 is computed in
// float32"; empty where nothing is.
std::string emulation_note(const Problem &problem, const Decision &decision);

// A decision in today's names: decisions and records of one release before call some algorithms, and numbers of
// schedules, otherwise. `renamed`, where it is not null, is told of each: "algorithm tiles is called amx now".
Decision current_names(const Decision &decision, std::vector<std::string> *renamed = nullptr);

// The problem as the algorithm's kernels compute it: simplified, but for one that reads open sizes when it runs.
Simplification simplification_by(const std::string &algorithm, const Problem &problem);

// The revision of an algorithm, for decisions and manifests.
int algorithm_revision(const std::string &algorithm);

// A decision's schedule with all its numbers: a text from before some of them came lacks those. Throws
// std::invalid_argument where it is no schedule of the algorithm's.
std::string complete_schedule(const Decision &decision);

// How many bytes a problem's packed weights have; nothing where that depends on sizes left open.
std::optional<int64_t> packed_weight_bytes(const Problem &problem, const Decision &decision);

}  // namespace kiln
