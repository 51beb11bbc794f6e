// The depthwise algorithm's sums of products.
#include <algorithm>
#include <cstdlib>
#include <functional>

#include "algorithms/depthwise/depthwise.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "expressions/vars.h"

namespace kiln::depthwise {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

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

int constant(const Expr &value) {
    return static_cast<int>(*Halide::Internal::as_const_int(Halide::Internal::simplify(value)));
}

bool is_true(const Expr &condition) {
    return Halide::Internal::is_const_one(Halide::Internal::simplify(condition));
}

// Lanes, and the taps of each axis, groups of them on the dotted one.
Halide::Region domain_of_taps(const DepthwiseStages &s, const DepthwiseSchedule &schedule) {
    Halide::Region domain = {{0, schedule.dot_width()}};
    for (int taps : tap_extents(s.axes, schedule)) {
        domain.emplace_back(0, taps);
    }
    return domain;
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
        at.push_back(a == dotted_axis(s.axes, schedule) ? row : Expr(0));
    }
    at.insert(schedule.has_row_lanes() ? at.end() : at.begin() + 1, s.c);
    return at;
}

// x as an instruction reads it.
Expr gathered_number(const Problem &problem, const DepthwiseSchedule &schedule, const Operands &operands,
                     const Expr &x) {
    return packed_type(problem, schedule).bits() == 8 ? x : widen_x(problem, operands.sizes, x);
}

// What the taps of a lane read, side by side.
GatheredTaps gather_taps(const DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                         const Operands &operands) {
    GatheredTaps result;
    result.axis = dotted_axis(s.axes, schedule);
    result.group_rows = rows_of_group(s.axes, schedule);
    const std::vector<Var> i = vars("i", s.axes.size());
    const AxisMap &axis = s.axes[result.axis];
    std::vector<Expr> reads;
    const int taps = (result.group_rows - 1) * axis.stride + axis.taps;  // of all rows of a group
    for (int tap = 0; tap < round_up(axis.taps, schedule.dot_width()); tap++) {
        std::vector<Expr> position = {s.c};
        position.insert(position.end(), i.begin(), i.end());
        position.push_back(s.n);
        position[result.axis + 1] =
            i[result.axis] * (result.group_rows * axis.stride) + constant(axis.offset(0)) + tap * axis.tap_step;
        const Expr x = s.padded(position);
        reads.push_back(tap < taps ? x : Halide::Internal::make_zero(x.type()));
    }
    std::vector<Var> at = {result.lane, s.c};
    at.insert(at.end(), i.begin(), i.end());
    at.insert(at.end(), {s.n, result.group});
    const Expr x = Halide::mux(result.group * schedule.dot_width() + result.lane, reads);
    result.taps = Func("gathered");
    result.taps(at) = gathered_number(problem, schedule, operands, x);
    return result;
}

// What the taps of a lane read of the position where the first does, and of its neighbours.
GatheredTaps gather_positions(const DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                              const Operands &operands) {
    GatheredTaps result;
    std::vector<Var> at = {result.lane, s.c};
    std::vector<Expr> position = {s.c};
    for (const Var &i : vars("i", s.axes.size())) {
        at.push_back(i);
        position.emplace_back(i);
    }
    at.push_back(s.n);
    position.emplace_back(s.n);
    position[1] += result.lane * s.axes[0].tap_step;
    result.taps = Func("gathered");
    result.taps(at) = gathered_number(problem, schedule, operands, s.padded(position));
    return result;
}

// Whether the bytes that are summed have a zero point, which is taken off again.
bool sums_zero_point(const Problem &problem, const DepthwiseSchedule &schedule) {
    return schedule.dot_width() == 4 && narrow_zero_point(problem, Halide::UInt(8)) != 0;
}

// What the weights of lanes and taps add to each channel's sum by the zero point of bytes, if they do.
std::optional<ZeroPointCompensation> compensation_of(const DepthwiseStages &s, const Problem &problem,
                                                     const DepthwiseSchedule &schedule, const Operands &operands,
                                                     const Halide::Region &domain) {
    if (!sums_zero_point(problem, schedule)) {
        return std::nullopt;
    }
    const RDom all(domain, "all");
    return define_zero_point_compensation({s.c}, operands.packed(weight_at(s, schedule, all, 0)), all,
                                          Halide::cast<uint8_t>(narrow_zero_point(problem, Halide::UInt(8))));
}

// What a sum of several taps a lane starts from.
Expr start_of_dots(const DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                   const Operands &operands) {
    const auto &compensation = s.gathered->compensation;
    Expr start = compensation ? -compensation->sum(s.c) : Expr(0);
    if (starts_at_bias(problem, schedule, operands)) {
        start += operands[Tensor::bias](s.c);
    }
    return start;
}

// The sum of the products, several taps a lane.
void define_dotted_sum(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                       const Operands &operands) {
    const Halide::Region domain = domain_of_taps(s, schedule);
    const RDom r(domain, "r");
    s.gathered = gather_taps(s, problem, schedule, operands);
    const GatheredTaps &gathered = *s.gathered;
    s.gathered->compensation = compensation_of(s, problem, schedule, operands, domain);
    std::vector<Var> at = {s.c};
    std::vector<Expr> position = {r[0], s.c};
    for (size_t a = 0; a < s.axes.size(); a++) {
        const AxisMap &axis = s.axes[a];
        const Expr tap = r[static_cast<int>(a) + 1];
        at.push_back(s.q[a]);
        position.push_back(a == gathered.axis ? s.q[a] / gathered.group_rows
                                              : s.q[a] * axis.stride + constant(axis.offset(0)) + tap * axis.tap_step);
    }
    at.push_back(s.n);
    position.insert(position.end(), {s.n, r[static_cast<int>(gathered.axis) + 1]});
    Func sum("sum");
    sum(at) = start_of_dots(s, problem, schedule, operands);
    sum(at) += Halide::cast<int>(operands.packed(weight_at(s, schedule, r, s.q[gathered.axis] % gathered.group_rows))) *
               Halide::cast<int>(gathered.taps(position));
    s.tap_sums = {r, sum};
}

