// The list of algorithms.
#include "algorithm.h"

#include <stdexcept>

#include "dense/direct.h"

namespace kiln {
namespace {

using dense::DirectSchedule;

std::string direct_default(const Problem &problem, const TargetModel &target) {
    return dense::default_direct_schedule(problem, target).print();
}

Halide::Func direct_build(const Problem &problem, const std::string &schedule, const Operands &operands) {
    const DirectSchedule numbers = DirectSchedule::parse(schedule);
    dense::DirectStages stages = dense::direct(problem, numbers, operands);
    dense::schedule_direct(stages, problem, numbers);
    return stages.y;
}

std::vector<int> direct_packed_extents(const Problem &problem, const std::string &schedule) {
    const DirectSchedule numbers = DirectSchedule::parse(schedule);
    numbers.check(problem);
    return dense::packed_weights(problem, numbers).extents();
}

Halide::Func direct_pack(const Problem &problem, const std::string &schedule, const Halide::Func &w) {
    return dense::pack(problem, dense::packed_weights(problem, DirectSchedule::parse(schedule)), w);
}

constexpr Algorithm list[] = {
    {"direct", 1, "a register tile of channels and pixels, products summed in order",
     [](const Problem &problem) { return problem.op == Operator::conv; }, direct_default, dense::output_phases,
     direct_build, direct_packed_extents, direct_pack},
    {"polyphase", 1, "one stride-1 direct convolution for each output phase",
     [](const Problem &problem) { return problem.op == Operator::conv_transpose; }, direct_default,
     dense::output_phases, direct_build, direct_packed_extents, direct_pack},
};

}  // namespace

std::span<const Algorithm> algorithms() {
    return list;
}

const Algorithm &find_algorithm(const std::string &name) {
    std::string known;
    for (const Algorithm &algorithm : list) {
        if (name == algorithm.name) {
            return algorithm;
        }
        known += (known.empty() ? "" : ", ") + std::string(algorithm.name);
    }
    throw std::invalid_argument("algorithm \"" + name + "\" is not one of " + known);
}

}  // namespace kiln
