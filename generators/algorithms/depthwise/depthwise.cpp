// The depthwise algorithm's stages; schedule_*.cpp beside it schedules them.
#include "algorithms/depthwise/depthwise.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "expressions/arithmetic.h"
#include "expressions/epilogue.h"
#include "expressions/types.h"
#include "expressions/vars.h"

namespace kiln::depthwise {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

using Halide::RDom;

// More unrolled products than these make kernels large and slow to compile.
constexpr int most_products = 128;
// Of a group.
constexpr int most_outputs = 8;

// One number an axis, counted through from zeros up to `ends`, the first axis fastest.
void for_each_index(const std::vector<int> &ends, const std::function<void(const std::vector<int> &)> &visit) {
    std::vector<int> at(ends.size(), 0);
    if (std::any_of(ends.begin(), ends.end(), [](int end) { return end < 1; })) {
        return;
    }
    while (true) {
        visit(at);
        size_t a = 0;
        while (a < at.size() && ++at[a] == ends[a]) {
            at[a++] = 0;
        }
        if (a == at.size()) {
            return;
        }
    }
}

std::vector<int> each(const std::vector<AxisMap> &axes, int AxisMap::*number) {
    std::vector<int> result;
    for (const AxisMap &axis : axes) {
        result.push_back(axis.*number);
    }
    return result;
}

int constant(const Expr &value) {
    return static_cast<int>(*Halide::Internal::as_const_int(Halide::Internal::simplify(value)));
}

bool is_true(const Expr &condition) {
    return Halide::Internal::is_const_one(Halide::Internal::simplify(condition));
}

// Rows, which the taps of all their columns then share; or positions of a row, where there is but one.
size_t dotted_axis(const std::vector<AxisMap> &axes) {
    return axes.size() > 1 && axes[1].taps > 1 ? 1 : 0;
}

// Of each axis, groups of them on the dotted one.
std::vector<int> tap_extents(const std::vector<AxisMap> &axes, int dot) {
    std::vector<int> extents = each(axes, &AxisMap::taps);
    int &dotted = extents[dotted_axis(axes)];
    dotted = ceil_div(dotted, dot);
    return extents;
}

// How many neighbouring rows of outputs one group of taps serves, by weights that are shifted: 4 rows hold 3 taps
// twice.
int rows_of_group(const std::vector<AxisMap> &axes, const DepthwiseSchedule &schedule) {
    const AxisMap &axis = axes[dotted_axis(axes)];
    if (dotted_axis(axes) == 0 || axis.tap_step != 1 || axis.taps > schedule.dot) {
        return 1;
    }
    const int rows = (schedule.dot - axis.taps) / axis.step + 1;
    return schedule.rows % rows == 0 ? rows : 1;
}

// The input positions of an axis that are read: on the dotted one whole groups.
AxisMap::Range reads(const DepthwiseStages &s, size_t a) {
    const AxisMap &axis = s.axes[a];
    AxisMap::Range range = axis.reads();
    if (a == s.dotted && s.group_rows > 1) {
        const int outputs = round_up(axis.phase_extent, s.group_rows);
        range.last = range.first + (outputs - 1) * axis.step + axis.taps - 1;
    }
    return range;
}

// What `padded` holds.
Halide::Type padded_type(const Problem &problem, const DepthwiseSchedule &schedule) {
    if (schedule.dot == 1) {
        return operand_type(problem);
    }
    return schedule.dot == 4 ? Halide::UInt(8) : halide_type(problem.x_type);
}

// Rows of positions and channels from the first position that is read, zeros where that is outside x.
void define_merged_rows(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                        const Operands &operands) {
    const auto channels = static_cast<int>(problem.out_channels);
    std::vector<Var> at = vars("i", s.axes.size() + 2), row(at.begin() + 1, at.end());
    Halide::Region bounds(at.size());
    for (size_t a = 0; a < s.axes.size(); a++) {
        s.reads.push_back(s.axes[a].reads());
        if (a > 0) {
            bounds[a + 1] = {0, s.axes[a].in};
        }
    }
    // Vectors of x are stored as whole lines of the cache.
    const int before = -s.reads[0].first * channels;
    s.row_start = before > 0 ? round_up(before, schedule.lanes) : before;
    const int first = std::max(s.reads[0].first, 0), last = std::min(s.reads[0].last, s.axes[0].in - 1);
    s.inside = RDom(first * channels, std::max(last - first + 1, 0) * channels, "inside");
    const Expr zero = Halide::Internal::make_zero(Halide::Float(32));
    Func wide("wide");
    wide(at) = operands.x(std::vector<Expr>(at.begin(), at.end()));
    std::vector<Expr> from(at.begin(), at.end()), to(row.begin(), row.end());
    from[0] = s.inside % channels;
    from[1] = s.inside / channels;
    to[0] = s.inside + s.row_start;
    s.padded = Func("padded");
    s.padded(row) = zero;
    s.padded(to) = Halide::BoundaryConditions::constant_exterior(wide, zero, bounds)(from);
    s.copies = true;
    if (problem.bias) {
        const Var lane("lane");
        s.lane_bias = Func("lane_bias");
        s.lane_bias(lane) = operands.bias(lane % channels);
    }
}

// x widened, or 8-bit where taps are dotted, and what stands for 0 outside it.
void define_padded(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                   const Operands &operands) {
    const std::vector<Var> at = vars("i", s.axes.size() + 2);
    const std::vector<Expr> same(at.begin(), at.end());
    const Halide::Type type = padded_type(problem, schedule);
    s.fold = static_cast<int>(problem.out_channels / problem.groups);
    const bool along = problem.x_layout == (schedule.along_row ? Layout::ncx : Layout::nxc);
    s.copies = s.fold > 1 || !along || schedule.along_row || type != halide_type(problem.x_type) || problem.rank > 2;
    Halide::Region bounds(at.size()), inside;
    bool pads = false;
    for (size_t a = 0; a < s.axes.size(); a++) {
        const AxisMap::Range range = reads(s, a);
        s.reads.push_back(range);
        const int first = std::max(range.first, 0), last = std::min(range.last, s.axes[a].in - 1);
        inside.emplace_back(first, std::max(last - first + 1, 0));
        const bool skipped = schedule.rolled && !s.copies && a > 0;  // such rows of taps are not read
        if (!skipped && range.first <= range.last && (range.first < 0 || range.last >= s.axes[a].in)) {
            bounds[a + 1] = {0, s.axes[a].in};
            pads = true;
        }
    }
    const bool dots = schedule.dot > 1;
    std::vector<Expr> of_group = same;
    of_group[0] = at[0] / s.fold;
    Func wide("wide");
    const Expr x = operands.x(of_group);
    wide(at) = dots ? narrow_x(type, x) : widen_x(problem, operands.sizes, x);
    const Expr zero = dots ? Halide::cast(type, narrow_zero_point(problem, type)) : Halide::Internal::make_zero(type);
    s.padded = Func("padded");
    if (schedule.along_row) {  // filled and then written over, so that no vector is partly outside
        s.padded(at) = zero;
        s.inside = RDom(inside, "inside");
        std::vector<Expr> within = same;
        for (size_t a = 0; a < s.axes.size(); a++) {
            within[a + 1] = s.inside[static_cast<int>(a)];
        }
        s.padded(within) = wide(within);
        return;
    }
    s.padded(at) = pads ? Halide::BoundaryConditions::constant_exterior(wide, zero, bounds)(at) : wide(same);
}

// Where the weight of channel s.c lies that a sum over lanes and taps needs, for this row of a group: phases being one,
// rows are the dotted axis' phases.
std::vector<Expr> weight_at(const DepthwiseStages &s, const DepthwiseSchedule &schedule, const RDom &r,
                            const Expr &row) {
    std::vector<Expr> at = {r[0]};
    for (size_t a = 0; a < s.axes.size(); a++) {
        at.emplace_back(r[static_cast<int>(a) + 1]);
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        at.push_back(a == s.dotted ? row : Expr(0));
    }
    at.insert(schedule.along_row ? at.end() : at.begin() + 1, s.c);
    return at;
}

// An instruction that sums onto a number takes the bias as that.
bool starts_at_bias(const Problem &problem, const Operands &operands) {
    return operands.bias.defined() && problem.bias_type != DType::f32;
}

// What the taps of a lane read, side by side.
void define_gathered(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                     const Operands &operands) {
    const std::vector<Var> i = vars("i", s.axes.size());
    const AxisMap &axis = s.axes[s.dotted];
    std::vector<Expr> reads;
    const int taps = (s.group_rows - 1) * axis.step + axis.taps;  // of all rows of a group
    for (int tap = 0; tap < round_up(axis.taps, schedule.dot); tap++) {
        std::vector<Expr> position = {s.c};
        position.insert(position.end(), i.begin(), i.end());
        position.push_back(s.n);
        position[s.dotted + 1] =
            i[s.dotted] * (s.group_rows * axis.step) + constant(axis.offset(0)) + tap * axis.tap_step;
        const Expr x = s.padded(position);
        reads.push_back(tap < taps ? x : Halide::Internal::make_zero(x.type()));
    }
    std::vector<Var> at = {s.lane, s.c};
    at.insert(at.end(), i.begin(), i.end());
    at.insert(at.end(), {s.n, s.group});
    const Expr x = Halide::mux(s.group * schedule.dot + s.lane, reads);
    s.gathered = Func("gathered");
    s.gathered(at) = packed_type(problem, schedule).bits() == 8 ? x : widen_x(problem, operands.sizes, x);
}

// The sum of the products, several taps a lane.
void define_dotted_sum(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                       const Operands &operands) {
    Halide::Region domain = {{0, schedule.dot}};
    for (int taps : tap_extents(s.axes, schedule.dot)) {
        domain.emplace_back(0, taps);
    }
    s.r = RDom(domain, "r");
    s.all = RDom(domain, "all");
    define_gathered(s, problem, schedule, operands);
    const int zero_point = narrow_zero_point(problem, Halide::UInt(8));
    if (schedule.dot == 4 && zero_point != 0) {
        s.surplus = define_zero_point_compensation({s.c}, operands.packed(weight_at(s, schedule, s.all, 0)), s.all[0],
                                                   Halide::cast<uint8_t>(zero_point));
    }
    std::vector<Var> at = {s.c};
    std::vector<Expr> position = {s.r[0], s.c};
    for (size_t a = 0; a < s.axes.size(); a++) {
        const AxisMap &axis = s.axes[a];
        const Expr tap = s.r[static_cast<int>(a) + 1];
        at.push_back(s.q[a]);
        position.push_back(a == s.dotted ? s.q[a] / s.group_rows
                                         : s.q[a] * axis.step + constant(axis.offset(0)) + tap * axis.tap_step);
    }
    at.push_back(s.n);
    position.insert(position.end(), {s.n, s.r[static_cast<int>(s.dotted) + 1]});
    s.sum = Func("sum");
    Expr start = s.surplus.sum.defined() ? -s.surplus.sum(s.c) : Expr(0);
    if (starts_at_bias(problem, operands)) {
        start += operands.bias(s.c);
    }
    s.sum(at) = start;
    s.sum(at) += Halide::cast<int>(operands.packed(weight_at(s, schedule, s.r, s.q[s.dotted] % s.group_rows))) *
                 Halide::cast<int>(s.gathered(position));
}

Expr merged_position(const DepthwiseStages &s, const Problem &problem) {
    return s.c + s.q[0] * static_cast<int>(problem.out_channels);
}

// The sum of the products where rows of taps are a loop, from which those in the padding are left out.
void define_rolled_sum(DepthwiseStages &s, const Problem &problem, const Operands &operands) {
    Halide::Region domain;
    for (int taps : each(s.axes, &AxisMap::taps)) {
        domain.emplace_back(0, taps);
    }
    s.r = RDom(domain, "r");
    std::vector<Var> at = {s.c};
    std::vector<Expr> position = {s.c}, weight = {0, s.c};
    for (size_t a = 0; a < s.axes.size(); a++) {
        const AxisMap &axis = s.axes[a];
        const Expr tap = s.r[static_cast<int>(a)];
        Expr in = s.q[a] * axis.step + constant(axis.offset(0)) + tap * axis.tap_step;
        if (a > 0 && axis.reads_outside()) {
            s.r.where(in >= 0 && in < axis.in);
            in = Halide::clamp(in, 0, axis.in - 1);
        }
        at.push_back(s.q[a]);
        position.push_back(in);
        weight.push_back(tap);
    }
    at.push_back(s.n);
    position.push_back(s.n);
    weight.resize(weight.size() + s.axes.size(), 0);  // the only phase
    const Halide::Type type = sum_type(problem);
    s.sum = Func("sum");
    s.sum(at) = Halide::Internal::make_zero(type);
    s.sum(at) += cast(type, operands.packed(weight)) * cast(type, s.padded(position));
}

// The sum of the products of one phase of every axis.
Expr sum_of(const DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
            const Operands &operands, const std::vector<int> &phase) {
    const Halide::Type type = sum_type(problem);
    Expr sum;
    for_each_index(each(s.axes, &AxisMap::taps), [&](const std::vector<int> &tap) {
        std::vector<Expr> position = {s.c}, weight(tap.begin(), tap.end());
        weight.insert(weight.end(), phase.begin(), phase.end());
        weight.insert(schedule.along_row ? weight.end() : weight.begin(), s.c);
        weight.insert(weight.begin(), 0);
        for (size_t a = 0; a < s.axes.size(); a++) {
            const AxisMap &axis = s.axes[a];
            if (axis.phases > 1 && !is_true(axis.is_tap(phase[a], tap[a]))) {
                return;
            }
            position.push_back(s.q[a] * axis.step + constant(axis.offset(phase[a])) + tap[a] * axis.tap_step);
        }
        position.push_back(s.n);
        if (schedule.merged) {
            const auto channels = static_cast<int>(problem.out_channels);
            const int ahead = constant(s.axes[0].offset(0)) + tap[0] * s.axes[0].tap_step;
            position.erase(position.begin());
            position[0] = merged_position(s, problem) + (ahead * channels + s.row_start);
            weight[1] = merged_position(s, problem) % schedule.period(problem);
        }
        const Expr product = cast(type, operands.packed(weight)) * cast(type, s.padded(position));
        sum = sum.defined() ? sum + product : product;
    });
    return sum.defined() ? sum : Halide::Internal::make_zero(type);
}

}  // namespace

