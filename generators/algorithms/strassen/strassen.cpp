// Strassen's algorithm's stages; schedule_cpu.cpp beside it schedules them.
#include "algorithms/strassen/strassen.h"

#include <algorithm>
#include <stdexcept>

#include "algorithms/empty/empty.h"
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

constexpr int products = 7;

// Of the products' sums, by quarter: signs of halves (row, column) = 00, 01, 10, 11. Rows of `of_x` are halves of the
// positions and columns of the input channels; `of_w`: input by output channels; `of_y`: positions by output channels.
using Signs = int[4];
constexpr Signs of_x[products] = {{1, 0, 0, 1}, {0, 0, 1, 1},  {1, 0, 0, 0}, {0, 0, 0, 1},
                                  {1, 1, 0, 0}, {-1, 0, 1, 0}, {0, 1, 0, -1}};
constexpr Signs of_w[products] = {{1, 0, 0, 1}, {1, 0, 0, 0}, {0, 1, 0, -1}, {-1, 0, 1, 0},
                                  {0, 0, 0, 1}, {1, 1, 0, 0}, {0, 0, 1, 1}};
constexpr Signs of_y[products] = {{1, 0, 0, 1},  {0, 0, 1, -1}, {0, 1, 0, 1}, {1, 0, 1, 0},
                                  {-1, 1, 0, 0}, {0, 0, 0, 1},  {1, 0, 0, 0}};

// The sum of those terms that have a sign.
template <typename Sign, typename Term>
Expr signed_sum(int count, const Sign &sign, const Term &term) {
    Expr sum;
    for (int pass = 0; pass < 2; pass++) {  // what is taken off last
        for (int i = 0; i < count; i++) {
            if (sign(i) == (pass == 0 ? 1 : -1)) {
                sum = !sum.defined() ? Expr(term(i)) : pass == 0 ? Expr(sum + term(i)) : Expr(sum - term(i));
            }
        }
    }
    return sum;
}

int reduction_channels(const Problem &problem) {
    return static_cast<int>(problem.in_channels / 2);
}

int columns(const Problem &problem) {
    return static_cast<int>(problem.out_channels / 2);
}

int blocks(const AxisMap &axis, const StrassenSchedule &schedule) {
    return ceil_div(axis.phase_extent, 2 * schedule.pixels);
}

// Where a tile begins, one of `size` among `extent` positions: the last one ends where those do.
Expr start_of_tile(int extent, int size, const Expr &number) {
    return extent % size == 0 ? number * size : Halide::min(number * size, extent - size);
}

// Where a block begins along the innermost axis.
Expr start_of_block(const AxisMap &axis, const StrassenSchedule &schedule, const Expr &block) {
    return start_of_tile(axis.phase_extent, 2 * schedule.pixels, block);
}

void define_sums(StrassenStages &s, const Problem &problem, const StrassenSchedule &schedule, const Func &x) {
    const std::vector<AxisMap> &axes = s.products.axes;
    const int width = axes[0].stride * schedule.pixels;
    std::vector<Var> at = {s.k, s.i, s.t, s.block};
    std::vector<Expr> from = {s.k, axes[0].stride * (start_of_block(axes[0], schedule, s.block) + s.t)};
    for (size_t a = 1; a < axes.size(); a++) {
        at.push_back(s.products.q[a]);
        from.push_back(s.products.q[a] * axes[a].stride);
    }
    at.push_back(s.products.n);
    from.push_back(s.products.n);
    std::vector<Expr> sums;
    for (const Signs &signs : of_x) {
        sums.push_back(signed_sum(
            4, [&](int quarter) { return signs[quarter]; },
            [&](int quarter) {
                std::vector<Expr> position = from;
                position[0] += quarter % 2 * reduction_channels(problem);
                position[1] += quarter / 2 * width;
                return x(position);
            }));
    }
    s.sums = Func("sums");
    s.sums(at) = Halide::mux(s.i, sums);
}

// x of the products' own problem.
Func sums_as_x(const StrassenStages &s, const Problem &problem, const StrassenSchedule &schedule) {
    const std::vector<Var> at = vars("i", s.products.axes.size() + 2);
    std::vector<Expr> from = {at[0] % reduction_channels(problem), at[0] / reduction_channels(problem),
                              at[1] % schedule.pixels, at[1] / schedule.pixels};
    from.insert(from.end(), at.begin() + 2, at.end());
    Func x("sums_as_x");
    x(at) = s.sums(from);
    return x;
}

