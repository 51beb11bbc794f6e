// The direct algorithm in matrix tiles: which numbers to take where nobody tuned them, and what they mean.
#include "algorithms/amx/amx.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>

#include "algorithms/direct/estimate/estimate.h"
#include "algorithms/empty/empty.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "lowering/amx/matrix_tiles.h"
#include "targets/register_tile.h"

namespace kiln {
namespace {

using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// How many neighbouring products four bytes of an operand hold.
int dot_width(const Problem &problem) {
    return problem.is_quantized() ? 4 : 2;
}

// Registers that stay filled: sums, a row of them's weights, and the pixels at hand.
int registers(int vectors, int tiles) {
    return vectors * tiles + (tiles > 1 ? vectors : 1) + 1;
}

// The narrowest image whose rows are worth being a tile's: all sixteen lanes take their time.
constexpr int least_pixel_lanes = 8;

// The longest stride at which rows of x are loaded whole and parted by their positions' remainders, and the most
// products of four bytes of a sum that is worth it: rows that begin anywhere reach into two lines, which long sums feel
// more than the copy that has channels innermost, and y written an element at a time.
constexpr int most_row_stride = 4, most_strided_steps = 256;

// Bytes of weights, or of an image, that stay in the first cache: they leave room there for the other.
constexpr double most_near = 36 << 10;

// Channels of each group.
int reduction_channels(const Problem &problem) {
    return static_cast<int>(problem.in_channels / problem.groups);
}
int channels_of_group(const Problem &problem) {
    return static_cast<int>(problem.out_channels / problem.groups);
}

// Taps of a sum that are not one with its channels.
double other_taps(const std::vector<AxisMap> &axes, const AmxSchedule &s) {
    return static_cast<double>(taps_of_phase(axes)) / (s.joined_taps ? axes[0].taps : 1);
}

// Four bytes each, of a sum that its tile takes at once.
int sum_steps(const Problem &problem, const std::vector<AxisMap> &axes, bool joins_taps) {
    return ceil_div(reduction_channels(problem) * (joins_taps ? axes[0].taps : 1), dot_width(problem));
}

// Channels of a tile. Where pixels are lanes a product takes as long as its channels, and tiles are equal parts of
// them; else so long as its pixels, but a group's panel in part takes masks.
int lanes_of(const Problem &problem) {
    const int channels = channels_of_group(problem), tiles = ceil_div(channels, tile_lanes);
    const bool equal_parts = has_pixel_lanes(problem) || (problem.groups > 1 && tiles == 1);
    return equal_parts ? ceil_div(channels, tiles) : tile_lanes;
}

// Whether a row's taps may be one sum with their channels: what follows them in memory is the next position's, which
// floats of any value may not be multiplied by 0.
bool can_join_taps(const Problem &problem, const std::vector<AxisMap> &axes) {
    return problem.groups > 1 && !has_pixel_lanes(problem) && axes[0].phases == 1 && axes[0].taps > 1 &&
           axes[0].tap_step == 1 &&
           (problem.is_quantized() || reduction_channels(problem) * axes[0].taps % dot_width(problem) == 0);
}

// Whether the sums' steps have to be whole instructions: what comes after is another group's, or another position's.
bool has_whole_steps(const Problem &problem, bool joins_taps) {
    return !problem.is_quantized() && (problem.groups > 1 || joins_taps);
}

// What a register tile reads that is not in the first cache: cycles for a row of a matrix tile.
struct FarRows {
    double pixels = 0, weights = 0;
};

// Of several taps pixels are there since the tap before, and weights come while others are multiplied: measured. Of one
// tap each panel reads all pixels anew, and waits for as long as the second cache takes to give them, unless the first
// holds all of them; for weights, which follow each other, half as long.
FarRows far_rows(const Problem &problem, const AmxSchedule &s, double taps, bool far_weights,
                 const TargetModel &target) {
    constexpr double waits = 0.25;
    if (taps_of_phase(axis_maps(problem)) > 1) {
        return {waits / taps, far_weights ? waits : 0};
    }
    const bool pixel_lanes = has_pixel_lanes(problem);
    const auto positions = static_cast<double>(problem.x_elements() / problem.batch / problem.in_channels);
    const double image_bytes = 4.0 * ceil_div(reduction_channels(problem), dot_width(problem)) * positions;
    const double pixels = 4.0 * (pixel_lanes ? s.pixels : s.steps);
    const double weights = 4.0 * (pixel_lanes ? s.steps : lanes_of(problem));
    return {image_bytes > most_near ? pixels / target.core.l2.read : 0,
            far_weights ? weights / target.core.l2.read / 2 : 0};
}

// Cycles that a register tile takes for `steps` of each tap and block of input channels. Measured: a product takes as
// long as its pixels, a load as half its rows, and products do not hide all loads, the less so the fewer registers hold
// operands.
double step_cycles(const AmxSchedule &s, int lanes, const FarRows &far, bool pixel_lanes) {
    const int tiles = s.rows * s.blocks, operand_registers = tile_registers - s.vectors * tiles;
    const double products = s.vectors * tiles * std::max(pixel_lanes ? lanes : s.pixels, 4);
    const double pixel_rows = tiles * (pixel_lanes ? s.steps : s.pixels);
    const double weight_rows = s.vectors * (pixel_lanes ? lanes : s.steps);
    const double loads = (pixel_rows + weight_rows) / 2;
    return std::max(products, loads) + loads / operand_registers + far.pixels * pixel_rows + far.weights * weight_rows +
           6;
}

// Cycles of a whole run; `near`: with all operands of 1x1 layers in the first cache.
double tiles_cycles(const Problem &problem, const AmxSchedule &s, const TargetModel &target, bool near = false) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int steps = ceil_div(sum_steps(problem, axes, s.joined_taps), s.steps), lanes = lanes_of(problem);
    const double taps = other_taps(axes, s);
    int phases = 1;
    double tiles =
        ceil_div(channels_of_group(problem), s.vectors * lanes) * static_cast<double>(problem.batch * problem.groups);
    for (size_t a = 0; a < axes.size(); a++) {
        phases *= axes[a].phases;
        const int tile = a == 0 ? s.pixels * s.blocks : a == 1 ? s.rows : 1;
        tiles *= ceil_div(axes[a].phase_extent, tile) * axes[a].phases;
    }
    // Sums are stored and read again, a vector of them in about six cycles, while the next tile's products run; to
    // change from one to the other takes some time too. Vectors of pixels are taken by powers of two.
    constexpr double change = 100;
    const bool pixel_lanes = has_pixel_lanes(problem);
    const double vectors_of_tile =
        pixel_lanes ? lanes * std::popcount(static_cast<unsigned>(s.pixels)) : static_cast<double>(s.pixels);
    const double outputs = 6.0 * s.vectors * s.rows * s.blocks * vectors_of_tile;
    // A panel that sweeps the image stays in the first cache.
    const double blocks = taps * steps;
    const bool far_weights = blocks * s.vectors * s.steps * lanes * 4 > most_near || (phases > 1 && !s.panels_outside);
    const FarRows far = near && taps_of_phase(axes) == 1 ? FarRows() : far_rows(problem, s, taps, far_weights, target);
    const double products = blocks * step_cycles(s, lanes, far, pixel_lanes);
    return tiles * (std::max(products, outputs) + change);
}

// Cycles to copy x by groups: a vector of a position's channels, or a part of one, at a time.
double copy_cycles(const Problem &problem, const AmxSchedule &s) {
    constexpr double cycles_of_vector = 2;
    const DirectSchedule direct = s.direct(problem);
    const int vector = std::gcd(reduction_channels(problem), 16 * dot_width(problem));
    return direct.with<AmxLanes>()->copies_groups
               ? cycles_of_vector * static_cast<double>(problem.x_elements()) / vector
               : 0;
}

// Of a sum, that one instruction takes.
int default_steps(const Problem &problem, int steps, bool joins_taps) {
    return has_whole_steps(problem, joins_taps) ? largest_divisor(steps, most_tile_rows)
                                                : ceil_div(steps, ceil_div(steps, most_tile_rows));
}

// Of the least cycles.
AmxSchedule best_schedule(const Problem &problem, const TargetModel &target, bool near) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int width = axes[0].phase_extent, height = axes.size() > 1 ? axes[1].phase_extent : 1;
    AmxSchedule best, s;
    // Beyond that, a part of the image that all panels sweep is too little to read them all for.
    s.panels_outside = problem.w_elements() * 4 / dot_width(problem) > target.core.l2.bytes;
    s.parallel = problem.flops() > 8e6;
    double least = 0;
    const int most_vectors = ceil_div(channels_of_group(problem), tile_lanes);
    for (const bool joined : {false, true}) {
        if (joined && !can_join_taps(problem, axes)) {
            continue;
        }
        s.joined_taps = joined;
        s.steps = default_steps(problem, sum_steps(problem, axes, joined), joined);
        for (s.vectors = 1; s.vectors <= most_vectors; s.vectors++) {
            for (s.rows = 1; s.rows <= std::min(height, 3); s.rows++) {
                for (s.blocks = 1; registers(s.vectors, s.rows * s.blocks) <= tile_registers; s.blocks++) {
                    for (s.pixels = 1; s.pixels <= std::min(width / s.blocks, most_tile_rows); s.pixels++) {
                        const double cycles = tiles_cycles(problem, s, target, near);
                        if (least == 0 || cycles < least) {
                            least = cycles;
                            best = s;
                        }
                    }
                }
            }
        }
    }
    return best;
}

}  // namespace

