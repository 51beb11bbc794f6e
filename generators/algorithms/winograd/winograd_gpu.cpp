// The Winograd algorithm's stages and schedule for GPUs.
#include "algorithms/winograd/winograd_gpu.h"

#include <algorithm>
#include <stdexcept>

#include "algorithms/winograd/transforms/cook_toom.h"
#include "algorithms/winograd/transforms/transform.h"
#include "expressions/arithmetic.h"
#include "expressions/epilogue.h"
#include "expressions/vars.h"
#include "moves/gpu_schedule.h"
#include "moves/tile_sum.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// `f` with its argument number `at`, over which a matrix is applied, replaced by the matrix' rows, named `row`.
Func transform(const std::string &name, const Func &f, size_t at, const RationalMatrix &matrix, const Var &row) {
    std::vector<Var> args = f.args();
    std::vector<Expr> from(args.begin(), args.end()), rows, terms;
    for (size_t k = 0; k < matrix[0].size(); k++) {
        from[at] = static_cast<int>(k);
        terms.push_back(f(from));
    }
    for (const std::vector<Rational> &line : matrix) {
        rows.push_back(combination(values(line), terms));
    }
    args[at] = row;
    Func result(name);
    result(args) = rows.size() == 1 ? rows[0] : Halide::mux(row, rows);
    return result;
}

struct Stages {
    WinogradShape shape;
    std::vector<CookToom> f;
    std::vector<int> tiles;  // on each axis
    int all_tiles = 1;       // of the batch
    Var c{"c"}, k{"k"}, tile{"tile"}, n{"n"};
    std::vector<Var> i, j, z, e, p, q;  // input or output of a tile, point, phase offset, input phase, phase, output
    Halide::RDom r;                     // input channel, input phases
    std::vector<Func> inputs;           // of a tile, then transformed on each axis; the last is of all tiles
    Func acc, product;
    std::vector<Func> outputs;  // transformed on each axis
    Func y;
};

// The tile on each axis, and last the image, of tile number `tile`.
std::vector<Expr> position_of(const Stages &s, Expr tile) {
    std::vector<Expr> at;
    for (const int count : s.tiles) {
        at.push_back(tile % count);
        tile = tile / count;
    }
    at.push_back(tile);
    return at;
}

void define_inputs(Stages &s, const Func &x) {
    const size_t rank = s.f.size();
    Halide::Region bounds(1);
    const std::vector<Expr> at = position_of(s, s.tile);
    std::vector<Expr> from = {s.k};
    for (size_t a = 0; a < rank; a++) {
        const WinogradAxis &axis = s.shape.axes[a];
        from.push_back((at[a] * axis.outputs + s.i[a]) * axis.stride + axis.origin(0, s.e[a], s.z[a]));
        bounds.emplace_back(0, axis.in);
    }
    from.push_back(at[rank]);
    bounds.emplace_back();
    std::vector<Var> args = {s.k, s.tile};
    append(args, s.i);
    append(args, s.z);
    append(args, s.e);
    std::vector<Var> of_x = {s.k};
    append(of_x, vars("x", rank));
    of_x.push_back(s.n);
    Func wide("wide"), taken("taken");
    wide(of_x) = Halide::cast<float>(x(std::vector<Expr>(of_x.begin(), of_x.end())));
    taken(args) = Halide::BoundaryConditions::constant_exterior(wide, 0.0f, bounds)(from);
    s.inputs = {taken};
    for (size_t a = 0; a < rank; a++) {
        s.inputs.push_back(transform("transformed" + std::to_string(a), s.inputs.back(), 2 + a, s.f[a].b_t, s.j[a]));
    }
}

void define_products(Stages &s, const Func &packed) {
    const size_t rank = s.f.size();
    Halide::Region domain = {{0, s.shape.depth}};
    for (const WinogradAxis &axis : s.shape.axes) {
        domain.emplace_back(0, axis.input_phases);
    }
    s.r = Halide::RDom(domain, "r");
    std::vector<Expr> weight = {s.c % s.shape.panel, s.r[0]}, input = {s.r[0], s.tile};
    std::vector<Expr> input_phases, phase_offsets;
    for (size_t a = 0; a < rank; a++) {
        input_phases.emplace_back(s.r[static_cast<int>(a) + 1]);
        phase_offsets.push_back(s.shape.axes[a].phases == 1 ? Expr(0) : s.shape.axes[a].phase_offset(s.p[a]));
    }
    append(weight, input_phases);
    weight.push_back(s.c / s.shape.panel);
    append(weight, s.j);
    append(weight, s.p);
    append(input, s.j);
    append(input, phase_offsets);
    append(input, input_phases);
    std::vector<Var> args = {s.c, s.tile};
    append(args, s.j);
    append(args, s.p);
    const std::vector<Expr> same(args.begin(), args.end());
    s.acc = Func("acc");
    s.acc(args) = 0.0f;
    s.acc(args) += packed(weight) * s.inputs.back()(input);
    s.product = Func("product");
    s.product(args) = s.acc(same);
}

