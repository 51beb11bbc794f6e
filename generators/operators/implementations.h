// Each algorithm as the struct of functions that its row in the list names (row.h): its stages are defined and then
// scheduled, and its weights packed.
#pragma once

#include <Halide.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "algorithms/amx/amx.h"
#include "algorithms/deformable/deformable.h"
#include "algorithms/deformable/schedule_gpu.h"
#include "algorithms/depthwise/depthwise.h"
#include "algorithms/depthwise/schedule_gpu.h"
#include "algorithms/direct/direct.h"
#include "algorithms/direct/schedule_gpu.h"
#include "algorithms/dynamic/dynamic.h"
#include "algorithms/empty/empty.h"
#include "algorithms/estimates.h"
#include "algorithms/f16_accumulate/f16_accumulate.h"
#include "algorithms/kn2row/kn2row.h"
#include "algorithms/mma/mma.h"
#include "algorithms/schedule_text.h"
#include "algorithms/staged/samples.h"
#include "algorithms/staged/staged.h"
#include "algorithms/strassen/strassen.h"
#include "algorithms/winograd/schedule_gpu.h"
#include "algorithms/winograd/winograd.h"
#include "axes/joined_phases.h"
#include "expressions/epilogue.h"
#include "expressions/types.h"
#include "moves/gpu_schedule.h"
#include "operators/definition.h"

namespace kiln::implementations {

using Extents = std::vector<Halide::Expr>;

inline Extents constants(const std::vector<int> &numbers) {
    return {numbers.begin(), numbers.end()};
}

// The phases of axes whose outputs are all computed alike.
inline Extents one_phase(const Problem &problem) {
    return Extents(image_axes(problem), 1);
}

// That of an algorithm that has nothing to choose.
struct NoSchedule {
    void list(ScheduleText &) {}
};

struct Empty {
    using Schedule = NoSchedule;
    static Schedule default_schedule(const Problem &, const TargetModel &) { return {}; }
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) { return one_phase(problem); }
    static Halide::Func build(const Problem &problem, const Schedule &, const Operands &operands, const TargetModel &) {
        return kiln::empty(problem, operands);
    }
    // One element, whatever the weights.
    static Extents packed_extents(const Problem &, const Schedule &, const Sizes &) { return {1}; }
    static Halide::Func pack(const Problem &problem, const Schedule &, const Sizes &, const Halide::Func &) {
        Halide::Func packed("packed");
        packed(Halide::Var("i")) = Halide::Internal::make_zero(operand_type(problem));
        return packed;
    }
};

struct Dynamic {
    using Schedule = DynamicSchedule;
    static constexpr auto space = dynamic_space;
    static constexpr auto default_schedule = default_dynamic_schedule;
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &sizes) {
        return problem.traits().transposed ? sizes.stride : Extents(problem.rank, 1);
    }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        DynamicStages stages = dynamic(problem, schedule, operands);
        schedule_dynamic(stages, problem, schedule, operands.sizes);
        return stages.y;
    }
    static constexpr auto packed_extents = dynamic_packed_extents;
    static constexpr auto pack = dynamic_pack;
};

struct Depthwise {
    using Schedule = depthwise::DepthwiseSchedule;
    static constexpr auto space = depthwise::space;
    static constexpr auto default_schedule = depthwise::default_depthwise_schedule;
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) {
        return constants(whole_phases(problem));
    }
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
    using Schedule = WinogradSchedule;
    static constexpr auto space = winograd_space;
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) {
        return constants(winograd_output_phases(problem));
    }
    static constexpr auto phases_as_channels = winograd_phases_as_channels;
    static constexpr auto default_schedule = default_winograd_schedule;
    static constexpr auto cycles = winograd_call_cycles;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        WinogradStages stages = winograd(problem, schedule, operands);
        const WinogradSteps steps = schedule_winograd(stages, problem, schedule);
        if (target.lane_indexed_fma && !problem.is_quantized()) {
            stage_inputs(stages, problem, schedule, steps);
        }
        return stages.y;
    }
    static SharedPrefetches shared_prefetches(const Problem &problem, const Schedule &schedule) {
        return schedule.prefetch_panels ? shared_winograd_prefetches(problem, schedule) : SharedPrefetches();
    }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &) {
        return constants(winograd_shape(problem, schedule).packed_extents());
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &, const Halide::Func &w) {
        return pack_winograd(problem, winograd_shape(problem, schedule), w);
    }
};

