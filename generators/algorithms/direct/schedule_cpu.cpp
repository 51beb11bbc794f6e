// The direct algorithm's schedule for processors: register tiles of channels by pixels,
// the loops around them, and what makes a kernel of these and the files beside it.
#include "algorithms/direct/schedule_cpu.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "algorithms/amx/amx.h"
#include "expressions/arithmetic.h"
#include "moves/tail_strategy.h"

namespace kiln {
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
    std::optional<Var> divided;  // the outermost loop over the image, where that is in chunks
    Var chunk{"chunk"};          // over those
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
    std::vector<VarOrRVar> panels = {panel};
    if (s.splits_groups) {
        panels.emplace_back(s.g);
    }
    // The phases of a row of channels-first y interleave: each tile writes all of them, while their lines are in a
    // cache.
    const bool interleaves = problem.y_layout == Layout::ncx && s.axes[0].phases > 1 && !s.transposed_block;
    const bool whole_rows = s.interleave_buffer || schedule.has_row_lanes();  // a tile is of all phases already
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
        append(panels);
        append(phases);
        if (schedule.chunk > 0) {
            sweep.divided = sweep.shared;
            append({sweep.chunk});
        }
        sweep.shared = schedule.chunk > 0 ? sweep.chunk : several_panels ? panels.back().var : sweep.shared;
    } else if (schedule.with<AmxLanes>() != nullptr && phases.empty()) {
        append({tile});
        append(image);
        append({panel});
        append(phases);
        sweep.divided = sweep.shared;
        sweep.shared = sweep.chunk;
        append({sweep.chunk});
    } else if (image.empty()) {
        append(panels);
        append({tile});
        append(phases);
    } else {
        append({tile});
        append(panels);
        append(phases);
        append(image);
    }
    append({s.n});
    sweep.shared = problem.batch > 1 ? s.n : sweep.shared;
    return sweep;
}

// The loops of a product that others are computed in.
struct ProductLoops {
    Var around_tile;  // the innermost around a register tile
    Var rows;         // over rows of tiles or, of one row, over tiles
};

// Rows of a matrix tile's channels, a vector of pixels at a time; those of neighbouring phases are stored together.
// Returns the innermost loops.
std::vector<VarOrRVar> unroll_pixel_lanes(Func &f, const DirectStages &s, const AmxLanes &amx, bool interleaves) {
    const Var block("block");
    f.split(s.q[0], block, s.q[0], amx.pixels).vectorize(s.q[0]).unroll(block);
    if (interleaves) {
        f.unroll(s.phase[0]);
        return {s.q[0], s.phase[0], block, s.c};
    }
    return {s.q[0], block, s.c};
}

// The finished numbers of a tile, phase by phase. Returns the loop around one.
Var schedule_interleave_buffer(DirectStages &s, const AmxLanes &amx, const Var &around_tile) {
    Func &buffer = *s.interleave_buffer;
    buffer.compute_at(s.product, around_tile).store_in(Halide::MemoryType::Stack);
    buffer.reorder_storage({s.q[0], s.c});
    std::vector<VarOrRVar> order = unroll_pixel_lanes(buffer, s, amx, false);
    if (s.axes.size() > 1) {
        order.push_back(s.q[1]);
    }
    order.push_back(s.phase[0]);
    buffer.reorder(order);
    return s.phase[0];
}

// Divides the outermost loop over the image into chunks.
void split_chunks(DirectStages &s, const Problem &problem, const DirectSchedule &schedule, const Var &divided,
                  const Var &chunk) {
    const int count = image_iterations(s.axes, schedule);
    const int size = schedule.chunk > 0 ? std::min(schedule.chunk, count) : chunk_of(problem, count);
    // The last is shorter: matrix tiles are not worth repeating.
    const bool shorter = schedule.with<AmxLanes>() != nullptr && count % size != 0;
    s.product.split(divided, chunk, divided, size, shorter ? TailStrategy::GuardWithIf : tail(count, size));
}

