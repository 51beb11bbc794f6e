// From a problem and a target to a decision: what the list of algorithms (operators/list.cpp) says where nobody tuned,
// and what it says of decisions that somebody made.
#include "decision.h"

#include <cstdlib>
#include <memory>
#include <ranges>
#include <stdexcept>

#include "algorithms/algorithm.h"
#include "algorithms/schedule_text.h"
#include "axes/simplify_problem.h"
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

}  // namespace

Simplification simplification_by(const std::string &algorithm, const Problem &problem) {
    return find_algorithm(algorithm).reads_open_sizes ? without_simplification(problem) : simplification_of(problem);
}

Decision default_decision(const Problem &problem, const TargetModel &target) {
    if (const std::string part = unsupported_part(problem, target); !part.empty()) {
        throw std::invalid_argument(part);
    }
    for (const Algorithm &algorithm : algorithms()) {
        const Problem simplified = problem_by(algorithm, problem);
        if (algorithm.applies_on(simplified, target) &&
            (algorithm.is_profitable == nullptr || algorithm.is_profitable(simplified, target))) {
            return {algorithm.name, algorithm.default_schedule(simplified, target)};
        }
    }
    throw std::invalid_argument("no algorithm applies");
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