// The numbers of outputs that one iteration of y's loops writes.
struct OutputTile {
    int lanes = 1, rows = 1;         // vectors of them by how many: of channels by 1, or of positions by channels
    int vectors = 1, positions = 1;  // by channels and along the innermost axis
};

// Of one half of a block and of the channels.
OutputTile output_tile(const Problem &problem, const StrassenSchedule &schedule, const AxisMap &axis) {
    if (problem.y_layout == Layout::nxc) {
        return {schedule.lanes, 1, schedule.vectors, schedule.pixels};
    }
    const int row = schedule.pixels * axis.phases;
    const int lanes = lanes_within(row, schedule.lanes);
    return {lanes, schedule.lanes, schedule.vectors, ceil_div(row, lanes)};
}

void define_loops(StrassenStages &s, const Problem &problem, const StrassenSchedule &schedule) {
    const std::vector<AxisMap> &axes = s.products.axes;
    const OutputTile tile = output_tile(problem, schedule, axes[0]);
    Halide::Region domain = {{0, tile.lanes},     {0, tile.rows},    {0, 2}, {0, 2}, {0, tile.vectors},
                             {0, tile.positions}, {0, schedule.rows}};
    const int around_tile = static_cast<int>(domain.size()), rank = static_cast<int>(axes.size());
    const int last = strassen_iterations(axes, axes.size() - 1, schedule), chunk = std::min(schedule.chunk, last);
    for (size_t a = 0; a < axes.size(); a++) {
        domain.emplace_back(0, a + 1 == axes.size() ? chunk : strassen_iterations(axes, a, schedule));
    }
    for (size_t a = 0; a < axes.size(); a++) {
        domain.emplace_back(0, a == 0 && problem.y_layout == Layout::ncx ? 1 : axes[a].phases);
    }
    domain.emplace_back(0, columns(problem) / schedule.panel());
    domain.emplace_back(0, ceil_div(last, chunk));
    const RDom r(domain, "of_y");
    s.loops = {
        r[0], r[1], r[2], r[3], r[4], r[5], r[6], {}, {}, r[around_tile + 2 * rank], r[around_tile + 2 * rank + 1]};
    for (int a = 0; a < rank; a++) {
        s.loops.image.emplace_back(r[around_tile + a]);
        s.loops.phases.emplace_back(r[around_tile + rank + a]);
    }
}

// What the quarter (half, channel_half) of the outputs is of products, whose second index is which of them.
Expr quarter_of(const Func &product, std::vector<Expr> at, const Expr &half, const Expr &channel_half) {
    std::vector<Expr> quarters;
    for (int quarter = 0; quarter < 4; quarter++) {
        quarters.push_back(signed_sum(
            products, [&](int i) { return of_y[i][quarter]; },
            [&](int i) {
                at[1] = i;
                return product(at);
            }));
    }
    return Halide::mux(half * 2 + channel_half, quarters);
}

// Of `from`, a position of the products whose pixel and phase of the innermost axis are those of `u`, which counts
// outputs of a half's row: a block of outputs that is transposed in registers.
void define_transposed_block(StrassenStages &s, const StrassenSchedule &schedule) {
    const Func &product = s.products.product;
    const AxisMap &axis = s.products.axes[0];
    const Var half("half"), channel_half("channel_half");
    std::vector<Var> at = product.args();
    std::vector<Expr> from(at.begin(), at.end());
    // (c, i, q[0], phase[0] if there are several ...) becomes (c, u, block, half, channel_half, ...).
    from[2] = s.block * schedule.pixels + s.u / axis.phases;
    at.erase(at.begin() + 1, at.begin() + 3);
    if (axis.phases > 1) {
        from[3] = s.u % axis.phases;
        at.erase(at.begin() + 1);
    }
    at.insert(at.begin() + 1, {s.u, s.block, half, channel_half});
    s.transposed_block = Func("block");
    (*s.transposed_block)(at) = quarter_of(product, from, half, channel_half);
}

