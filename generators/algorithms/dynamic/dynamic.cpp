// The dynamic algorithm's stages; schedule_*.cpp beside it schedules them.
#include "algorithms/dynamic/dynamic.h"

#include "expressions/arithmetic.h"
#include "expressions/epilogue.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "expressions/weights.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

// The numbers that the kernel and its pack function share. Where the number of groups is open, channels are seen by
// group, and a panel holds channels of one group; elsewhere it holds any.
struct Panels {
    bool splits_groups;
    int panel, dot_width;
    Expr channels, panels, groups;  // of one group where they are split, of all where not (groups is then 1)
    Expr reduction_channels, steps;

    Panels(const Problem &problem, const DynamicSchedule &schedule, const Sizes &sizes)
        : splits_groups(kiln::splits_groups(problem)),
          panel(schedule.panel()),
          dot_width(products_per_lane(problem)),
          channels(splits_groups ? sizes.out_of_group() : sizes.out_channels),
          panels(ceil_div<Expr>(channels, panel)),
          groups(splits_groups ? sizes.groups : Expr(1)),
          reduction_channels(sizes.reduction_channels()),
          steps(ceil_div<Expr>(reduction_channels, dot_width)) {}

    // The input channel that output channel c (of group g, where they are split) reads as its group's channel k.
    Expr input_channel(const Problem &problem, const Sizes &sizes, const Expr &c, const Expr &g, const Expr &k) const {
        if (splits_groups) {
            return g * reduction_channels + k;
        }
        return problem.groups == 1 ? k : c / sizes.out_of_group() * reduction_channels + k;
    }

    // How many input channels are reached: those of the last panel's last lane, which need not exist.
    Expr channels_read(const Problem &problem, const Sizes &sizes) const {
        const Expr last = splits_groups         ? groups - 1
                          : problem.groups == 1 ? Expr(0)
                                                : (panels * panel - 1) / sizes.out_of_group();
        return last * reduction_channels + steps * dot_width;
    }
};

// x with channels innermost, widened, and zeros outside it on the innermost axis and for channels that do not exist.
Func pad(const Problem &problem, const DynamicStages &s, const Operands &operands) {
    const Sizes &sizes = operands.sizes;
    const std::vector<Var> at = vars("i", sizes.in.size() + 2);
    const std::vector<Expr> same(at.begin(), at.end());
    Halide::Region bounds(at.size());
    bounds[0] = {0, sizes.in_channels};
    bounds[1] = {0, sizes.in[0]};
    Func wide("wide"), padded("padded");
    wide(at) = widen_x(problem, sizes, operands.x(same));
    const Expr zero = Halide::Internal::make_zero(operand_type(problem));
    const Expr value = Halide::BoundaryConditions::constant_exterior(wide, zero, bounds)(at);
    padded(at) = s.x_is_empty ? Halide::select(*s.x_is_empty, zero, value) : value;
    return padded;
}

// acc += weight * input, over q and phase of every axis.
void define_sum(DynamicStages &s, const Problem &problem, const Panels &panels, const Operands &operands) {
    const Sizes &sizes = operands.sizes;
    const Expr k = s.r[1] * panels.dot_width + s.r[0];
    std::vector<Var> at = {s.c};
    std::vector<Expr> weight = {s.r[0], s.c % panels.panel, s.r[1]};
    std::vector<Expr> position = {panels.input_channel(problem, sizes, s.c, s.g, k)};
    if (s.splits_groups) {
        at.push_back(s.g);
    }
    for (size_t a = 0; a < s.q.size(); a++) {
        const DynamicAxisMap &axis = s.axes[a];
        const Expr tap = s.r[static_cast<int>(a) + 2];
        Expr in = axis.input(s.q[a], s.phase[a], tap);
        if (!axis.has_all_taps()) {
            s.r.where(axis.is_tap(s.phase[a], tap));
        }
        if (a > 0) {
            s.r.where(in >= 0 && in < axis.in);
            in = Halide::clamp(in, 0, axis.in - 1);
        }
        weight.push_back(tap);
        position.push_back(in);
        at.insert(at.end(), {s.q[a], s.phase[a]});
    }
    weight.push_back(s.c / panels.panel);
    weight.push_back(s.splits_groups ? Expr(s.g) : Expr(0));
    position.push_back(s.n);
    at.push_back(s.n);
    const Halide::Type sum = sum_type(problem);
    s.acc(at) = Halide::Internal::make_zero(sum);
    s.acc(at) += Halide::cast(sum, operands.packed(weight)) * Halide::cast(sum, s.padded(position));
    s.sums = Func("sums");
    s.sums(at) = s.acc(std::vector<Expr>(at.begin(), at.end()));
}

