// The direct algorithm's schedule for processors: register tiles of channels by pixels,
// the loops around them, and what makes a kernel of these and the files beside it.
#include "algorithms/direct/schedule_cpu.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "algorithms/amx/amx.h"
#include "expressions/arithmetic.h"
#include "moves/parallel_split.h"
#include "moves/tail_strategy.h"

namespace kiln {
namespace {

using Halide::Func;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// The loops around a register tile, the innermost first, and those that the caller's threads share, the outermost
// first.
struct Sweep {
    std::vector<VarOrRVar> loops;
    std::vector<SharedLoop> shared;
    bool is_one_shared = false;  // the first of these, as it is: more is computed in it
    std::optional<Var> divided;  // the outermost loop over the image, where that is in chunks
    Var chunk{"chunk"};          // over those

    void append(const std::vector<SharedLoop> &more) {
        for (const SharedLoop &loop : more) {
            loops.push_back(loop.var);
        }
    }
    void share(const std::vector<SharedLoop> &more) { shared.insert(shared.end(), more.rbegin(), more.rend()); }
    // Without anything else of them.
    void share_alone(const SharedLoop &loop) {
        shared = {loop};
        is_one_shared = true;
    }
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

// The same as the schedule says, where it does.
int chunk_size(const Problem &problem, const DirectSchedule &schedule, int count) {
    return schedule.chunk > 0 ? std::min(schedule.chunk, count) : chunk_of(problem, count);
}

// The loops of each kind, the innermost first.
struct LoopsByKind {
    std::vector<SharedLoop> panels, image, phases;
};

LoopsByKind loops_by_kind(const DirectStages &s, const Problem &problem, const DirectSchedule &schedule,
                          const Var &panel, const Var &rows, bool interleaves) {
    LoopsByKind loops;
    loops.panels = {{panel, ceil_div(channels_in_panels(problem, schedule), schedule.panel())}};
    if (s.splits_groups) {
        loops.panels.push_back({s.g, static_cast<int>(problem.groups)});
    }
    for (size_t a = 0; a < s.axes.size(); a++) {
        const int extent = s.axes[a].phase_extent;
        if (a > 0) {
            loops.image.push_back(a == 1 ? SharedLoop{rows, ceil_div(extent, schedule.rows)}
                                         : SharedLoop{s.q[a], extent});
        }
        if (s.axes[a].phases > 1 && !(interleaves && a == 0)) {
            loops.phases.push_back({s.phase[a], s.axes[a].phases});
        }
    }
    return loops;
}

// Panels, each of which goes through a tile in a loop of its own: the innermost, which a tile is computed in.
std::vector<SharedLoop> panels_of_tile(Sweep &sweep, const DirectStages &s, const std::vector<SharedLoop> &panels) {
    std::vector<SharedLoop> runs = panels;
    const Var panel = panels.front().var.var, run("run");
    Func(s.product).split(panel, run, panel, 1);
    runs.front().var = run;
    sweep.append({{panel, 1}});
    return runs;
}

// One long row, all panels of each of its tiles.
void sweep_row(Sweep &sweep, const DirectStages &s, const std::vector<SharedLoop> &panels, const SharedLoop &tiles,
               const std::vector<SharedLoop> &phases) {
    std::vector<SharedLoop> runs = panels;
    if (!s.copies_tile_rows() && sweep.loops.empty()) {
        runs = panels_of_tile(sweep, s, panels);
    }
    sweep.append(runs);
    sweep.append({tiles});
    sweep.append(phases);
    if (s.copies_tile_rows()) {
        sweep.share_alone(tiles);
    } else {
        sweep.share({tiles});
        sweep.share(runs);
    }
}

// Panels outside: each panel of weights is read once, and stays in a cache while it sweeps the image. Otherwise each
// row of the image stays while all panels pass, or, where the image is one long row, each tile of it.
Sweep sweep_of(const DirectStages &s, const Problem &problem, const DirectSchedule &schedule, const Var &tile,
               const Var &panel, const Var &rows) {
    // The phases of a row of channels-first y interleave: each tile writes all of them, while their lines are in a
    // cache.
    const bool of_rows = problem.y_layout == Layout::ncx || schedule.has_row_lanes();
    const bool interleaves = of_rows && s.axes[0].phases > 1 && !s.transposed_block;
    const bool whole_rows = s.interleave_buffer || schedule.has_row_lanes();  // a tile is of all phases already
    const auto [panels, image, phases] = loops_by_kind(s, problem, schedule, panel, rows, interleaves);
    const SharedLoop tiles = {tile, ceil_div(s.axes[0].phase_extent, schedule.width())};
    Sweep sweep;
    if (interleaves && !whole_rows) {
        sweep.append({{s.phase[0], s.axes[0].phases}});
    }
    const bool matrix_tiles = schedule.with<AmxLanes>() != nullptr && phases.empty();
    const bool several_panels = problem.out_channels > schedule.panel();
    if (schedule.panels_outside || matrix_tiles) {
        sweep.append({tiles});
        sweep.append(image);
        sweep.append(panels);
        sweep.append(phases);
        if (schedule.chunk > 0 || !schedule.panels_outside) {
            const int iterations = image_iterations(s.axes, schedule);
            const SharedLoop chunks = {sweep.chunk, ceil_div(iterations, chunk_size(problem, schedule, iterations))};
            sweep.divided = image.empty() ? tile : image.back().var.var;
            sweep.append({chunks});
            if (matrix_tiles) {
                sweep.share_alone(chunks);
            } else {
                sweep.share({chunks});
                sweep.share(phases);
                sweep.share(panels);
            }
        } else if (image.empty() || s.copies_tile_rows()) {
            sweep.share_alone(several_panels ? panels.back() : image.empty() ? tiles : image.back());
        } else {
            sweep.share(panels);
            sweep.share(image);
        }
    } else if (image.empty()) {
        sweep_row(sweep, s, panels, tiles, phases);
    } else {
        if (schedule.tiles_outside) {
            sweep.append(panels_of_tile(sweep, s, panels));
            sweep.append({tiles});
        } else {
            sweep.append({tiles});
            sweep.append(panels);
        }
        sweep.append(phases);
        sweep.append(image);
        if (s.copies_tile_rows()) {
            sweep.share_alone(image.back());
        } else if (schedule.tiles_outside) {
            sweep.share(image);  // runs of tiles would end within rows
        } else {
            sweep.share(image);
            sweep.share(phases.empty() ? panels : std::vector<SharedLoop>());
        }
    }
    sweep.append({{s.n, static_cast<int>(problem.batch)}});
    if (problem.batch > 1) {
        sweep.share_alone({s.n, static_cast<int>(problem.batch)});
    }
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

// Loops over the register tiles of a row, and over rows of them.
constexpr const char *tile_loop = "tile", *rows_loop = "rows";

// Divides the outermost loop over the image into chunks.
void split_chunks(DirectStages &s, const Problem &problem, const DirectSchedule &schedule, const Var &divided,
                  const Var &chunk) {
    const int count = image_iterations(s.axes, schedule), size = chunk_size(problem, schedule, count);
    // The last is shorter.
    s.product.split(divided, chunk, divided, size,
                    count % size != 0 ? TailStrategy::GuardWithIf : TailStrategy::RoundUp);
}

// Whether y picks from a product that is computed of an image at a time, as of a batch, whose images threads share.
bool is_product_of_image(const DirectStages &s, const Problem &problem) {
    return s.picks_from_product() && problem.batch > 1;
}

// Splits the product into register tiles.
ProductLoops schedule_product(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    const size_t rank = s.axes.size();
    // Where y picks from the product, that has whole panels: Halide 21 drops the guard of a vector that is all beyond
    // the channels of an inner Func, and what it stores lies in the next position, or behind the last.
    const int channels = round_up(channels_in_panels(problem, schedule), s.picks_from_product() ? schedule.panel() : 1);
    const bool whole_panels = channels % schedule.panel() == 0;
    const auto *amx = schedule.with<AmxLanes>();
    const Var tile(tile_loop), panel("panel"), rows(rows_loop);
    bound_product(s, problem, channels);
    // Panels in part of each group are many: with masks, there is one code for all.
    const TailStrategy in_part =
        amx != nullptr && s.splits_groups ? TailStrategy::Predicate : TailStrategy::GuardWithIf;
    s.product.split(s.c, panel, s.c, schedule.panel(), whole_panels ? TailStrategy::RoundUp : in_part);
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
    if (amx != nullptr && (whole_panels || s.splits_groups)) {
        // Of two loops that each end with storing the same tiles, LLVM 21 makes one end, and its search for the shape
        // of what meets there does not.
        s.product.never_partition_all();
    }
    const bool is_shared = schedule.parallel && !is_product_of_image(s, problem);
    if (is_shared && sweep.is_one_shared) {
        s.product.parallel(sweep.shared.front().var);
    } else if (is_shared) {
        share_loops(s.product, sweep.shared, pieces_worth(problem.flops()));
    }
    return {sweep.loops.front().var, rank > 1 ? rows : tile};
}

}  // namespace

int image_iterations(const std::vector<AxisMap> &axes, const DirectSchedule &schedule) {
    return axes.size() == 1   ? ceil_div(axes[0].phase_extent, schedule.width())
           : axes.size() == 2 ? ceil_div(axes[1].phase_extent, schedule.rows)
                              : axes.back().phase_extent;
}

bool shares_panels_with_image(const Problem &problem, const std::vector<AxisMap> &axes,
                              const DirectSchedule &schedule) {
    const bool copies_rows = problem.x_layout == Layout::ncx && axes[0].reads_outside();  // for all panels
    if (!schedule.parallel || problem.batch > 1 || schedule.panels_outside || schedule.tiles_outside || copies_rows ||
        schedule.with<ChannelLanes>() == nullptr || !has_one_phase(axes)) {
        return false;
    }
    std::vector<int> image;
    for (size_t a = axes.size(); a-- > 1;) {
        image.push_back(a == 1 ? ceil_div(axes[1].phase_extent, schedule.rows) : axes[a].phase_extent);
    }
    if (image.empty()) {
        image.push_back(image_iterations(axes, schedule));
    }
    const int panels = ceil_div(channels_in_panels(problem, schedule), schedule.panel());
    return !is_left_whole(panels, image, pieces_worth(problem.flops()));
}

void bound_product(const DirectStages &s, const Problem &problem, int channels) {
    Func product = s.product;
    product.bound(s.c, 0, channels);
    if (!is_product_of_image(s, problem)) {
        product.bound(s.n, 0, static_cast<int>(problem.batch));
    }
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
    TileLoops tile = {s.c, schedule.lanes, {}, {s.row_position()}};
    if (schedule.has_row_lanes()) {
        tile.along = s.row_position();
        tile.others.clear();
        (s.interleaves_channels ? tile.interleaved : tile.others).push_back(s.c);
        if (s.axes[0].phases > 1 && !s.flattened_rows) {
            tile.interleaved.push_back(s.phase[0]);
        }
    }
    if (rows && s.axes.size() > 1 && !s.flattened_rows) {
        // A weight that is broadcast is used for all rows at once, rather than kept, with all others, for the next row.
        tile.others.insert(schedule.has_row_lanes() ? tile.others.begin() : tile.others.end(), s.q[1]);
    }
    if (rows && s.partial_sums > 1) {
        // What neighbouring positions read of x is broadcast once, where their taps come one after the other.
        tile.others.insert(schedule.has_row_lanes() ? tile.others.end() : tile.others.begin(), s.part);
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

void prefetch_panels(DirectStages &s, const Problem &problem, const DirectSchedule &schedule, const Func &packed,
                     const Halide::RVar &steps) {
    const PackedWeights weights = packed_weights(problem, schedule);
    const int panel_steps = weights.steps() * static_cast<int>(taps_of_phase(s.axes)) / weights.joined_taps;
    prefetch(s.acc.update(), packed, steps, ceil_div(panel_steps, schedule.unroll));
}

SharedPrefetches shared_panel_prefetches(const Problem &problem, const DirectSchedule &schedule) {
    return {{tile_loop, rows_loop, shared_loops, piece_loops},
            tiles_of_panel(problem, schedule),
            panel_bytes(problem, schedule)};
}

SumSteps schedule_direct(DirectStages &s, const Problem &problem, const DirectSchedule &schedule) {
    if (s.flattened_rows) {
        return schedule.flattens_tiles() ? schedule_tiles_across_rows(s, problem, schedule)
                                         : schedule_flattened_rows(s, problem, schedule);
    }
    if (schedule.with<BlockedRowLanes>() != nullptr) {
        return schedule_row_blocks(s, problem, schedule);
    }
    const ProductLoops loops = schedule_product(s, problem, schedule);
    SumSteps steps;
    if (const auto *amx = schedule.with<AmxLanes>()) {
        const Var around_tile =
            s.interleave_buffer ? schedule_interleave_buffer(s, *amx, loops.around_tile) : loops.around_tile;
        schedule_matrix_tile_sums(s, schedule, *amx, around_tile);
    } else {
        const bool shared = shares_panels_with_image(problem, s.axes, schedule);
        if ((schedule.chunk > 0 || shared) && channels_in_panels(problem, schedule) % schedule.panel() != 0 &&
            !s.compensation) {
            // Tasks are panels of a chunk or of a row, whose number no loop counts: nothing would part the last panel,
            // which is computed in part, from all others, and each step of their sums would ask. 7x7 patches of three
            // channels to 256 take .83 ms so by six vectors of 16, and .39.
            s.acc.bound_extent(s.c, schedule.panel());
        }
        steps = schedule_sum(s, schedule, loops.around_tile);
    }
    schedule_copies(s, problem, schedule, loops.rows);
    return steps;
}

}  // namespace kiln
