// Schedules of the dense algorithms for x86: which numbers to take where nobody tuned them, and what they mean.
#include <algorithm>

#include "common/arithmetic.h"
#include "common/reduction.h"
#include "common/share.h"
#include "common/split.h"
#include "common/turn.h"
#include "common/types.h"
#include "dense/direct.h"
#include "dense/open.h"
#include "dense/register_tile.h"
#include "dense/tiles.h"

namespace kiln::dense {
namespace {

using Halide::Func;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

int largest_divisor(int n, int most) {
    int divisor = std::min(n, most);
    while (n % divisor != 0) {
        divisor--;
    }
    return divisor;
}

// Of the outermost loop over the image.
int image_turns(const std::vector<AxisMap> &axes, const DirectSchedule &schedule) {
    return axes.size() == 1   ? ceil_div(axes[0].quotients, schedule.pixels)
           : axes.size() == 2 ? ceil_div(axes[1].quotients, schedule.rows)
                              : axes.back().quotients;
}

// So much of the image that what it reads of x stays in a cache while all panels sweep it; 0 where that is all of it.
// An even number of such parts, for two threads.
int default_chunk(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    const int64_t bytes = problem.x_elements() / problem.batch * halide_type(problem.x_type).bytes();
    const int parts = round_up(ceil_div(bytes, target.l2_bytes / 2), 2);
    const int turns = image_turns(axis_maps(problem), schedule), chunk = ceil_div(turns, parts);
    return bytes <= target.l2_bytes / 2 || chunk == turns ? 0 : chunk;
}

// The share of the peak that register tiles reach, those counted of which only a part is needed; 0 where registers do
// not suffice.
double share_of_peak(const std::vector<AxisMap> &axes, int64_t channels, const DirectSchedule &s,
                     const TargetModel &target) {
    const bool row_lanes = s.channels > 0;
    const int vectors = s.vectors * (row_lanes ? s.rows : 1);
    const int broadcasts = !row_lanes ? s.pixels * s.rows : s.joined > 0 ? s.channels : s.channels * axes[0].phases;
    if (registers_of_tile(vectors, broadcasts, target) > target.vector_registers) {
        return 0;
    }
    // Where x is read by vectors they mostly are of the second cache, and each line delays a step a little.
    const double step = static_cast<double>(vectors) * broadcasts / target.fma_per_cycle;
    const double lines = vectors * target.vector_bits / 512.0;
    const double waits = row_lanes ? step / (step + 0.1 * lines) : 1;
    return waits * tile_rate(vectors, broadcasts, target) *
           tile_fit(axes[0].quotients * std::max(s.joined, 1), s.width()) *
           tile_fit(axes.size() > 1 ? axes[1].quotients : 1, std::max(s.rows, s.joined)) *
           tile_fit(static_cast<int>(channels), s.panel());
}

// Cycles that an output takes of channels-first y, storing included.
double output_cycles(const Problem &problem, const std::vector<AxisMap> &axes, int64_t channels,
                     const DirectSchedule &s, const TargetModel &target) {
    const double products = static_cast<double>(problem.flops()) / 2 / problem.y_elements();
    // An element of a vector of channels is not stored with others (a tile of C4 has 448 of them): twice as slow where
    // its line is of a far cache. Joined rows are written twice.
    const bool far = problem.y_elements() * halide_type(problem.y_type).bytes() > target.l2_bytes / 2;
    const double stores = s.channels == 0 ? (far ? 2 : 1) : s.joined > 0 ? 0.3 : 0;
    return products / (s.lanes * target.fma_per_cycle) / share_of_peak(axes, channels, s, target) + stores;
}

// The best tile whose vectors are pixels.
DirectSchedule row_lanes_schedule(const Problem &problem, int64_t channels, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int depth = static_cast<int>(problem.in_channels / problem.groups);
    const int width = axes[0].quotients, height = axes.size() > 1 ? axes[1].quotients : 1;
    DirectSchedule best, s;
    s.unroll = largest_divisor(depth, 4);
    s.parallel = problem.flops() > 2e6;
    s.channels = best.channels = 1;
    double least = 0;
    const auto try_tiles = [&] {
        const int positions = width * std::max(s.joined, 1);
        s.lanes = lanes_within(positions, target.lanes(sum_type(problem).bits()));
        for (s.vectors = 1; s.width() <= positions && s.vectors <= 8; s.vectors++) {
            for (s.channels = 1; s.channels <= std::min<int64_t>(channels, 16); s.channels++) {
                const double cycles = output_cycles(problem, axes, channels, s, target);
                if ((problem.groups == 1 || channels % s.channels == 0) && (least == 0 || cycles < least)) {
                    least = cycles;
                    best = s;
                }
            }
        }
    };
    const int most_rows = axes.size() > 1 && !axes[1].reads_outside() ? std::min(height, 4) : 1;
    for (s.rows = 1; s.rows <= most_rows; s.rows++) {
        try_tiles();
    }
    // What a block of joined rows reads stays in a cache while all panels pass.
    s.rows = 1;
    const int64_t row_bytes = static_cast<int64_t>(width) * depth * halide_type(problem.x_type).bytes();
    const int most_joined = joins_rows(problem) ? std::min<int64_t>(height, target.l2_bytes / 2 / row_bytes) : 0;
    for (s.joined = 2; s.joined <= most_joined; s.joined++) {
        try_tiles();
    }
    return best;
}

}  // namespace

DirectSchedule default_direct_schedule(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int64_t out_of_group = problem.out_channels / problem.groups;
    const bool depthwise = problem.groups > 1 && out_of_group == 1;
    const int64_t channels = depthwise || problem.groups == 1 ? problem.out_channels : out_of_group;
    const int width = axes[0].quotients, height = axes.size() > 1 ? axes[1].quotients : 1;

    DirectSchedule best;
    best.lanes = lanes_around(channels, target.lanes(sum_type(problem).bits()));
    if (problem.groups > 1 && !depthwise) {  // a panel stays within its group, so that its input is one broadcast
        while (out_of_group % best.lanes != 0) {
            best.lanes /= 2;
        }
    }
    best.dot = dot_products(problem, target);
    // Channels-first x has each step's inputs in another page: longer loops hide what that takes (C4 is 6% faster with
    // AVX-512, 10% with AVX2), and elsewhere gain nothing.
    const bool steps_by_pages = problem.x_layout == Layout::ncx && problem.x_type == DType::f32 && !target.by_lane;
    const int depth = static_cast<int>(problem.in_channels / problem.groups);
    best.unroll = largest_divisor(ceil_div(depth, best.dot), steps_by_pages ? 8 : 4);
    // Halide does not see that a fourth vector's bytes lie side by side.
    const int most_vectors = best.dot == 4 ? 3 : 4;
    double best_share = 0;
    DirectSchedule s = best;
    for (s.vectors = 1; s.vectors <= most_vectors; s.vectors++) {
        if (problem.groups > 1 && !depthwise && out_of_group % s.panel() != 0) {
            continue;
        }
        for (s.rows = 1; s.rows <= std::min(height, 4); s.rows++) {
            for (s.pixels = 1; s.pixels <= std::min(width, 28); s.pixels++) {
                const double share = share_of_peak(axes, channels, s, target);
                if (share > best_share) {
                    best_share = share;
                    best = s;
                }
            }
        }
    }
    if (has_row_lanes(problem) && !target.by_lane) {
        const DirectSchedule rows = row_lanes_schedule(problem, channels, target);
        if (output_cycles(problem, axes, channels, rows, target) <
            output_cycles(problem, axes, channels, best, target)) {
            return rows;
        }
    }
    const int64_t weights = dot_types(problem, best.dot).w.bytes() * problem.w_elements();
    best.panels_outside = weights > target.l2_bytes / 2;
    best.chunk = best.panels_outside ? default_chunk(problem, best, target) : 0;
    best.parallel = problem.flops() > 2e6;
    return best;
}

double direct_cycles(const Problem &problem, const DirectSchedule &schedule, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const double share = share_of_peak(axes, problem.out_channels, schedule, target);
    // 16-bit products take an instruction for two and another to sum them.
    const int products = problem.is_quantized() && schedule.dot == 2 ? 1 : schedule.dot;
    const double pairs = tile_fit(static_cast<int>(problem.in_channels / problem.groups), schedule.dot);
    return problem.flops() / 2 / (products * schedule.lanes * target.fma_per_cycle * share * pairs);
}

namespace {

// The loops around a register tile, the innermost first, and the one that the caller's threads share.
struct Sweep {
    std::vector<VarOrRVar> loops;
    Var shared;
    bool in_chunks = false;  // whether the outermost loop over the image is divided, the outer part being `chunk`
    Var divided, chunk{"chunk"};
};

// How many of the `count` iterations of a loop around matrix tiles one task takes: some microseconds' worth, so that
// setting up the tile registers costs little, and eight tasks at the most, so that a panel stays in the first cache
// while it sweeps its part of the image; an even number of them, if it may be, so that of two threads none waits.
int chunk_of(const Problem &problem, int count) {
    constexpr int most = 8;
    const double flops_of_task = problem.is_quantized() ? 3e7 : 1.5e7;
    const int least = ceil_div(count, std::clamp(static_cast<int>(problem.flops() / flops_of_task), 1, most));
    for (int size = ceil_div(3 * least, 4); size < 2 * least; size++) {
        if (count % (2 * size) == 0 && count / size <= most) {
            return size;
        }
    }
    for (int size = least; size < 2 * least; size++) {
        if (count % size == 0) {
            return size;
        }
    }
    return least;
}

// Panels outside: each panel of weights is read once, and stays in a cache while it sweeps the image. Otherwise each
// row of the image stays while all panels pass, or, where the image is one long row, each tile of it.
Sweep sweep_of(const DirectStages &s, const Problem &problem, const DirectSchedule &schedule, const Var &tile,
               const Var &panel, const Var &rows) {
    const bool several_panels = problem.out_channels > schedule.panel();
    // The phases of a row of channels-first y interleave: each tile writes all of them, while their lines are in a
    // cache.
    const bool interleaves = problem.y_layout == Layout::ncx && s.axes[0].phases > 1 && !s.turned_y.defined();
    const bool whole_rows = s.apart.defined() || schedule.channels > 0;  // a tile is of all phases already
    std::vector<VarOrRVar> image, phases;
    for (size_t a = 0; a < s.axes.size(); a++) {
        if (a > 0) {
            image.push_back(a == 1 ? rows : s.q[a]);
        }
        if (s.axes[a].phases > 1 && !(interleaves && a == 0)) {
            phases.push_back(s.phase[a]);
        }
    }
    Sweep sweep;
    if (interleaves && !whole_rows) {
        sweep.loops.push_back(s.phase[0]);
    }
    const auto append = [&sweep](const std::vector<VarOrRVar> &loops) {
        sweep.loops.insert(sweep.loops.end(), loops.begin(), loops.end());
    };
    sweep.shared = image.empty() ? tile : image.back().var;
    if (schedule.panels_outside) {
        append({tile});
        append(image);
        append({panel});
        append(phases);
        if (schedule.chunk > 0) {
            sweep.in_chunks = true;
            sweep.divided = sweep.shared;
            append({sweep.chunk});
        }
        sweep.shared = schedule.chunk > 0 ? sweep.chunk : several_panels ? panel : sweep.shared;
    } else if (schedule.tile_steps > 0 && phases.empty()) {
        append({tile});
        append(image);
        append({panel});
        append(phases);
        sweep.in_chunks = true;
        sweep.divided = sweep.shared;
        sweep.shared = sweep.chunk;
        append({sweep.chunk});
    } else if (image.empty()) {
        append({panel, tile});
        append(phases);
    } else {
        append({tile, panel});
        append(phases);
        append(image);
    }
    append({s.n});
    sweep.shared = problem.batch > 1 ? s.n : sweep.shared;
    return sweep;
}

// Rows of a tile's channels, a vector of pixels at a time; those of neighbouring phases are stored together. Returns
// the innermost loops.
std::vector<VarOrRVar> schedule_pixel_lanes(Func &f, const DirectStages &s, const DirectSchedule &schedule,
                                            bool interleaves) {
    const Var block("block");
    f.split(s.q[0], block, s.q[0], schedule.tile_pixels).vectorize(s.q[0]).unroll(block);
    if (interleaves) {
        f.unroll(s.phase[0]);
        return {s.q[0], s.phase[0], block, s.c};
    }
    return {s.q[0], block, s.c};
}

// A tile whose vectors are pixels, or positions in joined rows; those of neighbouring phases, which take turns in a row
// that is not joined, stand together. Returns its loops.
std::vector<VarOrRVar> schedule_row_lanes(Halide::Stage stage, const DirectStages &s, const DirectSchedule &schedule) {
    const Var vector("vector"), position = s.joined.defined() ? s.position : s.q[0];
    stage.split(position, vector, position, schedule.lanes).vectorize(position).unroll(vector).unroll(s.c);
    std::vector<VarOrRVar> order = {position};
    if (s.axes[0].phases > 1 && !s.joined.defined()) {
        stage.unroll(s.phase[0]);
        order.emplace_back(s.phase[0]);
    }
    order.insert(order.end(), {vector, s.c});
    return order;
}

// Splits the product into register tiles. Returns the innermost loop around one.
Var schedule_product(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    // Where y picks from the product, that has whole panels: Halide 21 drops the guard of a vector that is all beyond
    // the channels of an inner Func, and what it stores lies in the next position, or behind the last.
    const bool inner = s.y.name() != s.product.name();
    const int channels = round_up(problem.out_channels, inner ? schedule.panel() : 1);
    const Var tile("tile"), panel("panel"), vector("vector"), rows("rows");
    s.product.bound(s.c, 0, channels).bound(s.n, 0, static_cast<int>(problem.batch));
    for (size_t a = 0; a < rank; a++) {
        s.product.bound(s.q[a], 0, s.axes[a].quotients);
        if (s.axes[a].phases > 1) {
            s.product.bound(s.phase[a], 0, s.axes[a].phases);
        }
    }
    s.product.split(s.c, panel, s.c, schedule.panel(),
                    channels % schedule.panel() == 0 ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    s.product.split(s.q[0], tile, s.q[0], schedule.width(), tail(s.axes[0].quotients, schedule.width()));
    std::vector<VarOrRVar> order;
    if (schedule.pixel_lanes) {
        order = schedule_pixel_lanes(s.product, s, schedule, s.apart.defined());
    } else if (schedule.channels > 0) {
        order = schedule_row_lanes(s.product, s, schedule);
    } else {
        s.product.split(s.c, vector, s.c, schedule.lanes).vectorize(s.c).unroll(vector).unroll(s.q[0]);
        order = {s.c, vector, s.q[0]};
    }
    if (rank > 1) {
        s.product.split(s.q[1], rows, s.q[1], schedule.rows, tail(s.axes[1].quotients, schedule.rows));
        order.push_back(s.q[1]);
    }
    const Sweep sweep = sweep_of(s, problem, schedule, tile, panel, rows);
    if (sweep.in_chunks) {
        const int count = image_turns(s.axes, schedule);
        const int size = schedule.chunk > 0 ? std::min(schedule.chunk, count) : chunk_of(problem, count);
        s.product.split(sweep.divided, sweep.chunk, sweep.divided, size, tail(count, size));
    }
    order.insert(order.end(), sweep.loops.begin(), sweep.loops.end());
    s.product.reorder(order);
    if (rank > 1) {
        s.product.unroll(s.q[1]);
    }
    if (schedule.parallel) {
        s.product.parallel(sweep.shared);
    }
    if (!s.apart.defined()) {
        return sweep.loops.front().var;
    }
    s.apart.compute_at(s.product, sweep.loops.front().var).store_in(Halide::MemoryType::Stack);
    s.apart.reorder_storage({s.q[0], s.c});
    order = schedule_pixel_lanes(s.apart, s, schedule, false);
    if (rank > 1) {
        order.push_back(s.q[1]);
    }
    order.push_back(s.phase[0]);
    s.apart.reorder(order);
    return s.phase[0];
}

// The same where vectors are pixels.
void schedule_row_sum(DirectStages &s, const DirectSchedule &schedule) {
    const Var position = s.joined.defined() ? s.position : s.q[0];
    s.acc.bound_extent(s.c, schedule.channels).bound_extent(position, schedule.width());
    s.acc.reorder_storage({position, s.c});
    const auto schedule_tile = [&](Halide::Stage stage, bool sums) {
        std::vector<VarOrRVar> order = schedule_row_lanes(stage, s, schedule);
        if (s.axes.size() > 1 && !s.joined.defined()) {
            stage.unroll(s.q[1]);
            order.emplace_back(s.q[1]);
        }
        if (sums) {
            append_reduction(stage, s.r, 1, schedule.unroll, order);
        }
        stage.reorder(order);
    };
    schedule_tile(s.acc, false);
    schedule_tile(s.acc.update(), true);
}

}  // namespace

// The weights' loads are shared by the tile's pixels, and each pixel's broadcast by its vectors.
void schedule_sum(DirectStages &s, const DirectSchedule &schedule, const Var &around_tile) {
    const size_t rank = s.axes.size();
    const Var vector("vector");
    const auto unroll_tile = [&](Halide::Stage stage) {
        stage.vectorize(s.c).unroll(vector).unroll(s.q[0]);
        if (rank > 1) {
            stage.unroll(s.q[1]);
        }
    };
    s.acc.compute_at(s.product, around_tile);
    s.acc.store_in(schedule.half ? Halide::MemoryType::Stack : Halide::MemoryType::Register);
    if (schedule.channels > 0) {
        schedule_row_sum(s, schedule);
        return;
    }
    s.acc.split(s.c, vector, s.c, schedule.lanes, TailStrategy::RoundUp);  // no shift: it reads the surplus
    unroll_tile(s.acc);

    Halide::Stage sum = s.acc.update();
    sum.split(s.c, vector, s.c, schedule.lanes);
    const RVar pair = s.r[0];
    std::vector<VarOrRVar> order = {pair, s.c, vector, s.q[0]};
    if (rank > 1) {
        order.push_back(s.q[1]);
    }
    append_reduction(sum, s.r, 1, schedule.half ? 1 : schedule.unroll, order);
    sum.reorder(order);
    if (schedule.dot > 1) {
        sum.atomic().vectorize(pair);  // so that the neighbouring products become one instruction
    }
    unroll_tile(sum);
}

namespace {

// Once a run, ahead of everything else.
void schedule_surplus(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const Var panel("panel"), vector("vector");
    s.zero_point.compute_root().bound(s.zero_point.args()[0], 0, schedule.dot).store_in(Halide::MemoryType::Stack);
    const int panels = ceil_div(static_cast<int>(problem.out_channels), schedule.panel());
    s.surplus.compute_root().bound(s.c, 0, panels * schedule.panel()).vectorize(s.c, schedule.lanes);
    for (size_t a = 0; a < s.axes.size(); a++) {
        s.surplus.bound(s.phase[a], 0, s.axes[a].phases);
    }
    Halide::Stage sum = s.surplus.update();
    if (schedule.pixel_lanes) {  // a channel's weights of several steps are the vector
        const Var lane("lane");
        const RVar steps("steps"), step("step");
        Func lanes = sum.split(s.all[1], steps, step, schedule.tile_steps).rfactor(step, lane);
        lanes.compute_root().bound(lane, 0, schedule.tile_steps).reorder_storage({lane, s.c}).vectorize(lane);
        std::vector<VarOrRVar> order = {s.all[0], lane, steps};
        for (size_t a = 0; a < s.axes.size(); a++) {
            order.push_back(s.all[static_cast<int>(a) + 2]);
        }
        order.push_back(s.c);
        lanes.update().reorder(order).atomic().vectorize(s.all[0]).vectorize(lane);
        return;
    }
    std::vector<VarOrRVar> order = {s.all[0], s.c, vector};
    for (size_t d = 1; d < s.axes.size() + 2; d++) {
        order.push_back(s.all[static_cast<int>(d)]);
    }
    order.push_back(panel);
    sum.split(s.c, panel, s.c, schedule.panel(), TailStrategy::RoundUp);
    sum.split(s.c, vector, s.c, schedule.lanes).reorder(order);
    sum.atomic().vectorize(s.all[0]).vectorize(s.c).unroll(vector);
}

// Once a run, for whole panels.
void schedule_start(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    s.start.compute_root().bound(s.c, 0, round_up(static_cast<int>(problem.out_channels), schedule.panel()));
    for (size_t a = 0; a < s.axes.size(); a++) {
        s.start.bound(s.phase[a], 0, s.axes[a].phases);
    }
    if (schedule.pixel_lanes) {
        s.start.bound(s.start.args()[0], 0, schedule.lanes);
    }
    s.start.vectorize(s.start.args()[0], schedule.lanes);
}

void vectorize_channels(Func &f, const Var &c, int64_t channels, int most) {
    const int lanes = lanes_around(channels, most);
    f.bound(c, 0, static_cast<int>(channels));
    if (channels % lanes == 0) {
        f.vectorize(c, lanes);
    }
}

// The copy of x with channels innermost.
void schedule_turned(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const std::vector<Var> at = s.turned.args();
    const int channels = static_cast<int>(problem.in_channels), batch = static_cast<int>(problem.batch);
    s.turned.compute_root().bound(at[0], 0, channels).bound(at.back(), 0, batch);
    for (size_t a = 0; a < s.axes.size(); a++) {
        s.turned.bound(at[a + 1], 0, s.axes[a].in);
    }
    const int wide = lanes_within(channels, 16), narrow = lanes_within(s.axes[0].in, 16);
    schedule_turn(s.turned, s.squares, at[0], at[1], wide, narrow, Var("square"), Var("squares"),
                  TailStrategy::ShiftInwards);
    if (schedule.parallel && (batch > 1 || s.axes.size() > 1)) {
        s.turned.parallel(at[batch > 1 ? at.size() - 1 : at.size() - 2]);
    }
}

// A copy ahead of everything else. Its bounds are stated: Halide's own would be wider where phases are involved, and
// reach outside the input.
void schedule_padded(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    const std::vector<Var> at = s.padded.args();
    s.padded.compute_root();
    int rows = 1;
    for (size_t a = 0; a < rank; a++) {
        AxisMap::Range range = s.axes[a].reads();
        if (!s.pads[a]) {
            range = {std::clamp(range.first, 0, s.axes[a].in - 1), std::clamp(range.last, 0, s.axes[a].in - 1)};
        }
        rows = std::max(range.last - range.first, 0) + 1;
        s.padded.bound(at[a + 1], range.first, rows);
    }
    s.padded.bound(at[rank + 1], 0, static_cast<int>(problem.batch));
    vectorize_channels(s.padded, at[0], s.channels, schedule.lanes);
    if (schedule.parallel) {
        const auto images = static_cast<int>(problem.batch);
        share_loops(s.padded, {problem.batch > 1 ? SharedLoop{at[rank + 1], images} : SharedLoop{at[rank], rows}});
    }
}

// Neighbouring channels' rows side by side: a vector of each is stored at once.
void schedule_pairs(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    const std::vector<Var> at = s.padded.args();
    const Var pair = at[0], step = at[rank + 1];
    s.padded.compute_root().bound(pair, 0, schedule.dot).bound(step, 0, s.channels / schedule.dot);
    s.padded.bound(s.n, 0, static_cast<int>(problem.batch));
    for (size_t a = 0; a < rank; a++) {
        const AxisMap::Range range = s.pads[a] ? s.axes[a].reads() : s.axes[a].reads_inside();
        s.padded.bound(at[a + 1], range.first, range.last - range.first + 1);
    }
    const Var bytes("bytes");
    s.padded.fuse(pair, at[1], bytes).vectorize(bytes, 64 / (4 / schedule.dot), TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = {RVar(s.inside[0]), pair};
    for (size_t d = 1; d <= rank; d++) {
        order.push_back(RVar(s.inside[static_cast<int>(d)]));
    }
    order.insert(order.end(), {step, s.n});
    Halide::Stage update = s.padded.update();
    // No two lanes write the same element, which Halide cannot prove.
    update.reorder(order).allow_race_conditions().vectorize(RVar(s.inside[0])).unroll(pair);
    if (schedule.parallel) {
        s.padded.parallel(problem.batch > 1 ? s.n : step);
        update.parallel(problem.batch > 1 ? s.n : step);
    }
}

void schedule_turned_output(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    const Var squares("squares"), channels("channels");
    const Var outermost = rank > 1 ? s.y.args()[rank] : channels;
    schedule_turn(s.y, s.turned_y, s.y.args()[1], s.c, turned_positions, turned_channels, squares, channels,
                  TailStrategy::RoundUp);
    if (schedule.parallel) {
        s.y.parallel(problem.batch > 1 ? s.n : outermost);
    }
}

// y a block of joined rows of a panel's channels at a time, whose sums, of all phases of a row, are made by tiles that
// heed no row's end.
void schedule_joined(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    const Var panel("panel"), rows("rows"), vectors("vectors"), tile("tile");
    const int channels = static_cast<int>(problem.out_channels), width = s.axes[0].quotients;
    const int lanes = lanes_within(width, schedule.lanes), positions = width * schedule.joined;
    s.y.bound(s.c, 0, channels).bound(s.n, 0, static_cast<int>(problem.batch));
    for (size_t a = 0; a < rank; a++) {
        s.y.bound(s.q[a], 0, s.axes[a].quotients);
        if (s.axes[a].phases > 1) {
            s.y.bound(s.phase[a], 0, s.axes[a].phases);
        }
    }
    s.y.split(s.c, panel, s.c, schedule.channels,
              channels % schedule.channels == 0 ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    s.y.split(s.q[1], rows, s.q[1], schedule.joined, tail(s.axes[1].quotients, schedule.joined));
    s.y.split(s.q[0], vectors, s.q[0], lanes, tail(width, lanes)).vectorize(s.q[0]);
    std::vector<VarOrRVar> order = {s.q[0]};
    if (s.axes[0].phases > 1) {
        s.y.unroll(s.phase[0]);
        order.push_back(s.phase[0]);
    }
    order.insert(order.end(), {vectors, s.q[1], s.c});
    const size_t inside = order.size();
    for (size_t a = 1; a < rank; a++) {
        if (s.axes[a].phases > 1) {
            order.push_back(s.phase[a]);
        }
    }
    order.insert(order.end(), {panel, rows});
    order.insert(order.end(), s.q.begin() + 2, s.q.end());
    order.push_back(s.n);
    s.y.reorder(order);
    if (schedule.parallel) {
        s.y.parallel(problem.batch > 1 ? VarOrRVar(s.n) : order[order.size() - 2]);
    }

    s.padded.compute_at(s.y, rows).reorder_storage(s.position, s.c).reorder(s.position, s.c);
    s.padded.bound_extent(s.c, static_cast<int>(problem.in_channels)).bound_extent(s.position, positions);
    s.padded.vectorize(s.position, schedule.lanes, tail(positions, schedule.lanes));
    s.joined.compute_at(Halide::LoopLevel(s.y, order[inside])).reorder_storage(s.position, s.c);
    s.joined.bound_extent(s.c, schedule.channels).bound_extent(s.position, positions);
    s.joined.split(s.position, tile, s.position, schedule.width(), tail(positions, schedule.width()));
    order = schedule_row_lanes(s.joined, s, schedule);
    order.insert(order.end(), {tile, s.phase[0]});
    s.joined.reorder(order);

    s.acc.compute_at(s.joined, tile).store_in(Halide::MemoryType::Register);
    schedule_row_sum(s, schedule);
}

}  // namespace

void schedule_direct(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    if (s.joined.defined()) {
        schedule_joined(s, problem, schedule);
        return;
    }
    const Var around_tile = schedule_product(s, problem, schedule);
    if (s.start.defined()) {
        schedule_start(s, problem, schedule);
    }
    schedule.tile_steps > 0 ? schedule_tile_sums(s, schedule, around_tile) : schedule_sum(s, schedule, around_tile);
    if (s.surplus.defined()) {
        schedule_surplus(s, problem, schedule);
    }
    if (s.turned.defined()) {
        schedule_turned(s, problem, schedule);
    }
    if (s.inside.defined()) {
        schedule_pairs(s, problem, schedule);
    } else if (s.padded.defined() && !(s.turned.defined() && s.padded.name() == s.turned.name())) {
        schedule_padded(s, problem, schedule);
    }
    if (s.y.name() != s.product.name()) {
        s.product.compute_root();
    }
    if (s.turned_y.defined()) {
        schedule_turned_output(s, problem, schedule);
    } else if (s.y.name() != s.product.name()) {
        vectorize_channels(s.y, s.c, problem.out_channels, schedule.lanes);
    }
}

OpenSchedule default_open_schedule(const Problem &problem, const TargetModel &target) {
    const bool one_group = problem.groups == 1 || problem.groups == open_size;
    const bool known = problem.out_channels != open_size && problem.groups != open_size;
    const bool depthwise = known && !one_group && problem.out_channels == problem.groups;
    const int64_t channels = !known                   ? target.lanes(32)
                             : one_group || depthwise ? problem.out_channels
                                                      : problem.out_channels / problem.groups;
    OpenSchedule best;
    best.lanes = lanes_around(channels, target.lanes(sum_type(problem).bits()));
    while (known && !one_group && !depthwise && channels % best.lanes != 0) {
        best.lanes /= 2;  // a panel stays within its group, so that its input is one broadcast
    }
    if (problem.in_channels != open_size && problem.groups != open_size) {
        const int pair = products_per_lane(problem);
        best.unroll = largest_divisor(ceil_div(static_cast<int>(problem.in_channels / problem.groups), pair), 4);
    }
    double best_score = 0;
    // Where nothing is known of the channels, one vector of them wastes least.
    for (int vectors = 1; vectors <= (known ? 4 : 1); vectors++) {
        const int panel = vectors * best.lanes;
        if (known && !one_group && !depthwise && channels % panel != 0) {
            continue;
        }
        // Images are rarely narrower than eight pixels; wider tiles waste more at their right edge.
        for (int pixels = 1; pixels <= (known ? 14 : 8); pixels++) {
            if (vectors * pixels + vectors + 1 > target.vector_registers) {
                continue;
            }
            const double fit = tile_fit(static_cast<int>(channels), panel) * tile_fit(56, pixels);
            const double score = tile_rate(vectors, pixels, target) * fit;
            if (score > best_score) {
                best_score = score;
                best.vectors = vectors;
                best.pixels = pixels;
            }
        }
    }
    best.parallel = true;
    return best;
}

namespace {

// The loop variable of axis a's q, or of its phase, in the stage that writes y: a reduction's where the axis has
// several phases.
VarOrRVar output_loop(const OpenStages &s, size_t axis, bool phase) {
    int next = 0;
    for (size_t a = 0; a < axis; a++) {
        next += is_one(s.phases[a]) ? 0 : 2;
    }
    if (is_one(s.phases[axis])) {
        return s.q[axis];
    }
    return RVar(s.out[next + (phase ? 1 : 0)]);
}

// Splits y into register tiles. Returns the innermost loop around one.
VarOrRVar schedule_output(OpenStages &s, const Problem &problem, const OpenSchedule &schedule) {
    const bool phased = s.out.defined();
    Halide::Stage y = phased ? Halide::Stage(s.y.update()) : Halide::Stage(s.y);
    const Var panel("panel"), vector("vector");
    const bool whole =
        problem.out_channels != open_size && !s.splits_groups && problem.out_channels % schedule.panel() == 0;
    y.split(s.c, panel, s.c, schedule.panel(), whole ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    y.split(s.c, vector, s.c, schedule.lanes);
    std::vector<VarOrRVar> order = {s.c, vector};
    VarOrRVar tile = Var("tile"), pixel = s.q[0];
    if (is_one(s.phases[0])) {
        y.split(s.q[0], Var(tile.name()), s.q[0], schedule.pixels, TailStrategy::GuardWithIf);
    } else {
        const RVar outer("tile"), inner("pixel");
        y.split(s.out[0], outer, inner, schedule.pixels, TailStrategy::GuardWithIf);
        tile = outer;
        pixel = inner;
    }
    order.insert(order.end(), {pixel, tile, panel});
    VarOrRVar outermost = s.n;
    for (size_t a = 0; a < s.q.size(); a++) {
        if (!is_one(s.phases[a])) {
            order.push_back(output_loop(s, a, true));
        }
    }
    for (size_t a = 1; a < s.q.size(); a++) {
        outermost = output_loop(s, a, false);
        order.push_back(outermost);
    }
    if (s.splits_groups) {
        order.push_back(s.g);
    }
    order.push_back(s.n);
    y.reorder(order).vectorize(s.c).unroll(vector);
    if (schedule.parallel) {
        if (phased) {
            y.allow_race_conditions();  // no two iterations write the same element, which Halide cannot prove
        }
        y.parallel(outermost);
    }
    return tile;
}

void schedule_open_sum(OpenStages &s, const Problem &problem, const OpenSchedule &schedule, const VarOrRVar &tile) {
    const Var vector("vector");
    s.sums.compute_at(Halide::LoopLevel(s.y, tile)).store_in(Halide::MemoryType::Stack);
    s.sums.bound_extent(s.c, schedule.panel()).bound_extent(s.q[0], schedule.pixels);
    s.sums.split(s.c, vector, s.c, schedule.lanes).vectorize(s.c).unroll(vector).unroll(s.q[0]);
    s.acc.compute_at(Halide::LoopLevel(s.y, tile));
    s.acc.store_in(Halide::MemoryType::Register);
    s.acc.bound_extent(s.c, schedule.panel()).bound_extent(s.q[0], schedule.pixels);
    s.acc.split(s.c, vector, s.c, schedule.lanes).vectorize(s.c).unroll(vector).unroll(s.q[0]);
    Halide::Stage sum = s.acc.update();
    sum.split(s.c, vector, s.c, schedule.lanes);
    const RVar pair = s.r[0];
    std::vector<VarOrRVar> order = {pair, s.c, vector, s.q[0]};
    append_reduction(sum, s.r, 1, schedule.unroll, order);
    sum.reorder(order);
    if (products_per_lane(problem) > 1) {
        sum.atomic().vectorize(pair);
    }
    sum.vectorize(s.c).unroll(vector).unroll(s.q[0]);
}

}  // namespace

void schedule_open(OpenStages &s, const Problem &problem, const OpenSchedule &schedule, const Sizes &sizes) {
    schedule_open_sum(s, problem, schedule, schedule_output(s, problem, schedule));
    const std::vector<Var> at = s.padded.args();
    s.padded.compute_root();
    for (size_t d = 0; d < at.size(); d++) {
        s.padded.bound(at[d], s.padded_min[d], s.padded_extent[d]);
    }
    s.padded.vectorize(at[0], schedule.lanes, TailStrategy::GuardWithIf);
    if (schedule.parallel) {
        s.padded.parallel(at[at.size() > 3 ? at.size() - 2 : at.size() - 1]);
    }
    if (s.x_is_empty.defined()) {
        s.padded.specialize(s.x_is_empty);
    }
    if (problem.x_layout == Layout::open) {
        s.padded.specialize(sizes.x_is_nxc);
    }
}

}  // namespace kiln::dense
