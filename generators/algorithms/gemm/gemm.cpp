// The stages of products of matrices; schedule_cpu.cpp beside it schedules them.
#include "algorithms/gemm/gemm.h"

#include <algorithm>
#include <stdexcept>

#include "algorithms/empty/empty.h"
#include "algorithms/estimates.h"
#include "expressions/arithmetic.h"
#include "expressions/epilogue.h"
#include "expressions/points.h"
#include "expressions/types.h"
#include "expressions/vars.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

int positions(const Problem &problem) {
    return static_cast<int>(problem.out_points());
}

// Output channels of all parts: the last one is filled up with zeros.
int columns(const Problem &problem, const GemmSchedule &schedule) {
    return round_up(static_cast<int>(problem.out_channels), schedule.panel() * schedule.panels);
}

// Whether strides leave positions out, or planes lie so that the first cache does not hold a line of each of a block's
// channels: 1x1 of 4096 to 256 channels at 32x32 takes 11.4 ms by blocks of 64 on an Intel Xeon, and 14.2 of 256.
bool copies_input(const Problem &problem, const GemmSchedule &schedule, const std::vector<AxisMap> &axes,
                  const TargetModel &target) {
    const int64_t plane = problem.in_points() * halide_type(problem.x_type).bytes();
    const bool is_crowded = problem.x_layout == Layout::ncx && first_cache_lines(plane, target) < schedule.block;
    return problem.rank > 1 || axes[0].stride > 1 || is_crowded;
}

// x by positions as y has them. None of their parts is smaller than others: the last one ends where they do, and one
// alone may end later, where it reads the last position again.
void define_input(GemmStages &s, const Problem &problem, const GemmSchedule &schedule, const std::vector<AxisMap> &axes,
                  const Func &x, const TargetModel &target) {
    std::vector<Expr> sizes;
    for (const AxisMap &axis : axes) {
        sizes.emplace_back(axis.out);
    }
    const bool is_beyond = gemm_parts(problem, schedule) == 1 && schedule.tiles * schedule.pixels > positions(problem);
    const Expr position = is_beyond ? Halide::min(Halide::likely(s.p), positions(problem) - 1) : Expr(s.p);
    std::vector<Expr> from = coordinates(position, sizes);
    for (size_t a = 0; a < axes.size(); a++) {
        from[a] = from[a] * axes[a].stride;
    }
    from.insert(from.begin(), s.k);
    from.emplace_back(s.n);
    s.x = Func("x_of_block");
    s.x(s.k, s.p, s.n) = x(from);
    s.copies_x = copies_input(problem, schedule, axes, target);
}

void define_output(GemmStages &s, const Problem &problem, const std::vector<AxisMap> &axes, const Operands &operands) {
    std::vector<Var> at = {s.c};
    std::vector<Expr> position, sizes;
    for (size_t a = 0; a < axes.size(); a++) {
        at.push_back(a == 0 ? s.p : Var("x" + std::to_string(a)));
        position.emplace_back(at.back());
        sizes.emplace_back(axes[a].out);
    }
    at.push_back(s.n);
    const std::vector<Expr> y_at(at.begin(), at.end());
    Expr sum = s.sums(s.c, number_of(position, sizes), s.n);
    if (problem.y_layout == Layout::ncx) {
        s.transposed_block = Func("transposed_y");
        (*s.transposed_block)(at) = sum;
        sum = (*s.transposed_block)(y_at);
    }
    s.y = Func("y");
    s.y(at) = epilogue(problem, sum, operands, y_at);
}

}  // namespace

void GemmSchedule::list(ScheduleText &text) {
    text.number("lanes", lanes, 1, 64);
    text.number("vectors", vectors, 1, 64);
    text.number("pixels", pixels, 1, 64);
    text.number("unroll", unroll, 1, 64);
    text.number("block", block, 1, 1 << 20);
    text.number("panels", panels, 1, 1 << 20);
    text.number("tiles", tiles, 1, 1 << 20);
    text.flag("parallel", parallel);
}

DirectSchedule GemmSchedule::direct() const {
    DirectSchedule direct;
    direct.lanes = lanes;
    direct.vectors = vectors;
    direct.tile = ChannelLanes{pixels};
    direct.unroll = unroll;
    return direct;
}

