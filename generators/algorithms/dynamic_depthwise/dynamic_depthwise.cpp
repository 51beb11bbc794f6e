// The dynamic depthwise algorithm's stages; schedule_cpu.cpp beside it schedules them.
#include "algorithms/dynamic_depthwise/dynamic_depthwise.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "expressions/arithmetic.h"
#include "expressions/epilogue.h"
#include "expressions/points.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "expressions/weights.h"

namespace kiln::dynamic_depthwise {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

// Whether a plane has fewer positions than a block. Without subexpressions of product(), which would become variables
// where both are met, in which the condition of a specialization is not found again.
Expr is_small(const std::vector<Expr> &sizes) {
    Expr points = sizes.back();
    for (size_t a = sizes.size() - 1; a-- > 0;) {
        points *= sizes[a];
    }
    const Expr result = points < block_positions, simple = Halide::Internal::simplify(result);
    return Halide::Internal::is_const(simple) ? simple : result;
}

// `small` or, where they are not planes of fewer positions than a block, `block`.
Expr select_small(const Expr &is_small, const Expr &small, const Expr &block) {
    return Halide::Internal::is_const_one(is_small)    ? small
           : Halide::Internal::is_const_zero(is_small) ? block
                                                       : Halide::select(is_small, small, block);
}

std::vector<Expr> numbers_of(const RDom &r) {
    std::vector<Expr> result;
    for (int a = 0; a < r.dimensions(); a++) {
        result.emplace_back(r[a]);
    }
    return result;
}

// The numbers of strips, which are about equal.
Strips strips_of(const Sizes &sizes, const DynamicDepthwiseSchedule &schedule, int channels) {
    Strips s;
    s.in = sizes.in.back();
    s.out = sizes.out.back();
    s.stride = sizes.stride.back();
    s.pad = sizes.pad_begin.back();
    s.x_inner = product({sizes.in.begin(), sizes.in.end() - 1});
    s.y_inner = product({sizes.out.begin(), sizes.out.end() - 1});
    s.count = ceil_div<Expr>(s.out, schedule.rows);
    s.y_rows = ceil_div<Expr>(s.out, Halide::max(s.count, 1));
    const Expr reach = (sizes.kernel.back() - 1) * sizes.dilation.back() + 1;
    s.x_rows = Halide::min(Halide::max((s.y_rows - 1) * s.stride + reach, block_positions), s.in);
    s.x_points = s.x_rows * s.x_inner;
    s.y_points = s.y_rows * s.y_inner;
    s.is_small_x = is_small(sizes.in);
    s.is_small_y = is_small(sizes.out);
    Halide::Region domain;
    for (size_t a = 0; a < sizes.out.size(); a++) {
        domain.emplace_back(0, a + 1 < sizes.out.size() ? sizes.out[a] : s.y_rows);
    }
    s.rows = RDom(domain, "rows");
    s.blocks = RDom({{0, block_positions},
                     {0, schedule.lanes},
                     {0, ceil_div<Expr>(s.y_points, block_positions)},
                     {0, schedule.vectors},
                     {0, ceil_div(channels, schedule.panel())},
                     {0, s.count}},
                    "blocks");
    return s;
}

// x widened: (c, positions..., strip, n), the strip's number being left out where there are none.
Func define_input(Stages &s, const Problem &problem, const Operands &operands) {
    const Sizes &sizes = operands.sizes;
    Func wide("wide");
    const std::vector<Var> i = vars("i", s.q.size());
    std::vector<Var> at = {s.c};
    append(at, i);
    if (!s.strips) {
        at.push_back(s.n);
        wide(at) = widen_x(problem, sizes, operands.x(std::vector<Expr>(at.begin(), at.end())));
        return wide;
    }
    Strips &strips = *s.strips;
    const Var t = strips.strip;
    const Expr x = operands.x(s.c, strips.x_first(t) + strips.i, s.n);
    strips.x_block(s.c, strips.i, t, s.n) = x;
    strips.x(s.c, strips.i, t, s.n) =
        widen_x(problem, sizes, select_small(strips.is_small_x, x, strips.x_block(s.c, strips.i, t, s.n)));
    append(at, std::vector<Var>{t, s.n});
    const std::vector<Expr> position(i.begin(), i.end());
    wide(at) = strips.x(s.c, number_of(position, sizes.in), t, s.n);
    return wide;
}

// acc += weight * input.
void define_sum(Stages &s, const Problem &problem, const Operands &operands) {
    const Func wide = define_input(s, problem, operands);
    Halide::Region domain;
    for (const Expr &taps : operands.sizes.kernel) {
        domain.emplace_back(0, taps);
    }
    s.r = RDom(domain, "r");
    std::vector<Expr> extents = operands.sizes.in;  // what is read, outside which there is padding
    if (s.strips) {
        extents.back() = s.strips->x_rows;
    }
    std::vector<Var> at = {s.c};
    std::vector<Expr> weight = {s.c}, position = {s.c};
    for (size_t a = 0; a < s.q.size(); a++) {
        const DynamicAxisMap &axis = s.axes[a];
        const Expr tap = s.r[static_cast<int>(a)];
        Expr in = axis.input(s.q[a], 0, tap);
        if (s.strips && a + 1 == s.q.size()) {
            in += s.strips->shift(s.strips->strip);
        }
        if (a > 0) {
            s.r.where(in >= 0 && in < extents[a]);
            in = Halide::clamp(in, 0, extents[a] - 1);
        } else {
            s.r.where(extents[0] > 0);
        }
        at.push_back(s.q[a]);
        weight.push_back(tap);
        position.push_back(in);
    }
    if (s.strips) {
        at.push_back(s.strips->strip);
        position.emplace_back(s.strips->strip);
    }
    at.push_back(s.n);
    position.emplace_back(s.n);
    Halide::Region bounds(position.size());
    bounds[1] = {0, extents[0]};
    const Expr zero = Halide::Internal::make_zero(operand_type(problem));
    const Expr x = Halide::BoundaryConditions::constant_exterior(wide, zero, bounds)(position);
    const Halide::Type sum = sum_type(problem);
    s.acc = Func("acc");
    s.acc(at) = Halide::Internal::make_zero(sum);
    s.acc(at) += Halide::cast(sum, operands.packed(weight)) * Halide::cast(sum, x);
}

// y from blocks of sums. The last ones end where the channels do, and the strip.
void define_blocks(Stages &s, const Problem &problem, const DynamicDepthwiseSchedule &schedule,
                   const Operands &operands) {
    Strips &strips = *s.strips;
    RDom &r = strips.blocks;
    r.where(select_small(strips.is_small_y, r[0] < strips.y_points, Halide::Internal::const_true()));
    const int channels = static_cast<int>(problem.out_channels);
    const int last_panel = channels - schedule.panel();
    const auto first_channel = [&](const Expr &vector, const Expr &panel) {
        const Expr first = panel * schedule.panel();
        return (last_panel % schedule.panel() == 0 ? first : Halide::min(first, last_panel)) + vector * schedule.lanes;
    };
    const auto first_position = [&](const Expr &block) {
        return select_small(strips.is_small_y, 0,
                            Halide::min(block * block_positions, strips.y_points - block_positions));
    };
    const Var block("block"), vector("vector"), panel("panel"), t = strips.strip;
    strips.y_block(strips.i, s.c, block, vector, panel, t, s.n) =
        strips.sums(first_channel(vector, panel) + s.c, first_position(block) + strips.i, t, s.n);
    const Expr c = first_channel(r[3], r[4]) + r[1], i = first_position(r[2]) + r[0], strip = r[5];
    const Expr sum = select_small(strips.is_small_y, strips.sums(c, i, strip, s.n),
                                  strips.y_block(r[0], r[1], r[2], r[3], r[4], strip, s.n));
    const std::vector<Expr> at = {c, strips.y_first(strip) + i, s.n};
    s.y(s.c, strips.i, s.n) = Halide::undef(halide_type(problem.y_type));
    s.y(at) = epilogue(problem, sum, operands, at);
}

void define_output(Stages &s, const Problem &problem, const DynamicDepthwiseSchedule &schedule,
                   const Operands &operands) {
    s.y = Func("y");
    if (!s.strips) {
        const std::vector<Var> at = s.acc.args();
        const std::vector<Expr> same(at.begin(), at.end());
        s.y(at) = epilogue(problem, s.acc(same), operands, same);
        return;
    }
    Strips &strips = *s.strips;
    const Var i = strips.i, t = strips.strip;
    const std::vector<Expr> rows = numbers_of(strips.rows);
    std::vector<Expr> of_row = {s.c};
    append(of_row, rows);
    append(of_row, std::vector<Expr>{t, s.n});
    strips.sums(s.c, i, t, s.n) = Halide::undef(sum_type(problem));
    strips.sums(s.c, number_of(rows, operands.sizes.out), t, s.n) = s.acc(of_row);
    define_blocks(s, problem, schedule, operands);
}

bool are_known(const Axes &axes, int rank) {
    return std::none_of(axes.begin(), axes.begin() + rank, [](int64_t number) { return number == open_size; });
}

}  // namespace