// Splits the product into register tiles.
ProductLoops schedule_product(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    // Where y picks from the product, that has whole panels: Halide 21 drops the guard of a vector that is all beyond
    // the channels of an inner Func, and what it stores lies in the next position, or behind the last.
    const int channels = round_up(channels_in_panels(problem, schedule), s.picks_from_product() ? schedule.panel() : 1);
    const bool whole_panels = channels % schedule.panel() == 0;
    const auto *amx = schedule.with<AmxLanes>();
    const Var tile("tile"), panel("panel"), rows("rows");
    bound_product(s, problem, channels);
    s.product.split(s.c, panel, s.c, schedule.panel(),
                    whole_panels ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    s.product.split(s.q[0], tile, s.q[0], schedule.width(), tail(s.axes[0].phase_extent, schedule.width()));
    std::vector<VarOrRVar> order = amx != nullptr && amx->pixel_lanes
                                       ? unroll_pixel_lanes(s.product, s, *amx, s.interleave_buffer.has_value())
                                       : unroll_tile(s.product, tile_loops(s, schedule, false));
    if (rank > 1) {
        s.product.split(s.q[1], rows, s.q[1], schedule.rows, tail(s.axes[1].phase_extent, schedule.rows));
        order.push_back(s.q[1]);
    }
    const Sweep sweep = sweep_of(s, problem, schedule, tile, panel, rows);
    if (sweep.divided) {
        split_chunks(s, problem, schedule, *sweep.divided, sweep.chunk);
    }
    order.insert(order.end(), sweep.loops.begin(), sweep.loops.end());
    s.product.reorder(order);
    if (rank > 1) {
        s.product.unroll(s.q[1]);
    }
    if (amx != nullptr && whole_panels) {
        // Of two loops that each end with storing the same tiles, LLVM 21 makes one end, and its search for the shape
        // of what meets there does not.
        s.product.never_partition_all();
    }
    if (schedule.parallel) {
        s.product.parallel(sweep.shared);
    }
    return {sweep.loops.front().var, rank > 1 ? rows : tile};
}

}  // namespace

int image_iterations(const std::vector<AxisMap> &axes, const DirectSchedule &schedule) {
    return axes.size() == 1   ? ceil_div(axes[0].phase_extent, schedule.width())
           : axes.size() == 2 ? ceil_div(axes[1].phase_extent, schedule.rows)
                              : axes.back().phase_extent;
}

void bound_product(const DirectStages &s, const Problem &problem, int channels) {
    Func product = s.product;
    product.bound(s.c, 0, channels).bound(s.n, 0, static_cast<int>(problem.batch));
    if (s.splits_groups) {
        product.bound(s.g, 0, static_cast<int>(problem.groups));
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        product.bound(s.q[a], 0, s.axes[a].phase_extent);
        if (s.axes[a].phases > 1) {
            product.bound(s.phase[a], 0, s.axes[a].phases);
        }
    }
}

TileLoops tile_loops(const DirectStages &s, const DirectSchedule &schedule, bool rows) {
    TileLoops tile = {s.c, schedule.lanes, {}, {s.q[0]}};
    if (schedule.has_row_lanes()) {
        tile.along = s.row_position();
        tile.others = {s.c};
        if (s.axes[0].phases > 1 && !s.flattened_rows) {
            tile.interleaved = {s.phase[0]};
        }
    }
    if (rows && s.axes.size() > 1 && !s.flattened_rows) {
        tile.others.push_back(s.q[1]);
    }
    return tile;
}

// The weights' loads are shared by the tile's pixels, and each pixel's broadcast by its vectors.
SumSteps schedule_sum(DirectStages &s, const DirectSchedule &schedule, const Var &around_tile) {
    const bool f16 = s.f16_sums.has_value();
    s.acc.compute_at(s.product, around_tile);
    s.acc.store_in(f16 ? Halide::MemoryType::Stack : Halide::MemoryType::Register);
    if (schedule.has_row_lanes()) {
        return schedule_row_sum(s, schedule);
    }
    const SumLoops sums = {loops_from(s.r, 1), f16 ? 1 : schedule.unroll, s.r[0], schedule.dot_width};
    // No shift: it reads the compensation.
    return schedule_tile_sum(s.acc, tile_loops(s, schedule, true), sums, TailStrategy::RoundUp);
}

SumSteps schedule_direct(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    if (s.flattened_rows) {
        return schedule_flattened_rows(s, problem, schedule);
    }
    const ProductLoops loops = schedule_product(s, problem, schedule);
    SumSteps steps;
    if (const auto *amx = schedule.with<AmxLanes>()) {
        const Var around_tile =
            s.interleave_buffer ? schedule_interleave_buffer(s, *amx, loops.around_tile) : loops.around_tile;
        schedule_matrix_tile_sums(s, schedule, *amx, around_tile);
    } else {
        steps = schedule_sum(s, schedule, loops.around_tile);
    }
    schedule_copies(s, problem, schedule, loops.rows);
    return steps;
}

}  // namespace kiln