int gemm_parts(const Problem &problem, const GemmSchedule &schedule) {
    return ceil_div(positions(problem), schedule.tiles * schedule.pixels);
}

int gemm_channel_parts(const Problem &problem, const GemmSchedule &schedule) {
    return ceil_div(static_cast<int>(problem.out_channels), schedule.panel() * schedule.panels);
}

void GemmSchedule::check(const Problem &problem) const {
    if (problem.in_channels % block != 0) {
        throw std::invalid_argument("schedule: blocks of " + std::to_string(block) + " channels do not divide " +
                                    std::to_string(problem.in_channels));
    }
    if (block % unroll != 0) {
        throw std::invalid_argument("schedule: " + std::to_string(unroll) + " steps do not divide a block of " +
                                    std::to_string(block));
    }
    const int parts = gemm_parts(problem, *this);
    if (parts > 1 && problem.rank > 1) {
        throw std::invalid_argument("schedule: an image of several axes is in " + std::to_string(parts) +
                                    " parts, where it must be whole");
    }
    const int64_t of_part = static_cast<int64_t>(panels) * panel();
    if (problem.y_layout == Layout::ncx && of_part < problem.out_channels && problem.out_channels % of_part != 0) {
        throw std::invalid_argument("schedule: parts of " + std::to_string(of_part) + " channels do not divide " +
                                    std::to_string(problem.out_channels) + " of channels-first y");
    }
}

bool gemm_applies(const Problem &problem) {
    if (problem.traits().deformable || problem.traits().transposed || problem.has_open_sizes() || is_empty(problem) ||
        problem.groups != 1 || (problem.x_type != DType::f32 && problem.x_type != DType::f64)) {
        return false;
    }
    const std::vector<AxisMap> axes = axis_maps(problem);
    // Rows of planes of which positions are left out would be read element by element, and written so.
    const bool is_row = problem.rank == 1 && axes[0].stride == 1;
    const bool is_nxc = is_channels_last(problem);
    return (is_row || is_nxc) &&
           std::all_of(axes.begin(), axes.end(), [](const AxisMap &axis) { return axis.has_one_tap_inside(); });
}

Problem gemm_products(const Problem &problem, const GemmSchedule &schedule) {
    Problem p = problem;
    const int blocks = static_cast<int>(problem.in_channels) / schedule.block;
    p.groups = blocks;
    p.out_channels = static_cast<int64_t>(blocks) * columns(problem, schedule);
    p.x_layout = p.y_layout = Layout::nxc;
    p.bias = p.residual = false;
    p.activation = Activation::none;
    p.rank = 1;
    p.in[0] = p.out[0] = static_cast<int64_t>(gemm_parts(problem, schedule)) * schedule.tiles * schedule.pixels;
    p.stride[0] = 1;
    return canonicalize(p);
}

Func gemm_weights(const Problem &problem, const GemmSchedule &schedule, const Func &w) {
    const Var o("o"), k("k"), tap("tap");
    const int all = columns(problem, schedule), last = static_cast<int>(problem.out_channels) - 1;
    const Expr channel = o % all;
    std::vector<Expr> from(static_cast<size_t>(w.dimensions()), 0);
    from[0] = Halide::min(channel, last);
    from[1] = k + o / all * schedule.block;
    Func result("weights_of_blocks");
    const Expr value = w(from);
    result(o, k, tap) = Halide::select(channel <= last, value, Halide::Internal::make_zero(value.type()));
    return result;
}

GemmStages gemm(const Problem &problem, const GemmSchedule &schedule, const Operands &operands,
                const TargetModel &target) {
    GemmStages s;
    const std::vector<AxisMap> axes = axis_maps(problem);
    const Problem of_products = gemm_products(problem, schedule);
    define_input(s, problem, schedule, axes, operands.x, target);
    s.products = direct(of_products, schedule.direct(),
                        {.sizes = Sizes(of_products), .x = s.x, .packed = operands.packed}, target);
    s.blocks = Halide::RDom(0, static_cast<int>(of_products.groups), "blocks");
    s.sums = Func("sums");
    s.sums(s.c, s.p, s.n) = Halide::Internal::make_zero(sum_type(problem));
    s.sums(s.c, s.p, s.n) += s.products.acc(s.blocks.x * columns(problem, schedule) + s.c, s.p, 0, s.n);
    define_output(s, problem, axes, operands);
    return s;
}

}  // namespace kiln
