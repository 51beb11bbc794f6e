// The direct algorithm's stages; schedule_*.cpp beside it schedules them.
#include "algorithms/direct/direct.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "algorithms/f16_accumulate/f16_accumulate.h"
#include "expressions/epilogue.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "lowering/amx/matrix_tiles.h"

namespace kiln::dense {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

// Whether operands are 8-bit with a zero point other than 0: then it is summed like any other number, and what it adds
// is taken off again.
bool has_surplus(const Problem &problem, Halide::Type type) {
    return type.bits() == 8 && narrow_zero_point(problem, type) != 0;
}

// Whether rows in the padding are skipped on this axis rather than read as zeros: not on the innermost, whose positions
// share registers, nor where a tile spans several rows.
bool skips_padding(const DirectSchedule &schedule, size_t axis, const AxisMap &map) {
    if (schedule.tile_steps > 0) {
        // Sums of as many products everywhere overlap with the use of others (matrix_tiles.h): worth some zeros. Of a
        // single tap, the condition is on the output's position, which then bounds the sums: matrix tiles need them at
        // a place known beforehand.
        const AxisMap::Range all = map.reads(), inside = map.reads_inside();
        if (map.taps == 1 || 4 * (inside.last - inside.first + 1) >= 3 * (all.last - all.first + 1)) {
            return false;
        }
    }
    return axis > 1 || (axis == 1 && schedule.rows == 1);
}

// Whether all lanes of a panel are of one group.
bool is_panel_in_group(const Problem &problem, const DirectSchedule &schedule) {
    return problem.groups == 1 || problem.out_channels / problem.groups % schedule.panel() == 0;
}

// x as an operand of type `type`.
Expr widen(const Problem &problem, const Sizes &sizes, Halide::Type type, const Expr &x) {
    return type.bits() == 8 || type == x.type() ? narrow_x(type, x) : widen_x(problem, sizes, x);
}

// flat = wide inside bounds, zero outside, a row's positions and their channels being one axis.
void define_flat(DirectStages &s, const Func &wide, const Expr &zero, const Halide::Region &bounds) {
    std::vector<Var> row = vars("i", s.axes.size() + 2);  // as `padded` names the other axes
    row.erase(row.begin());
    std::vector<Expr> from = {row[0] % s.channels, row[0] / s.channels};
    from.insert(from.end(), row.begin() + 1, row.end());
    Func inside("inside");
    inside(row) = wide(from);
    Halide::Region of_rows(bounds.begin() + 1, bounds.end());
    if (of_rows[0].extent.defined()) {
        of_rows[0].extent *= s.channels;
    }
    s.flat = Func("flat");
    s.flat(row) = Halide::BoundaryConditions::constant_exterior(inside, zero, of_rows)(row);
}

// The input with channels innermost and what stands for 0 outside it on the axes that pad and for groups that do not
// exist; undefined where x itself will do, unless copies_x.
Func pad(const Problem &problem, const DirectSchedule &schedule, DirectStages &s, const Operands &operands,
         Halide::Type type, bool staged, bool copies_x, bool by_rows) {
    const Func &x = operands.x;
    Halide::Region bounds(s.axes.size() + 2);
    bool pads = s.channels > problem.in_channels;
    if (pads) {
        bounds[0] = {0, static_cast<int>(problem.in_channels)};
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        if (s.pads[a]) {
            bounds[a + 1] = {0, s.axes[a].in};
            pads = true;
        }
    }
    // All lanes of a panel read one element of x at a time, if they are of one group: then it may lie anywhere.
    const bool broadcasts = schedule.dot == 1 && is_panel_in_group(problem, schedule) && !staged;
    if (!copies_x && !pads && (problem.x_layout == Layout::nxc || broadcasts) && type == halide_type(problem.x_type)) {
        return Func();
    }
    Func wide("wide"), padded("padded");
    const std::vector<Var> at = vars("i", s.axes.size() + 2);
    const std::vector<Expr> same(at.begin(), at.end());
    wide(at) = widen(problem, operands.sizes, type, x(same));
    if (problem.x_layout == Layout::ncx && !broadcasts) {
        s.squares = wide;
        s.turned = Func("turned");
        s.turned(at) = wide(same);
        if (!pads) {
            return s.turned;
        }
        wide = s.turned;
    }
    const Expr zero = has_surplus(problem, type) ? Halide::cast(type, narrow_zero_point(problem, type))
                                                 : Halide::Internal::make_zero(type);
    // Channels that are no whole vectors lie side by side with those of the next position, and a row is copied as one;
    // rows of a few channels-first planes are copied as they are.
    const bool planes = problem.x_layout == Layout::ncx;
    if (by_rows && pads && s.channels == problem.in_channels && s.channels % schedule.lanes != 0 &&
        (!planes || s.channels < schedule.lanes)) {
        s.copies_rows = problem.op == Operator::conv && s.axes.size() > 1;
        for (size_t a = 0; a < s.axes.size(); a++) {
            if (s.copies_rows && s.axes[a].reads_outside()) {  // a tile reads as many rows everywhere
                bounds[a + 1] = {0, s.axes[a].in};
            }
        }
        if (!planes) {
            define_flat(s, wide, zero, bounds);
            std::vector<Expr> in_row(at.begin() + 1, at.end());
            in_row[0] = at[1] * s.channels + at[0];
            padded(at) = s.flat(in_row);
            return padded;
        }
    }
    padded(at) = pads ? Halide::BoundaryConditions::constant_exterior(wide, zero, bounds)(at) : wide(same);
    return padded;
}

// The input as columns of matrix tiles, from channels-first x: (pair, spatial axes, step, n), neighbouring channels of
// a pixel side by side, as are pixels, and what stands for 0 around the image and beyond the channels. Rows of x are
// loaded, and as many as a lane sums stored together.
Func pair_channels(const Problem &problem, const DirectSchedule &schedule, DirectStages &s, const Operands &operands,
                   Halide::Type type) {
    const Var pair("pair"), step("step");
    const std::vector<Var> i = vars("i", s.axes.size());
    const int depth = static_cast<int>(problem.in_channels);
    const Expr zero = has_surplus(problem, type) ? Halide::cast(type, narrow_zero_point(problem, type))
                                                 : Halide::Internal::make_zero(type);
    const AxisMap::Range row = s.axes[0].reads_inside();
    const int width = row.last - row.first + 1, lanes = lanes_within(width, tile_lanes);
    Halide::Region domain = {{0, lanes}, {0, ceil_div(width, lanes)}};
    for (size_t a = 1; a < s.axes.size(); a++) {
        const AxisMap::Range range = s.axes[a].reads_inside();
        domain.emplace_back(range.first, range.last - range.first + 1);
    }
    s.inside = RDom(domain, "inside");
    // The last vector of a row overlaps the one before.
    const Expr x0 = row.first + Halide::min(s.inside[1] * lanes, width - lanes) + s.inside[0];
    const Expr channel = step * schedule.dot + pair;
    const bool whole = s.channels == depth;
    std::vector<Var> at = {pair};
    std::vector<Expr> to = {pair}, from = {whole ? channel : Halide::min(channel, depth - 1)};
    for (size_t a = 0; a < s.axes.size(); a++) {
        at.push_back(i[a]);
        to.push_back(a == 0 ? x0 : Expr(s.inside[static_cast<int>(a) + 1]));
        from.push_back(to.back());
    }
    at.insert(at.end(), {step, s.n});
    to.insert(to.end(), {step, s.n});
    from.push_back(s.n);
    const Expr x = widen(problem, operands.sizes, type, operands.x(from));
    const bool pads = std::find(s.pads.begin(), s.pads.end(), true) != s.pads.end();
    Func padded("padded");
    padded(at) = pads ? zero : Halide::undef(type);
    padded(to) = whole ? x : Halide::select(channel < depth, x, zero);
    return padded;
}

// The input channel that output channel c's group reads at depth k.
Expr input_channel(const Problem &problem, const Expr &c, const Expr &k) {
    if (problem.groups == 1) {
        return k;
    }
    const int out = static_cast<int>(problem.out_channels / problem.groups);
    const int in = static_cast<int>(problem.in_channels / problem.groups);
    return in == 1 && out == 1 ? c : c / out * in + k;
}

// How many input channels the panels reach: those of the last lane's group, which need not exist.
int channels_read(const Problem &problem, const PackedWeights &packed) {
    const int out = static_cast<int>(problem.out_channels / problem.groups);
    const int groups = problem.groups == 1 ? 1 : (packed.panels * packed.panel - 1) / out + 1;
    return (groups - 1) * packed.depth + packed.steps() * packed.dot;
}

}  // namespace

