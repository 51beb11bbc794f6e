#include "operators/spread_outputs.h"

#include <algorithm>
#include <numeric>

#include "axes/output_vars.h"
#include "axes/outputs_with_taps.h"
#include "expressions/arithmetic.h"
#include "expressions/epilogue.h"
#include "expressions/types.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

constexpr int vector_bytes = 64;

bool channels_last(const Problem &problem) {
    return problem.y_layout == Layout::nxc;
}

int extent_of_row(const Problem &problem) {
    return static_cast<int>(problem.out[problem.rank - 1]);
}

// How many elements of a channels-last row there are until vectors begin at the same channel again, or of the row.
int period_of_channels(const Problem &problem, int lanes) {
    const auto channels = static_cast<int>(problem.out_channels);
    return std::min(std::lcm(channels, lanes), channels * extent_of_row(problem));
}

// y's elements as if none had a tap. They are the same all over a channel, and computed once, but for a residual.
void define_outputs_without_taps(Func &y, const Problem &problem, const Operands &operands, const OutputVars &vars,
                                 int lanes) {
    const std::vector<Var> at = vars.all();
    const Expr sum = Halide::Internal::make_zero(sum_type(problem));
    if (adds_at_outputs(problem)) {
        y(at) = epilogue(problem, sum, operands, {at.begin(), at.end()});
        return;
    }
    Func without_taps("without_taps");
    const Var i("i");
    std::vector<Expr> of_channel(at.size(), 0);
    if (channels_last(problem)) {  // of several pixels, so that vectors of y have whole ones of it
        const int channels = static_cast<int>(problem.out_channels);
        of_channel[0] = i % channels;
        without_taps(i) = epilogue(problem, sum, operands, of_channel);
        y(at) = without_taps((vars.c + vars.position[0] * channels) % period_of_channels(problem, lanes));
    } else {
        of_channel[0] = i;
        without_taps(i) = epilogue(problem, sum, operands, of_channel);
        y(at) = without_taps(vars.c);
    }
    without_taps.compute_root();
}

// The outputs of an axis that have taps: all of them, by their variable, or a loop over those, and one over the phases
// that they have in the sums.
struct OutputLoop {
    std::vector<VarOrRVar> loops;  // the innermost first
    Expr phase, quotient, output;  // the last in y
};

std::vector<OutputLoop> loops_over_outputs(const Problem &problem, const DenseOutputs &dense, const OutputVars &vars) {
    std::vector<Halide::Range> ranges;
    for (const OutputsWithTaps &axis : dense.axes) {
        if (!axis.are_all) {
            ranges.emplace_back(0, axis.phases);
            ranges.emplace_back(0, ceil_div(axis.count, axis.phases));
        }
    }
    RDom r(ranges, "r");
    int loops = 0;
    std::vector<OutputLoop> result;
    for (size_t a = 0; a < dense.axes.size(); a++) {
        const OutputsWithTaps &axis = dense.axes[a];
        if (axis.are_all) {
            const Var &x = vars.position[a];
            result.push_back({{x}, x % axis.phases, x / axis.phases, x});
            continue;
        }
        const Halide::RVar phase = r[loops], quotient = r[loops + 1];
        loops += 2;
        if (axis.count % axis.phases != 0) {
            r.where(quotient * axis.phases + phase < axis.count);
        }
        const int last = static_cast<int>(problem.out[problem.rank - 1 - static_cast<int>(a)]) - 1;
        result.push_back({{phase, quotient},
                          phase,
                          quotient,
                          Halide::unsafe_promise_clamped(axis.output(quotient, phase), 0, last)});
    }
    return result;
}

// Where sums have an output.
std::vector<Expr> place_in_sums(const Problem &problem, const DenseOutputs &dense, const SumsOrder &order,
                                const OutputVars &vars, const std::vector<OutputLoop> &outputs) {
    const int channels = static_cast<int>(problem.out_channels), of_group = channels / order.groups;
    std::vector<Expr> from = {vars.c};
    if (order.groups > 1) {
        from = {vars.c % of_group, vars.c / of_group};
    }
    for (size_t a = 0; a < outputs.size(); a++) {
        const Expr &phase = outputs[a].phase, &quotient = outputs[a].quotient;
        if (a == 0 && order.merged > 1) {
            from[0] = vars.c + phase * channels;
            from.push_back(quotient);
        } else if (order.phases[a] > 1) {
            from.push_back(quotient);
            from.push_back(phase);
        } else {
            from.push_back(quotient * dense.axes[a].phases + phase);
        }
    }
    from.emplace_back(vars.n);
    return from;
}