// The sum of the products where rows of taps are a loop, from which those in the padding are left out.
void define_sum_in_loop(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                        const Operands &operands) {
    const int dot = schedule.dot_width();
    const Halide::Region domain = domain_of_taps(s, schedule);
    RDom r(domain, "r");
    std::vector<Var> at = {s.c};
    std::vector<Expr> position = {s.c};
    for (size_t a = 0; a < s.axes.size(); a++) {
        const AxisMap &axis = s.axes[a];
        // Of the taps of a lane some may be inside where others are not.
        const int step = a == 0 ? dot * axis.tap_step : axis.tap_step, reach = step - axis.tap_step;
        const Expr tap = r[static_cast<int>(a) + 1];
        Expr in = s.q[a] * axis.stride + constant(axis.offset(0)) + tap * step;
        if (skips_padding(problem, schedule, s.axes, a)) {
            const Expr first = reach < 0 ? in + reach : in;
            r.where(first >= -std::abs(reach) && first < axis.in);
            in = reach != 0 ? in : Halide::clamp(in, s.reads[a].first, s.reads[a].last);
        }
        at.push_back(s.q[a]);
        position.push_back(in);
    }
    at.push_back(s.n);
    position.push_back(s.n);
    const Halide::Type type = sum_type(problem);
    Func sum("sum");
    Expr x;
    if (gathers_positions(schedule)) {
        s.gathered = gather_positions(s, problem, schedule, operands);
        s.gathered->compensation = compensation_of(s, problem, schedule, operands, domain);
        sum(at) = start_of_dots(s, problem, schedule, operands);
        position.insert(position.begin(), r[0]);
        x = s.gathered->taps(position);
    } else {
        sum(at) = Halide::Internal::make_zero(type);
        x = s.padded(position);
    }
    sum(at) += cast(type, operands.packed(weight_at(s, schedule, r, 0))) * cast(type, x);
    s.tap_sums = {r, sum};
}

// The sum of the products of one phase of every axis.
Expr sum_of(const DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
            const Operands &operands, const std::vector<int> &phase) {
    const Halide::Type type = sum_type(problem);
    Expr sum;
    for_each_index(each(s.axes, &AxisMap::taps), [&](const std::vector<int> &tap) {
        std::vector<Expr> position = {s.c}, weight(tap.begin(), tap.end());
        weight.insert(weight.end(), phase.begin(), phase.end());
        weight.insert(schedule.has_row_lanes() ? weight.end() : weight.begin(), s.c);
        weight.insert(weight.begin(), 0);
        for (size_t a = 0; a < s.axes.size(); a++) {
            const AxisMap &axis = s.axes[a];
            if (axis.phases > 1 && !is_true(axis.is_tap(phase[a], tap[a]))) {
                return;
            }
            position.push_back(s.q[a] * axis.stride + constant(axis.offset(phase[a])) + tap[a] * axis.tap_step);
        }
        position.push_back(s.n);
        if (s.merged_rows) {
            const auto channels = static_cast<int>(problem.out_channels);
            const int offset = constant(s.axes[0].offset(0)) + tap[0] * s.axes[0].tap_step;
            position.erase(position.begin());
            position[0] = merged_position(s, problem) + (offset * channels + s.merged_rows->before);
            weight[1] = merged_position(s, problem) % schedule.period(problem);
        }
        const Expr product = cast(type, operands.packed(weight)) * cast(type, s.padded(position));
        sum = sum.defined() ? sum + product : product;
    });
    return sum.defined() ? sum : Halide::Internal::make_zero(type);
}

}  // namespace

bool starts_at_bias(const Problem &problem, const DepthwiseSchedule &schedule, const Operands &operands) {
    return schedule.dot_width() > 1 && operands[Tensor::bias].defined() && problem.bias_type != DType::f32;
}

bool gathers_positions(const DepthwiseSchedule &schedule) {
    return schedule.sums<TapsInLoop>() && schedule.dot_width() > 1;
}

bool skips_padding(const Problem &problem, const DepthwiseSchedule &schedule, const std::vector<AxisMap> &axes,
                   size_t a) {
    // A zero point that is taken off again is summed in the padding too.
    return schedule.sums<TapsInLoop>() && !sums_zero_point(problem, schedule) &&
           (a == 0 ? schedule.unrolls_row(problem) : may_skip_padding(axes, a));
}

Expr merged_position(const DepthwiseStages &s, const Problem &problem) {
    return s.c + s.q[0] * static_cast<int>(problem.out_channels);
}

std::vector<Expr> define_sums(DepthwiseStages &s, const Problem &problem, const DepthwiseSchedule &schedule,
                              const Operands &operands) {
    if (schedule.sums<UnrolledTaps>()) {
        std::vector<Expr> sums;
        for_each_index(each(s.axes, &AxisMap::phases), [&](const std::vector<int> &phases) {
            sums.push_back(sum_of(s, problem, schedule, operands, phases));
        });
        return sums;
    }
    if (schedule.sums<DotTaps>()) {
        define_dotted_sum(s, problem, schedule, operands);
    } else {
        define_sum_in_loop(s, problem, schedule, operands);
    }
    const std::vector<Var> at = s.tap_sums->sums.args();  // they have one phase
    return {s.tap_sums->sums(std::vector<Expr>(at.begin(), at.end()))};
}

}  // namespace kiln::depthwise
