// The Winograd algorithm's transformed weights.
#include "algorithms/winograd/transforms/transform.h"
#include "algorithms/winograd/winograd.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "expressions/weights.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

constexpr size_t most_stack_bytes = 16384;  // of one allocation: Halide takes larger ones from a heap

// The dimensions of packed weights.
struct PackedVars {
    Var lane{"lane"}, step{"step"}, block{"block"};
    std::vector<Var> e, j, p;  // input phase, point (or tap, before the axis is transformed) and phase of each axis

    explicit PackedVars(size_t rank) : e(vars("e", rank)), j(vars("j", rank)), p(vars("p", rank)) {}
    std::vector<Var> all() const {
        std::vector<Var> order = {lane, step};
        append(order, e);
        order.push_back(block);
        append(order, j);
        append(order, p);
        return order;
    }
};

// Which weight lies at a place of the packed ones.
struct WeightPosition {
    Expr channel, input;  // of y, and of the input channels of a group
    std::vector<Expr> phase, input_phase;
};

WeightPosition position_of(const Problem &problem, const WinogradShape &shape, const PackedVars &at) {
    const Expr k = shape.dot_width == 1 ? Expr(at.step) : at.step * shape.dot_width + at.lane % shape.dot_width;
    WeightPosition w = {at.block * shape.panel + (shape.dot_width == 1 ? Expr(at.lane) : at.lane / shape.dot_width),
                        k,
                        {at.p.begin(), at.p.end()},
                        {at.e.begin(), at.e.end()}};
    const int channels = static_cast<int>(problem.out_channels);
    if (shape.merges_phases) {
        const Expr column = w.channel;
        const int phases = shape.axes[0].phases;
        w.phase[0] = shape.channels_first ? column / channels : column % phases;
        w.channel = Halide::select(column < shape.columns, shape.channels_first ? column % channels : column / phases,
                                   channels);
    }
    w.channel = shape.channel_of(w.channel);
    if (shape.pads_groups()) {
        const int columns = shape.group_panels * shape.panel;
        const Expr of_groups = w.channel % columns;
        w.channel = Halide::select(of_groups < shape.group_columns,
                                   w.channel / columns * shape.group_columns + of_groups, channels);
    }
    if (shape.merges_input_phases) {
        const int reduction_channels = static_cast<int>(problem.in_channels / problem.groups);
        int merged = reduction_channels;
        for (const WinogradAxis &axis : shape.axes) {
            merged *= axis.input_phases;
        }
        // An odd number of them is followed by one that is none, where products are summed by twos.
        w.input = Halide::select(k < merged, k % reduction_channels, -1);
        Expr input_phases = k / reduction_channels;
        for (size_t a = 0; a < shape.axes.size(); a++) {
            w.input_phase[a] = input_phases % shape.axes[a].input_phases;
            input_phases = input_phases / shape.axes[a].input_phases;
        }
    }
    return w;
}

// The weights in double, tap by tap. They are zero in the last panel's empty lanes, beyond an input phase's or a
// phase's taps and between groups that share a panel.
Func taps_of(const Problem &problem, const WinogradShape &shape, const PackedVars &at, const Func &w) {
    WeightPosition from = position_of(problem, shape, at);
    const int reduction_channels = static_cast<int>(problem.in_channels / problem.groups);
    const int out_of_group = static_cast<int>(problem.out_channels / problem.groups);
    Expr group = from.channel / out_of_group;
    if (shape.packed_groups > 1 && shape.interleaved == 1) {
        from.input = Halide::select(from.input / reduction_channels == group % shape.packed_groups,
                                    from.input % reduction_channels, -1);
        group = Halide::select(from.input < 0, static_cast<int>(-problem.groups), group);
    }
    std::vector<Expr> source =
        weight_at(problem, {from.channel, group, from.channel % out_of_group}, from.input, reduction_channels);
    Halide::Region bounds = weight_bounds(problem);
    for (size_t a = shape.axes.size(); a-- > 0;) {
        source.push_back(shape.axes[a].tap(from.phase[a], from.input_phase[a], at.j[a]));
        bounds.emplace_back(0, shape.axes[a].kernel);
    }
    Func taps("taps");
    const Expr zero = Halide::Internal::make_zero(w.type());
    taps(at.all()) = Halide::cast<double>(Halide::BoundaryConditions::constant_exterior(w, zero, bounds)(source));
    return taps;
}

// The transform of weights on one axis; scaled to whole numbers where they are exact.
Func transform_axis(const Problem &problem, const WinogradShape &shape, size_t a, const PackedVars &at,
                    const Func &taps) {
    const std::vector<Var> order = at.all();
    const CookToom &f = cook_toom(shape.axes[a].outputs, shape.axes[a].taps, shape.filter_points(a));
    std::vector<Expr> rows;
    for (int point = 0; point < f.points; point++) {
        std::vector<Expr> terms;
        for (int tap = 0; tap < f.taps; tap++) {
            std::vector<Expr> from(order.begin(), order.end());
            from[3 + shape.axes.size() + a] = tap;
            terms.push_back(taps(from));
        }
        rows.push_back(combination(values(f.g[point], problem.is_quantized() ? f.filter_scale : 1), terms));
    }
    Func result("filter" + std::to_string(a));
    result(order) = rows.size() == 1 ? rows[0] : Halide::mux(at.j[a], rows);
    return result;
}

// All points of a few weights at a time, as many as fit the stack. `steps`: the taps, then the transform of each axis.
void schedule_packing(Func &packed, std::vector<Func> &steps, const WinogradShape &shape, const PackedVars &at) {
    int lanes = 8, points = 1;
    for (const WinogradAxis &axis : shape.axes) {
        points *= axis.points;
    }
    while (shape.dot_width * shape.panel % lanes != 0 || lanes * points * sizeof(double) > most_stack_bytes) {
        lanes /= 2;
    }
    const Var vector("vector");
    std::vector<Halide::VarOrRVar> loops = {at.lane};
    append(loops, at.j);
    loops.insert(loops.end(), {vector, at.step});
    append(loops, at.e);
    loops.push_back(at.block);
    append(loops, at.p);
    packed.split(at.lane, vector, at.lane, lanes).reorder(loops).vectorize(at.lane);
    for (size_t k = 0; k < steps.size(); k++) {
        Func &f = steps[k];
        f.compute_at(packed, vector).store_in(Halide::MemoryType::Stack).vectorize(at.lane, lanes);
        if (k > 0) {
            f.bound(at.j[k - 1], 0, shape.axes[k - 1].points).unroll(at.j[k - 1]);
        }
    }
}

}  // namespace

// Transformed in double, one axis after the other, and rounded once.
Func pack_winograd(const Problem &problem, const WinogradShape &shape, const Func &w) {
    const PackedVars at(shape.axes.size());
    std::vector<Func> steps = {taps_of(problem, shape, at, w)};
    for (size_t a = 0; a < shape.axes.size(); a++) {
        steps.push_back(transform_axis(problem, shape, a, at, steps.back()));
    }
    const std::vector<Var> order = at.all();
    Func packed("packed");
    packed(order) = Halide::cast(w.type(), steps.back()(std::vector<Expr>(order.begin(), order.end())));
    schedule_packing(packed, steps, shape, at);
    return packed;
}

}  // namespace kiln