void AmxSchedule::list(ScheduleText &text) {
    text.number("vectors", vectors, 1, tile_registers);
    text.number("rows", rows, 1, tile_registers);
    text.number("blocks", blocks, 1, tile_registers);
    text.number("pixels", pixels, 1, most_tile_rows);
    text.number("steps", steps, 1, most_tile_rows);
    text.flag("panels_outside", panels_outside);
    text.flag("parallel", parallel);
    text.optional("joined_taps", joined_taps, false);
}

DirectSchedule AmxSchedule::direct(const Problem &problem) const {
    DirectSchedule s;
    s.lanes = lanes_of(problem);
    s.vectors = vectors;
    const bool pixel_lanes = has_pixel_lanes(problem);
    const bool several_taps = problem.groups > 1 && taps_of_phase(axis_maps(problem)) > 1;
    s.tile = AmxLanes{blocks, pixels, steps, pixel_lanes, !pixel_lanes && several_taps, joined_taps};
    s.rows = rows;
    s.dot_width = dot_width(problem);
    s.panels_outside = panels_outside;
    s.panels_of_groups = problem.groups > 1;
    s.parallel = parallel;
    return s;
}

void AmxSchedule::check(const Problem &problem) const {
    direct(problem).check(problem);
    const std::vector<AxisMap> axes = axis_maps(problem);
    if (joined_taps && !can_join_taps(problem, axes)) {
        throw std::invalid_argument("schedule: \"joined_taps\" must be 0: a row's taps cannot be one sum here");
    }
    if (has_whole_steps(problem, joined_taps) && sum_steps(problem, axes, joined_taps) % steps != 0) {
        throw std::invalid_argument("schedule: \"steps\" must divide the " +
                                    std::to_string(sum_steps(problem, axes, joined_taps)) + " of a group's sum");
    }
    if (registers(vectors, rows * blocks) > tile_registers) {
        throw std::invalid_argument("schedule: " + std::to_string(vectors) + " x " + std::to_string(rows * blocks) +
                                    " tiles of sums leave no register for their operands");
    }
}

