// The direct algorithm's sums: what they start from, and what is added to it.
#include <map>
#include <string>

#include "algorithms/direct/direct.h"
#include "algorithms/f16_accumulate/f16_accumulate.h"
#include "axes/interleaved_groups.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "lowering/gpu_module.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

// The dimensions of what each output channel has of its own: (c, phase of each axis).
std::vector<Var> channel_and_phases(const DirectStages &s) {
    std::vector<Var> at = s.channel_vars();
    append(at, s.phase);
    return at;
}

// Those of a reduction domain's taps.
std::vector<Expr> taps_of(const DirectStages &s, const RDom &r) {
    std::vector<Expr> taps;
    for (size_t a = 0; a < s.axes.size(); a++) {
        taps.emplace_back(r[static_cast<int>(a) + 2]);
    }
    return taps;
}

// The input channel that output channel c's group reads as its channel k.
Expr input_channel(const DirectStages &s, const Problem &problem, const Expr &k) {
    if (problem.groups == 1) {
        return k;
    }
    const int out = static_cast<int>(problem.out_channels / problem.groups);
    const int in = static_cast<int>(problem.in_channels / problem.groups);
    if (s.splits_groups) {
        return s.g * in + k;
    }
    return in == 1 && out == 1 ? Expr(s.c) : s.c / out * in + k;
}

ZeroPointCompensation compensation_of(const DirectStages &s, const Problem &problem, const PackedWeights &packed,
                                      const Halide::Region &domain, const Operands &operands, Halide::Type type) {
    RDom all(domain, "all");
    const std::vector<Expr> taps = taps_of(s, all);
    for (size_t a = 0; a < s.axes.size(); a++) {
        if (s.axes[a].has_uneven_phases()) {
            all.where(s.axes[a].is_tap(s.phase[a], taps[a]));
        }
    }
    const Expr weight = operands.packed(packed.at(s.c, s.group(), all[0], all[1], taps, s.phase));
    return define_zero_point_compensation(channel_and_phases(s), weight, all, zero_point(problem, type));
}

// bias - compensation; beyond the last channel, anything.
Func accumulator_init_of(const DirectStages &s, const Problem &problem, const DirectSchedule &schedule,
                         const Operands &operands, bool pixel_lanes) {
    std::vector<Var> at = channel_and_phases(s);
    const int channels = channels_in_panels(problem, schedule);
    const Expr channel = s.group() * channels + Halide::min(s.c, channels - 1);
    Expr value = sums_bias(problem, operands) ? Halide::cast(sum_type(problem), operands[Tensor::bias](channel))
                                              : Halide::Internal::make_zero(sum_type(problem));
    if (s.compensation) {
        value -= s.compensation->sum(std::vector<Expr>(at.begin(), at.end()));
    }
    if (pixel_lanes) {
        at.insert(at.begin(), Var("lane"));
    }
    Func init("start");  // on which AMX's code depends: by another name its frame is laid out otherwise
    init(at) = value;
    return init;
}

// Whether sums start from the bias: those of matrix tiles; and those of integers, for which the order does not matter,
// of channels that are whole panels, as others have no bias to load, where a sum starts once.
bool starts_from_bias(const DirectStages &s, const Problem &problem, const DirectSchedule &schedule,
                      const Operands &operands) {
    const bool starts_once = s.partial_sums == 1 && schedule.sliced.slices <= 1 && !s.flattened_rows;
    const bool may_start = problem.is_quantized() && starts_once && !s.keeps_loops && !s.interleaved_groups &&
                           channels_in_panels(problem, schedule) % schedule.panel() == 0;
    return sums_bias(problem, operands) && (s.accumulator_init || may_start);
}

