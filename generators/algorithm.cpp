// The list of algorithms.
#include "algorithm.h"

#include <stdexcept>

#include "common/types.h"
#include "deform_conv/sampled.h"
#include "dense/direct.h"
#include "dense/empty.h"
#include "dense/open.h"
#include "dense/winograd.h"
#include "depthwise/depthwise.h"

namespace kiln {
namespace {

using deform_conv::SampledSchedule;
using dense::DirectSchedule;
using dense::WinogradSchedule;
using depthwise::DepthwiseSchedule;

std::string direct_default(const Problem &problem, const TargetModel &target) {
    return dense::default_direct_schedule(problem, target).print();
}

Halide::Func direct_build(const Problem &problem, const std::string &schedule, const Operands &operands) {
    const DirectSchedule numbers = DirectSchedule::parse(schedule);
    dense::DirectStages stages = dense::direct(problem, numbers, operands);
    dense::schedule_direct(stages, problem, numbers);
    return stages.y;
}

std::vector<Halide::Expr> direct_phases(const Problem &problem, const Sizes &) {
    const std::vector<int> phases = dense::output_phases(problem);
    return {phases.begin(), phases.end()};
}

Halide::Type direct_packed_type(const Problem &problem, const std::string &schedule) {
    return dot_types(problem, DirectSchedule::parse(schedule).dot).w;
}

// Of algorithms that take no narrower operands.
Halide::Type wide_packed_type(const Problem &problem, const std::string &) {
    return operand_type(problem);
}

std::vector<Halide::Expr> direct_packed_extents(const Problem &problem, const std::string &schedule, const Sizes &) {
    const DirectSchedule numbers = DirectSchedule::parse(schedule);
    numbers.check(problem);
    const std::vector<int> extents = dense::packed_weights(problem, numbers).extents();
    return {extents.begin(), extents.end()};
}

Halide::Func direct_pack(const Problem &problem, const std::string &schedule, const Sizes &, const Halide::Func &w) {
    return dense::pack(problem, dense::packed_weights(problem, DirectSchedule::parse(schedule)), w);
}

std::string open_default(const Problem &problem, const TargetModel &target) {
    return dense::default_open_schedule(problem, target).print();
}

std::vector<Halide::Expr> open_phases(const Problem &problem, const Sizes &sizes) {
    return problem.op == Operator::conv_transpose ? sizes.stride : std::vector<Halide::Expr>(problem.rank, 1);
}

Halide::Func open_build(const Problem &problem, const std::string &schedule, const Operands &operands) {
    const dense::OpenSchedule numbers = dense::OpenSchedule::parse(schedule);
    dense::OpenStages stages = dense::open(problem, numbers, operands);
    dense::schedule_open(stages, problem, numbers, operands.sizes);
    return stages.y;
}

std::vector<Halide::Expr> open_packed_extents(const Problem &problem, const std::string &schedule, const Sizes &sizes) {
    return dense::open_packed_extents(problem, dense::OpenSchedule::parse(schedule), sizes);
}

Halide::Func open_pack(const Problem &problem, const std::string &schedule, const Sizes &sizes, const Halide::Func &w) {
    return dense::open_pack(problem, dense::OpenSchedule::parse(schedule), sizes, w);
}

bool is_fixed(const Problem &problem, Operator op) {
    return problem.op == op && !problem.has_open_sizes() && !dense::is_empty(problem);
}

std::vector<Halide::Expr> one_phase(const Problem &problem, const Sizes &) {
    return std::vector<Halide::Expr>(image_axes(problem), 1);
}

std::string sampled_default(const Problem &problem, const TargetModel &target) {
    return deform_conv::default_sampled_schedule(problem, target).print();
}

Halide::Func sampled_build(const Problem &problem, const std::string &schedule, const Operands &operands) {
    const SampledSchedule numbers = SampledSchedule::parse(schedule);
    deform_conv::SampledStages stages = deform_conv::sampled(problem, numbers, operands);
    deform_conv::schedule_sampled(stages, problem, numbers, operands.sizes);
    return stages.y;
}

std::vector<Halide::Expr> sampled_packed_extents(const Problem &problem, const std::string &schedule,
                                                 const Sizes &sizes) {
    return deform_conv::packed_extents(problem, SampledSchedule::parse(schedule), sizes);
}

Halide::Func sampled_pack(const Problem &problem, const std::string &schedule, const Sizes &sizes,
                          const Halide::Func &w) {
    return deform_conv::pack(problem, SampledSchedule::parse(schedule), sizes, w);
}

std::string depthwise_default(const Problem &problem, const TargetModel &target) {
    return depthwise::default_depthwise_schedule(problem, target).print();
}

Halide::Func depthwise_build(const Problem &problem, const std::string &schedule, const Operands &operands) {
    const DepthwiseSchedule numbers = DepthwiseSchedule::parse(schedule);
    depthwise::DepthwiseStages stages = depthwise::depthwise(problem, numbers, operands);
    depthwise::schedule_depthwise(stages, problem, numbers);
    return stages.y;
}

std::vector<Halide::Expr> depthwise_packed_extents(const Problem &problem, const std::string &schedule, const Sizes &) {
    const std::vector<int> extents = depthwise::packed_extents(problem, DepthwiseSchedule::parse(schedule));
    return {extents.begin(), extents.end()};
}

Halide::Func depthwise_pack(const Problem &problem, const std::string &schedule, const Sizes &, const Halide::Func &w) {
    return depthwise::pack(problem, DepthwiseSchedule::parse(schedule), w);
}

Halide::Func empty_build(const Problem &problem, const std::string &, const Operands &operands) {
    return dense::empty(problem, operands);
}

// One element, whatever the weights.
Halide::Func empty_pack(const Problem &problem, const std::string &, const Sizes &, const Halide::Func &) {
    Halide::Func packed("packed");
    packed(Halide::Var("i")) = Halide::Internal::make_zero(operand_type(problem));
    return packed;
}

std::string winograd_default(const Problem &problem, const TargetModel &target) {
    return dense::default_winograd_schedule(problem, target).print();
}

Halide::Func winograd_build(const Problem &problem, const std::string &schedule, const Operands &operands) {
    const WinogradSchedule numbers = WinogradSchedule::parse(schedule);
    dense::WinogradStages stages = dense::winograd(problem, numbers, operands);
    dense::schedule_winograd(stages, problem, numbers);
    return stages.y;
}

std::vector<Halide::Expr> winograd_packed_extents(const Problem &problem, const std::string &schedule, const Sizes &) {
    const WinogradSchedule numbers = WinogradSchedule::parse(schedule);
    numbers.check(problem);
    const std::vector<int> extents = dense::winograd_shape(problem, numbers).packed_extents();
    return {extents.begin(), extents.end()};
}

Halide::Func winograd_pack(const Problem &problem, const std::string &schedule, const Sizes &, const Halide::Func &w) {
    return dense::pack_winograd(problem, dense::winograd_shape(problem, WinogradSchedule::parse(schedule)), w);
}

constexpr Algorithm list[] = {
    {"empty", 1, "x or y has no elements: bias, residual and activation alone", dense::is_empty,
     [](const Problem &, const TargetModel &) { return std::string(); }, one_phase, empty_build, wide_packed_type,
     [](const Problem &, const std::string &, const Sizes &) { return std::vector<Halide::Expr>{1}; }, empty_pack},
    {"open", 1, "any of the problem's numbers read at run time, products summed in order",
     [](const Problem &problem) { return problem.op != Operator::deform_conv && problem.has_open_sizes(); },
     open_default, open_phases, open_build, wide_packed_type, open_packed_extents, open_pack},
    {"depthwise", 1, "each channel by itself, its taps unrolled", depthwise::applies, depthwise_default, direct_phases,
     depthwise_build, wide_packed_type, depthwise_packed_extents, depthwise_pack},
    {"winograd", 1, "tiles of outputs by fewer products, all tiles batched for each point", dense::winograd_applies,
     winograd_default, direct_phases, winograd_build, wide_packed_type, winograd_packed_extents, winograd_pack,
     dense::winograd_pays},
    {"direct", 1, "a register tile of channels and pixels, products summed in order",
     [](const Problem &problem) { return is_fixed(problem, Operator::conv); }, direct_default, direct_phases,
     direct_build, direct_packed_type, direct_packed_extents, direct_pack},
    {"polyphase", 1, "one stride-1 direct convolution for each output phase",
     [](const Problem &problem) { return is_fixed(problem, Operator::conv_transpose); }, direct_default, direct_phases,
     direct_build, direct_packed_type, direct_packed_extents, direct_pack},
    {"sampled", 1, "samples gathered block by block, times a register tile of channels and pixels",
     [](const Problem &problem) { return problem.op == Operator::deform_conv && !dense::is_empty(problem); },
     sampled_default, one_phase, sampled_build, wide_packed_type, sampled_packed_extents, sampled_pack},
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
