// The direct algorithm's schedule for processors: register tiles of channels by pixels,
// the loops around them, and what makes a kernel of these and the files beside it.
#include "algorithms/direct/schedule_cpu.h"

#include <algorithm>
#include <utility>

#include "algorithms/amx/amx.h"
#include "algorithms/direct/direct.h"
#include "expressions/arithmetic.h"
#include "moves/reduction.h"
#include "moves/tail_strategy.h"

namespace kiln::dense {
namespace {

using Halide::Func;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// The loops around a register tile, the innermost first, and the one that the caller's threads share.
struct Sweep {
    std::vector<VarOrRVar> loops;
    Var shared;
    bool in_chunks = false;  // whether the outermost loop over the image is divided, the outer part being `chunk`
    Var divided, chunk{"chunk"};
};

// How many of the `count` iterations of a loop around matrix tiles one task takes: so many that tasks take little time
// together, on one thread above all, on two, and a little on four: a task's first and last tile overlap with no other.
// Some microseconds' worth at least, and eight tasks at the most, so that a panel stays in the first cache while it
// sweeps its part of the image.
int chunk_of(const Problem &problem, int count) {
    const double least_flops = problem.is_quantized() ? 3e7 : 1.5e7;
    const int most = std::clamp(static_cast<int>(problem.flops() / least_flops), 1, 8);
    constexpr double cycles_of_start = 1000;
    constexpr std::pair<int, double> weight_of_threads[] = {{1, 4}, {2, 2}, {4, 0.1}};
    const double cycles = problem.flops() / count / (problem.is_quantized() ? 2048 : 1024);
    int best = count;
    double least = 0;
    for (int size = count; size >= ceil_div(count, most); size--) {
        const double task = size * cycles + cycles_of_start;
        double cost = 0;
        for (const auto &[threads, weight] : weight_of_threads) {
            cost += weight * round_up(ceil_div(count, size), threads) * task;
        }
        if (least == 0 || cost < least) {
            least = cost;
            best = size;
        }
    }
    return best;
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

// Splits the product into register tiles. Returns the innermost loop around one.
Var schedule_product(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    // Where y picks from the product, that has whole panels: Halide 21 drops the guard of a vector that is all beyond
    // the channels of an inner Func, and what it stores lies in the next position, or behind the last.
    const bool inner = s.y.name() != s.product.name();
    const int channels = round_up(problem.out_channels, inner ? schedule.panel() : 1);
    const Var tile("tile"), panel("panel"), vector("vector"), rows("rows");
    bound_product(s, problem, channels);
    s.product.split(s.c, panel, s.c, schedule.panel(),
                    channels % schedule.panel() == 0 ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    s.product.split(s.q[0], tile, s.q[0], schedule.width(), tail(s.axes[0].phase_extent, schedule.width()));
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
        s.product.split(s.q[1], rows, s.q[1], schedule.rows, tail(s.axes[1].phase_extent, schedule.rows));
        order.push_back(s.q[1]);
    }
    const Sweep sweep = sweep_of(s, problem, schedule, tile, panel, rows);
    if (sweep.in_chunks) {
        const int count = image_turns(s.axes, schedule);
        const int size = schedule.chunk > 0 ? std::min(schedule.chunk, count) : chunk_of(problem, count);
        // The last is shorter: matrix tiles are not worth repeating.
        const bool shorter = schedule.tile_steps > 0 && count % size != 0;
        s.product.split(sweep.divided, sweep.chunk, sweep.divided, size,
                        shorter ? TailStrategy::GuardWithIf : tail(count, size));
    }
    order.insert(order.end(), sweep.loops.begin(), sweep.loops.end());
    s.product.reorder(order);
    if (rank > 1) {
        s.product.unroll(s.q[1]);
    }
    if (schedule.tile_steps > 0 && channels % schedule.panel() == 0) {
        // Of two loops that each end with storing the same tiles, LLVM 21 makes one end, and its search for the shape
        // of what meets there does not.
        s.product.never_partition_all();
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

}  // namespace

int image_turns(const std::vector<AxisMap> &axes, const DirectSchedule &schedule) {
    return axes.size() == 1   ? ceil_div(axes[0].phase_extent, schedule.pixels)
           : axes.size() == 2 ? ceil_div(axes[1].phase_extent, schedule.rows)
                              : axes.back().phase_extent;
}

void bound_product(const DirectStages &s, const Problem &problem, int channels) {
    Func product = s.product;
    product.bound(s.c, 0, channels).bound(s.n, 0, static_cast<int>(problem.batch));
    for (size_t a = 0; a < s.axes.size(); a++) {
        product.bound(s.q[a], 0, s.axes[a].phase_extent);
        if (s.axes[a].phases > 1) {
            product.bound(s.phase[a], 0, s.axes[a].phases);
        }
    }
}

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
    s.acc.store_in(schedule.f16_accumulate ? Halide::MemoryType::Stack : Halide::MemoryType::Register);
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
    append_reduction(sum, s.r, 1, schedule.f16_accumulate ? 1 : schedule.unroll, order);
    sum.reorder(order);
    if (schedule.dot > 1) {
        sum.atomic().vectorize(pair);  // so that the neighbouring products become one instruction
    }
    unroll_tile(sum);
}

void schedule_direct(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    if (s.joined.defined()) {
        schedule_joined(s, problem, schedule);
        return;
    }
    const Var around_tile = schedule_product(s, problem, schedule);
    schedule.tile_steps > 0 ? schedule_tile_sums(s, schedule, around_tile) : schedule_sum(s, schedule, around_tile);
    schedule_copies(s, problem, schedule);
}

}  // namespace kiln::dense
