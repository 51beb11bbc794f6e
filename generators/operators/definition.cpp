// What the operators' definitions have in common: y's coordinates, products, the weights and the plain schedules.
#include "operators/definition.h"

#include "algorithms/algorithm.h"
#include "expressions/epilogue.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "moves/gpu_schedule.h"

namespace kiln::operators {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

namespace {

// The sum of one element, inside a loop of y: a single number, which Halide cannot always tell from the loops' bounds.
void compute_one_at(Definition &definition, const Var &loop) {
    definition.sum.compute_at(definition.y, loop).store_in(Halide::MemoryType::Register);
    for (const Var &v : definition.sum.args()) {
        definition.sum.bound_extent(v, 1);
    }
}

}  // namespace

Coordinates::Coordinates(const Problem &problem, const Sizes &sizes)
    : o(vars("o", static_cast<size_t>(image_axes(problem)))), all{c}, output_channel(c) {
    if (splits_groups(problem)) {
        all.push_back(g);
        output_channel = g * sizes.out_of_group() + c;
        group = g;
    } else {
        group = problem.groups == 1 ? Expr(0) : output_channel / sizes.out_of_group();
    }
    append(all, o);
    all.push_back(n);
}

Definition define(const Problem &problem, const Operands &operands) {
    switch (problem.op) {
        case Operator::conv:
            return conv(problem, operands);
        case Operator::conv_transpose:
            return conv_transpose(problem, operands);
        case Operator::deform_conv:
            return deform_conv(problem, operands);
    }
    throw Halide::InternalError("an operator without a definition");
}

void schedule_plainly(Definition &definition) {
    compute_one_at(definition, definition.y.args()[0]);
}

void schedule_plainly_gpu(Definition &definition) {
    const Var thread = schedule_elements_gpu(definition.y);
    compute_one_at(definition, thread);
    keep_loops_whole(definition.sum);
}

std::vector<Expr> weight_extents(const Problem &problem, const Sizes &sizes) {
    std::vector<Expr> extents = sizes.kernel;
    const std::array<Expr, 2> channels = sizes.w_channels(problem.traits());
    extents.insert(extents.end(), {channels[1], channels[0]});
    return extents;
}

Func weights_in_order(const Problem &problem, const Func &w) {
    const std::vector<Var> from = vars("w", static_cast<size_t>(problem.rank) + 2);
    const std::vector<Var> order(from.rbegin(), from.rend());
    Func packed("packed");
    packed(order) = w(from);
    return packed;
}

Halide::Region channels_and_taps(const Sizes &sizes) {
    Halide::Region terms = {{0, sizes.reduction_channels()}};
    for (const Expr &taps : sizes.kernel) {
        terms.emplace_back(0, taps);
    }
    return terms;
}

Expr is_within(const Expr &i, const Expr &extent) {
    return Halide::cast<uint32_t>(i) < Halide::cast<uint32_t>(extent);
}

Definition sum_of_products(const Problem &problem, const Operands &operands, const Coordinates &at, const Expr &x,
                           const Expr &w) {
    const Halide::Type type = sum_type(problem);
    Definition definition{Func("sum"), Func("y")};
    definition.sum(at.all) = Halide::Internal::make_zero(type);
    definition.sum(at.all) += Halide::cast(type, x) * Halide::cast(type, w);
    definition.y(at.all) =
        epilogue(problem, definition.sum(at.all), operands, {at.all.begin(), at.all.end()}, at.output_channel);
    return definition;
}

}  // namespace kiln::operators
