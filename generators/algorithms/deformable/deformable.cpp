// The deformable algorithm's stages; schedule_*.cpp beside it schedules them.
#include "algorithms/deformable/deformable.h"

#include <stdexcept>

#include "expressions/arithmetic.h"
#include "expressions/epilogue.h"
#include "expressions/points.h"
#include "expressions/types.h"

namespace kiln::deformable {
namespace {

using Halide::cast;
using Halide::Expr;
using Halide::Func;
using Halide::reinterpret;
using Halide::Type;
using Halide::Var;

// A copy of `value`, an expression of (c, p, n).
DeformableStages::Copy copy(const DeformableStages &s, const std::string &name, const Expr &value, bool transposes) {
    DeformableStages::Copy c;
    c.result = Func(name);
    if (transposes) {
        c.blocks = Func(name + "_blocks");
        (*c.blocks)(s.c, s.p, s.n) = value;
        c.result(s.c, s.p, s.n) = (*c.blocks)(s.c, s.p, s.n);
    } else {
        c.result(s.c, s.p, s.n) = value;
    }
    return c;
}

bool known(const Expr &size) {
    return Halide::Internal::as_const_int(size).has_value();
}

void define_image(DeformableStages &s, const Problem &problem, const DeformableSizes &derived,
                  const Operands &operands) {
    const bool open = !known(derived.in_points), transposes = problem.x_layout == Layout::ncx;
    if (problem.x_layout == Layout::nxc && !open && halide_type(problem.x_type) == sum_type(problem)) {
        return;
    }
    // What is beyond the last point is never used.
    const Expr p = open ? Halide::min(Halide::likely(s.p), derived.in_points - 1) : Expr(s.p);
    Expr value = widen_x(problem, operands.sizes, operands.x(s.c, p, s.n));
    if (open) {
        s.x_is_empty = derived.in_points == 0;
        value = Halide::select(*s.x_is_empty, Halide::Internal::make_zero(value.type()), value);
    }
    s.image = copy(s, "image", value, transposes && known(operands.sizes.in_channels));
}

// Offsets and masks of chunks whose points are whole vectors, whatever there is beyond the last point.
void define_offsets(DeformableStages &s, const Problem &problem, const DeformableSizes &derived,
                    const Operands &operands) {
    if (problem.x_layout == Layout::ncx && derived.whole_chunks) {
        return;
    }
    const bool transposes =
        problem.x_layout == Layout::nxc && known(operands.sizes.offset_groups) && known(derived.taps);
    const Expr p = derived.whole_chunks ? Expr(s.p)
                   : transposes         ? Halide::min(s.p, derived.out_points - 1)
                                        : Halide::min(Halide::likely(s.p), derived.out_points - 1);
    s.offset = copy(s, "offsets", operands[Tensor::offset](s.c, p, s.n), transposes);
    if (operands[Tensor::mask].defined()) {
        s.mask = copy(s, "masks", operands[Tensor::mask](s.c, p, s.n), transposes);
    }
}

// corner(q, p, k, g, n): bit a of q chooses the lower or the upper neighbour on axis a.
void define_corners(DeformableStages &s, const Problem &problem, const DeformableSizes &derived, const Sizes &sizes,
                    const Func &offsets, const Func &mask) {
    const std::vector<Expr> point = coordinates(s.p, sizes.out), tap = coordinates(s.k, sizes.kernel);
    const Expr of_group = s.g * derived.taps + s.k;
    std::vector<Expr> origins;
    for (int a = 0; a < problem.rank; a++) {
        origins.push_back(point[a] * sizes.stride[a] - sizes.pad_begin[a]);
    }
    s.origin = Func("origin");
    s.origin(s.a, s.p) = Halide::mux(s.a, origins);

    const Type type = sum_type(problem);
    const Expr zero = Halide::Internal::make_zero(type), one = Halide::Internal::make_one(type);
    Expr weight = one;
    if (mask.defined()) {
        const Expr value = cast(type, mask(of_group, s.p, s.n));
        weight = problem.open_epilogue ? Halide::select(sizes.has_mask, value, one) : value;
    }
    Expr address = 0, points = 1, corner_inside = Halide::Internal::const_true(), any_inside = corner_inside;
    for (int a = 0; a < problem.rank; a++) {
        const int document_axis = problem.rank - 1 - a;
        const Expr offset = finite(cast(type, offsets(of_group * problem.rank + document_axis, s.p, s.n)));
        const Expr whole = Halide::floor(offset), fraction = offset - whole;
        const Expr low = cast<int>(whole) + (s.origin(a, s.p) + tap[a] * sizes.dilation[a]);
        const Expr upper = (s.q >> a) % 2;
        const Expr at = low + upper;
        // On the border itself at -1 no neighbour is inside; behind it one is.
        any_inside = any_inside && (low >= 0 || (low == -1 && fraction > zero)) && low < sizes.in[a];
        corner_inside = corner_inside && at >= 0 && at < sizes.in[a];
        weight *= Halide::select(upper == 1, fraction, one - fraction);
        address += Halide::max(Halide::min(at, sizes.in[a] - 1), 0) * points;
        points *= sizes.in[a];
    }
    weight = Halide::select(corner_inside, weight, zero);
    if (!known(derived.in_points)) {
        address = Halide::select(derived.in_points == 0, 0, address);
    }
    const Expr is_corner = s.q < (1 << problem.rank);
    s.corner = Func("corner");
    s.corner(s.q, s.p, s.k, s.g, s.n) = {
        Halide::select(is_corner, weight, zero),
        reinterpret(Halide::Float(32), Halide::select(is_corner, address, cast<int>(any_inside)))};
}

// Corners outside have weight 0 and read an inside corner of the same sample; where all are outside nothing counts, as
// what they read may be NaN.
void define_sample(DeformableStages &s, const Problem &problem, const DeformableSizes &derived, const Func &image) {
    const int corners = 1 << problem.rank;
    const auto corner = [&](const Expr &q) { return s.corner(q, s.p, s.k, s.g, s.n); };
    const auto term = [&](const Expr &q) {
        const Expr bits = reinterpret(Halide::Int(32), corner(q)[1]);
        const Expr point = Halide::unsafe_promise_clamped(bits, 0, derived.in_points - 1);
        return Expr(corner(q)[0]) * image(s.g * derived.offset_channels + s.c, point, s.n);
    };
    const Expr zero = Halide::Internal::make_zero(sum_type(problem));
    const Expr inside = reinterpret(Halide::Int(32), corner(corners)[1]) != 0;
    s.sample = Func("sample");
    if (unrolls_corners(problem)) {
        Expr sum = term(0);
        for (int q = 1; q < corners; q++) {
            sum += term(q);
        }
        s.sample(s.c, s.g, s.p, s.k, s.n) = Halide::select(inside, sum, zero);
    } else {
        s.rq = Halide::RDom(0, corners, "rq");
        s.rq->where(inside);
        s.sample(s.c, s.g, s.p, s.k, s.n) = zero;
        s.sample(s.c, s.g, s.p, s.k, s.n) += term(*s.rq);
    }
}

// What a slice of a GPU's sum has of input channels and taps.
struct Reduction {
    Expr channel, tap;
};
Reduction take_slice(DeformableStages &s, const Problem &problem, const DeformableSchedule &schedule,
                     const Var &slice) {
    const SumSlices slices(static_cast<int>(problem.in_channels / problem.groups), schedule.unroll,
                           static_cast<int>(problem.taps()), schedule.sliced.slices);
    s.r = Halide::RDom({{0, slices.steps()}, {0, slices.taps()}}, "r");
    for (const Expr &is_there : slices.conditions(slice, s.r.x, s.r.y)) {
        s.r.where(is_there);
    }
    return {slices.step(slice, s.r.x), slices.tap(slice, s.r.y)};
}

void define_sum(DeformableStages &s, const Problem &problem, const DeformableSchedule &schedule,
                const DeformableSizes &derived, const Operands &operands) {
    const Sizes &sizes = operands.sizes;
    const bool splits = splits_groups(problem), is_sliced = schedule.sliced.slices > 1;
    const int panel = schedule.panel();
    const Var slice("slice");
    s.r = Halide::RDom({{0, sizes.reduction_channels()}, {0, derived.taps}}, "r");
    Reduction of = {s.r.x, s.r.y};
    if (is_sliced) {
        of = take_slice(s, problem, schedule, slice);
    }
    Expr channel = of.channel;
    if (splits) {
        channel += s.h * sizes.reduction_channels();
    } else if (problem.groups != 1) {
        const bool depthwise = problem.in_channels == problem.groups && problem.out_channels == problem.groups;
        channel = depthwise ? Expr(s.c) : s.c / sizes.out_of_group() * sizes.reduction_channels() + of.channel;
        if (problem.out_channels == open_size || problem.out_channels % panel != 0) {
            // As samples are bounded; what the last panel's empty lanes read is stored, too (schedule_samples()).
            channel = Halide::unsafe_promise_clamped(channel, 0, sizes.in_channels - 1);
        }
    }
    const Expr one_offset_group = sizes.offset_groups == 1;
    const Expr of_group = Halide::select(one_offset_group, channel, channel % derived.offset_channels);
    const Expr group = Halide::select(one_offset_group, 0, channel / derived.offset_channels);
    std::vector<Var> at = {s.c};
    if (splits) {
        at.push_back(s.h);
    }
    at.insert(at.end(), {s.p, s.n});
    if (is_sliced) {
        at.push_back(slice);
    }
    s.acc = Func("acc");
    s.acc(at) = Halide::Internal::make_zero(sum_type(problem));
    s.acc(at) += operands.packed(s.c % panel, of.channel, of.tap, s.c / panel, splits ? Expr(s.h) : Expr(0)) *
                 s.sample(of_group, group, s.p, of.tap, s.n);
    if (is_sliced) {
        s.sliced = define_sliced_sum(
            s.acc, schedule.sliced,
            {{0, static_cast<int>(problem.out_channels)}, {1, static_cast<int>(problem.out_points())}});
    }
}

void define_output(DeformableStages &s, const Problem &problem, const Operands &operands) {
    std::vector<Var> vars = s.acc.args();
    if (s.sliced) {
        vars.pop_back();
    }
    const std::vector<Expr> at(vars.begin(), vars.end());
    const bool splits = splits_groups(problem);
    const Expr channel = splits ? s.h * operands.sizes.out_of_group() + s.c : Expr(s.c);
    s.y = Func("y");
    s.product = s.y;
    Expr sum = s.sliced ? sum_of_slices(*s.sliced, at) : s.acc(at);
    if (problem.y_layout == Layout::ncx && !splits && known(operands.sizes.out_channels)) {
        s.product = Func("product");
        s.product(vars) = sum;
        s.blocks = Func("y_blocks");
        (*s.blocks)(vars) = s.product(at);
        sum = (*s.blocks)(at);
    } else if (problem.has_open_sizes()) {
        s.sums = Func("sums");
        (*s.sums)(vars) = sum;
        sum = (*s.sums)(at);
    }
    s.y(vars) = epilogue(problem, sum, operands, at, channel);
}

}  // namespace

void DeformableSchedule::list(ScheduleText &text) {
    text.number("lanes", lanes, 1, 64);
    text.number("vectors", vectors, 1, 64);
    text.number("pixels", pixels, 1, 64);
    text.number("tiles", tiles, 1, 64);
    text.number("blocks", blocks, 1, 64);
    text.number("sample_lanes", sample_lanes, 1, 64);
    text.number("unroll", unroll, 1, 64);
    text.flag("parallel", parallel);
}

std::vector<Expr> packed_extents(const Problem &problem, const DeformableSchedule &schedule, const Sizes &sizes) {
    const bool splits = splits_groups(problem);
    const Expr channels = splits ? sizes.out_of_group() : sizes.out_channels;
    const Expr panels = (channels + schedule.panel() - 1) / schedule.panel();
    return {schedule.panel(), Halide::Internal::simplify(sizes.reduction_channels()), product(sizes.kernel),
            Halide::Internal::simplify(panels), splits ? sizes.groups : Expr(1)};
}

Func pack(const Problem &problem, const DeformableSchedule &schedule, const Sizes &sizes, const Func &w) {
    const bool splits = splits_groups(problem);
    const Var lane("lane"), channel("depth"), tap("tap"), block("block"), group("group");
    const Expr channels = splits ? sizes.out_of_group() : sizes.out_channels;
    const Expr c = block * schedule.panel() + lane, inside = Halide::min(c, channels - 1);
    const std::vector<Expr> taps = coordinates(tap, sizes.kernel);
    std::vector<Expr> at = {splits ? group * channels + inside : inside, channel};
    at.insert(at.end(), taps.rbegin(), taps.rend());
    Func result("packed");
    result(lane, channel, tap, block, group) =
        Halide::select(c < channels, w(at), Halide::Internal::make_zero(w.type()));
    return result;
}

DeformableSizes::DeformableSizes(const Problem &problem, const DeformableSchedule &schedule, const Sizes &sizes)
    : in_points(product(sizes.in)),
      out_points(product(sizes.out)),
      taps(product(sizes.kernel)),
      offset_channels(Halide::Internal::simplify(sizes.in_channels / sizes.offset_groups)),
      whole_chunks(known(out_points) && problem.out_points() >= schedule.chunk()) {}

DeformableStages deformable(const Problem &problem, const DeformableSchedule &schedule, const Operands &operands) {
    const DeformableSizes derived(problem, schedule, operands.sizes);
    DeformableStages s;
    const auto or_operand = [](const std::optional<DeformableStages::Copy> &c, const Func &operand) {
        return c ? c->result : operand;
    };
    define_image(s, problem, derived, operands);
    define_offsets(s, problem, derived, operands);
    define_corners(s, problem, derived, operands.sizes, or_operand(s.offset, operands[Tensor::offset]),
                   or_operand(s.mask, operands[Tensor::mask]));
    define_sample(s, problem, derived, or_operand(s.image, operands.x));
    define_sum(s, problem, schedule, derived, operands);
    define_output(s, problem, operands);
    return s;
}

}  // namespace kiln::deformable
