// The schedule of the products by a GPU's matrix instructions.
#include "algorithms/mma/mma.h"
#include "expressions/vars.h"
#include "moves/gpu_schedule.h"

namespace kiln::mma {
namespace {

using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// Loops of a block, and threads (t, g) of its warps.
struct Loops {
    Var block{"block"}, panel{"panel"}, t{"t"}, g{"g"}, warp{"warp"};
};

// A block's elements of y are shared by all of its threads, neighbours by neighbours.
void schedule_output(Stages &s, const Problem &problem, const MmaSchedule &schedule, Loops &loops) {
    Func &y = s.y;
    y.bound(s.c, 0, static_cast<int>(problem.out_channels)).bound(s.n, 0, static_cast<int>(problem.batch));
    const Var vector("vector"), column("column"), row("row"), all("all"), rest("rest"), thread("thread");
    const TailStrategy guard = TailStrategy::GuardWithIf;
    y.split(s.c, loops.panel, s.c, schedule.panel() * schedule.warps_c, TailStrategy::RoundUp);
    y.split(s.c, vector, s.c, channels_together(problem, schedule), TailStrategy::RoundUp);
    y.split(s.q[0], s.q[0], column, 8 * schedule.width() * schedule.warps_x, guard);
    std::vector<Var> inside = {vector, column}, blocks = {s.q[0]};
    if (problem.y_layout == Layout::ncx) {
        std::swap(inside[0], inside[1]);
    }
    if (s.axes.size() > 1) {
        y.split(s.q[1], s.q[1], row, schedule.rows, guard);
        inside.push_back(row);
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        y.bound(s.q[a], 0, s.axes[a].phase_extent);
        if (a > 0) {
            blocks.push_back(s.q[a]);
        }
        if (s.axes[a].phases > 1) {
            y.bound(s.phase[a], 0, s.axes[a].phases);
            blocks.push_back(s.phase[a]);
        }
    }
    blocks.push_back(s.n);
    std::vector<VarOrRVar> order = {s.c};
    order.insert(order.end(), inside.begin(), inside.end());
    order.insert(order.end(), blocks.begin(), blocks.end());
    order.emplace_back(loops.panel);
    y.reorder(order);
    const Var elements = fuse_all(Halide::Stage(y), inside, "elements");
    y.split(elements, rest, thread, schedule.threads(), guard).reorder(rest, thread);
    y.split(thread, thread, loops.t, 4).split(thread, loops.warp, loops.g, 8);
    y.vectorize(s.c).gpu_threads(loops.t, loops.g, loops.warp);
    loops.block = fuse_all(Halide::Stage(y), blocks, "blocks");
    y.gpu_blocks(loops.block, loops.panel);
    keep_loops_whole(y);
}

// What each thread summed. Halide's own bounds would be less where positions are beyond y, whose sums all threads of a
// warp have a part in.
void schedule_shared(Stages &s, const Problem &problem, const MmaSchedule &schedule, const Loops &loops) {
    Func &f = s.shared;
    f.compute_at(s.y, loops.block).store_in(Halide::MemoryType::GPUShared);
    const int together = channels_together(problem, schedule);
    f.bound(s.lane, 0, together).bound(s.vector, 0, 2 * schedule.channels / together);
    f.bound(s.column, 0, schedule.width()).bound(s.row, 0, schedule.rows);
    f.bound_extent(s.along_c, 4 * schedule.warps_c).bound_extent(s.along_x, 8 * schedule.warps_x);
    std::vector<VarOrRVar> order = {s.lane, s.vector, s.column, s.row};
    const std::vector<Var> outer = s.outer();
    for (const Var &one : outer) {
        f.bound_extent(one, 1);
    }
    const std::vector<int> slices = slices_of_turns(problem, schedule);
    for (size_t loop = 0; loop < slices.size(); loop++) {
        f.bound(s.slice[loop], 0, slices[loop]);
    }
    f.split(s.along_c, s.along_c, loops.t, 4).split(s.along_x, s.along_x, loops.g, 8);
    order.insert(order.end(), outer.begin(), outer.end());
    std::vector<Var> warps = {s.along_c, s.along_x};
    append(warps, s.slice);
    order.insert(order.end(), {loops.t, loops.g});
    order.insert(order.end(), warps.begin(), warps.end());
    f.reorder(order);
    // Threads lie innermost, so that those of a warp store to different banks.
    std::vector<Var> stored = {s.lane, s.along_c, s.along_x, s.vector, s.column, s.row};
    if (problem.y_layout == Layout::ncx) {
        std::swap(stored[1], stored[2]);  // as its elements are read
    }
    append(stored, outer);
    append(stored, s.slice);
    f.reorder_storage(stored);
    f.vectorize(s.lane).unroll(s.vector).unroll(s.column).unroll(s.row);
    const Var warp = fuse_all(Halide::Stage(f), warps, "warp");
    f.gpu_threads(loops.t, loops.g, warp);
    keep_loops_whole(f);
}

void schedule_sums(Stages &s, const MmaSchedule &schedule, const Loops &loops) {
    s.sums.compute_at(s.shared, loops.t).store_in(Halide::MemoryType::Register);
    s.sums.bound(s.channel, 0, 2 * schedule.channels).bound(s.column, 0, schedule.width());
    s.sums.bound(s.row, 0, schedule.rows).unroll(s.channel).unroll(s.column).unroll(s.row);
    s.acc.compute_at(s.shared, loops.t).store_in(Halide::MemoryType::Register);
    std::vector<Func> funcs = {s.acc};
    if (s.turn) {
        s.turn->compute_at(s.acc, s.turns[0]).store_in(Halide::MemoryType::Register);
        funcs.push_back(*s.turn);
    }
    const std::vector<VarOrRVar> tiles = {s.tile_c, s.tile_x, s.tile_y};
    for (Func &f : funcs) {
        f.bound(s.tile_c, 0, schedule.channels).bound(s.tile_x, 0, schedule.columns).bound(s.tile_y, 0, schedule.rows);
        f.unroll(s.tile_c).unroll(s.tile_x).unroll(s.tile_y);
        f.update().unroll(s.tile_c).unroll(s.tile_x).unroll(s.tile_y);
    }
    funcs.back().update().unroll(s.of_turn[0]).unroll(s.of_turn[1]);
    std::vector<VarOrRVar> order = tiles;
    if (s.turn) {
        s.turn->update().reorder({s.tile_c, s.tile_x, s.tile_y, s.of_turn[0], s.of_turn[1]});
    } else {
        order.insert(order.end(), s.of_turn.begin(), s.of_turn.end());
    }
    order.insert(order.end(), s.turns.begin(), s.turns.end());
    s.acc.update().reorder(order);
    funcs.insert(funcs.end(), {s.sums, s.pixels, s.weights});
    for (Func &f : funcs) {
        keep_loops_whole(f);
        f.bound_extent(s.along_c, 1).bound_extent(s.along_x, 1);
        for (const Var &one : f.name() == s.weights.name() ? s.phase : s.outer()) {
            f.bound_extent(one, 1);
        }
    }
    for (const Var &slice : s.slice) {
        s.acc.bound_extent(slice, 1);
        s.sums.bound_extent(slice, 1);
    }
}

// What a turn multiplies.
void schedule_operands(Stages &s, const Problem &problem, const MmaSchedule &schedule) {
    for (Func *f : {&s.pixels, &s.weights}) {
        f->compute_at(s.acc, s.turns[0]).store_in(Halide::MemoryType::Register);
        f->bound_extent(s.step, schedule.unroll).vectorize(s.word).unroll(s.step);
    }
    s.pixels.bound(s.word, 0, 4);
    s.weights.bound(s.word, 0, weight_words(problem));
    s.pixels.bound(s.half, 0, 2).bound(s.tile_x, 0, schedule.columns).bound(s.tile_y, 0, schedule.rows);
    s.pixels.unroll(s.half).unroll(s.tile_x).unroll(s.tile_y);
    s.weights.bound(s.tile_c, 0, schedule.channels).unroll(s.tile_c);
}

// A block copies a tile of channels by points through its shared memory: it loads neighbouring points, and stores
// neighbouring channels.
void schedule_image(const Stages &s, const Problem &problem) {
    constexpr int side = 32, threads = 128;
    const int together = 16 / static_cast<int>(size_of(problem.x_type));
    Func image = *s.image, tile = *s.tile;
    const Var point = image.args()[1], vector("vector"), panel("panel"), inside("inside"), thread("thread"),
              rest("rest");
    image.bound(s.c, 0, static_cast<int>(problem.in_channels)).bound(s.n, 0, static_cast<int>(problem.batch));
    image.bound(point, 0, static_cast<int>(problem.in_points())).compute_root();
    image.split(s.c, vector, s.c, together, TailStrategy::RoundUp);
    image.split(vector, panel, vector, side / together, TailStrategy::GuardWithIf);
    image.split(point, point, inside, side, TailStrategy::GuardWithIf);
    image.reorder(s.c, vector, inside, panel, point, s.n).vectorize(s.c);
    const Var elements = fuse_all(Halide::Stage(image), {vector, inside}, "elements");
    image.split(elements, rest, thread, threads, TailStrategy::RoundUp).reorder(s.c, rest, thread).gpu_threads(thread);
    const Var block = fuse_all(Halide::Stage(image), {panel, point, s.n}, "blocks");
    image.gpu_blocks(block);
    keep_loops_whole(image);

    const Var tile_point = tile.args()[1];
    tile.compute_at(image, block).store_in(Halide::MemoryType::GPUShared);
    tile.bound_extent(s.c, side).bound_extent(tile_point, side).bound_extent(s.n, 1);
    tile.reorder_storage(tile_point, s.c, s.n)
        .align_storage(tile_point, side + 2);  // so that columns lie in other banks
    tile.reorder(tile_point, s.c, s.n);
    const Var all = fuse_all(Halide::Stage(tile), {tile_point, s.c, s.n}, "all");
    tile.split(all, rest, thread, threads, TailStrategy::RoundUp)
        .unroll(rest)
        .reorder(rest, thread)
        .gpu_threads(thread);
    keep_loops_whole(tile);
}

}  // namespace

void schedule_gpu(Stages &s, const Problem &problem, const MmaSchedule &schedule) {
    Loops loops;
    if (s.image) {
        schedule_image(s, problem);
    }
    schedule_output(s, problem, schedule, loops);
    schedule_shared(s, problem, schedule, loops);
    schedule_sums(s, schedule, loops);
    schedule_operands(s, problem, schedule);
}

}  // namespace kiln::mma
