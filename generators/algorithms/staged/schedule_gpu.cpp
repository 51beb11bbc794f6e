// The staged algorithm's schedule for GPUs: what its numbers mean, and what tuning may make of them.
#include <algorithm>
#include <stdexcept>

#include "algorithms/staged/staged.h"
#include "algorithms/staged/words.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "kiln/kernel.h"
#include "moves/gpu_schedule.h"

namespace kiln::staged {
namespace {

using Halide::Func;
using Halide::MemoryType;
using Halide::Stage;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// Positions of the input that a block reads on an axis.
int input_extent(const std::vector<AxisMap> &axes, const Schedule &schedule, size_t a) {
    return axes[a].extent_of(schedule.positions(a));
}

// The loops over the elements of a tile and over threads, of a stage with y's dimensions.
struct TileLoops {
    Var vector{"vector"}, pixel{"pixel"}, thread{"thread"};
};

// The vectors of channels and the positions of a block, dealt out to threads: neighbouring threads have neighbours, so
// that what they read of shared memory lies in different banks, and what they write side by side.
TileLoops split_tile(Stage stage, const Schedule &schedule, bool nxc, const Var &of_vectors, const Var &of_x,
                     const std::optional<Var> &of_y, TailStrategy tail) {
    TileLoops loops;
    const Var tc("tc"), tx("tx"), threads("threads");
    stage.split(of_vectors, loops.vector, tc, schedule.threads_c, tail);
    stage.split(of_x, loops.pixel, tx, schedule.threads_x, tail);
    stage.fuse(nxc ? tc : tx, nxc ? tx : tc, of_y ? threads : loops.thread);
    if (of_y) {
        stage.fuse(threads, *of_y, loops.thread);
    }
    return loops;
}

// The product's blocks: returns the innermost loop over them.
Var schedule_product(Stages &s, const Problem &problem, const Schedule &schedule, Func &f, bool nxc) {
    const Var panel("panel"), vectors("vectors"), in_panel("in_panel"), bx("bx"), in_x("in_x"), by("by"), in_y("in_y");
    f.bound(s.c, 0, static_cast<int>(problem.out_channels)).bound(s.n, 0, static_cast<int>(problem.batch));
    std::vector<Var> blocks = {bx};
    // Whole vectors, so that what guards them is the same for all lanes.
    f.split(s.c, vectors, s.c, schedule.vector, TailStrategy::RoundUp);
    f.split(vectors, panel, in_panel, schedule.panel() / schedule.vector, TailStrategy::GuardWithIf);
    f.split(s.q[0], bx, in_x, schedule.positions(0), TailStrategy::GuardWithIf);
    std::optional<Var> of_y;
    if (s.axes.size() > 1) {
        f.split(s.q[1], by, in_y, schedule.positions(1), TailStrategy::GuardWithIf);
        blocks.push_back(by);
        of_y = in_y;
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        f.bound(s.q[a], 0, s.axes[a].phase_extent);
        if (a > 1) {
            blocks.push_back(s.q[a]);
        }
        if (s.axes[a].phases > 1 || s.of_slice) {
            f.bound(s.phase[a], 0, s.axes[a].phases);
            blocks.push_back(s.phase[a]);
        }
    }
    blocks.push_back(s.n);
    if (s.of_slice) {
        f.bound(s.slice, 0, schedule.slices);
        blocks.push_back(s.slice);
    }
    const TileLoops loops = split_tile(Stage(f), schedule, nxc, in_panel, in_x, of_y, TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = {s.c, loops.vector, loops.pixel, loops.thread};
    append(order, blocks);
    order.emplace_back(panel);
    f.reorder(order).unroll(loops.vector).unroll(loops.pixel).gpu_threads(loops.thread);
    store_channels(f, s.c, nxc);
    const Var block = fuse_all(Stage(f), blocks, "blocks");
    f.gpu_blocks(block, panel);
    return block;
}

void schedule_sums(Stages &s, const Schedule &schedule, const Func &product, const Var &block, bool nxc) {
    // Registers of all threads together: each keeps those that it alone accesses (lowering/gpu/thread_registers.h).
    s.acc.compute_at(product, block).store_in(MemoryType::Register);
    s.acc.bound_extent(s.c, schedule.panel()).bound_extent(s.n, 1).bound_extent(s.slice, 1);
    std::vector<VarOrRVar> others;
    for (size_t a = 0; a < s.axes.size(); a++) {
        s.acc.bound_extent(s.q[a], schedule.positions(a));
        s.acc.bound_extent(s.phase[a], 1);
        if (a > 1) {
            others.emplace_back(s.q[a]);
        }
        others.emplace_back(s.phase[a]);
    }
    others.insert(others.end(), {s.n, s.slice});
    const std::optional<Var> of_y = s.axes.size() > 1 ? std::optional(s.q[1]) : std::nullopt;
    for (const bool is_update : {false, true}) {
        Stage stage = is_update ? s.acc.update() : Stage(s.acc);
        const Var vectors("vectors");
        stage.split(s.c, vectors, s.c, schedule.vector, TailStrategy::RoundUp);
        const TileLoops loops = split_tile(stage, schedule, nxc, vectors, s.q[0], of_y, TailStrategy::RoundUp);
        std::vector<VarOrRVar> order = {s.c, loops.vector, loops.pixel};
        if (is_update) {
            order.emplace_back(s.r[0]);
            for (int a = 2; a < s.r.dimensions(); a++) {
                order.emplace_back(s.r[a]);
            }
        }
        order.emplace_back(loops.thread);
        append(order, others);
        if (is_update) {
            order.emplace_back(s.r[1]);
        }
        stage.reorder(order).vectorize(s.c).unroll(loops.vector).unroll(loops.pixel).gpu_threads(loops.thread);
        if (is_update) {
            stage.unroll(s.r[0], schedule.unroll);
        }
    }
    keep_loops_whole(s.acc);
}

// A copy to shared memory by all threads of a block. `loops` over `count` elements, the innermost first in memory, are
// taken together, in vectors of the first where that is `vectors`. Several elements are on their way at a time: what a
// thread waits for is the first of them.
void copy_by_threads(Func &f, const std::optional<Var> &vectors, const std::vector<Var> &loops, int64_t count,
                     const std::vector<Var> &others, int threads) {
    const Var rest("rest"), thread("thread"), turn("turn");
    std::vector<VarOrRVar> order;
    if (vectors) {
        order.emplace_back(*vectors);
    }
    std::vector<VarOrRVar> split = order;
    append(order, loops);
    append(order, others);
    f.reorder(order);
    const Var all = fuse_all(Stage(f), loops, "all");
    f.split(all, rest, thread, threads, TailStrategy::GuardWithIf);
    const int turns = static_cast<int>(ceil_div<int64_t>(count, threads));
    if (turns > copies_together) {
        f.split(rest, turn, rest, copies_together, TailStrategy::GuardWithIf);
        split.insert(split.end(), {rest, turn, thread});
    } else {
        split.insert(split.end(), {rest, thread});
    }
    append(split, others);
    f.reorder(split).unroll(rest).gpu_threads(thread);
    keep_loops_whole(f);
}

// (lane, input channel, taps, panel, phases), whose first three are side by side in memory.
void schedule_weights(Stages &s, const Schedule &schedule) {
    Func &w = s.weights;
    const std::vector<Var> at = w.args();
    const Var vectors("vectors");
    const int vector = vector_of(schedule.panel());
    w.compute_at(s.acc, s.r[1]).store_in(MemoryType::GPUShared);
    w.bound_extent(at[0], schedule.panel()).bound_extent(at[1], schedule.chunk);
    w.split(at[0], vectors, at[0], vector).vectorize(at[0]);
    std::vector<Var> loops = {vectors, at[1]}, others;
    int64_t count = int64_t{schedule.panel()} / vector * schedule.chunk;
    for (size_t a = 0; a < s.axes.size(); a++) {
        w.bound_extent(at[2 + a], s.axes[a].taps);
        loops.push_back(at[2 + a]);
        count *= s.axes[a].taps;
    }
    for (size_t d = s.axes.size() + 2; d < at.size(); d++) {
        w.bound_extent(at[d], 1);
        others.push_back(at[d]);
    }
    copy_by_threads(w, at[0], loops, count, others, schedule.threads());
}

// (of a vector, axes, vector, n). Positions lie innermost in shared memory, but for a vector's numbers: what a thread's
// neighbours read, others read too or lies in another bank.
void schedule_input(Stages &s, const Problem &problem, const Schedule &schedule) {
    Func &x = s.input;
    const std::vector<Var> at = x.args();
    const Var in_vector = at[0], vectors = at[s.axes.size() + 1];
    const bool nxc = problem.x_layout == Layout::nxc, by_vectors = nxc && schedule.x_vector > 1;
    x.compute_at(s.acc, s.r[1]).store_in(MemoryType::GPUShared);
    x.bound(in_vector, 0, schedule.x_vector).bound_extent(vectors, schedule.chunk / schedule.x_vector);
    x.bound_extent(at.back(), 1);
    std::vector<Var> read;
    int64_t count = by_vectors ? schedule.chunk / schedule.x_vector : schedule.chunk;
    for (size_t a = 0; a < s.axes.size(); a++) {
        const int extent = input_extent(s.axes, schedule, a);
        x.bound_extent(at[a + 1], extent);
        read.push_back(at[a + 1]);
        count *= extent;
    }
    std::vector<Var> channels = {vectors};
    if (by_vectors) {
        x.vectorize(in_vector);
    } else {
        channels.insert(channels.begin(), in_vector);
    }
    read.insert(nxc ? read.begin() : read.end(), channels.begin(), channels.end());
    copy_by_threads(x, by_vectors ? std::optional(in_vector) : std::nullopt, read, count, {at.back()},
                    schedule.threads());
}

// The slices' sums, and y of them, whose threads have neighbours in memory.
void schedule_slices(Stages &s, bool nxc) {
    std::vector<Var> stored, order;
    for (size_t a = 0; a < s.axes.size(); a++) {
        stored.insert(stored.end(), {s.q[a], s.phase[a]});
        if (s.axes[a].phases > 1) {
            order.push_back(s.phase[a]);
        }
        order.push_back(s.q[a]);
    }
    stored.insert(nxc ? stored.begin() : stored.end(), s.c);
    stored.insert(stored.end(), {s.n, s.slice});
    order.insert(nxc ? order.begin() : order.end(), s.c);
    order.push_back(s.n);
    s.of_slice->reorder_storage(stored);
    schedule_elements_gpu(s.y, order);
}

}  // namespace

void schedule_gpu(Stages &s, const Problem &problem, const Schedule &schedule) {
    const bool nxc = problem.y_layout == Layout::nxc;
    Func &product = s.of_slice ? *s.of_slice : s.y;
    const Var block = schedule_product(s, problem, schedule, product, nxc);
    schedule_sums(s, schedule, product, block, nxc);
    schedule_weights(s, schedule);
    schedule_input(s, problem, schedule);
    if (s.of_slice) {
        product.compute_root();
        if (problem.is_quantized()) {
            schedule_slices(s, nxc);
        } else {
            schedule_elements_gpu(s.y);  // float32's decisions were timed so
        }
    }
}

int64_t shared_bytes(const Problem &problem, const Schedule &schedule) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    int64_t input = schedule.chunk, weights = int64_t{schedule.chunk} * schedule.panel();
    for (size_t a = 0; a < axes.size(); a++) {
        input *= input_extent(axes, schedule, a);
        weights *= axes[a].taps;
    }
    return 4 * schedule.buffers * (input + weights);
}

ScheduleSpace space(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int channels = static_cast<int>(problem.out_channels);
    const int in = steps(problem);
    const int width = axes[0].phase_extent, height = axes.size() > 1 ? axes[1].phase_extent : 1;
    const bool copies_ahead = target.gpu.api == kiln_gpu_cuda && problem.x_type == DType::f32;
    return {{{"channels", divisors_among(channels, {1, 2, 4, 8, 16})},
             {"pixels", whole_range(1, std::min(width, 8))},
             {"vector", divisors_among(channels, {1, 2, 4})},
             {"threads_c", halves(lanes_around(channels, 64), 1)},
             {"threads_x", halves(lanes_around(width, 64), 1)},
             {"threads_y", halves(lanes_around(height, 16), 1)},
             {"chunk", chunks_of(in)},
             {"unroll", {1, 2, 4, 8}},
             {"slices", halves(lanes_around(in, 16), 1)},
             {"x_vector", divisors_among(in, {1, 2, 4})},
             {"buffers", copies_ahead ? std::vector<int>{1, 2, 3} : std::vector<int>{1}}},
            [=, &target](const ScheduleNumbers &n) {
                const auto s = parse_schedule<Schedule>(n.print());
                return s.channels * s.pixels + s.channels + s.pixels <= 2 * target.gpu.registers &&
                       s.threads() <= target.gpu.threads_per_block && s.threads() >= target.gpu.warp &&
                       s.channels % s.vector == 0 && s.chunk % s.unroll == 0 && s.unroll % s.x_vector == 0 &&
                       s.panel() < 2 * channels &&  // else half a block has nothing to do
                       s.chunk * s.slices <= in && s.buffers <= s.chunks(problem) &&
                       shared_bytes(problem, s) <= target.gpu.shared_bytes;
            }};
}

}  // namespace kiln::staged
