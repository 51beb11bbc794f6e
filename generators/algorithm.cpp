// The list of algorithms.
#include "algorithm.h"

#include <stdexcept>

#include "common/types.h"
#include "deform_conv/sampled.h"
#include "dense/direct.h"
#include "dense/empty.h"
#include "dense/winograd.h"

namespace kiln {
namespace {

using deform_conv::SampledSchedule;
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

std::vector<int> one_phase(const Problem &problem) {
    return std::vector<int>(image_axes(problem), 1);
}

std::string sampled_default(const Problem &problem, const TargetModel &target) {
    return deform_conv::default_sampled_schedule(problem, target).print();
}

Halide::Func sampled_build(const Problem &problem, const std::string &schedule, const Operands &operands) {
    const SampledSchedule numbers = SampledSchedule::parse(schedule);
    deform_conv::SampledStages stages = deform_conv::sampled(problem, numbers, operands);
    deform_conv::schedule_sampled(stages, problem, numbers);
    return stages.y;
}

std::vector<int> sampled_packed_extents(const Problem &problem, const std::string &schedule) {
    return deform_conv::packed_extents(problem, SampledSchedule::parse(schedule));
}

Halide::Func sampled_pack(const Problem &problem, const std::string &schedule, const Halide::Func &w) {
    return deform_conv::pack(problem, SampledSchedule::parse(schedule), w);
}

Halide::Func empty_build(const Problem &problem, const std::string &, const Operands &operands) {
    return dense::empty(problem, operands);
}

// One element, whatever the weights.
Halide::Func empty_pack(const Problem &problem, const std::string &, const Halide::Func &) {
    Halide::Func packed("packed");
    packed(Halide::Var("i")) = Halide::Internal::make_zero(operand_type(problem));
    return packed;
}

using dense::WinogradSchedule;

std::string winograd_default(const Problem &problem, const TargetModel &target) {
    return dense::default_winograd_schedule(problem, target).print();
}

Halide::Func winograd_build(const Problem &problem, const std::string &schedule, const Operands &operands) {
    const WinogradSchedule numbers = WinogradSchedule::parse(schedule);
    dense::WinogradStages stages = dense::winograd(problem, numbers, operands);
    dense::schedule_winograd(stages, problem, numbers);
    return stages.y;
}

std::vector<int> winograd_packed_extents(const Problem &problem, const std::string &schedule) {
    const WinogradSchedule numbers = WinogradSchedule::parse(schedule);
    numbers.check(problem);
    return dense::winograd_shape(problem, numbers).packed_extents();
}

Halide::Func winograd_pack(const Problem &problem, const std::string &schedule, const Halide::Func &w) {
    return dense::pack_winograd(problem, dense::winograd_shape(problem, WinogradSchedule::parse(schedule)), w);
}

constexpr Algorithm list[] = {
    {"empty", 1, "x or y has no elements: bias, residual and activation alone", dense::is_empty,
     [](const Problem &, const TargetModel &) { return std::string(); }, one_phase, empty_build,
     [](const Problem &, const std::string &) { return std::vector<int>{1}; }, empty_pack},
    {"direct", 1, "a register tile of channels and pixels, products summed in order",
     [](const Problem &problem) { return problem.op == Operator::conv && !dense::is_empty(problem); }, direct_default,
     dense::output_phases, direct_build, direct_packed_extents, direct_pack},
    {"polyphase", 1, "one stride-1 direct convolution for each output phase",
     [](const Problem &problem) { return problem.op == Operator::conv_transpose && !dense::is_empty(problem); },
     direct_default, dense::output_phases, direct_build, direct_packed_extents, direct_pack},
    {"sampled", 1, "samples gathered block by block, times a register tile of channels and pixels",
     [](const Problem &problem) { return problem.op == Operator::deform_conv && !dense::is_empty(problem); },
     sampled_default, one_phase, sampled_build, sampled_packed_extents, sampled_pack},
    {"winograd", 1, "tiles of outputs by fewer products, all tiles batched for each point", dense::winograd_applies,
     winograd_default, dense::output_phases, winograd_build, winograd_packed_extents, winograd_pack},
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