// What every sum starts from.
Expr start_of_sums(const DirectStages &s, const Problem &problem, const Operands &operands) {
    const std::vector<Var> of_channel = channel_and_phases(s);
    std::vector<Expr> at(of_channel.begin(), of_channel.end());
    if (s.accumulator_init) {
        if (s.accumulator_init->dimensions() > static_cast<int>(at.size())) {
            at.insert(at.begin(), 0);  // any lane
        }
        return (*s.accumulator_init)(at);
    }
    if (s.starts_from_bias) {
        const Expr bias = operands[Tensor::bias](channel_of(s, problem));
        return s.compensation ? bias - s.compensation->sum(at) : bias;
    }
    return s.compensation ? -s.compensation->sum(at) : Halide::Internal::make_zero(sum_type(problem));
}

// Where products at tap j of an axis read the input, for the output that is q and phase there. Adds to the sum's
// domain what it does not take.
Expr input_position(DirectStages &s, size_t a, const Expr &j) {
    const AxisMap &axis = s.axes[a];
    Expr q = s.q[a];
    if (s.flattened_rows && a < 2) {
        const int row = s.axes[0].phase_extent;
        q = a == 0 ? s.flattened_rows->position % row : s.flattened_rows->position / row;
    }
    Expr in = q * axis.stride + axis.offset(s.phase[a]) + j * axis.tap_step;
    if (axis.has_uneven_phases()) {
        s.r.where(axis.is_tap(s.phase[a], j));
    }
    if (axis.kernel < axis.phases) {
        // Phases without a tap start anywhere, and what is behind a condition may be read ahead of it.
        const AxisMap::Range range = axis.reads();
        in = Halide::clamp(in, range.first, std::max(range.first, range.last));
    } else {
        // Copies of x are as large as what is read: Halide would find that they are too small (false_assertions.h).
        in = axis.within_reads(in);
    }
    if (axis.reads_outside() && !s.pads[a] && a == 0) {
        return position_in_row(s.r, axis, in);
    }
    if (a == 0 && s.skips_row_ends) {
        position_in_row(s.r, axis, in);
        return in;
    }
    if (axis.reads_outside() && !s.pads[a]) {
        const Expr inside = in >= 0 && in < axis.in;
        s.r.where(s.keeps_loops ? keeps_loops(inside) : inside);
        const AxisMap::Range range = axis.reads_clamped();
        in = s.copies_tile_rows() ? in : Halide::clamp(in, range.first, range.last);
    }
    return in;
}

// The sum of packed(weight) * input(position), which are those of a product of s.r, in f16 for one block of input
// channels and one tap of each axis: variables in place of s.r's.
F16Sums f16_sums_of(const DirectStages &s, std::vector<Var> at, std::vector<Expr> weight, std::vector<Expr> position,
                    const Func &packed, int block) {
    const Var part("block");
    const std::vector<Var> tap = vars("tap", s.axes.size());
    at.push_back(part);
    append(at, tap);
    const RDom in_block(0, block, "in_block");
    std::map<std::string, Expr> instead = {{s.r[0].name(), Expr(0)}, {s.r[1].name(), part * block + in_block.x}};
    for (size_t a = 0; a < tap.size(); a++) {
        instead[s.r[static_cast<int>(a) + 2].name()] = tap[a];
    }
    for (std::vector<Expr> *list : {&weight, &position}) {
        for (Expr &e : *list) {
            e = Halide::Internal::substitute(instead, e);
        }
    }
    Func part_sums("part");
    part_sums(at) = Halide::Internal::make_zero(Halide::Float(16));
    part_sums(at) += packed(weight) * s.input(position);
    return {part_sums, in_block};
}

// The numbers of `acc` at (from, 0), (from, 1), ..., added in pairs.
Expr added_in_pairs(const Func &acc, const std::vector<Expr> &from, int count) {
    std::vector<Expr> sums;
    for (int part = 0; part < count; part++) {
        std::vector<Expr> at = from;
        at.emplace_back(part);
        sums.push_back(acc(at));
    }
    for (; sums.size() > 1; sums.resize((sums.size() + 1) / 2)) {
        for (size_t pair = 0; 2 * pair < sums.size(); pair++) {
            sums[pair] = 2 * pair + 1 < sums.size() ? sums[2 * pair] + sums[2 * pair + 1] : sums[2 * pair];
        }
    }
    return sums[0];
}