bool applies(const Problem &problem) {
    if (problem.op == Operator::deform_conv || problem.has_open_sizes() || problem.in_channels != problem.groups ||
        problem.x_elements() == 0 || problem.y_elements() == 0) {
        return false;
    }
    // A group of more outputs fills vectors of its own.
    const int64_t outputs = problem.out_channels / problem.groups;
    if (outputs > most_outputs || (outputs > 1 && problem.groups == 1)) {
        return false;
    }
    int64_t products = 1;
    for (const AxisMap &axis : axis_maps(problem)) {
        if (axis.out % axis.phases != 0 || axis.phases > most_products || axis.taps > most_products) {
            return false;
        }
        products *= static_cast<int64_t>(axis.taps) * axis.phases;
        if (products > most_products) {
            return false;
        }
    }
    return true;
}

bool allows_merged(const Problem &problem) {
    bool dense = problem.x_layout == Layout::nxc && problem.y_layout == Layout::nxc && problem.x_type == DType::f32 &&
                 problem.y_type == DType::f32 && problem.out_channels == problem.groups && !problem.residual;
    const std::vector<AxisMap> axes = axis_maps(problem);
    for (const AxisMap &axis : axes) {
        dense = dense && axis.phases == 1;
    }
    return dense && axes[0].step == 1;
}

