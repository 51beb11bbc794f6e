// The list of algorithms, in the order they are asked: the first that applies, and pays where it tells, is taken.
#include <optional>
#include <stdexcept>

#include "algorithms/algorithm.h"
#include "algorithms/amx/amx.h"
#include "algorithms/deformable/deformable.h"
#include "algorithms/deformable/schedule_gpu.h"
#include "algorithms/depthwise/depthwise.h"
#include "algorithms/depthwise/schedule_gpu.h"
#include "algorithms/direct/direct.h"
#include "algorithms/direct/schedule_gpu.h"
#include "algorithms/dynamic/dynamic.h"
#include "algorithms/empty/empty.h"
#include "algorithms/f16_accumulate/f16_accumulate.h"
#include "algorithms/strassen/strassen.h"
#include "algorithms/winograd/winograd.h"
#include "algorithms/winograd/winograd_gpu.h"
#include "expressions/types.h"
#include "moves/gpu_schedule.h"
#include "operators/definition.h"

namespace kiln {
namespace {

using Extents = std::vector<Halide::Expr>;

Extents constants(const std::vector<int> &numbers) {
    return {numbers.begin(), numbers.end()};
}

Extents one_phase(const Problem &problem, const std::string &, const Sizes &) {
    return Extents(image_axes(problem), 1);
}

Extents direct_phases(const Problem &problem, const std::string &schedule, const Sizes &) {
    return constants(dense::output_phases(problem, dense::DirectSchedule::parse(schedule)));
}

Extents whole_phases(const Problem &problem, const std::string &, const Sizes &) {
    return constants(dense::whole_phases(problem));
}

bool is_fixed(const Problem &problem, Operator op) {
    return problem.op == op && !problem.has_open_sizes() && !dense::is_empty(problem);
}

// Each algorithm is a struct of its functions, with its schedule as numbers where Algorithm has the text; without a
// packed_type, weights are packed in the type they are multiplied in.

// That of an algorithm that has nothing to choose.
struct NoSchedule {
    static NoSchedule parse(const std::string &text) {
        if (!text.empty()) {
            throw std::invalid_argument("schedule \"" + text + "\": there is nothing to choose");
        }
        return {};
    }
    std::string print() const { return {}; }
};

struct Empty {
    using Schedule = NoSchedule;
    static Schedule default_schedule(const Problem &, const TargetModel &) { return {}; }
    static Halide::Func build(const Problem &problem, const Schedule &, const Operands &operands, const TargetModel &) {
        return dense::empty(problem, operands);
    }
    // One element, whatever the weights.
    static Extents packed_extents(const Problem &, const Schedule &, const Sizes &) { return {1}; }
    static Halide::Func pack(const Problem &problem, const Schedule &, const Sizes &, const Halide::Func &) {
        Halide::Func packed("packed");
        packed(Halide::Var("i")) = Halide::Internal::make_zero(operand_type(problem));
        return packed;
    }
};

struct Open {
    using Schedule = dense::OpenSchedule;
    static constexpr auto space = dense::open_space;
    static constexpr auto default_schedule = dense::default_open_schedule;
    static Extents phases(const Problem &problem, const std::string &, const Sizes &sizes) {
        return problem.op == Operator::conv_transpose ? sizes.stride : Extents(problem.rank, 1);
    }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        dense::OpenStages stages = dense::open(problem, schedule, operands);
        dense::schedule_open(stages, problem, schedule, operands.sizes);
        return stages.y;
    }
    static constexpr auto packed_extents = dense::open_packed_extents;
    static constexpr auto pack = dense::open_pack;
};

struct Depthwise {
    using Schedule = depthwise::DepthwiseSchedule;
    static constexpr auto space = depthwise::space;
    static constexpr auto default_schedule = depthwise::default_depthwise_schedule;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        depthwise::DepthwiseStages stages = depthwise::depthwise(problem, schedule, operands);
        depthwise::schedule_depthwise(stages, problem, schedule);
        return stages.y;
    }
    static constexpr auto packed_type = depthwise::packed_type;
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &) {
        return constants(depthwise::packed_extents(problem, schedule));
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &, const Halide::Func &w) {
        return depthwise::pack(problem, schedule, w);
    }
};

