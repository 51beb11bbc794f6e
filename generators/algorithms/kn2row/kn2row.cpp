// The kn2row algorithm's stages and which schedules are legal; schedule_cpu.cpp beside it schedules them.
#include "algorithms/kn2row/kn2row.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "algorithms/empty/empty.h"
#include "axes/output_vars.h"
#include "expressions/arithmetic.h"
#include "expressions/epilogue.h"
#include "expressions/types.h"
#include "expressions/vars.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

// What is unrolled grows with these: beyond them the code is long, and other algorithms fill their vectors.
constexpr int most_products = 128, most_channels = 16, most_phases = 16;

int taps_of(const Problem &problem) {
    return static_cast<int>(problem.kernel[problem.rank - 1]);
}

// x of the products: channels first, in the type that is summed.
Func widened_x(Kn2rowStages &s, const Problem &problem, const Kn2rowSchedule &schedule, const Operands &operands) {
    if (reads_x_itself(problem) && !schedule.copied_planes) {
        return operands.x;
    }
    const std::vector<Var> at = vars("i", s.axes.size() + 2);
    const std::vector<Expr> same(at.begin(), at.end());
    Func wide("wide");
    wide(at) = widen_x(problem, operands.sizes, operands.x(same));
    if (problem.x_layout == Layout::ncx && !schedule.copied_planes) {
        return wide;
    }
    s.copied = {Func("rows"), wide};
    s.copied->rows(at) = wide(same);
    return s.copied->rows;
}

void define_shifted(Kn2rowStages &s, const Kn2rowSchedule &schedule) {
    const AxisMap &row = s.axes[0];
    const AxisMap::Range reads = row.reads();
    std::vector<Var> at = {s.position, s.channel};
    for (size_t a = 1; a < s.axes.size(); a++) {
        at.insert(at.end(), {s.q[a], s.phase[a]});
    }
    at.push_back(s.n);
    const Halide::Type type = s.products.acc.type();
    s.shifted = Func("shifted");
    s.shifted(at) = Halide::undef(type);
    std::vector<Expr> to(at.begin(), at.end());
    const auto write_zeros = [&](int first, int count, const char *name) {
        const RDom outside(first, count, name);
        to[0] = outside.x;
        s.shifted(to) = Halide::Internal::make_zero(type);
    };
    if (reads.first < 0) {
        write_zeros(reads.first, -reads.first, "ahead");
    }
    if (reads.last >= row.in) {
        write_zeros(row.in, reads.last - row.in + 1, "behind");
    }
    s.tiles = RDom({{0, schedule.width()}, {0, ceil_div(row.in, schedule.width())}}, "inside");
    to[0] = Halide::min(s.tiles[1] * schedule.width(), row.in - schedule.width()) + s.tiles[0];
    std::vector<Expr> from = {s.channel, to[0], 0};
    from.insert(from.end(), at.begin() + 2, at.end());
    s.shifted(to) = s.products.acc(from);
}

// The sum of those products that meet at y's position.
Expr sum_of_taps(const Kn2rowStages &s, const Problem &problem) {
    const AxisMap &row = s.axes[0];
    const Expr phase = row.phases > 1 ? Expr(s.phase[0]) : Expr(0);
    Expr sum;
    for (int tap = 0; tap < row.taps; tap++) {
        const Expr position = row.within_reads(s.q[0] + row.offset(phase) + tap * row.tap_step);
        Expr of_tap = row.tap(phase, tap);
        if (row.has_uneven_phases()) {
            of_tap = Halide::min(of_tap, row.kernel - 1);  // where it is none, what is read does not matter
        }
        std::vector<Expr> at = {position, s.c * taps_of(problem) + of_tap};
        for (size_t a = 1; a < s.axes.size(); a++) {
            at.insert(at.end(), {s.q[a], s.axes[a].phases > 1 ? Expr(s.phase[a]) : Expr(0)});
        }
        at.emplace_back(s.n);
        Expr term = s.shifted(at);
        if (row.has_uneven_phases()) {
            term = Halide::select(row.is_tap(phase, tap), term, Halide::Internal::make_zero(term.type()));
        }
        sum = sum.defined() ? sum + term : term;
    }
    return sum;
}

}  // namespace