// y's element of the sums of flattened rows, which are `finished`, of one phase.
Expr of_flattened_rows(DirectStages &s, const Expr &finished) {
    FlattenedRows &rows = *s.flattened_rows;
    std::vector<Var> at = s.channel_vars();
    at.push_back(rows.position);
    std::vector<Var> others(s.q.begin() + 2, s.q.end());
    append(at, others);
    at.push_back(s.n);
    rows.sums = Func("flattened_rows");
    rows.sums(at) = finished;
    std::vector<Expr> from(at.begin(), at.end());
    from[s.channel_vars().size()] = s.q[0] + s.q[1] * s.axes[0].phase_extent;
    return rows.sums(from);
}

// The step of the sum that s.r has in a slice, of whose taps `taps` become those of the axis. Adds to the sum's domain
// which there are.
Expr take_slice(DirectStages &s, const DirectSchedule &schedule, const PackedWeights &packed, std::vector<Expr> &taps) {
    const size_t axis = sliced_axis(s.axes);
    const SumSlices slices(packed.steps(), schedule.unroll, packed.taps(axis), schedule.sliced.slices);
    const Expr step = slices.step(s.part, s.r[1]), tap = slices.tap(s.part, taps[axis]);
    for (const Expr &is_there : slices.conditions(s.part, s.r[1], taps[axis])) {
        s.r.where(is_there);
    }
    taps[axis] = tap;
    return step;
}

// acc's dimensions that a thread's tile of a GPU spans: channels, and positions along a row.
std::vector<SlicedSum::Axis> tile_axes(const DirectStages &s, const Problem &problem) {
    std::vector<SlicedSum::Axis> axes = {{0, static_cast<int>(problem.out_channels)}};
    for (size_t a = 0; a < std::min<size_t>(s.axes.size(), 2); a++) {
        axes.push_back({1 + 2 * a, s.axes[a].phase_extent});  // each axis' phase follows its position
    }
    return axes;
}

// The input at `position`, of acc at `at`: where it is loaded by vectors, from what a step of the sum loads.
Expr input_of_step(DirectStages &s, const std::vector<Var> &at, std::vector<Expr> position) {
    if (s.step_vector.channels == 1 && s.step_vector.positions == 1) {
        return s.input(position);
    }
    const Var channel("channel");
    const std::vector<Var> tap = vars("tap", s.axes.size());
    std::vector<Var> of_step = {channel};
    of_step.insert(of_step.end(), at.begin() + 1, at.end());
    std::vector<Expr> from(of_step.begin(), of_step.end());
    from[0] = position[0];
    position[0] = channel;
    std::map<std::string, Expr> instead;
    for (size_t a = 0; a < tap.size(); a++) {
        const Halide::RVar of_sum = s.r[static_cast<int>(a) + 2];
        instead[of_sum.name()] = tap[a];
        of_step.push_back(tap[a]);
        from.emplace_back(of_sum);
    }
    for (Expr &e : position) {
        e = Halide::Internal::substitute(instead, e);
    }
    s.operand = Func("operand");
    (*s.operand)(of_step) = s.input(position);
    return (*s.operand)(from);
}

// What y is made of, of acc at `from`: where that has partial sums or slices, all of those together.
Expr finished_sum(DirectStages &s, const Problem &problem, const DirectSchedule &schedule,
                  const std::vector<Expr> &from) {
    if (schedule.sliced.slices > 1) {
        SlicedTile tile = schedule.sliced;
        const std::vector<SlicedSum::Axis> axes = tile_axes(s, problem);
        tile.axes.resize(axes.size());
        s.sliced = define_sliced_sum(s.acc, tile, axes);
        return sum_of_slices(*s.sliced, from);
    }
    const Expr finished = s.partial_sums > 1 ? added_in_pairs(s.acc, from, s.partial_sums) : s.acc(from);
    return s.flattened_rows ? of_flattened_rows(s, finished) : finished;
}