// y = epilogue(acc), at those q and phases of several-phase axes that lie in the image.
void define_output(DynamicStages &s, const Problem &problem, const Operands &operands) {
    std::vector<Var> pure = {s.c};
    std::vector<Expr> at = {s.c}, sum_at = {s.c};
    Expr channel = s.c;
    if (s.splits_groups) {
        pure.push_back(s.g);
        at.push_back(s.g);
        sum_at.push_back(s.g);
        channel = s.g * operands.sizes.out_of_group() + s.c;
    }
    Halide::Region domain;
    for (size_t a = 0; a < s.q.size(); a++) {
        if (!is_one(s.axes[a].phases)) {
            domain.insert(domain.end(), {{0, s.axes[a].phase_extent}, {0, s.axes[a].phases}});
        }
    }
    if (!domain.empty()) {
        s.out = Halide::RDom(domain, "out");
    }
    int next = 0;
    for (size_t a = 0; a < s.q.size(); a++) {
        pure.push_back(s.q[a]);
        const DynamicAxisMap &axis = s.axes[a];
        if (is_one(axis.phases)) {
            at.push_back(s.q[a]);
            sum_at.insert(sum_at.end(), {s.q[a], 0});
            continue;
        }
        pure.push_back(s.phase[a]);
        const Expr q = (*s.out)[next], phase = (*s.out)[next + 1];
        s.out->where(q * axis.phases + phase < axis.out);
        at.insert(at.end(), {q, phase});
        sum_at.insert(sum_at.end(), {q, phase});
        next += 2;
    }
    for (std::vector<Expr> *coordinates : {&at, &sum_at}) {
        coordinates->push_back(s.n);
    }
    pure.push_back(s.n);
    if (!domain.empty()) {
        s.y(pure) = Halide::undef(halide_type(problem.y_type));
    }
    s.y(at) = epilogue(problem, s.sums(sum_at), operands, at, channel);
}

}  // namespace

void DynamicSchedule::list(ScheduleText &text) {
    text.number("lanes", lanes, 1, 64);
    text.number("vectors", vectors, 1, 64);
    text.number("pixels", pixels, 1, 64);
    text.number("unroll", unroll, 1, 64);
    text.flag("parallel", parallel);
}

std::vector<Expr> dynamic_packed_extents(const Problem &problem, const DynamicSchedule &schedule, const Sizes &sizes) {
    const Panels panels(problem, schedule, sizes);
    std::vector<Expr> extents = {panels.dot_width, panels.panel, panels.steps};
    extents.insert(extents.end(), sizes.kernel.begin(), sizes.kernel.end());
    extents.insert(extents.end(), {panels.panels, panels.groups});
    return extents;
}

Func dynamic_pack(const Problem &problem, const DynamicSchedule &schedule, const Sizes &sizes, const Func &w) {
    const Panels panels(problem, schedule, sizes);
    const Var dot_width("pair"), lane("lane"), step("step"), block("block"), g("g");
    const std::vector<Var> tap = vars("tap", sizes.kernel.size());
    const Expr c = block * panels.panel + lane, k = step * panels.dot_width + dot_width;
    const Expr inside = c < panels.channels && k < panels.reduction_channels;
    const Expr c_in = Halide::min(c, panels.channels - 1), k_in = Halide::min(k, panels.reduction_channels - 1);
    const OutputChannel channel = panels.splits_groups
                                      ? OutputChannel{g * panels.channels + c_in, g, c_in}
                                      : OutputChannel{c_in, c_in / sizes.out_of_group(), c_in % sizes.out_of_group()};
    std::vector<Expr> at = weight_at(problem, channel, k_in, panels.reduction_channels);
    at.insert(at.end(), tap.rbegin(), tap.rend());
    std::vector<Var> order = {dot_width, lane, step};
    order.insert(order.end(), tap.begin(), tap.end());
    order.insert(order.end(), {block, g});
    Func packed("packed");
    packed(order) = Halide::select(inside, w(at), Halide::Internal::make_zero(operand_type(problem)));
    return packed;
}

DynamicStages dynamic(const Problem &problem, const DynamicSchedule &schedule, const Operands &operands) {
    const Sizes &sizes = operands.sizes;
    const Panels panels(problem, schedule, sizes);
    DynamicStages s;
    s.splits_groups = panels.splits_groups;
    s.q = vars("q", sizes.in.size());
    s.phase = vars("phase", sizes.in.size());
    s.axes = dynamic_axis_maps(problem, sizes);
    Expr points = 1;
    for (const DynamicAxisMap &axis : s.axes) {
        points *= axis.in;
    }
    if (!Halide::Internal::as_const_int(Halide::Internal::simplify(points))) {
        s.x_is_empty = points == 0;
    }
    s.padded = pad(problem, s, operands);
    s.padded_min = {0};
    s.padded_extent = {panels.channels_read(problem, sizes)};
    const auto [first, extent] = s.axes[0].reads(schedule.pixels);
    for (size_t a = 0; a < s.q.size(); a++) {
        s.padded_min.push_back(a == 0 ? first : Expr(0));
        s.padded_extent.push_back(a == 0 ? extent : sizes.in[a]);
    }
    s.padded_min.push_back(0);
    s.padded_extent.push_back(sizes.batch);
    Halide::Region domain = {{0, panels.dot_width}, {0, panels.steps}};
    for (const Expr &taps : sizes.kernel) {
        domain.emplace_back(0, taps);
    }
    s.r = Halide::RDom(domain, "r");
    s.acc = Func("acc");
    define_sum(s, problem, panels, operands);
    s.y = Func("y");
    define_output(s, problem, operands);
    return s;
}

}  // namespace kiln