struct Winograd {
    using Schedule = dense::WinogradSchedule;
    static constexpr auto space = dense::winograd_space;
    static Extents phases(const Problem &problem, const std::string &, const Sizes &) {
        return constants(dense::winograd_output_phases(problem));
    }
    static constexpr auto phases_as_channels = dense::winograd_phases_as_channels;
    static constexpr auto default_schedule = dense::default_winograd_schedule;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        dense::WinogradStages stages = dense::winograd(problem, schedule, operands);
        dense::schedule_winograd(stages, problem, schedule);
        if (target.lane_indexed_fma && !problem.is_quantized()) {
            dense::stage_inputs(stages, problem, schedule);
        }
        return stages.y;
    }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &) {
        return constants(dense::winograd_shape(problem, schedule).packed_extents());
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &, const Halide::Func &w) {
        return dense::pack_winograd(problem, dense::winograd_shape(problem, schedule), w);
    }
};

struct Direct {
    using Schedule = dense::DirectSchedule;
    static constexpr auto space = dense::direct_space;
    static constexpr auto default_schedule = dense::default_direct_schedule;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        dense::DirectStages stages = dense::direct(problem, schedule, operands, target);
        dense::schedule_direct(stages, problem, schedule);
        if (schedule.half) {
            dense::schedule_half(stages, schedule);
        }
        if (dense::stages_inputs(problem, schedule, target)) {
            dense::stage_inputs(stages, schedule);
        }
        return stages.y;
    }
    static Halide::Type packed_type(const Problem &problem, const Schedule &schedule) {
        return dot_types(problem, schedule.dot).w;
    }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &) {
        return constants(dense::packed_weights(problem, schedule).extents());
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &, const Halide::Func &w) {
        return dense::pack(problem, dense::packed_weights(problem, schedule), w);
    }
};

struct Tiles {
    using Schedule = dense::TilesSchedule;
    static constexpr auto space = dense::tiles_space;
    static constexpr auto default_schedule = dense::default_tiles_schedule;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        if (!dense::has_tiles(target)) {
            throw std::invalid_argument("algorithm tiles: " + std::string(target.name) + " has no matrix tiles");
        }
        Operands rounded_at_once = operands;
        rounded_at_once.bf16_instruction = true;
        return Direct::build(problem, schedule.direct(problem), rounded_at_once, target);
    }
    static Halide::Type packed_type(const Problem &problem, const Schedule &schedule) {
        return Direct::packed_type(problem, schedule.direct(problem));
    }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &sizes) {
        return Direct::packed_extents(problem, schedule.direct(problem), sizes);
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &sizes,
                             const Halide::Func &w) {
        return Direct::pack(problem, schedule.direct(problem), sizes, w);
    }
    static void finish(const Problem &problem, const Schedule &schedule, const std::string &object_file,
                       const std::string &listing_file) {
        if (const std::optional<dense::TileOperand> streamed = dense::streamed_operand(problem, schedule)) {
            dense::stream_tile_operand(object_file, listing_file, *streamed);
        }
    }
};

struct Strassen {
    using Schedule = dense::StrassenSchedule;
    static constexpr auto space = dense::strassen_space;
    static constexpr auto default_schedule = dense::default_strassen_schedule;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        dense::StrassenStages stages = dense::strassen(problem, schedule, operands, target);
        dense::schedule_strassen(stages, problem, schedule);
        return stages.y;
    }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &sizes) {
        return Direct::packed_extents(dense::strassen_products(problem, schedule), schedule.direct(), sizes);
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &sizes,
                             const Halide::Func &w) {
        return Direct::pack(dense::strassen_products(problem, schedule), schedule.direct(), sizes,
                            dense::strassen_weights(problem, w));
    }
};

struct Half : Direct {
    using Schedule = dense::HalfSchedule;
    static constexpr auto space = dense::half_space;
    static constexpr auto default_schedule = dense::default_half_schedule;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        if (!dense::has_half(target)) {
            throw std::invalid_argument("algorithm half: " + std::string(target.name) + " has no float16 arithmetic");
        }
        return Direct::build(problem, schedule, operands, target);
    }
    static Halide::Type packed_type(const Problem &, const Schedule &) { return Halide::Float(16); }
};

struct Sampled {
    using Schedule = deform_conv::SampledSchedule;
    static constexpr auto space = deform_conv::sampled_space;
    static constexpr auto default_schedule = deform_conv::default_sampled_schedule;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        deform_conv::SampledStages stages = deform_conv::sampled(problem, schedule, operands);
        deform_conv::schedule_sampled(stages, problem, schedule, operands.sizes);
        return stages.y;
    }
    static constexpr auto packed_extents = deform_conv::packed_extents;
    static constexpr auto pack = deform_conv::pack;
};