// Where products of this step and these taps read the input.
std::vector<Expr> input_at(DirectStages &s, const Problem &problem, const PackedWeights &packed, const Expr &step,
                           const std::vector<Expr> &taps) {
    const Expr k = step * packed.dot_width + s.r[0];
    const int groups = packed.interleaved_groups;
    std::vector<Expr> position = {s.interleaved_input    ? Expr(s.r[0])
                                  : s.rows_of_groups     ? k
                                  : s.interleaved_groups ? k * groups + s.c % groups
                                                         : input_channel(s, problem, k)};
    for (size_t a = 0; a < s.axes.size(); a++) {
        position.push_back(input_position(s, a, taps[a]));
    }
    if (s.interleaved_input) {
        position.push_back(s.group() * (packed.reduction_channels / packed.dot_width) + s.r[1]);
    }
    if (s.rows_of_groups) {
        position[1] = position[1] * s.rows_of_groups->channels + position[0];
        position.erase(position.begin());
        position.push_back(s.group());
    }
    if (s.interleaved_groups) {
        position.push_back(s.c / packed.panel);
    }
    position.emplace_back(s.n);
    if (s.interleaved_input && s.interleaved_input->row_stride > 1) {
        const AxisMap &row = s.axes[0];
        const Expr of_tap = row.offset(s.phase[0]) + taps[0] * row.tap_step;
        position[1] = s.q[0] + of_tap / row.stride;
        position.push_back(of_tap % row.stride);
    }
    return position;
}

// acc += weight * input, over q and phase of every axis.
Expr define_sums_of_positions(DirectStages &s, const Problem &problem, const DirectSchedule &schedule,
                              const PackedWeights &packed, const Operands &operands, int f16_block) {
    std::vector<Expr> taps = taps_of(s, s.r);
    if (s.partial_sums > 1) {
        taps[0] = taps[0] * s.partial_sums + s.part;
    }
    std::vector<Var> at = s.channel_vars();
    const bool is_sliced = schedule.sliced.slices > 1;
    const Expr step = is_sliced ? take_slice(s, schedule, packed, taps) : Expr(s.r[1]);
    const std::vector<Expr> position = input_at(s, problem, packed, step, taps);
    std::vector<Expr> from(at.begin(), at.end());
    if (s.interleaved_groups) {
        from[0] = column_of_channel(s.c, packed.panel, packed.interleaved_groups);
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        if (!s.flattened_rows || a > 1) {
            at.push_back(s.q[a]);
            from.emplace_back(s.q[a]);
        } else if (a == 0) {
            at.push_back(s.flattened_rows->position);
            from.emplace_back(s.flattened_rows->position);
        }
        at.push_back(s.phase[a]);
        from.push_back(s.axes[a].phases > 1 ? Expr(s.phase[a]) : Expr(0));
    }
    at.push_back(s.n);
    from.emplace_back(s.n);
    const std::vector<Expr> weight = packed.at(s.c, s.group(), s.r[0], step, taps, s.phase);
    const Halide::Type sum = sum_type(problem);
    if (s.partial_sums > 1 || is_sliced) {
        at.push_back(s.part);
    }
    s.acc(at) = start_of_sums(s, problem, operands);
    if (f16_block > 0) {
        s.f16_sums = f16_sums_of(s, at, weight, position, operands.packed, f16_block);
        std::vector<Expr> block_at(at.begin(), at.end());
        block_at.emplace_back(s.r[1]);
        append(block_at, taps);
        s.acc(at) += Halide::cast(sum, s.f16_sums->sums(block_at));
    } else {
        s.acc(at) += Halide::cast(sum, operands.packed(weight)) * Halide::cast(sum, input_of_step(s, at, position));
    }
    return finished_sum(s, problem, schedule, from);
}

