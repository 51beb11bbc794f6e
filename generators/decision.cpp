// From a problem and a target to a decision: what the list of algorithms (operators/list.cpp) says where nobody tuned,
// and what it says of decisions that somebody made.
#include "decision.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <ranges>
#include <set>
#include <stdexcept>

#include "algorithms/algorithm.h"
#include "algorithms/schedule_text.h"
#include "axes/image_parts.h"
#include "axes/simplify_problem.h"
#include "candidates.h"
#include "image_functions.h"
#include "kiln/kernel.h"
#include "tensors.h"

namespace kiln {
namespace {

// What no kernel can do yet, in the user's words; empty if there is nothing.
std::string unsupported_part(const Problem &given, const TargetModel &target) {
    const Problem problem = target.is_gpu() ? given : of_known_sizes(given);
    if (target.is_gpu() && problem.x_type == DType::f64) {
        return std::string("type ") + to_string(problem.x_type) + " has no kernels on " + target.name +
               ": float32, float16, bfloat16, int8 and uint8 have";
    }
    if (target.is_gpu() && problem.has_open_sizes()) {
        return std::string("sizes left open (\"?\") have no kernels on ") + target.name;
    }
    if (problem.has_open_sizes()) {
        return "";  // a plan checks those of a run
    }
    const int64_t most = INT32_MAX / 8;  // Halide counts bytes of a tensor, and positions in it, in 32 bits
    if (problem.x_elements() > most || problem.y_elements() > most || problem.w_elements() > most) {
        return "a tensor has more than " + std::to_string(most) + " elements";
    }
    if (problem.traits().deformable &&
        problem.y_elements() / problem.out_channels > most / (problem.mask_channels() * problem.rank)) {
        return "offset has more than " + std::to_string(most) + " elements";
    }
    for (int axis = 0; axis < problem.rank; axis++) {
        const int64_t reach = problem.in[axis] + std::abs(problem.pad_begin[axis]) + std::abs(problem.pad_end[axis]);
        if (reach > most || problem.stride[axis] > most || problem.effective_kernel(axis) > most) {
            return "strides, dilated kernels and padded sizes above " + std::to_string(most) + " have no kernels";
        }
    }
    return "";
}

Problem problem_by(const Algorithm &algorithm, const Problem &problem) {
    return simplification_by(algorithm.name, problem).problem;
}

// The first algorithm that is taken where it applies, and its schedule.
Decision first_decision(const Problem &problem, const TargetModel &target) {
    for (const Algorithm &algorithm : algorithms()) {
        const Problem simplified = problem_by(algorithm, problem);
        if (algorithm.applies_on(simplified, target) &&
            (algorithm.is_profitable == nullptr || algorithm.is_profitable(simplified, target))) {
            return {algorithm.name, algorithm.default_schedule(simplified, target)};
        }
    }
    throw std::invalid_argument("no algorithm applies");
}

// Numbers that say in which order a kernel computes, whatever its packed weights: parts of an image may have others,
// though they read the same ones.
bool is_free(const std::string &number) {
    static const std::set<std::string> names = {
        "block",           "chunk",           "clipped_tail", "images", "panels_outside", "pixels", "prefetch_distance",
        "prefetch_output", "prefetch_panels", "row_tiles",    "rows",   "tiles_outside",  "unroll"};
    return names.contains(number);
}

// A schedule for one problem, and what a call is estimated to take.
struct Estimated {
    Decision decision;
    double cycles = 0;
};

// Nothing where the kernel cannot be so, or has no estimate.
std::optional<Estimated> estimated(const Problem &problem, const Decision &decision, const TargetModel &target) try {
    check_decision(problem, decision, algorithm_revision(decision.algorithm), &target);
    const std::optional<double> cycles = estimated_cycles(problem, decision, target);
    return cycles ? std::optional(Estimated{decision, *cycles}) : std::nullopt;
} catch (const std::invalid_argument &) {
    return std::nullopt;
}

// With the free numbers of `decision` or of the problem's default, whichever takes less. Those of the one beside the
// other's packed weights may be tiles of more than the registers, which the space tells.
std::optional<Estimated> with_free_numbers(const Problem &part, const Decision &decision, const TargetModel &target) {
    std::optional<Estimated> best = estimated(part, decision, target);
    if (const std::optional<Decision> own = default_decision(part, target, decision.algorithm)) {
        const ScheduleNumbers others(own->schedule);
        ScheduleNumbers numbers(decision.schedule);
        for (const auto &[name, value] : others.all()) {
            if (is_free(name) && numbers.has(name)) {
                numbers.set(name, value);
            }
        }
        const Algorithm &algorithm = find_algorithm(decision.algorithm);
        const ScheduleSpace space = algorithm.space_of(problem_by(algorithm, part), target);
        const std::optional<Estimated> with_own = !space.constraint || numbers == others || space.constraint(numbers)
                                                      ? estimated(part, {decision.algorithm, numbers.print()}, target)
                                                      : std::nullopt;
        best = with_own && (!best || with_own->cycles < best->cycles) ? with_own : best;
    }
    return best;
}

// Sizes of the images that a decision is chosen for, along each axis, of a ConvTranspose those of x.
constexpr int64_t typical_sizes[] = {7, 14, 20, 28, 35, 40, 56, 80, 112, 160};

// The geometric mean over typical images of what their parts take together, each part with the free numbers that suit
// it. Nothing where the largest part's kernel cannot be so, or has no estimate.
std::optional<double> mean_cycles(const Problem &problem, const std::vector<Problem> &parts, const Decision &decision,
                                  const TargetModel &target) {
    kiln_image_parts table = {};
    table.rank = problem.rank;
    for (const Problem &part : parts) {
        if (const std::optional<Estimated> best = with_free_numbers(part, decision, target)) {
            kiln_part_kernel &kernel = table.kernels[table.kernel_count++];
            std::copy_n(part.out.begin(), part.rank, kernel.out);
            kernel.cycles = static_cast<int64_t>(best->cycles + cycles_of_copies(part, true));
        } else if (table.kernel_count == 0) {
            return std::nullopt;
        }
    }
    double sum = 0;
    for (const int64_t size : typical_sizes) {
        int64_t out[kiln_part_axes];
        for (int axis = 0; axis < problem.rank; axis++) {
            const int64_t steps = problem.traits().transposed ? problem.stride[axis] : 1;
            out[axis] = problem.out[axis] == open_size ? size * steps : problem.out[axis];
        }
        sum += std::log(static_cast<double>(kiln_parts_cycles(&table, out)));
    }
    return std::exp(sum / std::size(typical_sizes));
}

// By less, an estimate does not tell one schedule from another.
constexpr double least_gain = .01;

// How much longer the largest parts may take by what suits others: most of a large image is theirs.
constexpr double most_loss = 1.6;

// All parts of an image read the same packed weights: those that suit the largest, as `decision` does, or others by
// which images take less time, from which tiles are changed one size at a time for as long as that takes less.
// Estimates of rows and volumes are left as they are: by their tiles parts were slower than by the largest's own.
Decision decision_of_parts(const Problem &problem, const TargetModel &target, const Decision &decision) {
    std::vector<Problem> parts = image_parts(problem);
    std::optional<double> least =
        parts.size() > 1 && problem.rank == 2 ? mean_cycles(problem, parts, decision, target) : std::nullopt;
    if (!least) {
        return decision;
    }
    const double most = most_loss * with_free_numbers(parts[0], decision, target)->cycles;
    Decision best = decision;
    const auto take_better = [&](const Decision &other) {
        const std::optional<double> cycles = mean_cycles(problem, parts, other, target);
        const bool is_better =
            cycles && *cycles < (1 - least_gain) * *least && with_free_numbers(parts[0], other, target)->cycles <= most;
        if (is_better) {
            best = other;
            least = cycles;
        }
        return is_better;
    };
    for (size_t i = 1; i < parts.size(); i++) {
        take_better(first_decision(parts[i], target));
    }
    if (const std::optional<Problem> common = common_part(problem)) {
        take_better(first_decision(*common, target));
    }
    const Algorithm &algorithm = find_algorithm(best.algorithm);
    const ScheduleSpace space = algorithm.space_of(problem_by(algorithm, parts[0]), target);
    for (bool is_better = true; is_better;) {
        is_better = false;
        for (const ScheduleSpace::Choice &choice : space.choices) {
            for (size_t v = 0; choice.name.starts_with("tile_") && v < choice.values.size(); v++) {
                const Decision other = with_number(best, choice.name, choice.values[v]);
                if (!space.constraint || space.constraint(ScheduleNumbers(other.schedule))) {
                    is_better = take_better(other) || is_better;
                }
            }
        }
    }
    return decision_of_part(parts[0], best, target);
}

}  // namespace

Simplification simplification_by(const std::string &algorithm, const Problem &problem) {
    return find_algorithm(algorithm).reads_open_sizes ? without_simplification(problem) : simplification_of(problem);
}

Decision default_decision(const Problem &problem, const TargetModel &target) {
    if (const std::string part = unsupported_part(problem, target); !part.empty()) {
        throw std::invalid_argument(part);
    }
    return decision_of_parts(problem, target, first_decision(problem, target));
}

Decision decision_of_part(const Problem &part, const Decision &decision, const TargetModel &target) {
    const std::optional<Estimated> best = with_free_numbers(part, decision, target);
    return best ? best->decision : decision;
}

std::optional<Decision> default_decision(const Problem &problem, const TargetModel &target, const std::string &name) {
    const Algorithm &algorithm = find_algorithm(name);
    const Problem simplified = problem_by(algorithm, problem);
    if (!unsupported_part(problem, target).empty() || !algorithm.applies_on(simplified, target)) {
        return std::nullopt;
    }
    return Decision{name, algorithm.default_schedule(simplified, target)};
}

std::optional<Decision> fallback_decision(const Problem &problem, const TargetModel &target, const Decision &failed) {
    std::optional<Decision> definition;
    for (const Algorithm &algorithm : std::views::reverse(algorithms())) {
        const std::optional<Decision> decision = default_decision(problem, target, algorithm.name);
        if (!decision) {
            continue;
        }
        if (algorithm.is_definition && algorithm.name != failed.algorithm) {
            definition = decision;
        } else if (algorithm.name != failed.algorithm) {
            return decision;
        } else {
            const std::string plain = algorithm.plain_schedule == nullptr
                                          ? failed.schedule
                                          : algorithm.plain_schedule(problem_by(algorithm, problem), target);
            return plain == failed.schedule ? definition : Decision{algorithm.name, plain};
        }
    }
    return definition;
}

void check_decision(const Problem &problem, const Decision &decision, int revision, const TargetModel *target) {
    const Algorithm &algorithm = find_algorithm(decision.algorithm);
    if (algorithm.revision != revision) {
        throw std::invalid_argument("algorithm " + decision.algorithm + " is at revision " +
                                    std::to_string(algorithm.revision) + ", the decision at " +
                                    std::to_string(revision));
    }
    const Problem simplified = problem_by(algorithm, problem);
    if (target != nullptr && algorithm.applies(simplified) && !algorithm.applies_on(simplified, *target)) {
        throw std::invalid_argument("algorithm " + decision.algorithm + " is not for " + target->name);
    }
    if (!algorithm.applies(simplified)) {
        throw std::invalid_argument("algorithm " + decision.algorithm + " does not apply");
    }
    algorithm.read(decision.schedule)->packed_extents(simplified, Sizes(simplified));
}

std::string emulation_note(const Problem &problem, const Decision &decision) {
    const Halide::Type packed = find_algorithm(decision.algorithm)
                                    .read(decision.schedule)
                                    ->packed_type(simplification_by(decision.algorithm, problem).problem);
    if (problem.is_quantized()) {
        return packed.bits() == 16 ? "8-bit products are computed in 16 bits" : "";
    }
    const bool narrow = problem.x_type == DType::f16 || problem.x_type == DType::bf16;
    // Samples of a DeformConv are float32, whatever their weights are.
    if (!narrow || (packed.bits() == 16 && !problem.traits().deformable)) {
        return "";
    }
    return std::string(problem.x_type == DType::f16 ? "float16" : "bfloat16") + " is computed in float32";
}

Decision current_names(const Decision &decision, std::vector<std::string> *renamed) {
    Decision current = decision;
    const auto rename = [renamed](const std::string &what, std::string &name, const char *now) {
        if (renamed != nullptr) {
            renamed->push_back(what + " " + name + " is called " + now + " now");
        }
        name = now;
    };
    for (const Algorithm &algorithm : algorithms()) {
        if (!decision.algorithm.empty() && decision.algorithm == algorithm.former_name) {
            rename("algorithm", current.algorithm, algorithm.name);
        }
    }
    for (const auto &[former, now] : former_numbers) {
        const size_t at = (";" + current.schedule).find(";" + std::string(former) + ":");
        if (at != std::string::npos) {
            std::string name = former;
            rename("a schedule's", name, now);
            current.schedule.replace(at, std::string(former).size(), name);
        }
    }
    return current;
}

int algorithm_revision(const std::string &algorithm) {
    return find_algorithm(algorithm).revision;
}

std::string complete_schedule(const Decision &decision) {
    return find_algorithm(decision.algorithm).read(decision.schedule)->schedule();
}

std::optional<int64_t> packed_weight_bytes(const Problem &problem, const Decision &decision) try {
    const auto bytes =
        Halide::Internal::as_const_int(packed_bytes(simplification_by(decision.algorithm, problem).problem,
                                                    *find_algorithm(decision.algorithm).read(decision.schedule)));
    return bytes ? std::optional<int64_t>(*bytes) : std::nullopt;
} catch (const Halide::Error &error) {
    throw std::runtime_error(error.what());
}

}  // namespace kiln