void DirectSchedule::list(ScheduleText &text) {
    text.number("lanes", lanes, 1, 64);
    text.number("vectors", vectors, 1, 64);
    text.number("pixels", pixels, 1, 64);
    text.number("rows", rows, 1, 64);
    text.number("unroll", unroll, 1, 64);
    text.number("dot", dot);
    text.flag("panels_outside", panels_outside);
    text.flag("parallel", parallel);
    text.optional("chunk", chunk, 0);
    text.optional("channels", channels, 0);
    text.optional("joined", joined, 0);
    text.optional("ahead", ahead, 0);
}

void DirectSchedule::check(const Problem &problem) const {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int height = axes.size() > 1 ? axes[1].phase_extent : 1;
    if (joined > 0 && (channels == 0 || rows > 1 || !joins_rows(problem))) {
        throw std::invalid_argument("schedule: \"joined\" must be 0: rows cannot be joined here");
    }
    if (width() > axes[0].phase_extent * std::max(joined, 1) || std::max(rows, joined) > height) {
        throw std::invalid_argument("schedule: a tile of " + std::to_string(rows) + " x " + std::to_string(width()) +
                                    " outputs is larger than the image of " + std::to_string(height) + " x " +
                                    std::to_string(axes[0].phase_extent));
    }
    if (channels > 0 && (!has_row_lanes(problem) || (rows > 1 && axes[1].reads_outside()))) {
        throw std::invalid_argument("schedule: \"channels\" must be 0: vectors cannot be pixels here");
    }
    if (channels > 0 && problem.out_channels / problem.groups % channels != 0 && problem.groups > 1) {
        throw std::invalid_argument("schedule: \"channels\" must divide the " +
                                    std::to_string(problem.out_channels / problem.groups) + " of a group");
    }
    if (ahead > 0 && (channels == 0 || joined > 0)) {
        throw std::invalid_argument("schedule: \"ahead\" must be 0: x is not read by vectors here");
    }
    if (!is_dot(problem, dot)) {
        throw std::invalid_argument("schedule: no instruction sums " + std::to_string(dot) +
                                    " neighbouring products of these types");
    }
    if (dot > 1 && problem.x_type == DType::bf16 && !is_panel_in_group(problem, *this)) {
        throw std::invalid_argument("schedule: a panel of " + std::to_string(panel()) +
                                    " channels is of several groups, whose pairs of bfloat16 cannot be one vector");
    }
}

