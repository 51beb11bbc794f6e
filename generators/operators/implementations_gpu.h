// Each algorithm of GPUs as the struct of functions that its row in the list names (row.h).
#pragma once

#include <Halide.h>

#include "algorithms/deformable/schedule_gpu.h"
#include "algorithms/depthwise/schedule_gpu.h"
#include "algorithms/direct/schedule_gpu.h"
#include "algorithms/mma/mma.h"
#include "algorithms/staged/samples.h"
#include "algorithms/staged/staged.h"
#include "algorithms/winograd/schedule_gpu.h"
#include "axes/joined_phases.h"
#include "expressions/epilogue.h"
#include "expressions/types.h"
#include "moves/gpu_schedule.h"
#include "operators/implementations.h"

namespace kiln::implementations {

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
    static Halide::Type packed_type(const Problem &problem, const Schedule &) { return halide_type(problem.w_type); }
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
    static Halide::Type packed_type(const Problem &problem, const Schedule &schedule) {
        return A::packed_type(staged::product_of_samples(problem), schedule);
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