// The same over flattened rows.
Expr define_sums_of_rows(DirectStages &s, const Problem &problem, const PackedWeights &packed,
                         const Operands &operands) {
    FlattenedRows &rows = *s.flattened_rows;
    std::vector<Var> others(s.q.begin() + 2, s.q.end()), at = s.channel_vars();
    others.push_back(s.n);
    std::vector<Expr> from(at.begin(), at.end());
    at.push_back(rows.position);
    append(at, s.phase);
    append(at, others);
    std::vector<Expr> input = {input_channel(s, problem, s.r[1]), rows.position};
    from.push_back(s.q[0] + s.q[1] * s.axes[0].in);
    for (size_t a = 0; a < s.axes.size(); a++) {
        from.push_back(s.axes[a].phases > 1 ? Expr(s.phase[a]) : Expr(0));
    }
    append(input, others);
    append(from, others);
    const std::vector<Expr> only_tap(s.axes.size(), 0);
    s.acc(at) = Halide::Internal::make_zero(sum_type(problem));
    s.acc(at) += operands.packed(packed.at(s.c, s.group(), s.r[0], s.r[1], only_tap, s.phase)) * s.input(input);
    rows.sums = Func("flattened_rows");
    rows.sums(at) = s.acc(std::vector<Expr>(at.begin(), at.end()));
    return rows.sums(from);
}

}  // namespace

Expr position_in_row(RDom &r, const AxisMap &row, const Expr &in) {
    const AxisMap::Range range = row.reads();
    Expr inside = in;
    if (range.first < 0) {
        r.where(Halide::likely(in >= 0));
        inside = Halide::max(Halide::likely(inside), 0);
    }
    if (range.last >= row.in) {
        r.where(Halide::likely(in < row.in));
        inside = Halide::min(Halide::likely(inside), row.in - 1);
    }
    return inside;
}

size_t sliced_axis(const std::vector<AxisMap> &axes) {
    size_t most = 0;
    for (size_t a = 0; a < axes.size(); a++) {
        most = axes[a].taps > axes[most].taps ? a : most;
    }
    return most;
}

bool compensates_zero_point(const Problem &problem, Halide::Type type) {
    return type.bits() == 8 && narrow_zero_point(problem, type) != 0;
}

Expr zero_point(const Problem &problem, Halide::Type type) {
    return compensates_zero_point(problem, type) ? Halide::cast(type, narrow_zero_point(problem, type))
                                                 : Halide::Internal::make_zero(type);
}

bool sums_bias(const Problem &problem, const Operands &operands) {
    return operands[Tensor::bias].defined() && !problem.open_epilogue &&
           (!problem.is_quantized() || problem.bias_type != DType::f32);
}

Expr define_sums(DirectStages &s, const Problem &problem, const DirectSchedule &schedule, const PackedWeights &packed,
                 const Operands &operands, Halide::Type type) {
    const int f16_block = schedule.with<F16Lanes>() != nullptr ? f16_sum_block(problem) : 0;
    const size_t sliced = sliced_axis(s.axes);
    const SumSlices slices(packed.steps(), schedule.unroll, packed.taps(sliced), schedule.sliced.slices);
    Halide::Region domain = {{0, packed.dot_width}, {0, slices.steps() / std::max(f16_block, 1)}};
    for (size_t a = 0; a < s.axes.size(); a++) {
        const int taps = a == sliced ? slices.taps() : packed.taps(a);
        domain.emplace_back(0, a == 0 ? taps / s.partial_sums : taps);
    }
    s.r = RDom(domain, "r");
    if (compensates_zero_point(problem, type)) {
        s.compensation = compensation_of(s, problem, packed, domain, operands, type);
    }
    if (const auto *amx = schedule.with<AmxLanes>()) {
        s.accumulator_init = accumulator_init_of(s, problem, schedule, operands, amx->pixel_lanes);
    }
    s.starts_from_bias = starts_from_bias(s, problem, schedule, operands);
    s.acc = Func("acc");
    return s.flattened_rows && s.flattened_rows->end_to_end
               ? define_sums_of_rows(s, problem, packed, operands)
               : define_sums_of_positions(s, problem, schedule, packed, operands, f16_block);
}

}  // namespace kiln