void define_y(Stages &s, const Problem &problem, const Operands &operands) {
    const size_t rank = s.f.size();
    Func last = s.product;
    for (size_t a = 0; a < rank; a++) {
        last = transform("output" + std::to_string(a), last, 2 + a, s.f[a].a_t, s.i[a]);
        s.outputs.push_back(last);
    }
    std::vector<Var> args = {s.c};
    std::vector<Expr> of_tile, phases;
    Expr tile = s.n;
    for (size_t a = rank; a-- > 0;) {
        tile = tile * s.tiles[a] + s.q[a] / s.shape.axes[a].outputs;
    }
    for (size_t a = 0; a < rank; a++) {
        args.push_back(s.q[a]);
        const bool several = s.shape.axes[a].phases > 1;
        if (several) {
            args.push_back(s.p[a]);
        }
        of_tile.push_back(s.q[a] % s.shape.axes[a].outputs);
        phases.push_back(several ? Expr(s.p[a]) : Expr(0));
    }
    args.push_back(s.n);
    std::vector<Expr> from = {s.c, tile};
    append(from, of_tile);
    append(from, phases);
    const std::vector<Expr> at(args.begin(), args.end());
    s.y = Func("y");
    s.y(args) = epilogue(problem, last(from), operands, at);
}

// A tile's transform in a thread: all of its stages in registers.
void in_registers(std::vector<Func> &stages, const Func &user, const Var &thread) {
    for (Func &f : stages) {
        f.compute_at(user, thread).store_in(Halide::MemoryType::Register);
    }
}

void schedule_inputs(Stages &s) {
    Func &f = s.inputs.back();
    const Var block("block"), thread("thread");
    std::vector<VarOrRVar> order(s.j.begin(), s.j.end());
    std::vector<Var> others = {s.k, s.tile};
    append(others, s.z);
    append(others, s.e);
    append(order, others);
    f.compute_root().bound(s.k, 0, s.shape.depth).bound(s.tile, 0, s.all_tiles);
    for (size_t a = 0; a < s.f.size(); a++) {
        f.bound(s.j[a], 0, s.f[a].points)
            .bound(s.z[a], 0, s.shape.axes[a].phase_offsets)
            .bound(s.e[a], 0, s.shape.axes[a].input_phases);
    }
    f.reorder(order);
    for (const Var &point : s.j) {
        f.unroll(point);
    }
    const Var all = fuse_all(Halide::Stage(f), others, "all");
    f.gpu_tile(all, block, thread, 128, TailStrategy::GuardWithIf);
    std::vector<Func> rest(s.inputs.begin(), s.inputs.end() - 1);
    in_registers(rest, f, thread);
    for (size_t step = 0; step < rest.size(); step++) {
        for (size_t a = 0; a < s.f.size(); a++) {
            rest[step].unroll(a < step ? s.j[a] : s.i[a]);
        }
    }
}

