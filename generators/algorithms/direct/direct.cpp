// The direct algorithm's stages: input.cpp has those before the sums, sum.cpp the sums; schedule_*.cpp beside them
// schedule them.
#include "algorithms/direct/direct.h"

#include "algorithms/direct/packing.h"
#include "axes/output_vars.h"
#include "expressions/epilogue.h"
#include "expressions/types.h"
#include "expressions/vars.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

// How many input channels the panels reach: those of the last lane's group, which need not exist.
int channels_read(const Problem &problem, const PackedWeights &packed) {
    const int out = static_cast<int>(problem.out_channels / problem.groups);
    const int groups = problem.groups == 1 ? 1
                       : packed.groups > 1 ? packed.groups
                                           : (packed.panels * packed.panel - 1) / out + 1;
    if (packed.joined_taps > 1) {
        return static_cast<int>(problem.in_channels);
    }
    return (groups - 1) * packed.reduction_channels + packed.steps() * packed.dot_width;
}

// Of each axis q, and phase where there are several.
std::vector<Var> product_vars(const DirectStages &s) {
    std::vector<Var> at = s.channel_vars();
    append(at, positions_and_phases(s.axes, s.q, s.phase));
    at.push_back(s.n);
    return at;
}

// Whether what transposed y picks its elements from is finished: where sums that are kept until then are wider than its
// elements. Not of more channels than there are, which have no bias, nor with a residual, which is read by rows.
bool finishes_product(const Problem &problem, const DirectSchedule &schedule) {
    return !problem.residual && !problem.open_epilogue &&
           halide_type(problem.y_type).bytes() < sum_type(problem).bytes() &&
           problem.out_channels % schedule.panel() == 0;
}

// Phases have unequal sizes, y is transposed, or its channels would lack a guard: y picks its elements from whole
// phases.
void define_picked_output(DirectStages &s, const Problem &problem, const Operands &operands, bool transposes,
                          bool is_finished) {
    std::vector<Var> at = s.channel_vars();
    std::vector<Expr> from(at.begin(), at.end());
    for (size_t a = 0; a < s.axes.size(); a++) {
        const Var x("x" + std::to_string(a));
        const int phases = s.axes[a].phases;
        at.push_back(x);
        from.push_back(x / phases);
        if (phases > 1) {
            from.push_back(x % phases);
        }
    }
    at.push_back(s.n);
    from.emplace_back(s.n);
    const std::vector<Expr> y_at(at.begin(), at.end());
    Expr value = s.product(from);
    if (transposes) {
        s.transposed_block = Func("transposed_y");
        (*s.transposed_block)(at) = value;
        value = (*s.transposed_block)(y_at);
    }
    s.y = Func("y");
    s.y(at) = is_finished ? value : epilogue(problem, value, operands, y_at, channel_of(s, problem));
}

}  // namespace

Expr channel_of(const DirectStages &s, const Problem &problem) {
    return s.splits_groups ? s.g * static_cast<int>(problem.out_channels / problem.groups) + s.c : Expr(s.c);
}

DirectStages direct(const Problem &problem, const DirectSchedule &schedule, const Operands &given,
                    const TargetModel &target, bool copies_x) {
    Operands operands = given;
    const Halide::Type type = schedule.with<F16Lanes>() != nullptr
                                  ? Halide::Float(16)
                                  : dot_types(problem, schedule.dot_width, target.signed_dot).x;
    const PackedWeights packed = packed_weights(problem, schedule);
    DirectStages s;
    s.splits_groups = schedule.panels_of_groups;
    s.interleaves_channels = interleaves_channels(problem, schedule);
    s.partial_sums = schedule.partial_sums;
    s.keeps_loops = target.is_gpu();
    s.step_vector = target.is_gpu() ? gpu_step_vector(problem, schedule, copies_x) : StepVector();
    s.axes = axis_maps(problem);
    s.q = vars("q", s.axes.size());
    s.phase = vars("phase", s.axes.size());
    if (schedule.flattens_tiles()) {
        s.flattened_rows = FlattenedRows();
    }
    s.input_channels = channels_read(problem, packed);
    define_input(s, problem, schedule, operands, target, type, copies_x);
    const Expr sum = define_sums(s, problem, schedule, packed, operands, type);
    if (s.starts_from_bias) {
        operands[Tensor::bias] = Func();  // it is in the sums
    }
    const bool transposes = transposes_output(problem, schedule) && !target.is_gpu();
    const bool picks = target.is_gpu() ? !phases_are_whole(s.axes) : picks_output(problem, schedule);
    const std::vector<Var> at = product_vars(s);
    const std::vector<Expr> same(at.begin(), at.end());
    s.product = Func(picks ? "product" : "y");
    const bool is_finished = !picks || (transposes && finishes_product(problem, schedule));
    const Expr finished = is_finished ? epilogue(problem, sum, operands, same, channel_of(s, problem)) : sum;
    const auto *amx = schedule.with<AmxLanes>();
    if (amx != nullptr && amx->pixel_lanes && s.axes[0].phases > 1) {
        s.interleave_buffer = Func("interleave_buffer");
        (*s.interleave_buffer)(at) = finished;
    }
    s.product(at) = s.interleave_buffer ? Expr((*s.interleave_buffer)(same)) : finished;
    if (picks) {
        define_picked_output(s, problem, operands, transposes, is_finished);
    } else {
        s.y = s.product;
    }
    return s;
}

}  // namespace kiln