struct Direct {
    using Schedule = DirectSchedule;
    static constexpr auto space = direct_space;
    static constexpr auto default_schedule = default_direct_schedule;
    static constexpr auto cycles = direct_call_cycles;
    static Extents output_phases(const Problem &problem, const Schedule &schedule, const Sizes &) {
        return constants(kiln::output_phases(problem, schedule));
    }
    static bool splits_groups(const Problem &, const Schedule &schedule) { return schedule.panels_of_groups; }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        // A decision that was made for other channels may unroll by more steps than there are, or, where inputs are
        // staged by as many, by such as do not divide them.
        const int steps = ceil_div(static_cast<int>(problem.in_channels / problem.groups), schedule.dot_width);
        Schedule fitted = schedule;
        fitted.unroll = std::min(schedule.unroll, steps);
        if (stages_inputs(problem, schedule, target) && schedule.with<F16Lanes>() == nullptr) {
            fitted.unroll = largest_divisor(steps, fitted.unroll);
        }
        DirectStages stages = direct(problem, fitted, operands, target);
        SumSteps sum = schedule_direct(stages, problem, fitted);
        if (fitted.prefetch_panels) {
            prefetch_panels(stages, problem, fitted, operands.packed, sum.steps);
        }
        if (stages.f16_sums) {
            sum = schedule_f16_sums(stages, fitted, sum);
        }
        if (stages_inputs(problem, fitted, target)) {
            stage_inputs(stages, fitted, sum.steps);
        }
        return stages.y;
    }
    static SharedPrefetches shared_prefetches(const Problem &problem, const Schedule &schedule) {
        return schedule.prefetch_panels ? shared_panel_prefetches(problem, schedule) : SharedPrefetches();
    }
    static bool prefetches_output(const Schedule &schedule) { return schedule.prefetch_output; }
    // Where the positions of tiles that go across rows lie.
    static bool keeps_scalars(const Schedule &schedule) { return schedule.flattens_tiles(); }
    static Halide::Type packed_type(const Problem &problem, const Schedule &schedule) {
        return dot_types(problem, schedule.dot_width).w;
    }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &) {
        return constants(packed_weights(problem, schedule).extents());
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &, const Halide::Func &w) {
        return kiln::pack(problem, packed_weights(problem, schedule), w);
    }
};

struct Amx {
    using Schedule = AmxSchedule;
    static constexpr bool uses_matrix_tiles = true;
    static constexpr auto space = amx_space;
    static constexpr auto default_schedule = default_amx_schedule;
    static Extents output_phases(const Problem &problem, const Schedule &schedule, const Sizes &) {
        return constants(kiln::output_phases(problem, schedule.direct(problem)));
    }
    static bool splits_groups(const Problem &problem, const Schedule &) { return problem.groups > 1; }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        if (!amx_runs_on(problem, target)) {
            throw std::invalid_argument("algorithm amx: " + std::string(target.name) + " has no matrix tiles of " +
                                        to_string(problem.x_type));
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
    static void patch_object(const Problem &problem, const Schedule &schedule, const std::string &object_file,
                             const std::string &listing_file) {
        if (problem.x_type == DType::f16) {
            multiply_tiles_of_f16(object_file, listing_file);
        }
        if (const std::optional<TileOperand> streamed = streamed_operand(problem, schedule)) {
            stream_tile_operand(object_file, listing_file, *streamed);
        }
    }
};

struct Strassen {
    using Schedule = StrassenSchedule;
    static constexpr auto space = strassen_space;
    static constexpr auto default_schedule = default_strassen_schedule;
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) { return one_phase(problem); }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        StrassenStages stages = strassen(problem, schedule, operands, target);
        schedule_strassen(stages, problem, schedule);
        return stages.y;
    }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &sizes) {
        return Direct::packed_extents(strassen_products(problem, schedule), schedule.direct(), sizes);
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &sizes,
                             const Halide::Func &w) {
        return Direct::pack(strassen_products(problem, schedule), schedule.direct(), sizes,
                            strassen_weights(problem, w));
    }
};