// Where y's loops are along axis a: at which block, or the first of how many positions. A chunk that is not whole
// overlaps the one before.
Expr iteration_of(const StrassenStages &s, size_t a, const StrassenSchedule &schedule) {
    const std::vector<AxisMap> &axes = s.products.axes;
    const int extent = a == 0 ? blocks(axes[0], schedule) : axes[a].phase_extent, size = a == 1 ? schedule.rows : 1;
    const int chunk = schedule.chunk * size;
    const Expr iteration = s.loops.image[a];
    if (a + 1 < axes.size() || chunk >= extent) {
        return start_of_tile(extent, size, iteration);
    }
    return start_of_tile(extent, chunk, s.loops.chunk) + iteration * size;
}

void define_output(StrassenStages &s, const Problem &problem, const StrassenSchedule &schedule,
                   const Operands &operands) {
    const std::vector<AxisMap> &axes = s.products.axes;
    const StrassenStages::Loops &loops = s.loops;
    const OutputTile tile = output_tile(problem, schedule, axes[0]);
    const bool turns_y = problem.y_layout == Layout::ncx;
    const Expr c = loops.panel * schedule.panel() + loops.vector * schedule.lanes + (turns_y ? loops.row : loops.lane);
    std::vector<Var> at = {s.products.c};
    std::vector<Expr> to = {loops.channel_half * columns(problem) + c}, from = {c, 0};
    for (size_t a = 0; a < axes.size(); a++) {
        const int phases = axes[a].phases;
        const Expr iteration = iteration_of(s, a, schedule);
        at.emplace_back("x" + std::to_string(a));
        Expr position;
        if (a == 0) {
            const Expr first = start_of_block(axes[0], schedule, iteration) + loops.half * schedule.pixels;
            if (turns_y) {
                const int row = schedule.pixels * phases;
                const Expr u = Halide::min(loops.position * tile.lanes, row - tile.lanes) + loops.lane;
                from = {c, u, iteration, loops.half, loops.channel_half};
                to.push_back(first * phases + u);
                continue;
            }
            from.push_back(iteration * schedule.pixels + loops.position);
            position = first + loops.position;
        } else {
            position = a == 1 ? iteration + loops.tile_row : iteration;
            from.push_back(position);
        }
        to.push_back(position * phases + loops.phases[a]);
        if (phases > 1) {
            from.emplace_back(loops.phases[a]);
        }
    }
    at.push_back(s.products.n);
    to.push_back(s.products.n);
    from.push_back(s.products.n);
    Expr sum;
    if (turns_y) {
        define_transposed_block(s, schedule);
        sum = (*s.transposed_block)(from);
    } else {
        sum = quarter_of(s.products.product, from, loops.half, loops.channel_half);
    }
    s.y = Func("y");
    s.y(at) = Halide::undef(halide_type(problem.y_type));
    s.y(to) = epilogue(problem, sum, operands, to);
}

}  // namespace

void StrassenSchedule::list(ScheduleText &text) {
    text.number("lanes", lanes, 1, 64);
    text.number("vectors", vectors, 1, 64);
    text.number("pixels", pixels, 1, 64);
    text.number("rows", rows, 1, 64);
    text.number("unroll", unroll, 1, 64);
    text.number("chunk", chunk, 1, 1 << 30);
    text.flag("parallel", parallel);
}

DirectSchedule StrassenSchedule::direct() const {
    DirectSchedule direct;
    direct.lanes = lanes;
    direct.vectors = vectors;
    direct.tile = ChannelLanes{pixels};
    direct.rows = rows;
    direct.unroll = unroll;
    return direct;
}

void StrassenSchedule::check(const Problem &problem) const {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int height = axes.size() > 1 ? axes[1].phase_extent : 1;
    if (2 * pixels > axes[0].phase_extent || rows > height) {
        throw std::invalid_argument("schedule: two halves of " + std::to_string(rows) + " x " + std::to_string(pixels) +
                                    " outputs are larger than the image of " + std::to_string(height) + " x " +
                                    std::to_string(axes[0].phase_extent));
    }
    if (columns(problem) % panel() != 0) {
        throw std::invalid_argument("schedule: panels of " + std::to_string(panel()) +
                                    " channels do not fill half of " + std::to_string(problem.out_channels));
    }
}

