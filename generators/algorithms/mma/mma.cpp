// The stages of the products by a GPU's matrix instructions, and their weights; schedule_gpu.cpp beside it schedules
// them.
//
// Of the instruction's operands (lowering/gpu/mma.h) a thread (t, g) holds rows g and g + 8 of positions, column g of
// weights, and of both the products that t has. Which number of the sum is called which product is the instruction's,
// but any order is as good, if both operands have it: here a thread's products of two instructions are 16 bytes of
// neighbouring input channels, one load. In the same way the output channels of its sums, of all tiles, are neighbours.
#include "algorithms/mma/mma.h"

#include <algorithm>
#include <numeric>

#include "axes/output_vars.h"
#include "axes/tap_weights.h"
#include "expressions/arithmetic.h"
#include "expressions/epilogue.h"
#include "expressions/points.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "lowering/gpu/mma.h"
#include "moves/sliced_sum.h"

namespace kiln::mma {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

// Of 16 bytes: a thread's neighbouring input channels, products of two instructions; and those of a warp's four.
int thread_products(const Problem &problem) {
    return 16 / static_cast<int>(size_of(problem.x_type));
}

int step_products(const Problem &problem) {
    return 4 * thread_products(problem);
}

MmaType type_of(DType type) {
    return type == DType::f16 ? MmaType::f16 : type == DType::bf16 ? MmaType::bf16 : MmaType::tf32;
}

int panels(const Problem &problem, const MmaSchedule &schedule) {
    return static_cast<int>(problem.out_channels) / schedule.panel();
}

// Of x, the innermost axis first.
std::vector<Expr> image_sizes(const Stages &s) {
    std::vector<Expr> sizes;
    for (const AxisMap &axis : s.axes) {
        sizes.emplace_back(axis.in);
    }
    return sizes;
}

// x with channels innermost, over points. Blocks go by tiles of it: what of those is outside is never stored.
void define_image(Stages &s, const Problem &problem, const Func &x) {
    const Var point("point");
    std::vector<Expr> at = {Halide::min(s.c, static_cast<int>(problem.in_channels) - 1)};
    append(at, coordinates(Halide::min(point, static_cast<int>(problem.in_points()) - 1), image_sizes(s)));
    at.emplace_back(s.n);
    s.tile = Func("tile");
    s.image = Func("image");
    (*s.tile)(s.c, point, s.n) = x(at);
    (*s.image)(s.c, point, s.n) = (*s.tile)(s.c, point, s.n);
}

// What begins at a channel of x, at a position.
Expr pixel_at(const Stages &s, const Func &x, const Expr &channel, const std::vector<Expr> &position) {
    std::vector<Expr> at = {channel};
    if (s.image) {
        at.push_back(number_of(position, image_sizes(s)));
    } else {
        append(at, position);
    }
    at.emplace_back(s.n);
    return s.image ? (*s.image)(at) : x(at);
}

// 16 bytes of neighbouring channels of x at the position that a tap reads, in four words; zeros outside.
void define_pixels(Stages &s, const MmaSchedule &schedule, const Problem &problem, const Func &x) {
    const std::vector<Var> tap = vars("tap", s.axes.size());
    const int of_thread = thread_products(problem);
    const int chunks = static_cast<int>(problem.in_channels) / of_thread;
    const Expr chunk = s.step * 4 + s.t();
    Expr inside;
    const auto require = [&inside](const Expr &condition) {
        inside = inside.defined() ? inside && condition : condition;
    };
    if (chunks < steps(problem) * 4) {
        require(chunk < chunks);
    }
    std::vector<Expr> position;
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
    const Expr first = pixel_at(s, x, Halide::min(chunk, chunks - 1) * of_thread, position);
    std::vector<Var> at = {s.word, s.half, s.tile_x, s.tile_y, s.along_c, s.along_x};
    append(at, s.outer());
    at.push_back(s.step);
    append(at, tap);
    s.pixels(at) = Halide::select(inside, word_of(first, s.word), Halide::cast<uint32_t>(0));
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
    s.weights(at) = word_of(packed(from), s.word);
}

// The first step and the taps that a turn of the sum multiplies.
std::vector<Expr> define_turns(Stages &s, const Problem &problem, const MmaSchedule &schedule) {
    const std::vector<int> all = turns(problem, schedule), slices = slices_of_turns(problem, schedule);
    const Halide::Region of_turn = {{0, 2 * instructions_per_product(problem)}, {0, schedule.unroll}};
    Halide::Region domain;
    if (instructions_per_product(problem) > 1) {
        s.turn = Func("turn");
        const RDom k(of_turn, "k");
        s.of_turn = {k[0], k[1]};
    } else {
        domain = of_turn;
    }
    for (size_t loop = 0; loop < all.size(); loop++) {
        domain.emplace_back(0, all[loop] / slices[loop]);
    }
    const RDom r(domain, "r");
    for (int loop = 0; loop < r.dimensions(); loop++) {
        (s.of_turn.size() < 2 ? s.of_turn : s.turns).push_back(r[loop]);
    }
    std::vector<Expr> product;
    for (size_t loop = 0; loop < all.size(); loop++) {
        product.push_back(s.slice[loop] * (all[loop] / slices[loop]) + s.turns[loop]);
    }
    product[0] = product[0] * schedule.unroll;
    return product;
}

// Adds to f, which is zero at `at`, the products of a turn, whose first step and taps these are.
void add_products(Stages &s, const Problem &problem, Func f, const std::vector<Var> &at, std::vector<Expr> product) {
    const int count = instructions_per_product(problem);
    const Expr instruction = s.of_turn[0] / count, part = s.of_turn[0] % count;
    product[0] += s.of_turn[1];
    const auto pixel = [&](int word, int half) {
        std::vector<Expr> from = {2 * instruction + word, half, s.tile_x, s.tile_y, s.along_c, s.along_x};
        append(from, s.outer());
        append(from, product);
        const Expr bits = s.pixels(from);
        return count == 1 ? bits : Halide::select(part == 0, remaining_tf32(bits), leading_tf32(bits));
    };
    const auto weight = [&](const Expr &word) {
        std::vector<Expr> from = {word, s.tile_c, s.along_c, s.along_x};
        append(from, s.phase);
        append(from, product);
        return s.weights(from);
    };
    const auto wide_weight = [&](int word) {
        const Expr bits = weight(2 * instruction + word);
        return count == 1 ? bits : Halide::select(part == 1, remaining_tf32(bits), leading_tf32(bits));
    };
    const Expr zero = 0.0f;
    f(at) = Halide::Tuple(zero, zero, zero, zero);
    MmaOperands operands;
    operands.rows = {pixel(0, 0), pixel(0, 1), pixel(1, 0), pixel(1, 1)};
    if (weight_words(problem) == 2) {
        operands.columns = {weight(instruction)};
        operands.packed_columns = type_of(problem.w_type);
    } else {
        operands.columns = {wide_weight(0), wide_weight(1)};
    }
    operands.sums = {f(at)[0], f(at)[1], f(at)[2], f(at)[3]};
    f(at) = Halide::Tuple(mma_sums(type_of(problem.x_type), operands));
}

// The instruction cuts sums off, to one side. Where y keeps as many digits, only products of a turn are added by it,
// and turns by additions, which round.
void define_sums(Stages &s, const Problem &problem, const MmaSchedule &schedule) {
    const std::vector<Expr> product = define_turns(s, problem, schedule);
    const std::vector<Var> tile = {s.tile_c, s.tile_x, s.tile_y, s.along_c, s.along_x};
    std::vector<Var> at = tile;
    append(at, s.outer());
    append(at, s.slice);
    if (!s.turn) {
        return add_products(s, problem, s.acc, at, product);
    }
    const std::vector<Var> first = vars("first", product.size());
    std::vector<Var> of_turn = tile;
    append(of_turn, s.outer());
    std::vector<Expr> from(of_turn.begin(), of_turn.end());
    append(of_turn, first);
    append(from, product);
    add_products(s, problem, *s.turn, of_turn, {first.begin(), first.end()});
    const Expr zero = 0.0f;
    s.acc(at) = Halide::Tuple(zero, zero, zero, zero);
    const Halide::FuncRef sum = (*s.turn)(from);
    s.acc(at) =
        Halide::Tuple(s.acc(at)[0] + sum[0], s.acc(at)[1] + sum[1], s.acc(at)[2] + sum[2], s.acc(at)[3] + sum[3]);
}

// From the instruction's tiles to a thread's channels and positions, and to shared memory.
void define_shared(Stages &s, const Problem &problem, const MmaSchedule &schedule) {
    std::vector<Expr> from = {s.channel / 2, s.column / 2, s.row, s.along_c, s.along_x};
    std::vector<Var> at = {s.channel, s.column, s.row, s.along_c, s.along_x};
    append(from, s.outer());
    append(at, s.outer());
    append(from, s.slice);
    append(at, s.slice);
    const Halide::FuncRef all = s.acc(from);
    s.sums(at) = Halide::mux(s.channel % 2 + s.column % 2 * 2, {all[0], all[1], all[2], all[3]});
    std::vector<Expr> same(at.begin(), at.end());
    same[0] = s.vector * channels_together(problem, schedule) + s.lane;
    at.erase(at.begin());
    at.insert(at.begin(), {s.lane, s.vector});
    s.shared(at) = s.sums(same);
}

void define_output(Stages &s, const Problem &problem, const MmaSchedule &schedule, const Operands &operands) {
    const int of_thread = 2 * schedule.channels, of_vector = channels_together(problem, schedule);
    const bool has_rows = s.axes.size() > 1;
    std::vector<Expr> from = {s.c % of_vector,
                              s.c % of_thread / of_vector,
                              s.q[0] % schedule.width(),
                              has_rows ? s.q[1] % schedule.rows : Expr(0),
                              s.c / of_thread,
                              s.q[0] / schedule.width(),
                              has_rows ? s.q[1] / schedule.rows : Expr(0)};
    for (size_t a = 2; a < s.axes.size(); a++) {
        from.emplace_back(s.q[a]);
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        from.push_back(s.axes[a].phases > 1 ? Expr(s.phase[a]) : Expr(0));
    }
    from.emplace_back(s.n);
    std::vector<Expr> of_slices;
    for (int slice = 0; slice < schedule.slices; slice++) {
        std::vector<Expr> of_slice = from;
        int rest = slice;
        for (const int count : slices_of_turns(problem, schedule)) {
            of_slice.emplace_back(rest % count);
            rest /= count;
        }
        of_slices.push_back(s.shared(of_slice));
    }
    std::vector<Var> at = {s.c};
    append(at, positions_and_phases(s.axes, s.q, s.phase));
    at.push_back(s.n);
    s.y(at) = epilogue(problem, sum_by_pairs(of_slices), operands, std::vector<Expr>(at.begin(), at.end()));
}

}  // namespace