namespace {

bool has_one_phase(const std::vector<AxisMap> &axes) {
    return std::all_of(axes.begin(), axes.end(), [](const AxisMap &axis) { return axis.phases == 1; });
}

}  // namespace

bool rolls_taps(const Problem &problem) {
    return problem.rank > 1 && !problem.is_quantized() && has_one_phase(axis_maps(problem));
}

bool sums_taps(const Problem &problem, int dot) {
    const bool one_phase = has_one_phase(axis_maps(problem));
    const bool narrow = dot == 4 && problem.w_type == DType::s8 && !problem.w_zero_points;
    return dot == 1 || (problem.is_quantized() && one_phase && (dot == 2 || narrow));
}

void DepthwiseSchedule::list(ScheduleText &text) {
    text.number("lanes", lanes, 1, 64);
    text.number("vectors", vectors, 1, 64);
    text.number("pixels", pixels, 1, 64);
    text.number("rows", rows, 1, 64);
    text.number("dot", dot);
    text.flag("along_row", along_row);
    text.flag("channels_outside", channels_outside);
    text.flag("parallel", parallel);
    text.optional("merged", merged, false);
    text.optional("rolled", rolled, false);
}

int DepthwiseSchedule::period(const Problem &problem) const {
    return std::lcm(lanes, static_cast<int>(problem.out_channels));
}