Expr Strips::y_row(const Expr &t) const {
    return Halide::min(t * y_rows, out - y_rows);
}

Expr Strips::x_row(const Expr &t) const {
    return Halide::clamp(y_row(t) * stride - pad, 0, in - x_rows);
}

void DynamicDepthwiseSchedule::list(ScheduleText &text) {
    text.number("lanes", lanes, 1, 64);
    text.number("vectors", vectors, 1, 64);
    text.number("pixels", pixels, 1, 64);
    text.number("rows", rows, 2 * block_positions, 1 << 20);
    text.flag("parallel", parallel);
}

void DynamicDepthwiseSchedule::check(const Problem &problem) const {
    if (panel() > problem.out_channels) {
        throw std::invalid_argument("schedule: " + std::to_string(vectors) + " vectors of " + std::to_string(lanes) +
                                    " are more than the " + std::to_string(problem.out_channels) + " channels");
    }
}

Expr Strips::shift(const Expr &t) const {
    return y_row(t) * stride - x_row(t);
}

bool applies(const Problem &problem) {
    return problem.op == Operator::conv && problem.has_open_sizes() && !problem.open_epilogue &&
           !problem.is_quantized() && problem.groups > 1 && problem.groups == problem.in_channels &&
           problem.groups == problem.out_channels && problem.x_layout == problem.y_layout &&
           problem.x_layout != Layout::open && are_known(problem.kernel, problem.rank) &&
           are_known(problem.stride, problem.rank) && are_known(problem.dilation, problem.rank);
}