// Channels last, a pixel's channels are the innermost loop; else they are one around the axes.
std::vector<VarOrRVar> loops_of_output(const Problem &problem, const OutputVars &vars,
                                       const std::vector<VarOrRVar> &position) {
    std::vector<VarOrRVar> loops = position;
    loops.insert(channels_last(problem) ? loops.begin() : loops.end(), vars.c);
    loops.emplace_back(vars.n);
    return loops;
}

void share_among_threads(Halide::Stage y, const Problem &problem, const OutputVars &vars, const VarOrRVar &outermost) {
    if (problem.batch > 1) {
        y.parallel(vars.n);
    } else if (!channels_last(problem) && problem.out_channels > 1) {
        y.parallel(vars.c);
    } else if (problem.rank > 1) {
        y.parallel(outermost);
    }
}

void schedule_outputs_without_taps(Func &y, const Problem &problem, const OutputVars &vars, int lanes) {
    const Var &row = vars.position[0];
    if (channels_last(problem)) {
        const Var element("element");
        y.fuse(vars.c, row, element);
        const int64_t elements = problem.out_channels * extent_of_row(problem);
        if (const int period = period_of_channels(problem, lanes); period < elements) {
            const Var periods("periods");
            y.split(element, periods, element, period, TailStrategy::GuardWithIf);
        }
        y.vectorize(element, lanes_within(elements, lanes), TailStrategy::GuardWithIf);
    } else {
        y.reorder(loops_of_output(problem, vars, {vars.position.begin(), vars.position.end()}));
        y.vectorize(row, lanes_within(extent_of_row(problem), lanes), TailStrategy::GuardWithIf);
    }
}

void schedule_outputs_with_taps(Halide::Stage y, const Problem &problem, const OutputVars &vars,
                                const std::vector<OutputLoop> &outputs, int phases, int lanes) {
    constexpr int most_unrolled = 8;  // channels or phases
    y.allow_race_conditions();        // no two positions of a loop are the same output, which Halide cannot see
    std::vector<VarOrRVar> loops;
    for (const OutputLoop &output : outputs) {
        loops.insert(loops.end(), output.loops.begin(), output.loops.end());
    }
    y.reorder(loops_of_output(problem, vars, loops));
    if (channels_last(problem) && problem.out_channels < most_unrolled) {
        y.unroll(vars.c);
    } else if (channels_last(problem)) {
        y.vectorize(vars.c, lanes_within(problem.out_channels, lanes), TailStrategy::GuardWithIf);
    } else if (!loops[0].is_rvar) {
        y.vectorize(loops[0].var, lanes_within(extent_of_row(problem), lanes), TailStrategy::GuardWithIf);
    }
    if (loops[0].is_rvar && phases <= most_unrolled) {
        y.unroll(loops[0].rvar);
    }
}

}  // namespace

Problem dense_problem(const Problem &problem) {
    const DenseOutputs dense = outputs_with_taps(problem);
    Problem result = dense.problem;
    if (!dense.are_all()) {
        leave_epilogue_to_outputs(result, problem);
    }
    return result;
}

Func spread_outputs(const Problem &problem, Func sums, const SumsOrder &order, const Operands &operands,
                    bool parallel) {
    const DenseOutputs dense = outputs_with_taps(problem);
    const OutputVars vars(dense.axes.size());
    const int lanes = vector_bytes / halide_type(problem.y_type).bytes();
    Func y("y");
    define_outputs_without_taps(y, problem, operands, vars, lanes);
    const std::vector<OutputLoop> outputs = loops_over_outputs(problem, dense, vars);
    std::vector<Expr> at = {vars.c};
    for (const OutputLoop &output : outputs) {
        at.push_back(output.output);
    }
    at.emplace_back(vars.n);
    const Expr value = sums(place_in_sums(problem, dense, order, vars, outputs));
    y(at) = adds_at_outputs(problem) ? epilogue(problem, value, operands, at) : value;
    store_as_output(dense.problem, sums, order);

    y.bound(vars.c, 0, static_cast<int>(problem.out_channels)).bound(vars.n, 0, static_cast<int>(problem.batch));
    for (size_t a = 0; a < vars.position.size(); a++) {
        y.bound(vars.position[a], 0, static_cast<int>(problem.out[problem.rank - 1 - static_cast<int>(a)]));
    }
    schedule_outputs_without_taps(y, problem, vars, lanes);
    schedule_outputs_with_taps(y.update(), problem, vars, outputs, dense.axes[0].phases, lanes);
    if (parallel) {
        share_among_threads(Halide::Stage(y), problem, vars, vars.position.back());
        share_among_threads(y.update(), problem, vars, outputs.back().loops.back());
    }
    return y;
}

}  // namespace kiln
