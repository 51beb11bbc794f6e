// The Winograd algorithm's transformed weights.
#include "algorithms/winograd/transforms/transform.h"
#include "algorithms/winograd/winograd.h"
#include "expressions/types.h"
#include "expressions/vars.h"

namespace kiln::dense {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

constexpr size_t most_stack_bytes = 16384;  // of one allocation: Halide takes larger ones from a heap

}  // namespace

// Transformed in double, one axis after the other, and rounded once; scaled to whole numbers where they are exact.
Func pack_winograd(const Problem &problem, const WinogradShape &shape, const Func &w) {
    const size_t rank = shape.axes.size();
    const Var lane("lane"), step("step"), block("block");
    const std::vector<Var> e = vars("e", rank), j = vars("j", rank), p = vars("p", rank);
    const bool transposed = problem.op == Operator::conv_transpose;
    const int out_of_group = static_cast<int>(problem.out_channels / problem.groups);
    const Expr k = shape.pair == 1 ? Expr(step) : step * shape.pair + lane % shape.pair;
    Expr channel = block * shape.panel + (shape.pair == 1 ? Expr(lane) : lane / shape.pair), input = k;
    std::vector<Expr> phase(p.begin(), p.end()), fold(e.begin(), e.end());
    if (shape.merges_phases) {
        const Expr column = channel;
        const int channels = static_cast<int>(problem.out_channels), phases = shape.axes[0].phases;
        channel = shape.channels_first ? column % channels : column / phases;
        phase[0] = shape.channels_first ? column / channels : column % phases;
        channel = Halide::select(column < shape.columns, channel, channels);
    }
    channel = shape.channel_of(channel);
    if (shape.pads_groups()) {
        const int columns = shape.group_panels * shape.panel;
        const Expr of_groups = channel % columns;
        channel = Halide::select(of_groups < shape.group_columns, channel / columns * shape.group_columns + of_groups,
                                 static_cast<int>(problem.out_channels));
    }
    const int depth = static_cast<int>(problem.in_channels / problem.groups);
    if (shape.merges_folds) {
        input = k % depth;
        Expr folds = k / depth;
        for (size_t a = 0; a < rank; a++) {
            fold[a] = folds % shape.axes[a].folds;
            folds = folds / shape.axes[a].folds;
        }
    }

    // Outside these bounds, in the last panel's empty lanes, beyond a fold's or a phase's taps and between groups that
    // share a panel, weights are zero.
    Expr group = channel / out_of_group;
    if (shape.joined > 1 && shape.interleaved == 1) {
        input = Halide::select(k / depth == group % shape.joined, k % depth, -1);
        group = Halide::select(input < 0, static_cast<int>(-problem.groups), group);
    }
    std::vector<Expr> at = {channel, input};
    Halide::Region bounds = {{0, static_cast<int>(problem.out_channels)}, {0, depth}};
    if (transposed) {
        at = {group * depth + input, channel % out_of_group};
        bounds = {{0, static_cast<int>(problem.in_channels)}, {0, out_of_group}};
    }
    for (size_t a = rank; a-- > 0;) {
        at.push_back(shape.axes[a].tap(phase[a], fold[a], j[a]));
        bounds.emplace_back(0, shape.axes[a].kernel);
    }
    std::vector<Var> order = {lane, step};
    append(order, e);
    order.push_back(block);
    append(order, j);
    append(order, p);
    Func result("packed"), taps("taps");
    const Expr zero = Halide::Internal::make_zero(w.type());
    taps(order) = Halide::cast<double>(Halide::BoundaryConditions::constant_exterior(w, zero, bounds)(at));
    const Var vector("vector");
    std::vector<Func> steps = {taps};
    for (size_t a = 0; a < rank; a++) {
        const CookToom &f = cook_toom(shape.axes[a].outputs, shape.axes[a].taps, shape.filter_points(a));
        std::vector<Expr> rows;
        for (int point = 0; point < f.points; point++) {
            std::vector<Expr> terms;
            for (int tap = 0; tap < f.taps; tap++) {
                std::vector<Expr> from(order.begin(), order.end());
                from[3 + rank + a] = tap;
                terms.push_back(steps.back()(from));
            }
            rows.push_back(combination(values(f.g[point], problem.is_quantized() ? f.filter_scale : 1), terms));
        }
        Func next("filter" + std::to_string(a));
        next(order) = rows.size() == 1 ? rows[0] : Halide::mux(j[a], rows);
        steps.push_back(next);
    }
    const std::vector<Expr> same(order.begin(), order.end());
    result(order) = Halide::cast(w.type(), steps.back()(same));

    // All points of a few weights at a time, as many as fit the stack.
    int lanes = 8, points = 1;
    for (const WinogradAxis &axis : shape.axes) {
        points *= axis.points;
    }
    while (shape.pair * shape.panel % lanes != 0 || lanes * points * sizeof(double) > most_stack_bytes) {
        lanes /= 2;
    }
    std::vector<Halide::VarOrRVar> loops = {lane};
    append(loops, j);
    loops.insert(loops.end(), {vector, step});
    append(loops, e);
    loops.push_back(block);
    append(loops, p);
    result.split(lane, vector, lane, lanes).reorder(loops).vectorize(lane);
    for (size_t at_step = 0; at_step < steps.size(); at_step++) {
        Func &f = steps[at_step];
        f.compute_at(result, vector).store_in(Halide::MemoryType::Stack).vectorize(lane, lanes);
        if (at_step > 0) {
            f.bound(j[at_step - 1], 0, shape.axes[at_step - 1].points).unroll(j[at_step - 1]);
        }
    }
    return result;
}

}  // namespace kiln::dense