namespace {

// Whether every phase of every axis has as many outputs, so that y can be seen as (q, phase).
bool phases_are_whole(const std::vector<AxisMap> &axes) {
    return std::all_of(axes.begin(), axes.end(), [](const AxisMap &axis) { return axis.out % axis.phases == 0; });
}

// A vector of sums is one channel after the other in channels-first y. Where channels lie so far apart that they fall
// into few sets of a cache, whole rows are written, whose squares are turned in registers.
bool turns_rows(const Problem &problem, const DirectSchedule &schedule) {
    if (schedule.channels > 0) {
        return false;
    }
    const std::vector<AxisMap> axes = axis_maps(problem);
    int64_t channel_bytes = sizeof(float);
    for (const AxisMap &axis : axes) {
        channel_bytes *= axis.out;
    }
    return problem.y_layout == Layout::ncx && problem.y_type == DType::f32 && problem.x_type == DType::f32 &&
           channel_bytes % crowding_bytes == 0 && problem.out_channels % turned_channels == 0 &&
           axes[0].out >= turned_positions;
}

}  // namespace

bool has_row_lanes(const Problem &problem) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const AxisMap &row = axes[0];
    return problem.x_layout == Layout::ncx && problem.y_layout == Layout::ncx && problem.x_type == DType::f32 &&
           problem.w_type == DType::f32 && problem.y_type == DType::f32 && row.step == 1 && !row.reads_outside() &&
           row.kernel % row.phases == 0 && row.offset_is_bounded() && phases_are_whole(axes) &&
           (problem.groups == 1 || problem.out_channels > problem.groups);
}

