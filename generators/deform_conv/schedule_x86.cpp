// The sampled algorithm's schedule for x86: which numbers to take where nobody tuned it, and what they mean.
#include <algorithm>

#include "common/turn.h"
#include "common/types.h"
#include "deform_conv/sampled.h"
#include "dense/direct.h"

namespace kiln::deform_conv {
namespace {

using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

int to_int(int64_t value) {
    return static_cast<int>(value);
}

int ceil_div(int a, int b) {
    return (a + b - 1) / b;
}

int round_up(int value, int multiple) {
    return ceil_div(value, multiple) * multiple;
}

// The widest vector of 1, 2, 4, ... up to `most` lanes that fits into `extent`, or, if it must, divides it.
int lanes_within(int extent, int most, bool divides) {
    int lanes = 1;
    while (lanes * 2 <= std::min(extent, most) && (!divides || extent % (lanes * 2) == 0)) {
        lanes *= 2;
    }
    return lanes;
}

TailStrategy tail(int extent, int factor) {
    return extent % factor == 0 ? TailStrategy::RoundUp : TailStrategy::GuardWithIf;
}

// The last chunk overlaps the one before, so that all are whole; an only one may reach beyond the last point.
TailStrategy chunk_tail(int points, int chunk) {
    return points < chunk ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards;
}

// The dense convolution that is left once the samples are there.
Problem dense_part(const Problem &problem) {
    Problem p = problem;
    p.op = Operator::conv;
    p.rank = 1;
    p.in = p.out = {problem.out_points()};
    p.kernel = p.stride = p.dilation = {1};
    p.pad_begin = p.pad_end = {};
    p.x_layout = Layout::nxc;
    p.offset_groups = 1;
    p.mask = false;
    return p;
}

}  // namespace

SampledSchedule default_sampled_schedule(const Problem &problem, const TargetModel &target) {
    const dense::DirectSchedule dense = dense::default_direct_schedule(dense_part(problem), target);
    SampledSchedule s;
    s.lanes = dense.lanes;
    s.vectors = dense.vectors;
    s.pixels = dense.pixels;
    s.unroll = dense.unroll;
    const int element = sum_type(problem).bytes();
    s.sample_lanes = target.lanes(8 * element);
    // Where L2 cannot hold the weights it holds samples: the longer their blocks, the less often weights pass.
    const int points = to_int(problem.out_points()), tiles = ceil_div(points, s.pixels);
    if (element * problem.w_elements() > target.l2_bytes) {
        const int64_t sample_bytes = element * problem.in_channels * problem.taps() * s.pixels;
        const int most = to_int(std::clamp<int64_t>(target.l2_bytes / sample_bytes, 1, 16));
        s.tiles = ceil_div(tiles, ceil_div(tiles, most));
    }
    // Positions are computed in vectors of points, for some blocks at a time: as few surplus points as may be.
    double best = 0;
    for (int blocks = 1; blocks <= 8 && blocks <= ceil_div(tiles, s.tiles); blocks++) {
        const int chunk = s.block() * blocks;
        const double fit = points / static_cast<double>(round_up(points, chunk));
        const double lanes_used = chunk / static_cast<double>(round_up(chunk, s.sample_lanes));
        const double score = fit * (9 + lanes_used);
        if (score > best) {
            best = score;
            s.blocks = blocks;
        }
    }
    s.parallel = problem.flops() > 2e6;
    return s;
}

namespace {

// y channels first is turned a chunk at a time.
void schedule_turned_output(SampledStages &s, const Problem &problem, const SampledSchedule &schedule,
                            const Var &chunk) {
    const int points = to_int(problem.out_points());
    const Var inner("inner"), outer("outer");
    s.y.split(s.p, chunk, s.p, schedule.chunk(), chunk_tail(points, schedule.chunk()));
    schedule_turn(s.y, s.turned_y, s.p, s.c, lanes_within(schedule.chunk(), 8, true),
                  lanes_within(to_int(problem.out_channels), 8, false), inner, outer);
    s.y.reorder(inner, outer, chunk, s.n);
    s.product.compute_at(s.y, chunk);
}

// The product's loops, the innermost around a register tile.
void schedule_product(SampledStages &s, const Problem &problem, const SampledSchedule &schedule, const Var &chunk,
                      const Var &block, const Var &panel, const Var &tile) {
    const int channels = to_int(problem.out_channels), points = to_int(problem.out_points());
    const Var vector("vector");
    std::vector<VarOrRVar> order = {s.c, vector, s.p, tile, panel, block};
    if (s.product.name() == s.y.name()) {
        s.product.split(s.p, chunk, s.p, schedule.chunk(), chunk_tail(points, schedule.chunk()));
        order.push_back(chunk);
    } else {
        s.product.bound_extent(s.p, schedule.chunk());
    }
    s.product.split(s.p, block, s.p, schedule.block())
        .split(s.p, tile, s.p, schedule.pixels)
        .split(s.c, panel, s.c, schedule.panel(), tail(channels, schedule.panel()))
        .split(s.c, vector, s.c, schedule.lanes);
    order.push_back(s.n);
    s.product.reorder(order).vectorize(s.c).unroll(vector).unroll(s.p);
}

// The sums of a register tile, the weights' loads shared by its points and each point's broadcast by its vectors.
void schedule_sum(SampledStages &s, const SampledSchedule &schedule, const Var &around_tile) {
    const Var vector("vector");
    Halide::RVar inner("inner"), outer("outer");
    s.acc.compute_at(s.product, around_tile).store_in(Halide::MemoryType::Register);
    s.acc.bound_extent(s.c, schedule.panel()).bound_extent(s.p, schedule.pixels);
    s.acc.split(s.c, vector, s.c, schedule.lanes).vectorize(s.c).unroll(vector).unroll(s.p);
    s.acc.update()
        .split(s.c, vector, s.c, schedule.lanes)
        .split(s.r.x, outer, inner, schedule.unroll)
        .reorder(s.c, vector, s.p, inner, outer, s.r.y)
        .vectorize(s.c)
        .unroll(vector)
        .unroll(s.p)
        .unroll(inner);
}

// A block's samples: vectors over the channels of an offset group share the weights and points of the corners.
void schedule_samples(SampledStages &s, const Problem &problem, const SampledSchedule &schedule,
                      const Var &around_block) {
    const int channels = to_int(problem.in_channels), of_group = channels / to_int(problem.offset_groups);
    const bool even = problem.offset_groups > 1 || !unrolls_corners(problem);  // a surplus would be in another group
    const int lanes = lanes_within(of_group, schedule.sample_lanes, even);
    const Var group("group"), vector("vector"), several("several");
    s.sample.compute_at(s.product, around_block)
        .bound(s.c, 0, channels)
        .bound(s.k, 0, to_int(problem.taps()))
        .bound_extent(s.p, schedule.block());
    const auto split = [&](Halide::Stage stage) {
        return stage.split(s.c, group, s.c, of_group)
            .split(s.c, several, s.c, lanes * lanes_within(of_group / lanes, 8, true),
                   even ? TailStrategy::Auto : TailStrategy::ShiftInwards)
            .split(s.c, vector, s.c, lanes)
            .vectorize(s.c)
            .unroll(vector);
    };
    split(s.sample).reorder({s.c, vector, several, group, s.k, s.p, s.n});
    if (!unrolls_corners(problem)) {
        split(s.sample.update()).reorder({s.c, vector, several, s.rq, group, s.k, s.p, s.n});
    }
}

// Weights and points of the corners, a chunk at a time, in vectors of output points.
void schedule_corners(SampledStages &s, const Problem &problem, const SampledSchedule &schedule,
                      const Var &around_chunk) {
    const int corners = 1 << problem.rank;
    const int points = std::min(schedule.chunk(), to_int(problem.out_points()));
    s.corner.compute_at(s.y, around_chunk)
        .bound(s.q, 0, corners + 1)
        .bound(s.k, 0, to_int(problem.taps()))
        .bound(s.g, 0, to_int(problem.offset_groups))
        .reorder_storage(s.p, s.q, s.k, s.g, s.n)
        .vectorize(s.p, lanes_within(points, schedule.sample_lanes, false), TailStrategy::ShiftInwards)
        .reorder(s.q, s.k, s.g, s.p, s.n);
    if (unrolls_corners(problem)) {
        s.corner.unroll(s.q);
    }
}

// The offsets or masks of a chunk, points innermost.
void schedule_turned(SampledStages &s, SampledStages::Copy &copy, int channels, const Problem &problem,
                     const SampledSchedule &schedule, const Var &around_chunk) {
    if (copy.result.defined()) {
        const int points = std::min(schedule.chunk(), to_int(problem.out_points()));
        copy.result.compute_at(s.y, around_chunk).reorder_storage(s.p, s.c, s.n).bound(s.c, 0, channels);
        schedule_turn(copy.result, copy.squares, s.p, s.c, lanes_within(points, 8, false),
                      lanes_within(channels, 8, false), Var("inner"), Var("outer"));
    }
}

// The copy of x, ahead of everything else.
void schedule_image(SampledStages &s, const Problem &problem, const SampledSchedule &schedule) {
    const int channels = to_int(problem.in_channels), points = to_int(problem.in_points());
    Func &image = s.image.result;
    image.compute_root().bound(s.c, 0, channels).bound(s.p, 0, points);
    Var rows = s.p;
    if (s.image.squares.defined()) {
        rows = Var("squares");
        schedule_turn(image, s.image.squares, s.c, s.p, lanes_within(channels, 8, false),
                      lanes_within(points, 8, false), Var("inner"), rows);
    } else {
        image.vectorize(s.c, lanes_within(channels, schedule.sample_lanes, false), TailStrategy::ShiftInwards);
    }
    if (schedule.parallel) {
        image.parallel(rows, 32, TailStrategy::GuardWithIf);
    }
}

// What the caller's threads share: chunks; where these are few, images, or panels.
void share_work(SampledStages &s, const Problem &problem, const SampledSchedule &schedule, const Var &chunk,
                const Var &panel) {
    const int chunks = ceil_div(to_int(problem.out_points()), schedule.chunk());
    if (chunks >= 8) {
        s.y.parallel(chunk);
    } else if (problem.batch > 1) {
        s.y.parallel(s.n);
    } else if (problem.out_channels > schedule.panel() * chunks) {
        s.product.parallel(panel);
    } else {
        s.y.parallel(chunk);
    }
}

}  // namespace

void schedule_sampled(SampledStages &s, const Problem &problem, const SampledSchedule &schedule) {
    const Var chunk("chunk");
    s.y.bound(s.c, 0, to_int(problem.out_channels))
        .bound(s.p, 0, to_int(problem.out_points()))
        .bound(s.n, 0, to_int(problem.batch));
    if (s.product.name() != s.y.name()) {
        schedule_turned_output(s, problem, schedule, chunk);
    }
    const Var block("block"), panel("panel"), tile("tile");
    schedule_product(s, problem, schedule, chunk, block, panel, tile);
    schedule_sum(s, schedule, tile);
    schedule_samples(s, problem, schedule, block);
    schedule_corners(s, problem, schedule, chunk);
    const int samples = to_int(problem.offset_groups * problem.taps());
    schedule_turned(s, s.offset, samples * problem.rank, problem, schedule, chunk);
    schedule_turned(s, s.mask, samples, problem, schedule, chunk);
    if (s.image.result.defined()) {
        schedule_image(s, problem, schedule);
    }
    if (schedule.parallel) {
        share_work(s, problem, schedule, chunk, panel);
    }
}

}  // namespace kiln::deform_conv
