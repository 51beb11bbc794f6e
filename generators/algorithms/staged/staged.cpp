// The staged algorithm's definition and packing; schedule_gpu.cpp beside it schedules it.
#include "algorithms/staged/staged.h"

#include <algorithm>
#include <stdexcept>

#include "algorithms/staged/samples.h"
#include "algorithms/staged/words.h"
#include "axes/joined_phases.h"
#include "axes/output_vars.h"
#include "axes/tap_weights.h"
#include "expressions/arithmetic.h"
#include "expressions/epilogue.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "lowering/gpu/byte_words.h"

namespace kiln::staged {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

int Schedule::chunks(const Problem &problem) const {
    return ceil_div(ceil_div(steps(problem), chunk), slices);
}

void Schedule::list(ScheduleText &text) {
    text.number("channels", channels, 1, 64);
    text.number("pixels", pixels, 1, 64);
    text.number("vector", vector, 1, 64);
    text.number("threads_c", threads_c, 1, 1024);
    text.number("threads_x", threads_x, 1, 1024);
    text.number("threads_y", threads_y, 1, 1024);
    text.number("chunk", chunk, 1, 1024);
    text.number("unroll", unroll, 1, 64);
    text.number("slices", slices, 1, 1024);
    text.optional("x_vector", x_vector, 1);
    text.optional("buffers", buffers, 1);
}

void Schedule::check(const Problem &problem) const {
    const int64_t all = join_phases(problem).out_channels;
    if (all % vector != 0 || channels % vector != 0) {
        throw std::invalid_argument("schedule: " + std::to_string(channels) + " channels a thread, " +
                                    std::to_string(vector) + " at once, of " + std::to_string(all));
    }
    if (chunk % unroll != 0) {
        throw std::invalid_argument("schedule: chunks of " + std::to_string(chunk) + " channels, " +
                                    std::to_string(unroll) + " at once");
    }
    const Problem product = problem.op == Operator::deform_conv ? product_of_samples(problem) : problem;
    constexpr int most_buffers = 4;
    if (buffers < 1 || buffers > most_buffers ||
        (buffers > 1 && (buffers > chunks(product) || product.x_type != DType::f32))) {
        throw std::invalid_argument("schedule: " + std::to_string(buffers) + " buffers of " +
                                    std::to_string(chunks(product)) + " chunks of " + to_string(product.x_type));
    }
    if ((x_vector != 1 && x_vector != 2 && x_vector != 4) || steps(product) % x_vector != 0 || unroll % x_vector != 0) {
        throw std::invalid_argument("schedule: " + std::to_string(x_vector) + " of " + std::to_string(steps(product)) +
                                    " side by side, " + std::to_string(unroll) + " at once");
    }
    if (threads() > 1024) {
        throw std::invalid_argument("schedule: a block of " + std::to_string(threads()) + " threads: 1024 is the most");
    }
}

bool applies(const Problem &problem) {
    if (problem.w_zero_points || problem.groups != 1) {
        return false;  // a weight less its zero point has nine bits
    }
    const std::vector<AxisMap> axes = axis_maps(problem);
    return phases_are_whole(axes) && std::all_of(axes.begin(), axes.end(), [](const AxisMap &axis) {
               return axis.offset_is_bounded() && !axis.has_uneven_phases() && !axis.has_empty_phases();
           });
}

namespace {

Func padded_input(const Stages &s, const Problem &problem, const Schedule &schedule, const Operands &operands) {
    const std::vector<Var> at = vars("i", s.axes.size() + 3);
    const Var vectors = at[s.axes.size() + 1];
    std::vector<Expr> from = {vectors * schedule.x_vector + at[0]};
    from.insert(from.end(), at.begin() + 1, at.begin() + 1 + static_cast<int64_t>(s.axes.size()));
    from.emplace_back(at.back());
    Func wide("wide"), padded("padded");
    wide(at) = problem.is_quantized() ? input_word(problem, operands, from)
                                      : widen_x(problem, operands.sizes, operands.x(from));
    Halide::Region bounds(at.size());
    if (padded_steps(problem, schedule) > steps(problem)) {
        bounds[s.axes.size() + 1] = {0, steps(problem) / schedule.x_vector};
    }
    // A tile may reach beyond the image even where nothing is padded.
    for (size_t a = 0; a < s.axes.size(); a++) {
        bounds[a + 1] = {0, s.axes[a].in};
    }
    const Expr zero = problem.is_quantized() ? zero_word(problem) : Halide::Internal::make_zero(sum_type(problem));
    padded(at) = Halide::BoundaryConditions::constant_exterior(wide, zero, bounds)(at);
    return padded;
}

// acc's dimensions: every axis has a phase there.
std::vector<Var> sum_vars(const Stages &s) {
    std::vector<Var> at = {s.c};
    for (size_t a = 0; a < s.axes.size(); a++) {
        at.insert(at.end(), {s.q[a], s.phase[a]});
    }
    at.insert(at.end(), {s.n, s.slice});
    return at;
}

void define_sums(Stages &s, const Problem &problem, const Schedule &schedule, const Operands &operands) {
    Halide::Region domain = {{0, schedule.chunk}, {0, schedule.chunks(problem)}};
    for (const AxisMap &axis : s.axes) {
        domain.emplace_back(0, axis.taps);
    }
    s.r = Halide::RDom(domain, "r");
    const Expr chunk = s.slice * schedule.chunks(problem) + s.r[1];
    const Expr k = chunk * schedule.chunk + s.r[0];
    std::vector<Expr> weight = {s.c % schedule.panel(), k}, position = {s.r[0] % schedule.x_vector};
    for (size_t a = 0; a < s.axes.size(); a++) {
        const AxisMap &axis = s.axes[a];
        const Expr tap = s.r[static_cast<int>(a) + 2];
        weight.push_back(tap);
        position.push_back(s.q[a] * axis.stride + axis.offset(s.phase[a]) + tap * axis.tap_step);
    }
    weight.push_back(s.c / schedule.panel());
    append(weight, s.phase);
    position.push_back(chunk * (schedule.chunk / schedule.x_vector) + s.r[0] / schedule.x_vector);
    position.emplace_back(s.n);
    const std::vector<Var> packed_at = vars("k", weight.size());
    s.weights = Func("weights");
    s.weights(packed_at) =
        Halide::cast(sum_type(problem), operands.packed(std::vector<Expr>(packed_at.begin(), packed_at.end())));
    s.acc = Func("acc");
    const std::vector<Var> at = sum_vars(s);
    s.acc(at) = Halide::Internal::make_zero(sum_type(problem));
    const Expr w = s.weights(weight), x = s.input(position);
    s.acc(at) +=
        problem.is_quantized() ? byte_products(x, problem.x_type == DType::s8, w, problem.w_type == DType::s8) : w * x;
}

// A finished sum at y's element.
Expr finished_sum(Stages &s, const Problem &problem, const Schedule &schedule, const Operands &operands) {
    const std::vector<Var> vars = sum_vars(s);
    std::vector<Expr> at(vars.begin(), vars.end());
    for (size_t a = 0; a < s.axes.size(); a++) {
        at[2 * a + 2] = s.axes[a].phases > 1 ? Expr(s.phase[a]) : Expr(0);
    }
    Func sums = s.acc;
    if (schedule.slices > 1) {
        s.of_slice = Func("of_slice");
        (*s.of_slice)(vars) = s.acc(std::vector<Expr>(vars.begin(), vars.end()));
        sums = *s.of_slice;
    }
    Expr sum;
    for (int slice = 0; slice < schedule.slices; slice++) {
        at.back() = slice;
        sum = sum.defined() ? sum + sums(at) : Expr(sums(at));
    }
    if (is_compensated(problem)) {
        std::vector<Expr> behind = {s.c % schedule.panel(), padded_steps(problem, schedule)};
        behind.insert(behind.end(), s.axes.size(), 0);
        behind.push_back(s.c / schedule.panel());
        for (size_t a = 0; a < s.axes.size(); a++) {
            behind.push_back(at[2 * a + 2]);
        }
        sum += operands.packed(behind);
    }
    return sum;
}

}  // namespace

Stages define(const Problem &problem, const Schedule &schedule, const Operands &operands) {
    Stages s;
    s.axes = axis_maps(problem);
    s.q = vars("q", s.axes.size());
    s.phase = vars("phase", s.axes.size());
    s.input = padded_input(s, problem, schedule, operands);
    define_sums(s, problem, schedule, operands);
    const Expr sum = finished_sum(s, problem, schedule, operands);
    std::vector<Var> at = {s.c};
    append(at, positions_and_phases(s.axes, s.q, s.phase));
    at.push_back(s.n);
    s.y = Func("y");
    s.y(at) = epilogue(problem, sum, operands, std::vector<Expr>(at.begin(), at.end()));
    return s;
}

std::vector<int> packed_extents(const Problem &problem, const Schedule &schedule) {
    std::vector<int> extents = {schedule.panel(), padded_steps(problem, schedule) + (is_compensated(problem) ? 1 : 0)};
    const std::vector<AxisMap> axes = axis_maps(problem);
    for (const AxisMap &axis : axes) {
        extents.push_back(axis.taps);
    }
    extents.push_back(ceil_div(static_cast<int>(problem.out_channels), schedule.panel()));
    for (const AxisMap &axis : axes) {
        extents.push_back(axis.phases);
    }
    return extents;
}

Func pack(const Problem &problem, const Schedule &schedule, const Func &w) {
    if (problem.is_quantized()) {
        return pack_words(problem, schedule, w);
    }
    const std::vector<AxisMap> axes = axis_maps(problem);
    const Var lane("lane"), k("k"), panel("panel");
    const std::vector<Var> tap = vars("tap", axes.size()), phase = vars("phase", axes.size());
    const Expr channel = panel * schedule.panel() + lane;
    std::vector<Var> at = {lane, k};
    append(at, tap);
    at.push_back(panel);
    append(at, phase);
    Func packed("packed");
    packed(at) = weight_or_zero(problem, w, {channel, 0, channel}, k, static_cast<int>(problem.in_channels), axes,
                                {tap.begin(), tap.end()}, phase);
    return packed;
}

}  // namespace kiln::staged
