// The depthwise algorithm's stages: input.cpp has what its products read, sum.cpp their sums; schedule_*.cpp beside
// them schedule them.
#include "algorithms/depthwise/depthwise.h"

#include "expressions/epilogue.h"
#include "expressions/vars.h"

namespace kiln::depthwise {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

DepthwiseStages depthwise(const Problem &problem, const DepthwiseSchedule &schedule, const Operands &operands) {
    DepthwiseStages s;
    s.axes = axis_maps(problem);
    s.q = vars("q", s.axes.size());
    s.phase = vars("phase", s.axes.size());
    define_input(s, problem, schedule, operands);
    std::vector<Expr> sums = define_sums(s, problem, schedule, operands);
    Operands after = operands;
    if (starts_at_bias(problem, schedule, operands)) {
        after[Tensor::bias] = Func();
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
    Expr sum = sums.size() == 1 ? sums[0] : Halide::mux(phase, sums);
    bool is_finished = false;
    if (s.transposed) {
        // Bytes are transposed, not the sums that they are made of.
        is_finished = problem.is_quantized() && !problem.residual && !problem.open_epilogue;
        s.transposed->sums = Func("plane_sums");
        s.transposed->sums(at) = is_finished ? epilogue(problem, sum, after, same) : sum;
        s.transposed->y_block = Func("y_block");
        s.transposed->y_block(at) = s.transposed->sums(same);
        sum = s.transposed->y_block(same);
    }
    s.y = Func("y");
    if (is_finished) {
        s.y(at) = sum;
    } else if (s.merged_rows) {
        const Expr lane = merged_position(s, problem) % schedule.period(problem);
        s.y(at) = epilogue(problem, sum, s.merged_rows->of_lanes->operands, same, lane);
    } else {
        s.y(at) = epilogue(problem, sum, after, same);
    }
    s.tiled = s.transposed ? s.transposed->sums : s.y;
    return s;
}

}  // namespace kiln::depthwise
