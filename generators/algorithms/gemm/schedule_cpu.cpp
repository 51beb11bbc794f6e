// The schedule for processors of products of matrices: what its numbers mean.
#include "algorithms/direct/schedule_cpu.h"

#include <algorithm>

#include "algorithms/gemm/gemm.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "moves/parallel_split.h"
#include "moves/tail_strategy.h"
#include "moves/transpose_block.h"

namespace kiln {
namespace {

using Halide::Func;
using Halide::RVar;
using Halide::Stage;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

constexpr const char *tile_loop = "tile";

// y in parts, with the loop that a part's sums are computed in.
Var schedule_parts(GemmStages &s, const Problem &problem, const GemmSchedule &schedule) {
    const Var part("part"), part_of_channels("part_of_channels"), vectors("vectors");
    const std::vector<Var> at = s.y.args();
    const int channels = static_cast<int>(problem.out_channels), of_part = schedule.panel() * schedule.panels;
    const int channel_parts = gemm_channel_parts(problem, schedule), parts = gemm_parts(problem, schedule);
    s.y.bound(s.c, 0, channels).bound(s.n, 0, static_cast<int>(problem.batch));
    if (problem.rank == 1) {
        s.y.bound(s.p, 0, static_cast<int>(problem.out_points()));
    }
    s.y.split(s.c, part_of_channels, s.c, std::min(of_part, channels),
              channels % of_part == 0 || channel_parts == 1 ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    const int row = static_cast<int>(problem.out[problem.rank - 1]);
    const int positions = std::min(schedule.tiles * schedule.pixels, row);
    s.y.split(s.p, part, s.p, positions, tail(row, positions));
    std::vector<VarOrRVar> order;
    if (s.transposed_block) {
        const int wide = lanes_within(positions, transposed_positions);
        const int narrow = lanes_within(std::min(of_part, channels), transposed_channels);
        const Var blocks("blocks"), rows("rows");
        schedule_transpose(s.y, *s.transposed_block, s.p, s.c, wide, narrow, blocks, rows,
                           tail(std::min(of_part, channels), narrow));
        order = {s.p, s.c, blocks, rows};
    } else {
        const int lanes = lanes_within(channels, schedule.lanes);
        s.y.split(s.c, vectors, s.c, lanes, tail(std::min(of_part, channels), lanes)).vectorize(s.c);
        order = {s.c, vectors, s.p};
        order.insert(order.end(), at.begin() + 2, at.end() - 1);
    }
    const Var run("run");  // so that the loop that sums are computed in stays one
    s.y.split(part_of_channels, run, part_of_channels, 1);
    order.insert(order.end(), {part_of_channels, run, part, s.n});
    s.y.reorder(order);
    if (schedule.parallel) {
        share_loops(s.y, {{s.n, static_cast<int>(problem.batch)}, {part, parts}, {run, channel_parts}},
                    SharedWork(problem.flops()));
    }
    return part_of_channels;
}

}  // namespace

SharedWork work_of_block(const Problem &problem, const GemmSchedule &schedule) {
    const double operations = problem.flops() / problem.in_channels * schedule.block;
    const int parts = gemm_parts(problem, schedule) * gemm_channel_parts(problem, schedule);
    return SharedWork(operations).within(static_cast<int>(problem.batch) * parts);
}

SharedPrefetches shared_gemm_prefetches(const Problem &problem, const GemmSchedule &schedule) {
    return {{tile_loop, shared_loops, piece_loops},
            schedule.tiles,
            static_cast<int64_t>(schedule.block) * schedule.panel() * halide_type(problem.w_type).bytes()};
}

void schedule_gemm(GemmStages &s, const Problem &problem, const GemmSchedule &schedule, const Func &packed) {
    const Var part = schedule_parts(s, problem, schedule);
    const DirectSchedule direct = schedule.direct();
    const Var tile(tile_loop), panel("panel");
    s.sums.compute_at(s.y, part);
    s.sums.bound_extent(s.c, schedule.panel() * schedule.panels);
    s.sums.bound_extent(s.p, schedule.tiles * schedule.pixels);
    s.sums.vectorize(s.c, schedule.lanes, TailStrategy::RoundUp);

    Stage update = s.sums.update();
    update.split(s.p, tile, s.p, schedule.pixels, TailStrategy::GuardWithIf);
    update.split(s.c, panel, s.c, schedule.panel(), TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = unroll_tile(update, {s.c, schedule.lanes, {}, {s.p}}, TailStrategy::GuardWithIf);
    const Var run("run");  // so that the loop that products are computed in stays one
    update.split(tile, run, tile, 1);
    order.insert(order.end(), {tile, run, panel, RVar(s.blocks.x), s.n});
    update.reorder(order);
    if (schedule.parallel) {
        share_loops(update, {{panel, schedule.panels}, {run, schedule.tiles}}, work_of_block(problem, schedule));
    }

    s.products.acc.compute_at(s.sums, tile).store_in(Halide::MemoryType::Register);
    s.products.acc.bound_extent(s.products.c, schedule.panel()).bound_extent(s.products.q[0], schedule.pixels);
    const SumSteps steps = schedule_tile_sum(
        s.products.acc, tile_loops(s.products, direct, true),
        {loops_from(s.products.r, 1), schedule.unroll, s.products.r[0], direct.dot_width}, TailStrategy::RoundUp);
    // Each tile fetches its share of the next panel.
    prefetch(s.products.acc.update(), packed, steps.steps, schedule.block / schedule.unroll);

    if (s.copies_x) {
        const int positions = schedule.tiles * schedule.pixels;
        const bool planes = problem.x_layout == Layout::ncx;
        const int lanes = lanes_within(planes ? positions : schedule.block, schedule.lanes);
        s.x.compute_at(s.sums, RVar(s.blocks.x)).bound_extent(s.k, schedule.block).bound_extent(s.p, positions);
        if (planes) {
            s.x.reorder_storage(s.p, s.k, s.n).reorder(s.p, s.k, s.n).vectorize(s.p, lanes, tail(positions, lanes));
        } else {
            s.x.vectorize(s.k, lanes, tail(schedule.block, lanes));
        }
    }
}

}  // namespace kiln