struct Kn2row {
    using Schedule = Kn2rowSchedule;
    static constexpr auto space = kn2row_space;
    static constexpr auto default_schedule = default_kn2row_schedule;
    static constexpr auto cycles = kn2row_call_cycles;
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) {
        return constants(whole_phases(problem));
    }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        Kn2rowStages stages = kn2row(problem, schedule, operands, target);
        schedule_kn2row(stages, problem, schedule);
        return stages.y;
    }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &sizes) {
        return Direct::packed_extents(kn2row_products(problem), schedule.direct(), sizes);
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &sizes,
                             const Halide::Func &w) {
        return Direct::pack(kn2row_products(problem), schedule.direct(), sizes, kn2row_weights(problem, w));
    }
};

struct F16Accumulate : Direct {
    using Schedule = F16AccumulateSchedule;
    static constexpr auto space = f16_accumulate_space;
    static constexpr auto default_schedule = default_f16_accumulate_schedule;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        if (!f16_accumulate_runs_on(problem, target)) {
            throw std::invalid_argument("algorithm f16_accumulate: " + std::string(target.name) +
                                        " has no float16 arithmetic");
        }
        return Direct::build(problem, schedule, operands, target);
    }
    static Halide::Type packed_type(const Problem &, const Schedule &) { return Halide::Float(16); }
};

struct Deformable {
    using Schedule = deformable::DeformableSchedule;
    static constexpr auto space = deformable::deformable_space;
    static constexpr auto default_schedule = deformable::default_deformable_schedule;
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) { return one_phase(problem); }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        deformable::DeformableStages stages = deformable::deformable(problem, schedule, operands);
        deformable::schedule_deformable(stages, problem, schedule, operands.sizes);
        return stages.y;
    }
    static constexpr auto packed_extents = deformable::packed_extents;
    static constexpr auto pack = deformable::pack;
};

struct Definition {
    using Schedule = NoSchedule;
    static Schedule default_schedule(const Problem &, const TargetModel &) { return {}; }
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) { return one_phase(problem); }
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

// A GPU's algorithm, whose weights are packed as a processor's: that of its schedule's stages(). It writes y by phases.
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
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) {
        return constants(whole_phases(problem));
    }
};

struct EmptyGpu : Empty {
    static Halide::Func build(const Problem &problem, const Schedule &, const Operands &operands, const TargetModel &) {
        const Halide::Func y = kiln::empty(problem, operands);
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

struct WinogradGpu : PackedLike<Winograd, WinogradGpuSchedule> {
    static constexpr auto space = winograd_gpu_space;
    static constexpr auto default_schedule = default_winograd_gpu_schedule;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        WinogradStages stages = winograd(problem, schedule.stages(), operands, TileOrder::numbered);
        schedule_winograd_gpu(stages, problem, schedule);
        return stages.y;
    }
};

struct DepthwiseGpu : PackedLike<Depthwise, depthwise::DepthwiseGpuSchedule> {
    static constexpr auto space = depthwise::depthwise_gpu_space;
    static constexpr auto default_schedule = depthwise::default_depthwise_gpu_schedule;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        depthwise::DepthwiseStages stages = depthwise::depthwise(problem, schedule.stages(), operands);
        depthwise::schedule_depthwise_gpu(stages, problem, schedule);
        return stages.y;
    }
};

// Of a transposed convolution's phases that read the same input as channels.
// Of a GPU's algorithm A for convolutions of one phase along the row: transposed ones too, whose phases are channels
// there (axes/joined_phases.h).
template <class A>
struct JoiningPhases {
    using Schedule = typename A::Schedule;
    static constexpr auto phases_as_channels = joined_phases;
    static ScheduleSpace space(const Problem &problem, const TargetModel &target) {
        return A::space(join_phases(problem), target);
    }
    static Schedule default_schedule(const Problem &problem, const TargetModel &target) {
        return A::default_schedule(join_phases(problem), target);
    }
    static double cycles(const Problem &problem, const Schedule &schedule, const TargetModel &target) {
        return A::cycles(join_phases(problem), schedule, target);
    }
    static Extents output_phases(const Problem &problem, const Schedule &schedule, const Sizes &sizes) {
        return A::output_phases(join_phases(problem), schedule, sizes);
    }
    static Halide::Type packed_type(const Problem &problem, const Schedule &schedule) {
        if constexpr (requires { A::packed_type(problem, schedule); }) {
            return A::packed_type(problem, schedule);
        }
        return operand_type(problem);
    }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &sizes) {
        return A::packed_extents(join_phases(problem), schedule, sizes);
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &sizes,
                             const Halide::Func &w) {
        return A::pack(join_phases(problem), schedule, sizes, join_weights(problem, w));
    }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        const Problem joined = join_phases(problem);
        if (joined.out_channels == problem.out_channels) {
            return A::build(joined, schedule, operands, target);
        }
        const Halide::Var c("column");
        const Halide::Expr channel = c % static_cast<int>(problem.out_channels);
        return A::build(joined, schedule, copy_channel_operands(operands, c, channel).operands, target);
    }
};

