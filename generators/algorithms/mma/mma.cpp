// The stages of the products by a GPU's matrix instructions, and their weights.
//
// A thread of a warp is (t, g), of 4 by 8. Of the instruction's operands (lowering/gpu/mma.h) it holds rows g and g + 8
// of positions, column g of weights, and of both the products that t has. Which number of the sum is called which
// product is the instruction's, but any order is as good, if both operands have it: here a thread's products of two
// instructions are 8 neighbouring input channels, one load. In the same way the output channels of its sums, of all
// tiles, are neighbours.
#include "algorithms/mma/mma.h"

#include "axes/tap_weights.h"
#include "expressions/arithmetic.h"
#include "expressions/epilogue.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "lowering/gpu/mma.h"
#include "moves/gpu_schedule.h"

namespace kiln::mma {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// A thread's neighbouring input channels, and those of a warp: products of two instructions.
constexpr int thread_products = 8, step_products = 32;

int panels(const Problem &problem, const MmaSchedule &schedule) {
    return static_cast<int>(problem.out_channels) / schedule.panel();
}

// The stages, not scheduled.
struct Stages {
    std::vector<AxisMap> axes;
    Var c{"c"}, n{"n"};
    std::vector<Var> q, phase;  // output positions are q * phases + phase
    // Of the sums: a warp's tiles; and threads, numbered through along the channels, the first axis and the second.
    Var tile_c{"tile_c"}, tile_x{"tile_x"}, tile_y{"tile_y"}, along_c{"along_c"}, along_x{"along_x"},
        along_y{"along_y"};
    Var word{"word"}, half{"half"}, step{"step"};  // of a thread's operands: two products each, rows of positions
    RDom r;                                        // which of a step's two instructions, step, taps
    Func pixels{"pixels"}, weights{"weights"}, acc{"acc"};
    // Over a thread's channels and positions, and then as the sums: those, and finished. And y.
    Func sums{"sums"}, finished{"finished"}, y{"y"};

