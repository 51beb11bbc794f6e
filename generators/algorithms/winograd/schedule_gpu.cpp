// The Winograd algorithm's schedule for GPUs.
#include "algorithms/winograd/schedule_gpu.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "algorithms/direct/schedule_gpu.h"
#include "algorithms/winograd/transforms/cook_toom.h"
#include "expressions/arithmetic.h"
#include "expressions/vars.h"
#include "moves/gpu_schedule.h"
#include "moves/tile_sum.h"

namespace kiln {
namespace {

using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// A tile's transform in a thread: all of its stages in registers.
void in_registers(Func &f, const Func &user, const Var &thread) {
    f.compute_at(user, thread).store_in(Halide::MemoryType::Register);
}

void unroll_all(Func &f, const std::vector<Var> &loops) {
    for (const Var &loop : loops) {
        f.unroll(loop);
    }
}

// A loop over what has several values.
void bound(const WinogradStages &s, Func &f, const Var &var, int count) {
    if (s.has(var)) {
        f.bound(var, 0, count);
    }
}

void schedule_inputs(WinogradStages &s) {
    Func &f = s.transformed;
    const Var block("block"), thread("thread");
    std::vector<VarOrRVar> order(s.j.begin(), s.j.end());
    std::vector<Var> others = {s.c, s.tile};
    append(others, s.several(s.z));
    append(others, s.several(s.e));
    append(order, others);
    f.compute_root().bound(s.c, 0, s.shape.reduction_channels).bound(s.tile, 0, s.shape.tiles(0));
    for (size_t a = 0; a < s.j.size(); a++) {
        f.bound(s.j[a], 0, s.shape.axes[a].points);
        bound(s, f, s.z[a], s.shape.axes[a].phase_offsets);
        bound(s, f, s.e[a], s.shape.axes[a].input_phases);
    }
    f.reorder(order);
    unroll_all(f, s.j);
    const Var all = fuse_all(Halide::Stage(f), others, "all");
    f.gpu_tile(all, block, thread, 128, TailStrategy::GuardWithIf);
    std::vector<Func> rest = {*s.taken};
    for (const WinogradStages::Step &step : s.inputs[0].steps) {
        rest.push_back(step.f);
    }
    rest.pop_back();  // the last is what is stored
    for (Func &step : rest) {
        in_registers(step, f, thread);
        unroll_all(step, s.j);
    }
}

// What a step of the sum reads of transformed tiles, whose channels lie side by side, by vectors.
void load_tiles(const WinogradStages &s, const WinogradGpuSchedule &schedule, const SumSteps &loops) {
    const WinogradStages::Product &product = s.products[0];
    const int lanes = vector_of(std::gcd(schedule.unroll, s.shape.reduction_channels));
    if (lanes == 1) {
        return;
    }
    const Var vector("vector");
    Func transformed = product.transformed, f = transformed.in(product.acc);
    f.compute_at(product.acc, loops.steps).store_in(Halide::MemoryType::Register);
    for (const Var &v : f.args()) {
        const bool is_tile = v.name() == s.tile.name(), is_channel = v.name() == s.c.name();
        f.bound_extent(v, is_channel ? schedule.unroll : is_tile ? schedule.tiles : 1);
    }
    f.split(s.c, vector, s.c, lanes).vectorize(s.c).unroll(vector).unroll(s.tile);
    keep_loops_whole(f);
}

void schedule_products(WinogradStages &s, const Problem &problem, const WinogradGpuSchedule &schedule) {
    const Var vector("vector"), panel("panel"), tc("tc"), tt("tt"), bt("bt");
    Func &f = s.products[0].product, &acc = s.products[0].acc;
    f.compute_root().bound(s.c, 0, static_cast<int>(problem.out_channels)).bound(s.tile, 0, s.shape.tiles(0));
    std::vector<Var> blocks = {bt};
    for (size_t a = 0; a < s.j.size(); a++) {
        f.bound(s.j[a], 0, s.shape.axes[a].points);
        bound(s, f, s.p[a], s.shape.axes[a].phases);
    }
    append(blocks, s.j);
    append(blocks, s.several(s.p));
    const SumLoops loops = {loops_from(s.products[0].r, 0), schedule.unroll};
    if (s.products[0].sliced) {
        blocks.erase(blocks.begin());
        schedule_sliced_sum(*s.products[0].sliced, {f, {s.c, s.tile}, blocks});
        load_tiles(s, schedule, schedule_tile_sum(acc, {s.c, schedule.vector, {}, {s.tile}}, loops));
        keep_loops_whole(acc);
        return;
    }
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

    acc.compute_at(f, tc).store_in(Halide::MemoryType::Register);
    load_tiles(s, schedule, schedule_tile_sum(acc, {s.c, schedule.vector, {}, {s.tile}}, loops));
    keep_loops_whole(f);
}

void schedule_outputs(WinogradStages &s, const Problem &problem) {
    const Var block("block"), thread("thread");
    Func &f = s.y;
    f.bound(s.c, 0, static_cast<int>(problem.out_channels)).bound(s.n, 0, static_cast<int>(problem.batch));
    std::vector<VarOrRVar> order;
    std::vector<Var> others = {s.c};
    for (size_t a = 0; a < s.q.size(); a++) {
        const WinogradAxis &axis = s.shape.axes[a];
        const Var t("t" + std::to_string(a));
        f.bound(s.q[a], 0, axis.length);
        f.split(s.q[a], t, s.q[a], axis.outputs, TailStrategy::GuardWithIf);
        order.emplace_back(s.q[a]);
        others.push_back(t);
        bound(s, f, s.p[a], axis.phases);
        append(others, s.several({s.p[a]}));
    }
    others.push_back(s.n);
    append(order, others);
    f.reorder(order);
    unroll_all(f, s.q);
    const Var all = fuse_all(Halide::Stage(f), others, "all");
    f.gpu_tile(all, block, thread, 64, TailStrategy::GuardWithIf);
    for (WinogradStages::Step &step : s.outputs[0].steps) {
        in_registers(step.f, f, thread);
        step.f.bound_extent(s.tile, 1);
        for (size_t a = 0; a < s.q.size(); a++) {
            const bool done = a >= step.axis;
            step.f.bound_extent(done ? s.i[a] : s.j[a], done ? s.shape.axes[a].outputs : s.shape.axes[a].points);
            step.f.unroll(done ? s.i[a] : s.j[a]);
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
    text.optional("slices", slices, 1);
}

WinogradSchedule WinogradGpuSchedule::stages() const {
    WinogradSchedule result;
    result.lanes = channels * threads_c;
    result.tile = {tile[0], tile[1], 1};
    result.clipped_tail = true;
    result.unroll = unroll;
    result.sliced = sliced();
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
    WinogradSchedule looped = stages();
    looped.clipped_tail = false;  // which of loops needs a y that is written in place
    looped.check(problem);
    if (problem.out_channels % channels != 0 || channels % vector != 0 || threads() > 1024 ||
        tiles > tiles_of(problem, tile)) {
        throw std::invalid_argument(
            "schedule: " + std::to_string(channels) + " channels a thread, " + std::to_string(vector) +
            " at once, by " + std::to_string(tiles) + " tiles, of " + std::to_string(problem.out_channels) + " by " +
            std::to_string(tiles_of(problem, tile)) + "; " + std::to_string(threads()) + " threads a block");
    }
    check_slices(slices, static_cast<int>(problem.in_channels), unroll, 1);
}

namespace {

Problem products_of(const Problem &problem, const std::vector<int> &tile) {
    Problem products;
    products.op = Operator::conv;
    products.rank = 1;
    products.x_type = products.w_type = products.y_type = DType::f32;  // transformed
    products.x_layout = products.y_layout = Layout::nxc;
    products.in_channels = problem.in_channels;
    products.out_channels = problem.out_channels;
    products.groups = 1;
    products.in[0] = products.out[0] = tiles_of(problem, tile);
    products.kernel[0] = products.stride[0] = products.dilation[0] = 1;
    products.batch = 1;
    const std::vector<WinogradAxis> axes = winograd_axes(problem);
    for (size_t a = 0; a < axes.size(); a++) {
        products.batch *= (tile[a] + axes[a].taps - 1) * axes[a].phases;
    }
    return products;
}

}  // namespace

bool winograd_gpu_applies(const Problem &problem) {
    if (!winograd_applies(problem) || problem.is_quantized() || problem.groups != 1 || problem.rank > 2) {
        return false;
    }
    const WinogradShape shape = winograd_shape(problem, WinogradSchedule());
    bool plain = !shape.merges_phases && !shape.merges_input_phases;
    for (const WinogradAxis &axis : shape.axes) {
        plain = plain && axis.taps < max_cook_toom_points && axis.dilation_phases == 1 && axis.out % axis.phases == 0;
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
    // Products are those of a pointwise convolution of all tiles, for each point and phase.
    const DirectGpuSchedule block = default_direct_gpu_schedule(products_of(problem, s.tile), target);
    s.channels = block.channels;
    s.tiles = block.pixels;
    s.vector = block.vector;
    s.threads_c = block.threads_c;
    s.threads_t = block.threads_x;
    s.unroll = block.unroll;
    s.slices = block.slices;
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
                     {"unroll", divisors_among(static_cast<int>(problem.in_channels), {1, 2, 4, 8})},
                     {"slices", halves(32, 1)}};
    const char *names[] = {"tile_x", "tile_y"};
    for (size_t a = 0; a < axes.size(); a++) {
        const int most = axes[a].taps == 1 ? 1 : std::min(axes[a].length, std::max(7 - axes[a].taps, 1));
        space.choices.push_back({names[a], whole_range(1, most)});
    }
    space.constraint = [=, &target](const ScheduleNumbers &n) {
        const std::vector<int> tile = {n["tile_x"], n["tile_y"]};
        const auto block = parse_schedule<WinogradGpuSchedule>(n.print());
        return winograd_amplification(axes, tile) <= most_amplification &&
               n["channels"] * n["tiles"] + n["channels"] + n["tiles"] <= target.gpu.registers &&
               block.threads() <= target.gpu.threads_per_block &&
               (block.slices == 1 || block.sliced().shared_bytes() <= target.gpu.shared_bytes) &&
               n["channels"] * n["threads_c"] < 2 * channels;  // else half a block has nothing to do
    };
    return space;
}

void schedule_winograd_gpu(WinogradStages &stages, const Problem &problem, const WinogradGpuSchedule &schedule) {
    schedule_inputs(stages);
    schedule_products(stages, problem, schedule);
    schedule_outputs(stages, problem);
}

}  // namespace kiln