struct Definition {
    using Schedule = NoSchedule;
    static Schedule default_schedule(const Problem &, const TargetModel &) { return {}; }
    static Halide::Func build(const Problem &problem, const Schedule &, const Operands &operands, const TargetModel &) {
        operators::Definition definition = operators::define(problem, operands);
        operators::schedule_plainly(definition);
        return definition.y;
    }
    static Extents packed_extents(const Problem &problem, const Schedule &, const Sizes &sizes) {
        return operators::weight_extents(problem, sizes);
    }
    static Halide::Func pack(const Problem &problem, const Schedule &, const Sizes &, const Halide::Func &w) {
        return operators::weights_in_order(problem, w);
    }
};

// A GPU's algorithm, whose weights are packed as a processor's: that of its schedule's stages().
template <class Processor, class GpuSchedule>
struct PackedLike {
    using Schedule = GpuSchedule;
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &sizes) {
        return Processor::packed_extents(problem, schedule.stages(), sizes);
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &sizes,
                             const Halide::Func &w) {
        return Processor::pack(problem, schedule.stages(), sizes, w);
    }
};

struct EmptyGpu : Empty {
    static Halide::Func build(const Problem &problem, const Schedule &, const Operands &operands, const TargetModel &) {
        const Halide::Func y = dense::empty(problem, operands);
        schedule_elements_gpu(y);
        return y;
    }
};

struct DefinitionGpu : Definition {
    static Halide::Func build(const Problem &problem, const Schedule &, const Operands &operands, const TargetModel &) {
        operators::Definition definition = operators::define(problem, operands);
        operators::schedule_plainly_gpu(definition);
        return definition.y;
    }
};

struct WinogradGpu : PackedLike<Winograd, dense::WinogradGpuSchedule> {
    static constexpr auto default_schedule = dense::default_winograd_gpu_schedule;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        return dense::winograd_gpu(problem, schedule, operands);
    }
};

struct DepthwiseGpu : PackedLike<Depthwise, depthwise::DepthwiseGpuSchedule> {
    static constexpr auto default_schedule = depthwise::default_depthwise_gpu_schedule;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        depthwise::DepthwiseStages stages = depthwise::depthwise(problem, schedule.stages(), operands);
        depthwise::schedule_depthwise_gpu(stages, problem, schedule);
        return stages.y;
    }
};

struct DirectGpu : PackedLike<Direct, dense::DirectGpuSchedule> {
    static constexpr auto default_schedule = dense::default_direct_gpu_schedule;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        dense::DirectStages stages = dense::direct(problem, schedule.stages(), operands, target, schedule.in_shared);
        dense::schedule_direct_gpu(stages, problem, schedule);
        return stages.y;
    }
};

struct SampledGpu : PackedLike<Sampled, deform_conv::SampledGpuSchedule> {
    static constexpr auto default_schedule = deform_conv::default_sampled_gpu_schedule;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        deform_conv::SampledStages stages = deform_conv::sampled(problem, schedule.stages(), operands);
        deform_conv::schedule_sampled_gpu(stages, problem, schedule);
        return stages.y;
    }
};

template <class A>
constexpr decltype(Algorithm::space) space_of() {
    if constexpr (requires { A::space; }) {
        return A::space;
    } else {
        return nullptr;
    }
}

template <class A>
constexpr decltype(Algorithm::phases_as_channels) phases_as_channels_of() {
    if constexpr (requires { &A::phases_as_channels; }) {
        return A::phases_as_channels;
    } else {
        return nullptr;
    }
}

template <class A>
constexpr decltype(Algorithm::finish) finish_of() {
    if constexpr (requires { &A::finish; }) {
        return [](const Problem &problem, const std::string &schedule, const std::string &object_file,
                  const std::string &listing_file) {
            A::finish(problem, A::Schedule::parse(schedule), object_file, listing_file);
        };
    } else {
        return nullptr;
    }
}

// A row of the list: the algorithm's functions behind the schedule's text.
template <class A>
constexpr Algorithm row(const char *name, int revision, const char *summary, decltype(Algorithm::applies) applies,
                        decltype(Algorithm::output_phases) output_phases, decltype(Algorithm::pays) pays = nullptr,
                        decltype(Algorithm::runs_on) runs_on = nullptr) {
    using Schedule = typename A::Schedule;
    return {
        name,
        revision,
        summary,
        applies,
        [](const Problem &problem, const TargetModel &target) { return A::default_schedule(problem, target).print(); },
        [](const std::string &schedule) { return Schedule::parse(schedule).print(); },
        output_phases,
        [](const Problem &problem, const std::string &schedule, const Operands &operands, const TargetModel &target) {
            return A::build(problem, Schedule::parse(schedule), operands, target);
        },
        [](const Problem &problem, const std::string &text) {
            if constexpr (requires(const Schedule &schedule) { A::packed_type(problem, schedule); }) {
                return A::packed_type(problem, Schedule::parse(text));
            } else {
                return operand_type(problem);
            }
        },
        [](const Problem &problem, const std::string &text, const Sizes &sizes) {
            const Schedule schedule = Schedule::parse(text);
            if constexpr (requires { schedule.check(problem); }) {
                schedule.check(problem);
            }
            return A::packed_extents(problem, schedule, sizes);
        },
        [](const Problem &problem, const std::string &schedule, const Sizes &sizes, const Halide::Func &w) {
            return A::pack(problem, Schedule::parse(schedule), sizes, w);
        },
        pays,
        space_of<A>(),
        runs_on,
        phases_as_channels_of<A>(),
        finish_of<A>()};
}