    bool has_rows() const { return axes.size() > 1; }
    Expr t() const { return along_c % 4; }
    Expr g() const { return along_x % 8; }
    Expr panel() const { return along_c / 4; }
};

// The last dimensions of sums and pixels.
std::vector<Var> outer_vars(const Stages &s) {
    std::vector<Var> at = {s.along_y};
    for (size_t a = 2; a < s.axes.size(); a++) {
        at.push_back(s.q[a]);
    }
    append(at, s.phase);
    at.push_back(s.n);
    return at;
}

// Eight neighbouring channels of x at the position that a tap reads, in four words; zeros outside.
void define_pixels(Stages &s, const MmaSchedule &schedule, const Problem &problem, const Func &x) {
    const std::vector<Var> tap = vars("tap", s.axes.size());
    const int chunks = static_cast<int>(problem.in_channels) / thread_products;
    const Expr chunk = s.step * (step_products / thread_products) + s.t();
    Expr inside;
    const auto require = [&inside](const Expr &condition) {
        inside = inside.defined() ? inside && condition : condition;
    };
    if (chunks * thread_products < steps(problem) * step_products) {
        require(chunk < chunks);
    }
    std::vector<Expr> position = {Halide::min(chunk, chunks - 1) * thread_products};
    for (size_t a = 0; a < s.axes.size(); a++) {
        const AxisMap &axis = s.axes[a];
        Expr q = s.q[a];
        if (a == 0) {
            q = (of_any_value(s.along_x) * schedule.columns + s.tile_x) * 2 + s.half;
        } else if (a == 1) {
            q = of_any_value(s.along_y) * schedule.rows + s.tile_y;
        }
        const Expr in = q * axis.stride + axis.offset(s.phase[a]) + tap[a] * axis.tap_step;
        require(in >= 0 && in < axis.in);
        if (axis.has_uneven_phases()) {
            require(axis.is_tap(s.phase[a], tap[a]));
        }
        position.push_back(Halide::clamp(in, 0, axis.in - 1));
    }
    position.emplace_back(s.n);
    std::vector<Var> at = {s.word, s.half, s.tile_x, s.tile_y, s.along_c, s.along_x};
    append(at, outer_vars(s));
    at.push_back(s.step);
    append(at, tap);
    s.pixels(at) = Halide::select(inside, two_products(x(position), s.word), Halide::cast<uint32_t>(0));
}

void define_weights(Stages &s, const Func &packed) {
    const std::vector<Var> tap = vars("tap", s.axes.size());
    std::vector<Expr> from = {0, s.t(), s.g(), s.tile_c, s.step};
    append(from, tap);
    from.push_back(s.panel());
    append(from, s.phase);
    std::vector<Var> at = {s.word, s.tile_c, s.along_c, s.along_x};
    append(at, s.phase);
    at.push_back(s.step);
    append(at, tap);
    s.weights(at) = two_products(packed(from), s.word);
}

void define_sums(Stages &s, const Problem &problem) {
    Halide::Region domain = {{0, 2}, {0, steps(problem)}};
    for (const AxisMap &axis : s.axes) {
        domain.emplace_back(0, axis.taps);
    }
    s.r = RDom(domain, "r");
    std::vector<Var> at = {s.tile_c, s.tile_x, s.tile_y, s.along_c, s.along_x};
    append(at, outer_vars(s));
    std::vector<Expr> outer;
    append(outer, outer_vars(s));
    std::vector<Expr> product = {s.r[1]};
    for (size_t a = 0; a < s.axes.size(); a++) {
        product.emplace_back(s.r[static_cast<int>(a) + 2]);
    }
    const auto pixel = [&](int word, int half) {
        std::vector<Expr> from = {2 * s.r[0] + word, half, s.tile_x, s.tile_y, s.along_c, s.along_x};
        append(from, outer);
        append(from, product);
        return s.pixels(from);
    };
    const auto weight = [&](int word) {
        std::vector<Expr> from = {2 * s.r[0] + word, s.tile_c, s.along_c, s.along_x};
        append(from, s.phase);
        append(from, product);
        return s.weights(from);
    };
    const Expr zero = 0.0f;
    s.acc(at) = Halide::Tuple(zero, zero, zero, zero);
    const MmaOperands operands = {{pixel(0, 0), pixel(0, 1), pixel(1, 0), pixel(1, 1)},
                                  {weight(0), weight(1)},
                                  {s.acc(at)[0], s.acc(at)[1], s.acc(at)[2], s.acc(at)[3]}};
    s.acc(at) = Halide::Tuple(mma_sums(problem.x_type == DType::bf16, operands));
}

// y over (c, q and, where there are several, phase of each axis, n).
void define_output(Stages &s, const Problem &problem, const MmaSchedule &schedule, const Operands &operands) {
    const int of_thread = 2 * schedule.channels;
    const Var channel("channel"), column("column"), row("row");
    std::vector<Expr> from = {channel / 2, column / 2, row, s.along_c, s.along_x};
    append(from, outer_vars(s));
    std::vector<Var> at = {channel, column, row, s.along_c, s.along_x};
    append(at, outer_vars(s));
    const Halide::FuncRef all = s.acc(from);
    s.sums(at) = Halide::mux(channel % 2 + column % 2 * 2, {all[0], all[1], all[2], all[3]});

    // What is finished for positions outside goes nowhere.
    const auto inside = [&](size_t a, const Expr &q) {
        return Halide::clamp(of_any_value(q), 0, s.axes[a].phase_extent - 1);
    };
    const Expr c = s.along_c * of_thread + channel;
    std::vector<Var> y_at = {s.c};
    std::vector<Expr> of_sum = {c};
    for (size_t a = 0; a < s.axes.size(); a++) {
        y_at.push_back(s.q[a]);
        of_sum.push_back(a == 0   ? inside(a, s.along_x * schedule.width() + column)
                         : a == 1 ? inside(a, s.along_y * schedule.rows + row)
                                  : Expr(s.q[a]));
        if (s.axes[a].phases > 1) {
            y_at.push_back(s.phase[a]);
            of_sum.emplace_back(s.phase[a]);
        }
    }
    y_at.push_back(s.n);
    of_sum.emplace_back(s.n);
    const std::vector<Expr> same(at.begin(), at.end());
    s.finished(at) = epilogue(problem, s.sums(same), operands, of_sum, c);

    from = {s.c % of_thread, s.q[0] % schedule.width(), s.has_rows() ? s.q[1] % schedule.rows : Expr(0),
            s.c / of_thread, s.q[0] / schedule.width(), s.has_rows() ? s.q[1] / schedule.rows : Expr(0)};
    for (size_t a = 2; a < s.axes.size(); a++) {
        from.emplace_back(s.q[a]);
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        from.push_back(s.axes[a].phases > 1 ? Expr(s.phase[a]) : Expr(0));
    }
    from.emplace_back(s.n);
    s.y(y_at) = s.finished(from);
}

Var schedule_output(Stages &s, const Problem &problem, const MmaSchedule &schedule) {
    Func &y = s.y;
    y.bound(s.c, 0, static_cast<int>(problem.out_channels)).bound(s.n, 0, static_cast<int>(problem.batch));
    for (size_t a = 0; a < s.axes.size(); a++) {
        y.bound(s.q[a], 0, s.axes[a].phase_extent);
        if (s.axes[a].phases > 1) {
            y.bound(s.phase[a], 0, s.axes[a].phases);
        }
    }
    const Var channel("channel"), column("column"), row("row"), t("t"), g("g"), warp("warp");
    // All threads of a warp sum, some for positions outside. A guard stands where all of its variables do, and must not
    // be around the sums: so a block's positions are guarded together, by the innermost loop over them too. Channels
    // need none.
    const TailStrategy guard = TailStrategy::GuardWithIf;
    const int warps_c = schedule.side_by_side ? schedule.warps : 1, warps_x = schedule.warps / warps_c;
    y.split(s.c, s.along_c, channel, 2 * schedule.channels, TailStrategy::RoundUp);
    y.split(s.along_c, s.along_c, t, 4, TailStrategy::RoundUp);
    y.split(s.q[0], s.along_x, column, warps_x * 8 * schedule.width(), guard);
    if (schedule.side_by_side) {
        y.split(s.along_c, s.along_c, warp, warps_c, TailStrategy::RoundUp);
    } else {
        y.split(column, warp, column, 8 * schedule.width(), TailStrategy::RoundUp);
    }
    y.split(column, g, column, schedule.width(), TailStrategy::RoundUp);
    std::vector<VarOrRVar> order = {channel, column};
    std::vector<Var> blocks = {s.along_x};
    if (s.has_rows()) {
        y.split(s.q[1], s.along_y, row, schedule.rows, guard);
        order.emplace_back(row);
        blocks.push_back(s.along_y);
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        if (a > 1) {
            blocks.push_back(s.q[a]);
        }
        if (s.axes[a].phases > 1) {
            blocks.push_back(s.phase[a]);
        }
    }
    blocks.push_back(s.n);
    order.insert(order.end(), {t, g, warp});
    order.insert(order.end(), blocks.begin(), blocks.end());
    order.emplace_back(s.along_c);
    y.reorder(order).vectorize(channel).unroll(column);
    if (s.has_rows()) {
        y.unroll(row);
    }
    y.gpu_threads(t, g, warp);
    const Var block = fuse_all(Halide::Stage(y), blocks, "blocks");
    y.gpu_blocks(block, s.along_c);
    keep_loops_whole(y);
    return t;
}

void schedule_sums(Stages &s, const MmaSchedule &schedule, const Var &thread) {
    s.acc.compute_at(s.y, thread).store_in(Halide::MemoryType::Register);
    s.acc.bound(s.tile_c, 0, schedule.channels).bound(s.tile_x, 0, schedule.columns).bound(s.tile_y, 0, schedule.rows);
    s.acc.unroll(s.tile_c).unroll(s.tile_x).unroll(s.tile_y);
    const RVar step("step"), steps("steps");
    s.acc.update().split(s.r[1], steps, step, schedule.unroll);
    std::vector<VarOrRVar> order = {s.tile_c, s.tile_x, s.tile_y, s.r[0], step, steps};
    for (size_t a = 0; a < s.axes.size(); a++) {
        order.emplace_back(s.r[static_cast<int>(a) + 2]);
    }
    s.acc.update().reorder(order).unroll(s.tile_c).unroll(s.tile_x).unroll(s.tile_y).unroll(s.r[0]).unroll(step);
    keep_loops_whole(s.acc);
    // Else LLVM keeps neighbouring channels of several instructions together, which each have to be taken apart.
    const std::vector<Var> at = s.sums.args();
    for (Func *f : {&s.sums, &s.finished}) {
        f->compute_at(s.y, thread).store_in(Halide::MemoryType::Register);
        f->bound(at[0], 0, 2 * schedule.channels).bound(at[1], 0, schedule.width());
        f->bound(at[2], 0, schedule.rows).unroll(at[1]).unroll(at[2]);
    }
    s.sums.unroll(at[0]);
    s.finished.vectorize(at[0]);
    // Halide finds less where positions are guarded.
    for (Func *f : {&s.acc, &s.sums, &s.finished, &s.pixels, &s.weights}) {
        for (const Var &thread_of : {s.along_c, s.along_x, s.along_y}) {
            if (f != &s.weights || thread_of.name() != s.along_y.name()) {
                f->bound_extent(thread_of, 1);
            }
        }
    }
    s.pixels.compute_at(s.acc, steps).store_in(Halide::MemoryType::Register);
    s.pixels.bound(s.word, 0, 4).bound(s.half, 0, 2).bound(s.tile_x, 0, schedule.columns);
    s.pixels.bound(s.tile_y, 0, schedule.rows).bound_extent(s.step, schedule.unroll);
    s.weights.bound_extent(s.step, schedule.unroll);
    s.pixels.vectorize(s.word).unroll(s.half).unroll(s.tile_x).unroll(s.tile_y).unroll(s.step);
    s.weights.compute_at(s.acc, steps).store_in(Halide::MemoryType::Register);
    s.weights.bound(s.word, 0, 4)
        .bound(s.tile_c, 0, schedule.channels)
        .vectorize(s.word)
        .unroll(s.tile_c)
        .unroll(s.step);
}

}  // namespace

