// Each algorithm of processors as the struct of functions that its row in the list names (row.h): its stages are
// defined and then scheduled, and its weights packed.
#pragma once

#include <Halide.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "algorithms/amx/amx.h"
#include "algorithms/deformable/deformable.h"
#include "algorithms/depthwise/depthwise.h"
#include "algorithms/direct/direct.h"
#include "algorithms/dynamic/dynamic.h"
#include "algorithms/dynamic_depthwise/dynamic_depthwise.h"
#include "algorithms/empty/empty.h"
#include "algorithms/estimates.h"
#include "algorithms/f16_accumulate/f16_accumulate.h"
#include "algorithms/gemm/gemm.h"
#include "algorithms/inner_product/inner_product.h"
#include "algorithms/kn2row/kn2row.h"
#include "algorithms/schedule_text.h"
#include "algorithms/strassen/strassen.h"
#include "algorithms/winograd/winograd.h"
#include "expressions/types.h"
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

struct DynamicDepthwise {
    using Schedule = dynamic_depthwise::DynamicDepthwiseSchedule;
    static constexpr auto space = dynamic_depthwise::space;
    static constexpr auto default_schedule = dynamic_depthwise::default_schedule;
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) { return one_phase(problem); }
    static constexpr bool joins_axes_of_planes = true;
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        dynamic_depthwise::Stages stages = dynamic_depthwise::dynamic_depthwise(problem, schedule, operands);
        dynamic_depthwise::schedule_stages(stages, problem, schedule);
        return stages.y;
    }
    static constexpr auto packed_extents = dynamic_depthwise::packed_extents;
    static Halide::Func pack(const Problem &problem, const Schedule &, const Sizes &, const Halide::Func &w) {
        return dynamic_depthwise::pack(problem, w);
    }
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
    // Each update has tiles of its own.
    static std::set<std::string> disjoint_updates(const Problem &) { return {"transformed", "result", "y"}; }
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
    static constexpr auto plain_schedule = plain_direct_schedule;
    static constexpr auto cycles = direct_call_cycles;
    static Extents output_phases(const Problem &problem, const Schedule &schedule, const Sizes &) {
        return constants(kiln::output_phases(problem, schedule));
    }
    static bool splits_groups(const Problem &, const Schedule &schedule) { return schedule.panels_of_groups; }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        // A decision that was made for other channels may unroll by more steps than there are, or, where inputs are
        // staged by as many, by such as do not divide them.
        const int steps = packed_weights(problem, schedule).steps();
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
    // Tiles that go across rows have the positions of their pixels as scalars.
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
        return Direct::build(problem, schedule.direct(problem), operands, target);
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

struct Gemm {
    using Schedule = GemmSchedule;
    static constexpr auto space = gemm_space;
    static constexpr auto default_schedule = default_gemm_schedule;
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) { return one_phase(problem); }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &target) {
        GemmStages stages = gemm(problem, schedule, operands, target);
        schedule_gemm(stages, problem, schedule, operands.packed);
        return stages.y;
    }
    static constexpr auto shared_prefetches = shared_gemm_prefetches;
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &sizes) {
        return Direct::packed_extents(gemm_products(problem, schedule), schedule.direct(), sizes);
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &sizes,
                             const Halide::Func &w) {
        return Direct::pack(gemm_products(problem, schedule), schedule.direct(), sizes,
                            gemm_weights(problem, schedule, w));
    }
};

struct InnerProduct {
    using Schedule = InnerProductSchedule;
    static constexpr auto space = inner_product_space;
    static constexpr auto default_schedule = default_inner_product_schedule;
    static constexpr auto cycles = inner_product_call_cycles;
    static Extents output_phases(const Problem &problem, const Schedule &, const Sizes &) { return one_phase(problem); }
    static Halide::Func build(const Problem &problem, const Schedule &schedule, const Operands &operands,
                              const TargetModel &) {
        InnerProductStages stages = inner_product(problem, schedule, operands);
        schedule_inner_product(stages, problem, schedule);
        return stages.y;
    }
    static Extents packed_extents(const Problem &problem, const Schedule &schedule, const Sizes &) {
        return constants(inner_product_weights(problem, schedule).extents());
    }
    static Halide::Func pack(const Problem &problem, const Schedule &schedule, const Sizes &, const Halide::Func &w) {
        return kiln::pack(problem, inner_product_weights(problem, schedule), w);
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

}  // namespace kiln::implementations