template <class A>
constexpr Algorithm gpu_row(const char *name, int revision, const char *summary, decltype(Algorithm::applies) applies,
                            decltype(Algorithm::output_phases) output_phases,
                            decltype(Algorithm::pays) pays = nullptr) {
    return row<A>(name, revision, summary, applies, output_phases, pays,
                  [](const TargetModel &target) { return target.is_gpu(); });
}

constexpr Algorithm list[] = {
    row<Empty>("empty", 1, "x or y has no elements: bias, residual and activation alone", dense::is_empty, one_phase),
    row<Open>(
        "open", 1, "any of the problem's numbers read at run time, products summed in order",
        [](const Problem &problem) { return problem.op != Operator::deform_conv && problem.has_open_sizes(); },
        Open::phases),
    row<Depthwise>("depthwise", 2, "each channel by itself, its taps unrolled", depthwise::applies, whole_phases),
    row<Tiles>("tiles", 2, "matrix tiles of channels and pixels, products summed in order", dense::tiles_apply,
               whole_phases, dense::tiles_pay, dense::has_tiles),
    row<Half>("half", 1, "a register tile of channels and pixels, products summed in float16 at first",
              dense::half_applies, whole_phases, nullptr, dense::has_half),
    row<Winograd>("winograd", 4, "tiles of outputs by fewer products, all tiles batched for each point",
                  dense::winograd_applies, Winograd::phases, dense::winograd_pays),
    row<Strassen>("strassen", 1, "seven products of halves for eight: positions, input and output channels",
                  dense::strassen_applies, one_phase, dense::strassen_pays, dense::strassen_runs_on),
    row<Direct>(
        "direct", 1, "a register tile of channels and pixels, products summed in order",
        [](const Problem &problem) { return is_fixed(problem, Operator::conv); }, direct_phases),
    row<Direct>(
        "polyphase", 1, "one stride-1 direct convolution for each output phase",
        [](const Problem &problem) { return is_fixed(problem, Operator::conv_transpose); }, direct_phases),
    row<Sampled>(
        "sampled", 1, "samples gathered block by block, times a register tile of channels and pixels",
        [](const Problem &problem) { return problem.op == Operator::deform_conv && !dense::is_empty(problem); },
        one_phase),
    row<Definition>(
        "definition", 1, "the operator's definition as it stands, an element after the other",
        [](const Problem &problem) { return !dense::is_empty(problem); }, one_phase),
    gpu_row<EmptyGpu>("gpu_empty", 1, "x or y has no elements: bias, residual and activation alone", dense::is_empty,
                      one_phase),
    gpu_row<WinogradGpu>("gpu_winograd", 1, "tiles of outputs by fewer products, all tiles for each point together",
                         dense::winograd_gpu_applies, whole_phases,
                         // Only where a decision asks for it: what it gains on a GPU was not measured yet.
                         [](const Problem &, const TargetModel &) { return false; }),
    gpu_row<DepthwiseGpu>("gpu_depthwise", 1, "each channel by itself, its taps unrolled, a tile of positions a thread",
                          depthwise::applies, whole_phases),
    gpu_row<DirectGpu>(
        "gpu_direct", 1, "a tile of channels and pixels a thread, products summed in order",
        [](const Problem &problem) { return is_fixed(problem, Operator::conv); }, whole_phases),
    gpu_row<DirectGpu>(
        "gpu_polyphase", 1, "one stride-1 direct convolution for each output phase, a tile a thread",
        [](const Problem &problem) { return is_fixed(problem, Operator::conv_transpose); }, whole_phases),
    gpu_row<SampledGpu>(
        "gpu_sampled", 1, "samples gathered into the workspace, times a tile of channels and points a thread",
        [](const Problem &problem) { return is_fixed(problem, Operator::deform_conv); }, one_phase),
    gpu_row<DefinitionGpu>(
        "gpu_definition", 1, "the operator's definition as it stands, an element a thread",
        [](const Problem &problem) { return !problem.has_open_sizes() && !dense::is_empty(problem); }, one_phase),
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