bool joins_rows(const Problem &problem) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    return has_row_lanes(problem) && axes.size() > 1 && std::all_of(axes.begin(), axes.end(), [](const AxisMap &axis) {
               return axis.taps == 1 && axis.kernel == axis.phases && axis.phase_extent == axis.in &&
                      !axis.reads_outside();
           });
}

namespace {

// Of each axis q, and phase where there are several.
std::vector<Var> product_vars(const DirectStages &s) {
    std::vector<Var> at = {s.c};
    for (size_t a = 0; a < s.axes.size(); a++) {
        at.push_back(s.q[a]);
        if (s.axes[a].phases > 1) {
            at.push_back(s.phase[a]);
        }
    }
    at.push_back(s.n);
    return at;
}

// part = sum of weight * input in f16 for one block of input channels and one tap of each axis, which are variables in
// place of those of the sum s.r.
void define_parts(DirectStages &s, std::vector<Var> at, std::vector<Expr> weight, std::vector<Expr> position,
                  const Func &packed, int block) {
    const Var part("block");
    const std::vector<Var> tap = vars("tap", s.axes.size());
    at.push_back(part);
    at.insert(at.end(), tap.begin(), tap.end());
    s.in_block = RDom(0, block, "in_block");
    std::map<std::string, Expr> instead = {{s.r[0].name(), Expr(0)}, {s.r[1].name(), part * block + s.in_block.x}};
    for (size_t a = 0; a < tap.size(); a++) {
        instead[s.r[static_cast<int>(a) + 2].name()] = tap[a];
    }
    for (std::vector<Expr> *list : {&weight, &position}) {
        for (Expr &e : *list) {
            e = Halide::Internal::substitute(instead, e);
        }
    }
    s.part = Func("part");
    s.part(at) = Halide::Internal::make_zero(Halide::Float(16));
    s.part(at) += packed(weight) * s.input(position);
}

// acc += weight * input, over q and phase of every axis. Returns y's element of it.
Expr define_sum(DirectStages &s, const Problem &problem, const PackedWeights &packed, const Operands &operands,
                int half_block) {
    std::vector<Var> at = {s.c};
    std::vector<Expr> weight = packed.at(s.c, s.r[0], s.r[1]);
    std::vector<Expr> position = {input_channel(problem, s.c, s.r[1] * packed.dot + s.r[0])};
    if (s.inside.defined()) {
        position = {s.r[0]};
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        const AxisMap &axis = s.axes[a];
        const Expr j = s.r[static_cast<int>(a) + 2];
        Expr in = s.q[a] * axis.step + axis.offset(s.phase[a]) + j * axis.tap_step;
        if (axis.has_uneven_phases()) {
            s.r.where(axis.is_tap(s.phase[a], j));
        }
        if (axis.kernel < axis.phases) {
            // Phases without a tap start anywhere, and what is behind a condition may be read ahead of it.
            const AxisMap::Range range = axis.reads();
            in = Halide::clamp(in, range.first, std::max(range.first, range.last));
        }
        if (axis.reads_outside() && !s.pads[a]) {
            s.r.where(in >= 0 && in < axis.in);
            in = s.copies_rows ? in : Halide::clamp(in, 0, axis.in - 1);
        }
        weight.push_back(j);
        position.push_back(in);
        at.insert(at.end(), {s.q[a], s.phase[a]});
    }
    weight.push_back(s.c / packed.panel);
    weight.insert(weight.end(), s.phase.begin(), s.phase.end());
    if (s.inside.defined()) {
        position.push_back(s.r[1]);
    }
    position.push_back(s.n);
    at.push_back(s.n);
    const Halide::Type sum = sum_type(problem);
    s.input = s.padded.defined() ? s.padded : operands.x;
    const Expr x = s.input(position);
    std::vector<Expr> start_at = {s.c};
    start_at.insert(start_at.end(), s.phase.begin(), s.phase.end());
    if (s.start.defined()) {
        if (s.start.dimensions() > static_cast<int>(start_at.size())) {
            start_at.insert(start_at.begin(), 0);  // any lane
        }
        s.acc(at) = s.start(start_at);
    } else if (s.surplus.sum.defined()) {
        s.acc(at) = -s.surplus.sum(start_at);
    } else {
        s.acc(at) = Halide::Internal::make_zero(sum);
    }
    if (half_block > 0) {
        define_parts(s, at, weight, position, operands.packed, half_block);
        std::vector<Expr> part_at(at.begin(), at.end());
        for (size_t d = 1; d < s.axes.size() + 2; d++) {
            part_at.emplace_back(s.r[static_cast<int>(d)]);
        }
        s.acc(at) += Halide::cast(sum, s.part(part_at));
    } else {
        s.acc(at) += Halide::cast(sum, operands.packed(weight)) * Halide::cast(sum, x);
    }
    std::vector<Expr> from = {s.c};
    for (size_t a = 0; a < s.axes.size(); a++) {
        from.insert(from.end(), {s.q[a], s.axes[a].phases > 1 ? Expr(s.phase[a]) : Expr(0)});
    }
    from.push_back(s.n);
    return s.acc(from);
}

// The same over joined rows, which are copied end to end. Returns y's element of it.
Expr define_joined(DirectStages &s, const Problem &problem, const PackedWeights &packed, const Operands &operands) {
    const Expr p = s.position, row = s.axes[0].in;
    std::vector<Expr> weight = packed.at(s.c, s.r[0], s.r[1]);
    weight.resize(weight.size() + s.axes.size(), 0);  // the only tap
    weight.push_back(s.c / packed.panel);
    std::vector<Var> x_at = {s.c, s.position}, at = x_at;
    std::vector<Expr> x = {s.c, p % row, p / row}, input = {input_channel(problem, s.c, s.r[1]), p};
    std::vector<Expr> from = {s.c, s.q[0] + s.q[1] * row};
    for (size_t a = 0; a < s.axes.size(); a++) {
        weight.emplace_back(s.phase[a]);
        at.push_back(s.phase[a]);
        from.push_back(s.axes[a].phases > 1 ? Expr(s.phase[a]) : Expr(0));
    }
    std::vector<Var> others(s.q.begin() + 2, s.q.end());
    others.push_back(s.n);
    const auto append = [&others](auto &list) { list.insert(list.end(), others.begin(), others.end()); };
    append(x_at), append(at), append(x), append(input), append(from);
    s.padded = Func("end_to_end");
    s.padded(x_at) = operands.x(x);
    s.acc(at) = Halide::Internal::make_zero(sum_type(problem));
    s.acc(at) += operands.packed(weight) * s.padded(input);
    s.joined = Func("joined");
    s.joined(at) = s.acc(at);
    return s.joined(from);
}

ZeroPointCompensation surplus_of(DirectStages &s, const Problem &problem, const PackedWeights &packed,
                                 const Operands &operands, Halide::Type type) {
    std::vector<Var> at = {s.c};
    at.insert(at.end(), s.phase.begin(), s.phase.end());
    std::vector<Expr> weight = packed.at(s.c, s.all[0], s.all[1]);
    for (size_t a = 0; a < s.axes.size(); a++) {
        const Expr j = s.all[static_cast<int>(a) + 2];
        if (s.axes[a].has_uneven_phases()) {
            s.all.where(s.axes[a].is_tap(s.phase[a], j));
        }
        weight.push_back(j);
    }
    weight.push_back(s.c / packed.panel);
    weight.insert(weight.end(), s.phase.begin(), s.phase.end());
    const Expr zero_point = Halide::cast(type, narrow_zero_point(problem, type));
    return define_zero_point_compensation(at, operands.packed(weight), s.all[0], zero_point);
}

// Whether the bias is a number of the type that products are summed in.
bool sums_bias(const Problem &problem, const Operands &operands) {
    return operands.bias.defined() && !problem.open_epilogue &&
           (!problem.is_quantized() || problem.bias_type != DType::f32);
}

// start = bias - surplus; beyond the last channel, anything.
void define_start(DirectStages &s, const Problem &problem, const Operands &operands, bool pixel_lanes) {
    std::vector<Var> at = {s.c};
    at.insert(at.end(), s.phase.begin(), s.phase.end());
    const int last = static_cast<int>(problem.out_channels) - 1;
    Expr value = sums_bias(problem, operands) ? Halide::cast(sum_type(problem), operands.bias(Halide::min(s.c, last)))
                                              : Halide::Internal::make_zero(sum_type(problem));
    if (s.surplus.sum.defined()) {
        value -= s.surplus.sum(std::vector<Expr>(at.begin(), at.end()));
    }
    if (pixel_lanes) {
        at.insert(at.begin(), Var("lane"));
    }
    s.start = Func("start");
    s.start(at) = value;
}

// Phases have unequal sizes, or rows of y are turned: y picks its elements from whole phases.
void define_picked_output(DirectStages &s, const Problem &problem, const Operands &operands, bool turns) {
    std::vector<Var> at = {s.c};
    std::vector<Expr> from = {s.c};
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
    from.push_back(s.n);
    const std::vector<Expr> y_at(at.begin(), at.end());
    Expr value = s.product(from);
    if (turns) {
        s.turned_y = Func("turned_y");
        s.turned_y(at) = value;
        value = s.turned_y(y_at);
    }
    s.y(at) = epilogue(problem, value, operands, y_at);
}

}  // namespace

