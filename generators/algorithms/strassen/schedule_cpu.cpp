// Strassen's algorithm's schedule for processors: what its numbers mean, and which to take where nobody tuned them.
#include "algorithms/direct/schedule_cpu.h"

#include <algorithm>

#include "algorithms/strassen/strassen.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "moves/parallel_split.h"
#include "moves/tail_strategy.h"
#include "targets/register_tile.h"

namespace kiln {
namespace {

using Halide::Func;
using Halide::Stage;
using Halide::Var;
using Halide::VarOrRVar;

// A chunk's panels, and the sums that they read.
void share_chunk(StrassenStages &s, const SharedWork &work) {
    if (!work.is_shared()) {
        return;
    }
    const size_t rank = s.loops.image.size();
    std::vector<Halide::RVar> loops = {s.loops.panel};
    loops.insert(loops.end(), s.loops.phases.rbegin(), s.loops.phases.rend());
    loops.insert(loops.end(), s.loops.image.rbegin(), s.loops.image.rend() - 1);  // in the innermost are the products
    // Halide 21 does not see which of the products runs of iterations read: all of these are pieces, therefore.
    std::vector<SharedLoop> outputs;
    for (const Halide::RVar &loop : loops) {
        const SharedLoop next = loop_of_domain(loop);
        if (iterations_of(outputs) * next.extent > work.most_pieces()) {
            break;
        }
        outputs.push_back(next);
    }
    share_loops(s.y.update(), outputs, work);
    s.sums.parallel(rank > 1 ? s.sums.args()[s.sums.args().size() - 2] : s.block);
}

}  // namespace

void schedule_strassen(StrassenStages &s, const Problem &problem, const StrassenSchedule &schedule) {
    const StrassenStages::Loops &loops = s.loops;
    Stage y = s.y.update();
    std::vector<VarOrRVar> order = {loops.lane,   loops.row,      loops.channel_half, loops.half,
                                    loops.vector, loops.position, loops.tile_row};
    order.insert(order.end(), loops.image.begin(), loops.image.end());
    order.insert(order.end(), loops.phases.begin(), loops.phases.end());
    order.insert(order.end(), {loops.panel, loops.chunk, s.products.n});
    y.reorder(order).allow_race_conditions().vectorize(loops.lane).unroll(loops.row);
    y.unroll(loops.channel_half).unroll(loops.half);
    if (s.transposed_block) {
        Func &block = *s.transposed_block;
        const int row = schedule.pixels * s.products.axes[0].phases;
        block.compute_at(s.y, loops.channel_half).store_in(Halide::MemoryType::Stack);
        block.reorder_storage(s.u, s.products.c).bound_extent(s.u, lanes_within(row, schedule.lanes));
        block.bound_extent(s.products.c, schedule.lanes);
        block.reorder(s.products.c, s.u).vectorize(s.products.c).unroll(s.u);
    } else {
        y.unroll(loops.vector);
    }
    if (schedule.parallel && problem.batch > 1) {
        y.parallel(s.products.n);
    } else if (schedule.parallel) {
        y.parallel(loops.chunk);
        share_chunk(s, SharedWork(problem.flops()).within(loop_of_domain(loops.chunk).extent));
    }

    Func &products = s.products.product;
    products.compute_at(s.y, loops.image[0]);
    products.bound(s.i, 0, 7);
    order = unroll_tile(products, tile_loops(s.products, schedule.direct(), true));
    order.emplace_back(s.i);
    products.reorder(order);
    schedule_sum(s.products, schedule.direct(), s.i);

    s.sums.compute_at(s.y, loops.chunk);
    const Var vectors("vectors");
    s.sums.bound(s.k, 0, static_cast<int>(problem.in_channels / 2)).bound(s.i, 0, 7).bound(s.t, 0, schedule.pixels);
    if (problem.x_layout == Layout::nxc) {
        const int lanes = lanes_within(problem.in_channels / 2, schedule.lanes);
        s.sums.split(s.k, vectors, s.k, lanes, tail(static_cast<int>(problem.in_channels / 2), lanes));
        s.sums.reorder(s.k, s.i, vectors, s.t).vectorize(s.k).unroll(s.i);
    } else {
        const int lanes = lanes_within(schedule.pixels, schedule.lanes);
        s.sums.split(s.t, vectors, s.t, lanes, tail(schedule.pixels, lanes));
        s.sums.reorder(s.t, s.i, vectors, s.k, s.block).reorder_storage(s.t, s.k, s.i).vectorize(s.t).unroll(s.i);
    }
}

bool strassen_runs_on(const Problem &, const TargetModel &target) {
    return !target.is_gpu() && !target.lane_indexed_fma;
}

namespace {

// Of the sums that products read, over the whole of an image.
int64_t bytes_of_sums(const Problem &problem, const StrassenSchedule &schedule) {
    const Problem products = strassen_products(problem, schedule);
    return products.x_elements() / products.batch * halide_type(products.x_type).bytes();
}

// So much of the image that its sums stay in the second cache while all weights pass, with as few iterations done twice
// as may be, where the last chunk overlaps the one before.
int default_chunk(const Problem &problem, const StrassenSchedule &schedule, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int iterations = strassen_iterations(axes, axes.size() - 1, schedule);
    const int most =
        ceil_div(iterations, static_cast<int>(ceil_div(bytes_of_sums(problem, schedule), target.core.l2.bytes)));
    int best = most;
    for (int chunk = most; chunk > most / 2; chunk--) {
        best = ceil_div(iterations, chunk) * chunk < ceil_div(iterations, best) * best ? chunk : best;
    }
    return best;
}

// An estimate of what a call costs with everything in caches, in cycles.
double strassen_cycles(const Problem &problem, const StrassenSchedule &schedule, const TargetModel &target) {
    // Measured: cycles for a vector of x to become sums, and for one of y to be summed up, beyond what the direct
    // algorithm takes to write it; bytes of weights that come from the third cache in a cycle, and half of that hides.
    constexpr double sums = 7, outputs = 5, weights = 22;
    const Problem products = strassen_products(problem, schedule);
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int iterations = strassen_iterations(axes, axes.size() - 1, schedule);
    const double chunks = ceil_div(iterations, schedule.chunk);
    const double batch = static_cast<double>(problem.batch);
    const double more_bytes = problem.w_elements() * 0.75 * halide_type(problem.w_type).bytes();
    return direct_cycles(products, schedule.direct(), target) * chunks * schedule.chunk / iterations +
           (sums * products.x_elements() * 4 / 7 + outputs * problem.y_elements()) / schedule.lanes +
           chunks * batch * more_bytes / weights;
}

// The share of the peak that a register tile reaches. Sums are half as deep as the direct algorithm's, so that their
// ends weigh more: tiles of many sums gain (T1 with AVX2 takes 7% less by 2 x 6 than by 2 x 4, though the image has 2 x
// 4).
double rate(int vectors, int positions, const TargetModel &target) {
    const double steps = vectors * positions / target.core.fma_per_cycle;
    return steps / (steps / tile_rate(vectors, positions, target) + 1);
}

}  // namespace

StrassenSchedule default_strassen_schedule(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int width = axes[0].phase_extent / 2, height = axes.size() > 1 ? axes[1].phase_extent : 1;
    const int columns = static_cast<int>(problem.out_channels / 2),
              reduction_channels = static_cast<int>(problem.in_channels / 2);
    StrassenSchedule best;
    best.lanes = lanes_within(columns, target.lanes(sum_type(problem).bits()), true);
    best.unroll = reduction_channels % 4 == 0 ? 4 : reduction_channels % 2 == 0 ? 2 : 1;
    // A vector by many positions loads more than it multiplies: slow behind the first cache.
    const int least_vectors = columns % (2 * best.lanes) == 0 ? 2 : 1;
    const RegisterTile tile = best_tile(least_vectors, 4, height, width, [&](const RegisterTile &t) {
        const int positions = t.rows * t.pixels;
        const bool fits = columns % (t.vectors * best.lanes) == 0 &&
                          registers_of_tile(t.vectors, positions, target) <= target.vector_registers;
        return fits ? rate(t.vectors, positions, target) * tile_fit(axes[0].phase_extent, 2 * t.pixels) *
                          tile_fit(height, t.rows)
                    : 0;
    });
    best.vectors = tile.vectors;
    best.rows = tile.rows;
    best.pixels = tile.pixels;
    best.chunk = default_chunk(problem, best, target);
    best.parallel = problem.flops() > 2e6;
    return best;
}

bool strassen_is_profitable(const Problem &problem, const TargetModel &target) {
    // Where caches are cold its weights cost more than it gains, unless it gains much: 1x1 256->1024 at 14x14, of which
    // 5% were promised, took as long as the direct algorithm, and 11 to 16% longer with weights in no cache.
    constexpr double least_gain = 0.06;
    double strassen = strassen_cycles(problem, default_strassen_schedule(problem, target), target);
    double direct = direct_cycles(problem, default_direct_schedule(problem, target), target);
    if (target.cold_weights) {
        // Seven products have weights of a quarter each, which come from memory more slowly than the direct algorithm's
        // (on Zen 5, with 1x1 256->1024 and 1024->512 at 14x14: .52 ms in place of .41, 1.02 in place of .80).
        constexpr double strassen_rate = 0.35, direct_rate = 0.85;
        const double bytes = static_cast<double>(problem.w_elements()) * sizeof(float);
        strassen += 7.0 / 4 * bytes / (strassen_rate * target.core.memory.read);
        direct += bytes / (direct_rate * target.core.memory.read);
    }
    // Channels-first y is transposed, where the direct algorithm has vectors of positions: T1 takes as long by either.
    return problem.y_layout == Layout::nxc && strassen < (1 - least_gain) * direct;
}

ScheduleSpace strassen_space(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int most_lanes = lanes_within(problem.out_channels / 2, target.lanes(sum_type(problem).bits()), true);
    const int height = axes.size() > 1 ? axes[1].phase_extent : 1;
    const int chunk = default_strassen_schedule(problem, target).chunk;
    return {{{"lanes", halves(most_lanes, most_lanes / 2)},
             {"vectors", whole_range(1, 4)},
             {"pixels", whole_range(1, std::min(axes[0].phase_extent / 2, 28))},
             {"rows", whole_range(1, std::min(height, 4))},
             {"unroll", divisors_among(static_cast<int>(problem.in_channels / 2), {1, 2, 4, 8})},
             {"chunk", {ceil_div(chunk, 2), chunk, 2 * chunk}}},
            [&target](const ScheduleNumbers &n) {
                return registers_of_tile(n["vectors"], n["pixels"] * n["rows"], target) <= target.vector_registers;
            }};
}

}  // namespace kiln
