// The sampled algorithm's stages; schedule_*.cpp beside it schedules them.
#include "deform_conv/sampled.h"

#include <stdexcept>

#include "common/epilogue.h"
#include "common/schedule_text.h"
#include "common/types.h"

namespace kiln::deform_conv {
namespace {

using Halide::cast;
using Halide::Expr;
using Halide::Func;
using Halide::reinterpret;
using Halide::Type;
using Halide::Var;

int to_int(int64_t value) {
    return static_cast<int>(value);
}

// One spatial axis.
struct Axis {
    int in, out, kernel, stride, dilation, pad;
};

// Of the problem, the innermost first.
std::vector<Axis> axes_of(const Problem &p) {
    std::vector<Axis> axes;
    for (int a = p.rank - 1; a >= 0; a--) {
        axes.push_back({to_int(p.in[a]), to_int(p.out[a]), to_int(p.kernel[a]), to_int(p.stride[a]),
                        to_int(p.dilation[a]), to_int(p.pad_begin[a])});
    }
    return axes;
}

// The coordinates of point or tap number `index`, the innermost first.
std::vector<Expr> coordinates(Expr index, const std::vector<int> &sizes) {
    std::vector<Expr> at;
    for (size_t a = 0; a < sizes.size(); a++) {
        const bool last = a + 1 == sizes.size();
        at.push_back(last ? index : index % sizes[a]);
        index = index / sizes[a];
    }
    return at;
}

// NaN, infinite and huge offsets become plus or minus 2^30, on their bits: two integer minima. Halide lets LLVM assume
// that no float is NaN or infinite, so no float comparison may see one.
Expr finite(const Expr &offset) {
    const Type type = offset.type(), as_int = Halide::Int(type.bits()), as_uint = Halide::UInt(type.bits());
    const Expr most = Halide::Internal::make_const(type, 1 << 30);
    const Expr bits = Halide::min(reinterpret(as_int, offset), reinterpret(as_int, most));
    return reinterpret(type, Halide::min(reinterpret(as_uint, bits), reinterpret(as_uint, -most)));
}

// A copy of `value`, an expression of (c, p, n).
SampledStages::Copy copy(const SampledStages &s, const std::string &name, const Expr &value, bool turns) {
    SampledStages::Copy c;
    c.result = Func(name);
    if (turns) {
        c.squares = Func(name + "_squares");
        c.squares(s.c, s.p, s.n) = value;
        c.result(s.c, s.p, s.n) = c.squares(s.c, s.p, s.n);
    } else {
        c.result(s.c, s.p, s.n) = value;
    }
    return c;
}

// corner(q, p, k, g, n): bit a of q chooses the lower or the upper neighbour on axis a.
Func corners(const Problem &problem, const SampledStages &s, const Func &offsets, const Func &mask) {
    const std::vector<Axis> axes = axes_of(problem);
    std::vector<int> outs, kernels;
    for (const Axis &axis : axes) {
        outs.push_back(axis.out);
        kernels.push_back(axis.kernel);
    }
    const std::vector<Expr> point = coordinates(s.p, outs), tap = coordinates(s.k, kernels);
    const Expr of_group = s.g * to_int(problem.taps()) + s.k;

    const Type type = sum_type(problem);
    const Expr zero = Halide::Internal::make_zero(type), one = Halide::Internal::make_one(type);
    Expr weight = problem.mask ? cast(type, mask(of_group, s.p, s.n)) : one;
    Expr address = 0, corner_inside = Halide::Internal::const_true(), any_inside = corner_inside;
    int points = 1;
    for (size_t a = 0; a < axes.size(); a++) {
        const Axis &axis = axes[a];
        const int document_axis = problem.rank - 1 - to_int(a);
        const Expr offset = finite(cast(type, offsets(of_group * problem.rank + document_axis, s.p, s.n)));
        const Expr whole = Halide::floor(offset), fraction = offset - whole;
        const Expr low = cast<int>(whole) + (point[a] * axis.stride - axis.pad + tap[a] * axis.dilation);
        const Expr upper = (s.q >> to_int(a)) % 2;
        const Expr at = low + upper;
        // On the border itself at -1 no neighbour is inside; behind it one is.
        any_inside = any_inside && (low >= 0 || (low == -1 && fraction > zero)) && low < axis.in;
        corner_inside = corner_inside && at >= 0 && at < axis.in;
        weight *= Halide::select(upper == 1, fraction, one - fraction);
        address += Halide::clamp(at, 0, axis.in - 1) * points;
        points *= axis.in;
    }
    weight = Halide::select(corner_inside, weight, zero);
    const Expr is_corner = s.q < (1 << problem.rank);
    Func corner("corner");
    corner(s.q, s.p, s.k, s.g, s.n) = {
        Halide::select(is_corner, weight, zero),
        reinterpret(Halide::Float(32), Halide::select(is_corner, address, cast<int>(any_inside)))};
    return corner;
}

// The sample of channel c at point p of the output (p itself, or one beyond the last, which is as good as the last) and
// tap k. Corners outside have weight 0 and read an inside corner of the same sample; where all are outside nothing
// counts, as what they read may be NaN.
void define_sample(SampledStages &s, const Problem &problem, const Func &image) {
    const Expr point = Halide::min(s.p, to_int(problem.out_points()) - 1);
    const Expr group = problem.offset_groups == 1 ? Expr(0) : s.c / to_int(problem.in_channels / problem.offset_groups);
    const int corners = 1 << problem.rank, last = to_int(problem.in_points()) - 1;
    const auto corner = [&](const Expr &q) { return s.corner(q, point, s.k, group, s.n); };
    const auto term = [&](const Expr &q) {
        const Expr address = Halide::unsafe_promise_clamped(reinterpret(Halide::Int(32), corner(q)[1]), 0, last);
        return Expr(corner(q)[0]) * image(s.c, address, s.n);
    };
    const Expr zero = Halide::Internal::make_zero(sum_type(problem));
    const Expr inside = reinterpret(Halide::Int(32), corner(corners)[1]) != 0;
    if (unrolls_corners(problem)) {
        Expr sum = term(0);
        for (int q = 1; q < corners; q++) {
            sum += term(q);
        }
        s.sample(s.c, s.p, s.k, s.n) = Halide::select(inside, sum, zero);
    } else {
        s.rq = Halide::RDom(0, corners, "rq");
        s.rq.where(inside);
        s.sample(s.c, s.p, s.k, s.n) = zero;
        s.sample(s.c, s.p, s.k, s.n) += term(s.rq);
    }
}

// The input channel that output channel c's group reads at depth k.
Expr input_channel(const Problem &problem, const Expr &c, const Expr &k) {
    if (problem.groups == 1) {
        return k;
    }
    const int out = to_int(problem.out_channels / problem.groups), in = to_int(problem.in_channels / problem.groups);
    return in == 1 && out == 1 ? c : c / out * in + k;
}

}  // namespace

SampledSchedule SampledSchedule::parse(const std::string &text) {
    const ScheduleText values(text,
                              {"lanes", "vectors", "pixels", "tiles", "blocks", "sample_lanes", "unroll", "parallel"});
    for (const char *name : {"lanes", "vectors", "pixels", "tiles", "blocks", "sample_lanes", "unroll"}) {
        if (values[name] < 1 || values[name] > 64) {
            throw std::invalid_argument("schedule: \"" + std::string(name) + "\" must be 1 to 64");
        }
    }
    return {values["lanes"],  values["vectors"],      values["pixels"], values["tiles"],
            values["blocks"], values["sample_lanes"], values["unroll"], values["parallel"] != 0};
}

std::string SampledSchedule::print() const {
    return ScheduleText::print({{"lanes", lanes},
                                {"vectors", vectors},
                                {"pixels", pixels},
                                {"tiles", tiles},
                                {"blocks", blocks},
                                {"sample_lanes", sample_lanes},
                                {"unroll", unroll},
                                {"parallel", parallel}});
}

std::vector<int> packed_extents(const Problem &problem, const SampledSchedule &schedule) {
    const int panel = schedule.panel();
    return {panel, to_int(problem.in_channels / problem.groups), to_int(problem.taps()),
            (to_int(problem.out_channels) + panel - 1) / panel};
}

Func pack(const Problem &problem, const SampledSchedule &schedule, const Func &w) {
    const Var lane("lane"), depth("depth"), tap("tap"), block("block");
    std::vector<int> kernels;
    for (const Axis &axis : axes_of(problem)) {
        kernels.push_back(axis.kernel);
    }
    const std::vector<Expr> taps = coordinates(tap, kernels);
    std::vector<Expr> at = {block * schedule.panel() + lane, depth};
    at.insert(at.end(), taps.rbegin(), taps.rend());
    Halide::Region bounds(at.size());
    bounds[0] = {0, to_int(problem.out_channels)};
    Func result("packed");
    result(lane, depth, tap, block) =
        Halide::BoundaryConditions::constant_exterior(w, Halide::Internal::make_zero(w.type()), bounds)(at);
    return result;
}

SampledStages sampled(const Problem &problem, const SampledSchedule &schedule, const Operands &operands) {
    SampledStages s;
    const bool channels_last = problem.x_layout == Layout::nxc;
    if (!channels_last || halide_type(problem.x_type) != sum_type(problem)) {
        s.image = copy(s, "image", widen_x(problem, operands.sizes, operands.x(s.c, s.p, s.n)), !channels_last);
    }
    if (channels_last) {
        s.offset = copy(s, "offsets", operands.offset(s.c, s.p, s.n), true);
    }
    if (channels_last && problem.mask) {
        s.mask = copy(s, "masks", operands.mask(s.c, s.p, s.n), true);
    }
    const auto or_operand = [](const SampledStages::Copy &c, const Func &operand) {
        return c.result.defined() ? c.result : operand;
    };
    s.corner = corners(problem, s, or_operand(s.offset, operands.offset), or_operand(s.mask, operands.mask));
    s.sample = Func("sample");
    define_sample(s, problem, or_operand(s.image, operands.x));

    const int panel = schedule.panel();
    s.r = Halide::RDom({{0, to_int(problem.in_channels / problem.groups)}, {0, to_int(problem.taps())}}, "r");
    s.acc = Func("acc");
    s.acc(s.c, s.p, s.n) = Halide::Internal::make_zero(sum_type(problem));
    s.acc(s.c, s.p, s.n) += operands.packed(s.c % panel, s.r.x, s.r.y, s.c / panel) *
                            s.sample(input_channel(problem, s.c, s.r.x), s.p, s.r.y, s.n);
    const auto finished = [&](const Func &sum) {
        return epilogue(problem, sum(s.c, s.p, s.n), operands, {s.c, s.p, s.n});
    };
    s.y = Func("y");
    s.product = s.y;
    if (problem.y_layout == Layout::nxc) {
        s.y(s.c, s.p, s.n) = finished(s.acc);
    } else {
        s.product = Func("product");
        s.product(s.c, s.p, s.n) = s.acc(s.c, s.p, s.n);
        s.turned_y = Func("turned_y");
        s.turned_y(s.c, s.p, s.n) = s.product(s.c, s.p, s.n);
        s.y(s.c, s.p, s.n) = finished(s.turned_y);
    }
    return s;
}

}  // namespace kiln::deform_conv