std::vector<int> whole_phases(const Problem &problem) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    std::vector<int> phases(axes.size(), 1);
    if (phases_are_whole(axes)) {
        std::transform(axes.begin(), axes.end(), phases.begin(), [](const AxisMap &axis) { return axis.phases; });
    }
    return phases;
}

std::vector<int> output_phases(const Problem &problem, const DirectSchedule &schedule) {
    return turns_rows(problem, schedule) ? std::vector<int>(axis_maps(problem).size(), 1) : whole_phases(problem);
}

DirectStages direct(const Problem &problem, const DirectSchedule &schedule, const Operands &given,
                    const TargetModel &target, bool copies_x) {
    Operands operands = given;
    DirectStages s;
    const int half = schedule.f16_accumulate ? half_block(problem) : 0;
    const Halide::Type type =
        schedule.f16_accumulate ? Halide::Float(16) : dot_types(problem, schedule.dot, target.signed_dot).x;
    s.axes = axis_maps(problem);
    s.q = vars("q", s.axes.size());
    s.phase = vars("phase", s.axes.size());
    for (size_t a = 0; a < s.axes.size(); a++) {
        // A copy of a tile is a whole one, whether all of it is read or not.
        s.pads.push_back(copies_x || (s.axes[a].reads_outside() &&
                                      (has_surplus(problem, type) || !skips_padding(schedule, a, s.axes[a]))));
    }
    const PackedWeights packed = packed_weights(problem, schedule);
    s.channels = channels_read(problem, packed);
    s.padded = schedule.pixel_lanes
                   ? pair_channels(problem, schedule, s, operands, type)
                   : pad(problem, schedule, s, operands, type, stages_inputs(problem, schedule, target), copies_x,
                         !target.is_gpu() && !target.lane_indexed_fma && schedule.tile_steps == 0);
    Halide::Region domain = {{0, packed.dot}, {0, packed.steps() / std::max(half, 1)}};
    for (const AxisMap &axis : s.axes) {
        domain.emplace_back(0, axis.taps);
    }
    s.r = RDom(domain, "r");
    s.all = RDom(domain, "all");
    if (has_surplus(problem, type)) {
        s.surplus = surplus_of(s, problem, packed, operands, type);
    }
    if (schedule.tile_steps > 0) {
        define_start(s, problem, operands, schedule.pixel_lanes);
        if (sums_bias(problem, operands)) {
            operands.bias = Func();  // it is in the sums
        }
    }
    s.acc = Func("acc");
    const std::vector<Var> at = product_vars(s);
    const std::vector<Expr> same(at.begin(), at.end());
    const Expr sum = schedule.joined > 0 ? define_joined(s, problem, packed, operands)
                                         : define_sum(s, problem, packed, operands, half);
    const bool turns = turns_rows(problem, schedule) && !target.is_gpu();
    const bool whole = phases_are_whole(s.axes) && !turns;
    s.product = Func(whole ? "y" : "product");
    s.y = whole ? s.product : Func("y");
    const Expr finished = whole ? epilogue(problem, sum, operands, same) : sum;
    if (schedule.pixel_lanes && s.axes[0].phases > 1) {
        s.apart = Func("apart");
        s.apart(at) = finished;
    }
    s.product(at) = s.apart.defined() ? Expr(s.apart(same)) : finished;
    if (!whole) {
        define_picked_output(s, problem, operands, turns);
    }
    return s;
}

}  // namespace kiln::dense