void DepthwiseSchedule::check(const Problem &problem) const {
    const std::vector<AxisMap> axes = axis_maps(problem);
    // A row may be part of a single vector.
    const bool partial = along_row && dot == 1 && vectors == 1 && lanes / 2 < axes[0].phase_extent;
    const int width = along_row ? (partial ? 1 : lanes * vectors) : pixels;
    if (width > axes[0].phase_extent || (axes.size() > 1 && rows > axes[1].phase_extent)) {
        throw std::invalid_argument("schedule: a tile of " + std::to_string(rows) + " x " + std::to_string(width) +
                                    " outputs is larger than the image");
    }
    if (!sums_taps(problem, dot)) {
        throw std::invalid_argument("schedule: no instruction sums the products of " + std::to_string(dot) +
                                    " neighbouring taps");
    }
    if (merged && (!allows_merged(problem) || along_row || dot > 1)) {
        throw std::invalid_argument(
            "schedule: \"merged\" is 1, but rows are not of float32 numbers, channels last, "
            "with an output for each input");
    }
    if (rolled && (!rolls_taps(problem) || along_row || merged || dot > 1 || rows > 1)) {
        throw std::invalid_argument("schedule: \"rolled\" must be 0: rows of taps cannot be a loop here");
    }
    if ((dot > 1 || rolled) && !along_row && lanes * vectors > problem.out_channels) {
        throw std::invalid_argument("schedule: " + std::to_string(vectors) + " vectors of " + std::to_string(lanes) +
                                    " are more than the " + std::to_string(problem.out_channels) + " channels");
    }
}