struct DirectGpu : PackedLike<Direct, DirectGpuSchedule> {
    static constexpr auto space = direct_gpu_space;
    static constexpr auto default_schedule = default_direct_gpu_schedule;
    static constexpr auto cycles = direct_gpu_cycles;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        DirectStages stages = direct(problem, schedule.stages(), operands, target, schedule.in_shared);
        schedule_direct_gpu(stages, problem, schedule);
        return stages.y;
    }
};

struct StagedGpu {
    using Schedule = staged::Schedule;
    static constexpr auto space = staged::space;
    static constexpr auto default_schedule = staged::default_schedule;
    static constexpr auto cycles = staged::cycles;
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) {
        return constants(whole_phases(problem));
    }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        staged::Stages stages = staged::define(problem, schedule, operands);
        staged::schedule_gpu(stages, problem, schedule);
        return stages.y;
    }
    static Halide::Type packed_type(const Problem &problem, const Schedule &) { return sum_type(problem); }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &) {
        return constants(staged::packed_extents(problem, schedule));
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &, const Halide::Func &w) {
        return staged::pack(problem, schedule, w);
    }
};

struct MmaGpu {
    using Schedule = mma::MmaSchedule;
    static constexpr auto space = mma::space;
    static constexpr auto default_schedule = mma::default_schedule;
    static constexpr auto cycles = mma::cycles;
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) {
        return constants(whole_phases(problem));
    }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        mma::Stages stages = mma::define(problem, schedule, operands);
        mma::schedule_gpu(stages, problem, schedule);
        return stages.y;
    }
    static Halide::Type packed_type(const Problem &problem, const Schedule &) { return halide_type(problem.x_type); }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &) {
        return constants(mma::packed_extents(problem, schedule));
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &, const Halide::Func &w) {
        return mma::pack(problem, schedule, w);
    }
};

// Of a DeformConv by a GPU's algorithm A for convolutions: samples are gathered into the workspace, and what is left is
// a 1x1 convolution of them (algorithms/staged/samples.h).
template <class A>
struct OfSamples {
    using Schedule = typename A::Schedule;
    static ScheduleSpace space(const Problem &problem, const TargetModel &target) {
        return A::space(staged::product_of_samples(problem), target);
    }
    static Schedule default_schedule(const Problem &problem, const TargetModel &target) {
        return A::default_schedule(staged::product_of_samples(problem), target);
    }
    static double cycles(const Problem &problem, const Schedule &schedule, const TargetModel &target) {
        return A::cycles(staged::product_of_samples(problem), schedule, target);
    }
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) { return one_phase(problem); }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        Operands of_product = operands;
        of_product.x = of_product.stored_x = staged::gather_samples(problem, operands);
        return A::build(staged::product_of_samples(problem), schedule, of_product, target);
    }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &sizes) {
        return A::packed_extents(staged::product_of_samples(problem), schedule, sizes);
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &sizes,
                             const Halide::Func &w) {
        const Halide::Func of_product = staged::weights_of_samples(problem, sizes, w);
        return A::pack(staged::product_of_samples(problem), schedule, sizes, of_product);
    }
};

struct DeformableGpu : PackedLike<Deformable, deformable::DeformableGpuSchedule> {
    static constexpr auto space = deformable::deformable_gpu_space;
    static constexpr auto default_schedule = deformable::default_deformable_gpu_schedule;
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) { return one_phase(problem); }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        deformable::DeformableStages stages = deformable::deformable(problem, schedule.stages(), operands);
        deformable::schedule_deformable_gpu(stages, problem, schedule);
        return stages.y;
    }
};

}  // namespace kiln::implementations