void schedule_products(Stages &s, const Problem &problem, const WinogradGpuSchedule &schedule) {
    const Var vector("vector"), panel("panel"), tc("tc"), tt("tt"), bt("bt");
    Func &f = s.product;
    f.compute_root().bound(s.c, 0, static_cast<int>(problem.out_channels)).bound(s.tile, 0, s.all_tiles);
    std::vector<Var> blocks = {bt};
    for (size_t a = 0; a < s.f.size(); a++) {
        f.bound(s.j[a], 0, s.f[a].points).bound(s.p[a], 0, s.shape.axes[a].phases);
    }
    append(blocks, s.j);
    append(blocks, s.p);
    f.split(s.c, tc, s.c, schedule.channels, TailStrategy::RoundUp).split(s.c, vector, s.c, schedule.vector);
    f.split(tc, panel, tc, schedule.threads_c, TailStrategy::GuardWithIf);
    f.split(s.tile, tt, s.tile, schedule.tiles, TailStrategy::ShiftInwards);
    f.split(tt, bt, tt, schedule.threads_t, TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = {s.c, vector, s.tile, tc, tt};
    append(order, blocks);
    order.emplace_back(panel);
    f.reorder(order).vectorize(s.c).unroll(vector).unroll(s.tile).gpu_threads(tc, tt);
    const Var block = fuse_all(Halide::Stage(f), blocks, "blocks");
    f.gpu_blocks(block, panel);

    s.acc.compute_at(f, tc).store_in(Halide::MemoryType::Register);
    schedule_tile_sum(s.acc, {s.c, schedule.vector, {}, {s.tile}}, {loops_from(s.r, 0), schedule.unroll});
}

void schedule_y(Stages &s, const Problem &problem) {
    const Var block("block"), thread("thread");
    Func &f = s.y;
    f.bound(s.c, 0, static_cast<int>(problem.out_channels)).bound(s.n, 0, static_cast<int>(problem.batch));
    std::vector<VarOrRVar> order;
    std::vector<Var> others = {s.c};
    for (size_t a = 0; a < s.f.size(); a++) {
        const WinogradAxis &axis = s.shape.axes[a];
        const Var t("t" + std::to_string(a));
        f.bound(s.q[a], 0, axis.length);
        f.split(s.q[a], t, s.q[a], axis.outputs, TailStrategy::GuardWithIf);
        order.emplace_back(s.q[a]);
        others.push_back(t);
        if (axis.phases > 1) {
            f.bound(s.p[a], 0, axis.phases);
            others.push_back(s.p[a]);
        }
    }
    others.push_back(s.n);
    append(order, others);
    f.reorder(order);
    for (size_t a = 0; a < s.f.size(); a++) {
        f.unroll(s.q[a]);
    }
    const Var all = fuse_all(Halide::Stage(f), others, "all");
    f.gpu_tile(all, block, thread, 64, TailStrategy::GuardWithIf);
    in_registers(s.outputs, f, thread);
    for (size_t step = 0; step < s.outputs.size(); step++) {
        for (size_t a = 0; a < s.f.size(); a++) {
            Func &g = s.outputs[step];
            g.bound_extent(s.tile, 1);
            const bool done = a <= step;
            g.bound_extent(done ? s.i[a] : s.j[a], done ? s.f[a].outputs : s.f[a].points);
            g.unroll(done ? s.i[a] : s.j[a]);
        }
    }
}

}  // namespace

void WinogradGpuSchedule::list(ScheduleText &text) {
    text.number("channels", channels, 1, 64);
    text.number("tiles", tiles, 1, 64);
    text.number("vector", vector, 1, 64);
    text.number("threads_c", threads_c, 1, 1024);
    text.number("threads_t", threads_t, 1, 1024);
    text.number("unroll", unroll, 1, 64);
    text.number("tile_x", tile[0], 1, max_cook_toom_points);
    text.number("tile_y", tile[1], 1, max_cook_toom_points);
}

WinogradSchedule WinogradGpuSchedule::stages() const {
    WinogradSchedule result;
    result.lanes = channels * threads_c;
    result.tile = {tile[0], tile[1], 1};
    return result;
}

namespace {

int64_t tiles_of(const Problem &problem, const std::vector<int> &tile) {
    const std::vector<WinogradAxis> axes = winograd_axes(problem);
    int64_t count = problem.batch;
    for (size_t a = 0; a < axes.size(); a++) {
        count *= ceil_div(axes[a].length, tile[a]);
    }
    return count;
}

}  // namespace

void WinogradGpuSchedule::check(const Problem &problem) const {
    stages().check(problem);
    if (problem.out_channels % channels != 0 || channels % vector != 0 || threads_c * threads_t > 1024 ||
        tiles > tiles_of(problem, tile)) {
        throw std::invalid_argument("schedule: " + std::to_string(channels) + " channels a thread, " +
                                    std::to_string(vector) + " at once, by " + std::to_string(tiles) + " tiles, of " +
                                    std::to_string(problem.out_channels) + " by " +
                                    std::to_string(tiles_of(problem, tile)) + "; " +
                                    std::to_string(threads_c * threads_t) + " threads a block");
    }
}