std::vector<Expr> packed_extents(const Problem &problem, const DynamicDepthwiseSchedule &schedule, const Sizes &sizes) {
    schedule.check(problem);
    std::vector<Expr> extents = {round_up(problem.out_channels, schedule.panel())};
    append(extents, sizes.kernel);
    return extents;
}

Func pack(const Problem &problem, const Func &w) {
    const Var c("c");
    const std::vector<Var> tap = vars("tap", static_cast<size_t>(problem.rank));
    std::vector<Expr> at = weight_at(problem, {c, c, 0}, 0, 1);
    Halide::Region bounds = weight_bounds(problem);
    for (size_t a = tap.size(); a-- > 0;) {
        at.emplace_back(tap[a]);
        bounds.emplace_back();
    }
    std::vector<Var> order = {c};
    append(order, tap);
    Func packed("packed");
    packed(order) = Halide::BoundaryConditions::constant_exterior(w, Halide::Internal::make_zero(w.type()), bounds)(at);
    return packed;
}

Stages dynamic_depthwise(const Problem &problem, const DynamicDepthwiseSchedule &schedule, const Operands &operands) {
    Stages s;
    s.q = vars("q", operands.sizes.in.size());
    s.axes = dynamic_axis_maps(problem, operands.sizes);
    if (problem.y_layout == Layout::ncx) {
        s.strips = strips_of(operands.sizes, schedule, static_cast<int>(problem.out_channels));
    }
    define_sum(s, problem, operands);
    define_output(s, problem, schedule, operands);
    return s;
}

}  // namespace kiln::dynamic_depthwise