bool has_pixel_lanes(const Problem &problem) {
    if (problem.x_layout != Layout::ncx || problem.y_layout != Layout::ncx) {
        return false;
    }
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int64_t steps = sum_steps(problem, axes, false) * taps_of_phase(axes);
    const bool parts = axes[0].stride <= most_row_stride && steps <= most_strided_steps;
    return (axes[0].stride == 1 || parts) && axes[0].phase_extent >= least_pixel_lanes &&
           std::all_of(axes.begin(), axes.end(), [](const AxisMap &axis) {
               const AxisMap::Range range = axis.reads_inside();
               return axis.out % axis.phases == 0 && range.first <= range.last;
           });
}

bool amx_runs_on(const Problem &problem, const TargetModel &target) {
    return problem.x_type == DType::f16 ? target.f16_tiles : target.matrix_tiles;
}

bool amx_applies(const Problem &problem) {
    if (problem.traits().deformable || problem.has_open_sizes() || is_empty(problem) ||
        !is_dot(problem, dot_width(problem)) ||
        (problem.groups > 1 && reduction_channels(problem) % dot_width(problem) != 0)) {
        return false;
    }
    // Pixels of phases without taps start anywhere, and their sums lie where no constant tells.
    const std::vector<AxisMap> axes = axis_maps(problem);
    return std::none_of(axes.begin(), axes.end(), [](const AxisMap &axis) { return axis.has_empty_phases(); });
}

bool amx_is_profitable(const Problem &problem, const TargetModel &target) {
    // Vectors of channels are written an element at a time where y is channels-first, rows of pixels by vectors.
    constexpr double cycles_of_element = 1;
    const AmxSchedule schedule = best_schedule(problem, target, true);
    const DirectSchedule other = default_direct_schedule(problem, target);
    const double elements = has_pixel_lanes(problem) ? static_cast<double>(problem.y_elements()) : 0;
    const double share = products_inside(problem, axis_maps(problem), schedule.direct(problem), target).share;
    return share * tiles_cycles(problem, schedule, target, true) + copy_cycles(problem, schedule) <
           direct_cycles(problem, other, target) + cycles_of_element * elements;
}