std::vector<int> packed_extents(const Problem &problem, const DepthwiseSchedule &schedule) {
    schedule.check(problem);
    const std::vector<AxisMap> axes = axis_maps(problem);
    std::vector<int> extents = tap_extents(axes, schedule.dot);
    std::vector<int> phases = each(axes, &AxisMap::phases);
    phases[dotted_axis(axes)] *= rows_of_group(axes, schedule);
    extents.insert(extents.end(), phases.begin(), phases.end());
    if (schedule.along_row) {
        extents.push_back(static_cast<int>(problem.out_channels));
    } else {
        extents.insert(extents.begin(), schedule.merged
                                            ? schedule.period(problem)
                                            : round_up(problem.out_channels, schedule.lanes * schedule.vectors));
    }
    extents.insert(extents.begin(), schedule.dot);
    return extents;
}

Halide::Type packed_type(const Problem &problem, const DepthwiseSchedule &schedule) {
    return schedule.dot == 4 ? Halide::Int(8) : operand_type(problem);
}

Func pack(const Problem &problem, const DepthwiseSchedule &schedule, const Func &w) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const Var c("c"), lane("lane");
    const std::vector<Var> j = vars("j", axes.size()), phase = vars("phase", axes.size());
    std::vector<Var> order = j;
    order.insert(order.end(), phase.begin(), phase.end());
    order.insert(schedule.along_row ? order.end() : order.begin(), c);
    order.insert(order.begin(), lane);
    const size_t dotted = dotted_axis(axes);
    const bool shifted = rows_of_group(axes, schedule) > 1;
    const int channels = static_cast<int>(problem.out_channels), fold = channels / static_cast<int>(problem.groups);
    const Expr channel = schedule.merged ? c % channels : Expr(c);
    std::vector<Expr> at = {channel, 0};
    Halide::Region bounds = {{0, channels}, {0, 1}};
    if (problem.op == Operator::conv_transpose) {
        at = {channel / fold, channel % fold};
        bounds = {{0, channels / fold}, {0, fold}};
    }
    for (size_t a = axes.size(); a-- > 0;) {
        const Expr tap = a == dotted ? j[a] * schedule.dot + lane : Expr(j[a]);
        at.push_back(a == dotted && shifted ? tap - phase[a] * axes[a].step : axes[a].tap(phase[a], tap));
        bounds.emplace_back(0, axes[a].kernel);
    }
    Func result("packed");
    const Expr zero = Halide::Internal::make_zero(w.type());
    result(order) = Halide::BoundaryConditions::constant_exterior(w, zero, bounds)(at);
    return result;
}