int instructions_per_product(const Problem &problem) {
    return problem.x_type != DType::f32 ? 1 : problem.w_type == DType::f32 ? 3 : 2;
}

int weight_words(const Problem &problem) {
    return thread_products(problem) * static_cast<int>(size_of(problem.w_type)) / 4;
}

int steps(const Problem &problem) {
    return ceil_div(static_cast<int>(problem.in_channels), step_products(problem));
}

std::vector<int> turns(const Problem &problem, const MmaSchedule &schedule) {
    std::vector<int> result = {steps(problem) / schedule.unroll};
    for (const AxisMap &axis : axis_maps(problem)) {
        result.push_back(axis.taps);
    }
    return result;
}

std::vector<int> slices_of_turns(const Problem &problem, const MmaSchedule &schedule) {
    int left = schedule.slices;
    std::vector<int> result;
    for (const int count : turns(problem, schedule)) {
        result.push_back(std::gcd(left, count));
        left /= result.back();
    }
    return left == 1 ? result : std::vector<int>();
}

std::vector<int> packed_extents(const Problem &problem, const MmaSchedule &schedule) {
    std::vector<int> result = {thread_products(problem), 4, 8, schedule.channels, steps(problem)};
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
    const Expr k = step * step_products(problem) + t * thread_products(problem) + product;
    std::vector<Var> order = {product, t, column, tile, step};
    append(order, tap);
    order.push_back(panel);
    append(order, phase);
    Func packed("packed");
    packed(order) = weight_or_zero(problem, w, {channel, 0, channel}, k, static_cast<int>(problem.in_channels), axes,
                                   {tap.begin(), tap.end()}, phase);
    return packed;
}

std::vector<Var> Stages::outer() const {
    std::vector<Var> at = {along_y};
    at.insert(at.end(), q.begin() + std::min<size_t>(q.size(), 2), q.end());
    append(at, phase);
    at.push_back(n);
    return at;
}

Stages define(const Problem &problem, const MmaSchedule &schedule, const Operands &operands) {
    Stages s;
    s.axes = axis_maps(problem);
    s.q = vars("q", s.axes.size());
    s.phase = vars("phase", s.axes.size());
    s.slice = vars("slice", s.axes.size() + 1);
    if (problem.x_layout == Layout::ncx) {
        define_image(s, problem, operands.stored_x);
    }
    define_pixels(s, schedule, problem, operands.stored_x);
    define_weights(s, operands.stored_packed);
    define_sums(s, problem, schedule);
    define_shared(s, problem, schedule);
    define_output(s, problem, schedule, operands);
    return s;
}

}  // namespace kiln::mma