int steps(const Problem &problem) {
    return ceil_div(static_cast<int>(problem.in_channels), step_products);
}

std::vector<int> packed_extents(const Problem &problem, const MmaSchedule &schedule) {
    std::vector<int> result = {thread_products, step_products / thread_products, 8, schedule.channels, steps(problem)};
    const std::vector<AxisMap> axes = axis_maps(problem);
    for (const AxisMap &axis : axes) {
        result.push_back(axis.taps);
    }
    result.push_back(panels(problem, schedule));
    for (const AxisMap &axis : axes) {
        result.push_back(axis.phases);
    }
    return result;
}

Func pack(const Problem &problem, const MmaSchedule &schedule, const Func &w) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const Var product("product"), t("t"), column("column"), tile("tile"), step("step"), panel("panel");
    const std::vector<Var> tap = vars("tap", axes.size()), phase = vars("phase", axes.size());
    const Expr channel = panel * schedule.panel() + column / 2 * (2 * schedule.channels) + 2 * tile + column % 2;
    const Expr k = step * step_products + t * thread_products + product;
    std::vector<Var> order = {product, t, column, tile, step};
    append(order, tap);
    order.push_back(panel);
    append(order, phase);
    Func packed("packed");
    packed(order) = weight_or_zero(problem, w, {channel, 0, channel}, k, static_cast<int>(problem.in_channels), axes,
                                   {tap.begin(), tap.end()}, phase);
    return packed;
}

Func build(const Problem &problem, const MmaSchedule &schedule, const Operands &operands) {
    Stages s;
    s.axes = axis_maps(problem);
    s.q = vars("q", s.axes.size());
    s.phase = vars("phase", s.axes.size());
    define_pixels(s, schedule, problem, operands.stored_x);
    define_weights(s, operands.stored_packed);
    define_sums(s, problem);
    define_output(s, problem, schedule, operands);
    schedule_sums(s, schedule, schedule_output(s, problem, schedule));
    return s.y;
}

}  // namespace kiln::mma