void Kn2rowSchedule::list(ScheduleText &text) {
    text.number("lanes", lanes, 1, 64);
    text.number("vectors", vectors, 1, 64);
    text.number("channels", channels, 1, 64);
    text.number("unroll", unroll, 1, 64);
    text.number("prefetch_distance", prefetch_distance);
    text.flag("parallel", parallel);
    text.optional("copied_planes", copied_planes, false);
}

DirectSchedule Kn2rowSchedule::direct() const {
    DirectSchedule direct;
    direct.lanes = lanes;
    direct.vectors = vectors;
    direct.tile = RowLanes{channels, prefetch_distance};
    direct.unroll = unroll;
    return direct;
}

void Kn2rowSchedule::check(const Problem &problem) const {
    const int64_t row = problem.in[problem.rank - 1];
    if (width() > row) {
        throw std::invalid_argument("schedule: a tile of " + std::to_string(width()) +
                                    " positions is larger than a row of " + std::to_string(row));
    }
    if (copied_planes && !can_copy_rows(problem)) {
        throw std::invalid_argument("schedule: \"copied_planes\" must be 0: x has no rows of channels-first planes");
    }
    if (prefetch_distance > 0 && (copied_planes || !reads_x_itself(problem))) {
        throw std::invalid_argument("schedule: \"prefetch_distance\" must be 0: x is not read as it is here");
    }
}

bool reads_x_itself(const Problem &problem) {
    return problem.x_layout == Layout::ncx && halide_type(problem.x_type) == sum_type(problem);
}

bool can_copy_rows(const Problem &problem) {
    return problem.rank > 1 && problem.x_layout == Layout::ncx;
}

bool kn2row_applies(const Problem &problem) {
    if (problem.traits().deformable || problem.has_open_sizes() || is_empty(problem) || problem.groups != 1 ||
        problem.is_quantized() || problem.out_channels > most_channels ||
        problem.out_channels * taps_of(problem) > most_products) {
        return false;
    }
    const std::vector<AxisMap> axes = axis_maps(problem);
    return axes[0].stride == 1 && axes[0].phases <= most_phases && axes[0].kernel >= axes[0].phases &&
           phases_are_whole(axes);
}

Problem kn2row_products(const Problem &problem) {
    Problem p = problem;
    const int row = problem.rank - 1;
    p.x_type = p.w_type = p.y_type = problem.x_type == DType::f64 ? DType::f64 : DType::f32;
    p.x_layout = p.y_layout = Layout::ncx;
    p.out_channels = problem.out_channels * problem.kernel[row];
    p.kernel[row] = p.stride[row] = p.dilation[row] = 1;
    p.pad_begin[row] = p.pad_end[row] = 0;
    p.out[row] = problem.in[row];
    p.bias = p.residual = false;
    p.activation = Activation::none;
    return p;
}

Func kn2row_weights(const Problem &problem, const Func &w) {
    const std::vector<Var> at = vars("i", static_cast<size_t>(w.dimensions()));
    const size_t out = problem.traits().weight_layout.find('O');
    std::vector<Expr> from(at.begin(), at.end());
    from[out] = at[out] / taps_of(problem);
    from.back() = at[out] % taps_of(problem);
    Func result("weights_of_taps");
    result(at) = w(from);
    return result;
}

Kn2rowStages kn2row(const Problem &problem, const Kn2rowSchedule &schedule, const Operands &operands,
                    const TargetModel &target) {
    Kn2rowStages s;
    s.axes = axis_maps(problem);
    s.q = vars("q", s.axes.size());
    s.phase = vars("phase", s.axes.size());
    const Problem of_products = kn2row_products(problem);
    Operands read = {
        .sizes = Sizes(of_products), .x = widened_x(s, problem, schedule, operands), .packed = operands.packed};
    s.products = direct(of_products, schedule.direct(), read, target);
    define_shifted(s, schedule);
    std::vector<Var> at = {s.c};
    append(at, positions_and_phases(s.axes, s.q, s.phase));
    at.push_back(s.n);
    s.y = Func("y");
    s.y(at) = epilogue(problem, sum_of_taps(s, problem), operands, {at.begin(), at.end()});
    return s;
}

}  // namespace kiln