bool winograd_gpu_applies(const Problem &problem) {
    if (!winograd_applies(problem) || problem.is_quantized() || problem.groups != 1 || problem.rank > 2) {
        return false;
    }
    const WinogradShape shape = winograd_shape(problem, WinogradSchedule());
    bool plain = !shape.merges_phases && !shape.merges_input_phases;
    for (const WinogradAxis &axis : shape.axes) {
        plain = plain && axis.dilation_phases == 1 && axis.out % axis.phases == 0;
    }
    return plain;
}

WinogradGpuSchedule default_winograd_gpu_schedule(const Problem &problem, const TargetModel &target) {
    WinogradGpuSchedule s;
    const std::vector<WinogradAxis> axes = winograd_axes(problem);
    // Six points on an axis: 36 numbers of a tile fit a thread's registers.
    for (size_t a = 0; a < axes.size(); a++) {
        s.tile[a] = axes[a].taps == 1 ? 1 : std::clamp(7 - axes[a].taps, 1, axes[a].length);
    }
    while (winograd_amplification(axes, s.tile) > most_amplification) {
        *std::max_element(s.tile.begin(), s.tile.end()) -= 1;
    }
    s.channels = largest_divisor(problem.out_channels, 8);
    s.vector = vector_of(s.channels);
    s.tiles = static_cast<int>(std::min<int64_t>(tiles_of(problem, s.tile), target.gpu.registers / 2 / s.channels));
    s.threads_c = lanes_around(problem.out_channels / s.channels, 16);
    s.threads_t = lanes_around(ceil_div<int64_t>(tiles_of(problem, s.tile), s.tiles),
                               target.gpu.threads_per_block / 2 / s.threads_c);
    s.unroll = largest_divisor(problem.in_channels, 4);
    return s;
}

// Up to six points an axis, as by default: 36 numbers of a tile fit a thread's registers. So do its sums, beside one
// tile's channels and one channel's tiles.
ScheduleSpace winograd_gpu_space(const Problem &problem, const TargetModel &target) {
    const std::vector<WinogradAxis> axes = winograd_axes(problem);
    const int channels = static_cast<int>(problem.out_channels);
    ScheduleSpace space;
    space.choices = {{"channels", divisors_among(channels, {1, 2, 4, 8, 16})},
                     {"tiles", whole_range(1, 8)},
                     {"vector", divisors_among(channels, {1, 2, 4})},
                     {"threads_c", halves(lanes_around(channels, 64), 1)},
                     {"threads_t", halves(64, 1)},
                     {"unroll", divisors_among(static_cast<int>(problem.in_channels), {1, 2, 4, 8})}};
    const char *names[] = {"tile_x", "tile_y"};
    for (size_t a = 0; a < axes.size(); a++) {
        const int most = axes[a].taps == 1 ? 1 : std::min(axes[a].length, std::max(7 - axes[a].taps, 1));
        space.choices.push_back({names[a], whole_range(1, most)});
    }
    space.constraint = [=, &target](const ScheduleNumbers &n) {
        const std::vector<int> tile = {n["tile_x"], n["tile_y"]};
        return winograd_amplification(axes, tile) <= most_amplification &&
               n["channels"] * n["tiles"] + n["channels"] + n["tiles"] <= target.gpu.registers &&
               n["threads_c"] * n["threads_t"] <= target.gpu.threads_per_block &&
               n["channels"] * n["threads_c"] < 2 * channels;  // else half a block has nothing to do
    };
    return space;
}

Func winograd_gpu(const Problem &problem, const WinogradGpuSchedule &schedule, const Operands &operands) {
    Stages s;
    s.shape = winograd_shape(problem, schedule.stages());
    const size_t rank = s.shape.axes.size();
    s.i = vars("i", rank), s.j = vars("j", rank), s.z = vars("z", rank), s.e = vars("e", rank);
    s.p = vars("p", rank), s.q = vars("q", rank);
    s.all_tiles = static_cast<int>(problem.batch);
    for (size_t a = 0; a < rank; a++) {
        const WinogradAxis &axis = s.shape.axes[a];
        s.f.push_back(cook_toom(axis.outputs, axis.taps, s.shape.filter_points(a)));
        s.tiles.push_back(ceil_div(axis.length, axis.outputs));
        s.all_tiles *= s.tiles.back();
    }
    define_inputs(s, operands.x);
    define_products(s, operands.packed);
    define_y(s, problem, operands);
    schedule_inputs(s);
    schedule_products(s, problem, schedule);
    schedule_y(s, problem);
    return s.y;
}

}  // namespace kiln