DepthwiseStages depthwise(const Problem &problem, const DepthwiseSchedule &schedule, const Operands &operands) {
    DepthwiseStages s;
    s.axes = axis_maps(problem);
    s.q = vars("q", s.axes.size());
    s.phase = vars("phase", s.axes.size());
    s.dotted = dotted_axis(s.axes);
    s.group_rows = rows_of_group(s.axes, schedule);
    if (schedule.merged) {
        define_merged_rows(s, problem, schedule, operands);
    } else {
        define_padded(s, problem, schedule, operands);
    }
    std::vector<Var> at = {s.c};
    Expr phase = 0;
    int step = 1;
    for (size_t a = 0; a < s.axes.size(); a++) {
        at.push_back(s.q[a]);
        if (s.axes[a].phases > 1) {
            at.push_back(s.phase[a]);
            phase += s.phase[a] * step;
        }
        step *= s.axes[a].phases;
    }
    at.push_back(s.n);
    const std::vector<Expr> same(at.begin(), at.end());
    std::vector<Expr> sums;
    Operands after = operands;
    if (schedule.dot > 1) {
        define_dotted_sum(s, problem, schedule, operands);
        sums = {s.sum(same)};
        after.bias = starts_at_bias(problem, operands) ? Func() : operands.bias;
    } else if (schedule.rolled) {
        define_rolled_sum(s, problem, operands);
        sums = {s.sum(same)};
    } else {
        for_each_index(each(s.axes, &AxisMap::phases), [&](const std::vector<int> &phases) {
            sums.push_back(sum_of(s, problem, schedule, operands, phases));
        });
        if (s.lane_bias.defined()) {
            sums[0] += s.lane_bias(merged_position(s, problem) % schedule.period(problem));
            after.bias = Func();
        }
    }
    s.y = Func("y");
    s.y(at) = epilogue(problem, sums.size() == 1 ? sums[0] : Halide::mux(phase, sums), after, same);
    return s;
}

}  // namespace kiln::depthwise