int strassen_iterations(const std::vector<AxisMap> &axes, size_t a, const StrassenSchedule &schedule) {
    return a == 0 ? blocks(axes[0], schedule) : ceil_div(axes[a].phase_extent, a == 1 ? schedule.rows : 1);
}

bool strassen_applies(const Problem &problem) {
    if (problem.traits().deformable || problem.has_open_sizes() || is_empty(problem) || problem.groups != 1 ||
        problem.accuracy == Accuracy::strict || problem.in_channels % 2 != 0 || problem.out_channels % 2 != 0 ||
        (problem.x_type != DType::f32 && problem.x_type != DType::f64)) {
        return false;
    }
    const std::vector<AxisMap> axes = axis_maps(problem);
    return axes[0].phase_extent >= 2 &&
           std::all_of(axes.begin(), axes.end(), [](const AxisMap &axis) { return axis.has_one_tap_inside(); });
}

Problem strassen_products(const Problem &problem, const StrassenSchedule &schedule) {
    Problem p = problem;
    p.groups = products;
    p.in_channels = products * reduction_channels(problem);
    p.out_channels = products * columns(problem);
    p.x_layout = p.y_layout = Layout::nxc;
    p.bias = p.residual = false;
    p.activation = Activation::none;
    const std::vector<AxisMap> axes = axis_maps(problem);
    for (int axis = 0; axis < p.rank; axis++) {
        const size_t a = p.rank - 1 - axis;
        p.in[axis] = a == 0 ? blocks(axes[0], schedule) * schedule.pixels : axes[a].phase_extent;
        p.out[axis] = p.in[axis] * axes[a].phases;
        p.stride[axis] = axes[a].phases;
    }
    Problem result = canonicalize(p);
    result.stride = p.stride;  // phases of single inputs too, whose strides are written as 1
    return result;
}

Func strassen_weights(const Problem &problem, const Func &w) {
    const std::vector<Var> at = vars("i", static_cast<size_t>(w.dimensions()));
    const std::string_view order = problem.traits().weight_layout;
    const size_t in = order.find('I'), out = order.find('O');
    const Expr product = at[0] / (in == 0 ? reduction_channels(problem) : columns(problem));
    std::vector<Expr> sums;
    for (const Signs &signs : of_w) {
        sums.push_back(signed_sum(
            4, [&](int quarter) { return signs[quarter]; },
            [&](int quarter) {
                std::vector<Expr> from(at.begin(), at.end());
                from[in] = from[in] % reduction_channels(problem) + quarter / 2 * reduction_channels(problem);
                from[out] = from[out] % columns(problem) + quarter % 2 * columns(problem);
                return w(from);
            }));
    }
    Func result("weight_sums");
    result(at) = Halide::mux(product, sums);
    return result;
}

StrassenStages strassen(const Problem &problem, const StrassenSchedule &schedule, const Operands &operands,
                        const TargetModel &target) {
    StrassenStages s;
    s.products.axes = axis_maps(problem);
    s.products.q = vars("q", s.products.axes.size());
    define_sums(s, problem, schedule, operands.x);
    const std::vector<AxisMap> axes = s.products.axes;
    const Problem of_products = strassen_products(problem, schedule);
    s.products =
        direct(of_products, schedule.direct(),
               {.sizes = Sizes(of_products), .x = sums_as_x(s, problem, schedule), .packed = operands.packed}, target);
    s.products.axes = axes;

    std::vector<Var> at = {s.products.c, s.i};
    std::vector<Expr> sum_at = {s.i * columns(problem) + s.products.c};
    for (size_t a = 0; a < axes.size(); a++) {
        at.push_back(s.products.q[a]);
        sum_at.insert(sum_at.end(), {s.products.q[a], 0});
        if (axes[a].phases > 1) {
            at.push_back(s.products.phase[a]);
            sum_at.back() = s.products.phase[a];
        }
    }
    at.push_back(s.products.n);
    sum_at.push_back(s.products.n);
    s.products.product = Func("products");
    s.products.product(at) = s.products.acc(sum_at);
    define_loops(s, problem, schedule);
    define_output(s, problem, schedule, operands);
    return s;
}

}  // namespace kiln
