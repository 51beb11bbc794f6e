// The deformable algorithm's schedule for processors: which numbers to take where nobody tuned it, and what they mean.
#include <algorithm>

#include "algorithms/deformable/deformable.h"
#include "algorithms/direct/schedule.h"
#include "algorithms/dynamic/dynamic.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "moves/parallel_split.h"
#include "moves/tile_sum.h"
#include "moves/transpose_block.h"

namespace kiln::deformable {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

int to_int(int64_t value) {
    return static_cast<int>(value);
}

// Its value, or 0 where it is left to run time.
int known(const Expr &size) {
    return to_int(Halide::Internal::as_const_int(Halide::Internal::simplify(size)).value_or(0));
}

// Vectors over an axis: as wide as it is known to be, the last shifted inwards; else as wide as can be, the last
// guarded.
struct Vectors {
    int lanes;
    TailStrategy tail;

    Vectors(const Expr &extent, int most)
        : lanes(known(extent) ? lanes_within(known(extent), most, false) : most),
          tail(known(extent) ? TailStrategy::ShiftInwards : TailStrategy::GuardWithIf) {}
};

// The dense convolution that is left once the samples are there.
Problem dense_part(const Problem &problem) {
    Problem p = problem;
    p.op = Operator::conv;
    p.rank = 1;
    p.in = p.out = {problem.has_open_sizes() ? 1 : problem.out_points()};
    p.kernel = p.stride = p.dilation = {1};
    p.pad_begin = p.pad_end = {};
    p.x_layout = Layout::nxc;
    p.offset_groups = 1;
    p.mask = false;
    return p;
}

DeformableSchedule schedule_of_open_sizes(const Problem &problem, const TargetModel &target) {
    const DynamicSchedule dense = default_dynamic_schedule(dense_part(problem), target);
    DeformableSchedule s;
    s.lanes = dense.lanes;
    s.vectors = dense.vectors;
    s.pixels = dense.pixels;
    s.unroll = dense.unroll;
    s.sample_lanes = target.lanes(sum_type(problem).bits());
    s.blocks = std::max(1, 56 / s.pixels);  // longer chunks would reach further beyond the last point
    s.parallel = true;
    return s;
}

}  // namespace

DeformableSchedule default_deformable_schedule(const Problem &problem, const TargetModel &target) {
    if (problem.has_open_sizes()) {
        return schedule_of_open_sizes(problem, target);
    }
    const DirectSchedule dense = default_direct_schedule(dense_part(problem), target);
    DeformableSchedule s;
    s.lanes = dense.lanes;
    s.vectors = dense.vectors;
    s.pixels = dense.width();
    s.unroll = dense.unroll;
    const int element = sum_type(problem).bytes();
    s.sample_lanes = target.lanes(8 * element);
    // Where L2 cannot hold the weights it holds samples: the longer their blocks, the less often weights pass.
    const int points = to_int(problem.out_points()), tiles = ceil_div(points, s.pixels);
    int most_tiles = 1;
    if (element * problem.w_elements() > target.core.l2.bytes) {
        const int64_t sample_bytes = element * problem.in_channels * problem.taps() * s.pixels;
        most_tiles = std::min(tiles, to_int(std::clamp<int64_t>(target.core.l2.bytes / sample_bytes, 1, 16)));
    }
    // Positions are computed in vectors of points, for some blocks at a time: as few surplus points as may be.
    double best = 0;
    const auto try_blocks = [&](int block_tiles) {
        for (int blocks = 1; blocks <= 8 && blocks <= ceil_div(tiles, block_tiles); blocks++) {
            const int chunk = block_tiles * s.pixels * blocks;
            const double fit = points / static_cast<double>(round_up(points, chunk));
            const double lanes_used = chunk / static_cast<double>(round_up(chunk, s.sample_lanes));
            // One thread of two has nothing to do while the other computes the last of an odd number of chunks.
            const int chunks = ceil_div(points, chunk);
            const double even = chunks / static_cast<double>(round_up(chunks, 2));
            const double score = fit * (9 + lanes_used) * (7 + even);
            if (score > best) {
                best = score;
                s.tiles = block_tiles;
                s.blocks = blocks;
            }
        }
    };
    for (int block_tiles = most_tiles; 2 * block_tiles >= most_tiles; block_tiles--) {
        try_blocks(block_tiles);
    }
    s.parallel = problem.flops() > 2e6;
    return s;
}

namespace {

// What every part of the schedule takes.
struct Context {
    DeformableStages &s;
    const Problem &problem;
    const DeformableSchedule &schedule;
    const Sizes &sizes;
    DeformableSizes derived;
    Var chunk{"chunk"}, block{"block"}, panel{"panel"}, tile{"tile"};  // loops of the product, the outermost first