AmxSchedule default_amx_schedule(const Problem &problem, const TargetModel &target) {
    return best_schedule(problem, target, false);
}

std::optional<TileOperand> streamed_operand(const Problem &problem, const AmxSchedule &s) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int panel = s.vectors * lanes_of(problem), channels = sum_steps(problem, axes, s.joined_taps);
    // What is read again soon: a panel's weights, or, where phases take turns, those of all panels and phases; and
    // where there are several taps, the rows of pixels that they share.
    double weights = 4.0 * panel * round_up(channels, s.steps);
    double rows = 4.0 * ceil_div(reduction_channels(problem), dot_width(problem)) * axes[0].in;
    const double taps = other_taps(axes, s);
    int phases = 1;
    for (size_t a = 0; a < axes.size(); a++) {
        phases *= axes[a].phases;
        rows *= a == 0 ? 1 : axes[a].taps;
    }
    weights *= taps;
    if (phases > 1 && !s.panels_outside) {
        weights *= phases * ceil_div(channels_of_group(problem), panel);
    }
    const TileOperand of_pixels = has_pixel_lanes(problem) ? TileOperand::lanes : TileOperand::rows;
    const TileOperand of_weights = has_pixel_lanes(problem) ? TileOperand::rows : TileOperand::lanes;
    const bool rereads = taps_of_phase(axes) > 1;
    if (weights + (rereads ? rows : 0) > most_near) {
        return of_weights;
    }
    return rereads ? std::nullopt : std::optional(of_pixels);
}

ScheduleSpace amx_space(const Problem &problem, const TargetModel &) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int height = axes.size() > 1 ? axes[1].phase_extent : 1;
    const bool joins = can_join_taps(problem, axes);
    const int steps = sum_steps(problem, axes, joins);
    const auto constraint = [=, whole = sum_steps(problem, axes, false)](const ScheduleNumbers &n) {
        const int of_sum = n["joined_taps"] != 0 ? steps : whole;
        return n["steps"] <= of_sum && (!has_whole_steps(problem, n["joined_taps"] != 0) || of_sum % n["steps"] == 0);
    };
    return {{{"vectors", whole_range(1, 6)},
             {"rows", whole_range(1, std::min(height, 4))},
             {"blocks", whole_range(1, 4)},
             {"pixels", whole_range(1, std::min(axes[0].phase_extent, most_tile_rows))},
             {"steps", whole_range(1, std::min(steps, most_tile_rows))},
             {"panels_outside", {0, 1}},
             {"joined_taps", joins ? std::vector<int>{0, 1} : std::vector<int>{0}}},
            constraint};
}

void schedule_matrix_tile_sums(DirectStages &s, const DirectSchedule &schedule, const AmxLanes &amx,
                               const Var &around_tile) {
    const Var lane(tile_lane), row(tile_row), vector("vector"), block("block");
    const bool rows = s.axes.size() > 1;
    s.acc.compute_at(s.interleave_buffer.value_or(s.product), around_tile).store_in(Halide::MemoryType::Stack);
    if (amx.pixel_lanes) {
        s.acc.reorder_storage({s.q[0], s.c});
    }
    // Of a panel in part too: sums lie at constant places, and LLVM finds the shape of tiles that code for whole panels
    // and code for the last both end with, which it does not where these have tiles of their own.
    s.acc.bound_extent(s.c, schedule.panel());
    const auto split = [&](Halide::Stage stage) {
        stage.split(s.c, vector, amx.pixel_lanes ? row : lane, schedule.lanes, TailStrategy::RoundUp);
        stage.split(s.q[0], block, amx.pixel_lanes ? lane : row, amx.pixels, TailStrategy::RoundUp);
        return stage;
    };
    const auto unroll = [&](Halide::Stage stage) {
        stage.unroll(vector).unroll(block);
        if (rows) {
            stage.unroll(s.q[1]);
        }
    };
    Halide::Stage zero = split(s.acc);
    std::vector<VarOrRVar> order = {lane, row, vector, block};
    if (rows) {
        order.push_back(s.q[1]);
    }
    zero.reorder(order);
    unroll(zero);

    Halide::Stage sum = split(s.acc.update());
    const RVar product(tile_pair), step(tile_step), steps("depth");
    sum.rename(s.r[0], product).split(s.r[1], steps, step, amx.steps);
    order.insert(order.begin(), {product, step});
    order.push_back(steps);
    for (size_t a = 0; a < s.axes.size(); a++) {
        order.push_back(s.r[static_cast<int>(a) + 2]);
    }
    sum.reorder(order);
    unroll(sum);
}

}  // namespace kiln