    int chunk_vector() const { return lanes_within(schedule.chunk(), schedule.sample_lanes, false); }
};

void split_chunks(const Context &at, Func &f) {
    f.split(at.s.p, at.chunk, at.s.p, at.schedule.chunk(),
            at.derived.whole_chunks ? TailStrategy::ShiftInwards : TailStrategy::GuardWithIf);
}

// y channels first is transposed a chunk at a time.
void schedule_transposed_output(const Context &at) {
    DeformableStages &s = at.s;
    const Var inner("inner"), outer("outer");
    split_chunks(at, s.y);
    schedule_transpose(s.y, *s.blocks, s.p, s.c, lanes_within(at.schedule.chunk(), 8, true),
                       lanes_within(known(at.sizes.out_channels), 8, false), inner, outer, TailStrategy::ShiftInwards);
    s.y.reorder(inner, outer, at.chunk, s.n);
    s.product.compute_at(s.y, at.chunk).bound_extent(s.p, at.schedule.chunk());
}

// The product's loops, the innermost around a register tile.
void schedule_product(const Context &at) {
    DeformableStages &s = at.s;
    const DeformableSchedule &schedule = at.schedule;
    const Var vector("vector");
    std::vector<VarOrRVar> order = {s.c, vector, s.p, at.tile, at.panel, at.block};
    if (!s.blocks) {
        split_chunks(at, s.product);
        order.push_back(at.chunk);
    }
    if (splits_groups(at.problem)) {
        order.insert(order.begin() + 5, s.h);
    }
    const int channels = splits_groups(at.problem) ? 0 : known(at.sizes.out_channels);
    const bool whole_panels = channels > 0 && channels % schedule.panel() == 0;
    s.product.split(s.p, at.block, s.p, schedule.block())
        .split(s.p, at.tile, s.p, schedule.pixels)
        .split(s.c, at.panel, s.c, schedule.panel(), whole_panels ? TailStrategy::RoundUp : TailStrategy::GuardWithIf)
        .split(s.c, vector, s.c, schedule.lanes);
    order.push_back(s.n);
    s.product.reorder(order).vectorize(s.c).unroll(vector);
    if (!s.sums) {
        s.product.unroll(s.p);
    }
}

// The sums of a register tile, the weights' loads shared by its points and each point's broadcast by its vectors.
void schedule_sum(const Context &at) {
    DeformableStages &s = at.s;
    const DeformableSchedule &schedule = at.schedule;
    s.acc.compute_at(s.product, at.tile).store_in(Halide::MemoryType::Register);
    s.acc.bound_extent(s.c, schedule.panel()).bound_extent(s.p, schedule.pixels);
    const TileLoops tile_loops = {s.c, schedule.lanes, {}, {s.p}};
    if (s.sums) {
        store_tile(*s.sums, {s.product, at.tile}, tile_loops);
        s.sums->bound_extent(s.c, schedule.panel()).bound_extent(s.p, schedule.pixels);
    }
    schedule_tile_sum(s.acc, tile_loops, {loops_from(s.r, 0), schedule.unroll});
    if (!known(at.sizes.offset_groups)) {
        s.acc.update().specialize(at.sizes.offset_groups == 1);  // without the divisions by an offset group's channels
    }
}

// A block's samples: vectors over the channels of an offset group share the weights and points of the corners.
void schedule_samples(const Context &at) {
    DeformableStages &s = at.s;
    const Vectors vectors(at.derived.offset_channels, at.schedule.sample_lanes);
    const int several = lanes_within(std::max(known(at.derived.offset_channels) / vectors.lanes, 1), 8, true);
    const Var vector("vector"), strip("strip");
    s.sample.compute_at(s.product, at.block)
        .bound(s.c, 0, at.derived.offset_channels)
        .bound(s.g, 0, at.sizes.offset_groups)
        .bound(s.k, 0, at.derived.taps)
        .bound_extent(s.p, at.schedule.block());
    if (at.problem.groups != 1) {
        // The last panel's empty lanes read samples of groups that do not exist, and drop what they make of them.
        const int panel = at.schedule.panel();
        const Expr lanes = (at.sizes.out_channels + panel - 1) / panel * panel;
        const Expr channels = ((lanes - 1) / at.sizes.out_of_group() + 1) * at.sizes.reduction_channels();
        if (at.problem.offset_groups == 1) {
            s.sample.bound_storage(s.c, max(at.derived.offset_channels, channels));
        } else {
            s.sample.bound_storage(s.g, max(at.sizes.offset_groups, (channels - 1) / at.derived.offset_channels + 1));
        }
    }
    const auto split = [&](Halide::Stage stage, TailStrategy tail) {
        return stage.split(s.c, strip, s.c, vectors.lanes * several, tail)
            .split(s.c, vector, s.c, vectors.lanes)
            .vectorize(s.c)
            .unroll(vector);
    };
    split(s.sample, vectors.tail).reorder({s.c, vector, strip, s.g, s.k, s.p, s.n});
    if (!unrolls_corners(at.problem)) {
        split(s.sample.update(), TailStrategy::GuardWithIf)
            .reorder({s.c, vector, strip, RVar((*s.rq)[0]), s.g, s.k, s.p, s.n});
    }
}

// Weights and points of the corners, a chunk at a time, in vectors of output points.
void schedule_corners(const Context &at) {
    DeformableStages &s = at.s;
    s.corner.compute_at(s.y, at.chunk)
        .bound(s.q, 0, (1 << at.problem.rank) + 1)
        .bound(s.k, 0, at.derived.taps)
        .bound(s.g, 0, at.sizes.offset_groups)
        .bound_extent(s.p, at.schedule.chunk())
        .reorder_storage(s.p, s.q, s.k, s.g, s.n)
        .vectorize(s.p, at.chunk_vector(), TailStrategy::ShiftInwards)
        .reorder(s.q, s.k, s.g, s.p, s.n);
    if (unrolls_corners(at.problem)) {
        s.corner.unroll(s.q);
    }
    s.origin.compute_at(s.y, at.chunk)
        .bound(s.a, 0, at.problem.rank)
        .bound_extent(s.p, at.schedule.chunk())
        .reorder_storage(s.p, s.a)
        .vectorize(s.p, at.chunk_vector(), TailStrategy::ShiftInwards)
        .unroll(s.a);
}

// The offsets or masks of a chunk, points innermost.
void schedule_offsets(const Context &at, DeformableStages::Copy &copy, const Expr &channels) {
    const DeformableStages &s = at.s;
    copy.result.compute_at(s.y, at.chunk)
        .bound(s.c, 0, channels)
        .bound_extent(s.p, at.schedule.chunk())
        .reorder_storage(s.p, s.c, s.n);
    if (copy.blocks) {
        schedule_transpose(copy.result, *copy.blocks, s.p, s.c, lanes_within(at.schedule.chunk(), 8, false),
                           lanes_within(known(channels), 8, false), Var("inner"), Var("outer"),
                           TailStrategy::ShiftInwards);
    } else {
        copy.result.reorder(s.p, s.c, s.n).vectorize(s.p, at.chunk_vector(), TailStrategy::ShiftInwards);
    }
    if (at.problem.x_layout == Layout::open) {
        copy.result.specialize(!at.sizes.x_is_nxc);
    }
}

// The copy of x, ahead of everything else.
void schedule_image(const Context &at) {
    DeformableStages &s = at.s;
    Func &image = s.image->result;
    const Expr points = at.derived.in_points, channels = at.sizes.in_channels;
    image.compute_root().bound(s.c, 0, channels).bound(s.p, 0, known(points) ? points : Halide::max(points, 1));
    Var rows = s.p;
    int extent = known(points);  // of rows; 0 where that is left open
    if (s.image->blocks) {
        rows = Var("blocks");
        const Vectors along(points, 8);
        schedule_transpose(image, *s.image->blocks, s.c, s.p,
                           lanes_within(known(channels), at.schedule.sample_lanes, false), along.lanes, Var("inner"),
                           rows, along.tail);
        extent = ceil_div(extent, along.lanes);
    } else {
        const Vectors vectors(channels, at.schedule.sample_lanes);
        image.vectorize(s.c, vectors.lanes, vectors.tail);
    }
    if (at.schedule.parallel && extent > 0) {
        share_loops(image, {{rows, extent}});
    } else if (at.schedule.parallel) {
        image.parallel(rows, 32, TailStrategy::GuardWithIf);
    }
    if (s.x_is_empty) {
        image.specialize(*s.x_is_empty);
    }
    if (at.problem.x_layout == Layout::open) {
        image.specialize(at.sizes.x_is_nxc);
    }
}

// What the caller's threads share: chunks; where these are few, images, or panels.
void share_work(const Context &at) {
    DeformableStages &s = at.s;
    const int points = known(at.derived.out_points), chunks = ceil_div(points, at.schedule.chunk());
    const bool many = points == 0 || chunks >= 8;
    if (!many && at.problem.batch > 1) {
        s.y.parallel(s.n);
    } else if (!many && at.problem.out_channels > at.schedule.panel() * chunks) {
        s.product.parallel(at.panel);
    } else {
        s.y.parallel(at.chunk);
    }
}

}  // namespace

void schedule_deformable(DeformableStages &s, const Problem &problem, const DeformableSchedule &schedule,
                         const Sizes &sizes) {
    const Context at = {s, problem, schedule, sizes, DeformableSizes(problem, schedule, sizes)};
    const Expr samples = sizes.offset_groups * at.derived.taps;
    s.y.bound(s.p, 0, at.derived.out_points).bound(s.n, 0, sizes.batch);
    if (!splits_groups(problem)) {
        s.y.bound(s.c, 0, sizes.out_channels);
    }
    if (s.blocks) {
        schedule_transposed_output(at);
    }
    schedule_product(at);
    schedule_sum(at);
    schedule_samples(at);
    schedule_corners(at);
    if (s.offset) {
        schedule_offsets(at, *s.offset, Halide::Internal::simplify(samples * problem.rank));
    }
    if (s.mask) {
        schedule_offsets(at, *s.mask, Halide::Internal::simplify(samples));
    }
    if (s.image) {
        schedule_image(at);
    }
    if (schedule.parallel) {
        share_work(at);
    }
    if (problem.has_open_sizes()) {
        s.product.never_partition_all();  // the ends of panels and of the image are not worth loops of their own
        s.y.never_partition_all();
    }
}

}  // namespace kiln::deformable
