// The direct algorithm in matrix tiles: which numbers to take where nobody tuned them, and what they mean.
#include "algorithms/amx/amx.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "algorithms/empty/empty.h"
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

// Bytes of weights that stay in the first cache: they leave room there for x.
constexpr double most_near = 36 << 10;

// Cycles that a register tile takes for `steps` of each tap and block of input channels. Measured: a product takes as
// long as its pixels, a load as half its rows, and neither hides all of the other, the less so the fewer registers hold
// operands, nor what comes from the second cache.
double step_cycles(const AmxSchedule &s, double taps, bool far_weights, bool pixel_lanes) {
    const int tiles = s.rows * s.blocks, operand_registers = tile_registers - s.vectors * tiles;
    const double products = s.vectors * tiles * (pixel_lanes ? tile_lanes : std::max(s.pixels, 4));
    const double pixel_rows = tiles * (pixel_lanes ? s.steps : s.pixels);
    const double weight_rows = s.vectors * (pixel_lanes ? tile_lanes : s.steps);
    const double loads = (pixel_rows + weight_rows) / 2;
    const double far = pixel_rows / taps + (far_weights ? weight_rows : 0);
    return std::max(products, loads) + std::min(products, loads) / operand_registers + far / 4 + 6;
}

// Cycles of a whole run.
double tiles_cycles(const Problem &problem, const AmxSchedule &s) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int steps = ceil_div(ceil_div(static_cast<int>(problem.in_channels), dot_width(problem)), s.steps);
    const auto taps = static_cast<double>(taps_of_phase(axes));
    int phases = 1;
    double tiles =
        ceil_div(static_cast<int>(problem.out_channels), s.vectors * tile_lanes) * static_cast<double>(problem.batch);
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
        pixel_lanes ? tile_lanes * std::popcount(static_cast<unsigned>(s.pixels)) : static_cast<double>(s.pixels);
    const double outputs = 6.0 * s.vectors * s.rows * s.blocks * vectors_of_tile;
    // A panel that sweeps the image stays in the first cache.
    const double blocks = taps * steps;
    const bool far = blocks * s.vectors * s.steps * tile_lanes * 4 > most_near || (phases > 1 && !s.panels_outside);
    const double products = blocks * step_cycles(s, taps, far, pixel_lanes);
    return tiles * (std::max(products, outputs) + change);
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
}

DirectSchedule AmxSchedule::direct(const Problem &problem) const {
    DirectSchedule s;
    s.lanes = tile_lanes;
    s.vectors = vectors;
    s.tile = AmxLanes{blocks, pixels, steps, has_pixel_lanes(problem)};
    s.rows = rows;
    s.dot_width = dot_width(problem);
    s.panels_outside = panels_outside;
    s.parallel = parallel;
    return s;
}

void AmxSchedule::check(const Problem &problem) const {
    direct(problem).check(problem);
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
    return axes[0].stride == 1 && axes[0].phase_extent >= least_pixel_lanes &&
           std::all_of(axes.begin(), axes.end(), [](const AxisMap &axis) {
               const AxisMap::Range range = axis.reads_inside();
               return axis.out % axis.phases == 0 && range.first <= range.last;
           });
}

bool amx_runs_on(const Problem &problem, const TargetModel &target) {
    return problem.x_type == DType::f16 ? target.f16_tiles : target.matrix_tiles;
}

bool amx_applies(const Problem &problem) {
    if (problem.traits().deformable || problem.has_open_sizes() || is_empty(problem) || problem.groups != 1 ||
        !is_dot(problem, dot_width(problem))) {
        return false;
    }
    // Pixels of phases without taps start anywhere, and their sums lie where no constant tells.
    const std::vector<AxisMap> axes = axis_maps(problem);
    return std::none_of(axes.begin(), axes.end(), [](const AxisMap &axis) { return axis.has_empty_phases(); });
}

bool amx_is_profitable(const Problem &problem, const TargetModel &target) {
    const AmxSchedule schedule = default_amx_schedule(problem, target);
    const DirectSchedule other = default_direct_schedule(problem, target);
    return tiles_cycles(problem, schedule) < direct_cycles(problem, other, target);
}

AmxSchedule default_amx_schedule(const Problem &problem, const TargetModel &target) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int width = axes[0].phase_extent, height = axes.size() > 1 ? axes[1].phase_extent : 1;
    const int steps = ceil_div(static_cast<int>(problem.in_channels), dot_width(problem));
    AmxSchedule best, s;
    s.steps = ceil_div(steps, ceil_div(steps, most_tile_rows));
    // Beyond that, a part of the image that all panels sweep is too little to read them all for.
    s.panels_outside = problem.w_elements() * 4 / dot_width(problem) > target.core.l2.bytes;
    s.parallel = problem.flops() > 8e6;
    double least = 0;
    const int most_vectors = ceil_div(static_cast<int>(problem.out_channels), tile_lanes);
    for (s.vectors = 1; s.vectors <= most_vectors; s.vectors++) {
        for (s.rows = 1; s.rows <= std::min(height, 3); s.rows++) {
            for (s.blocks = 1; registers(s.vectors, s.rows * s.blocks) <= tile_registers; s.blocks++) {
                for (s.pixels = 1; s.pixels <= std::min(width / s.blocks, most_tile_rows); s.pixels++) {
                    const double cycles = tiles_cycles(problem, s);
                    if (least == 0 || cycles < least) {
                        least = cycles;
                        best = s;
                    }
                }
            }
        }
    }
    return best;
}

std::optional<TileOperand> streamed_operand(const Problem &problem, const AmxSchedule &s) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int panel = s.vectors * tile_lanes,
              channels = ceil_div(static_cast<int>(problem.in_channels), dot_width(problem));
    // What is read again soon: a panel's weights, or, where phases take turns, those of all panels and phases; and
    // where there are several taps, the rows of pixels that they share.
    double weights = 4.0 * panel * round_up(channels, s.steps), rows = 4.0 * channels * axes[0].in;
    const int64_t taps = taps_of_phase(axes);
    int phases = 1;
    for (size_t a = 0; a < axes.size(); a++) {
        phases *= axes[a].phases;
        rows *= a == 0 ? 1 : axes[a].taps;
    }
    weights *= static_cast<double>(taps);
    if (phases > 1 && !s.panels_outside) {
        weights *= phases * ceil_div(static_cast<int>(problem.out_channels), panel);
    }
    const TileOperand of_pixels = has_pixel_lanes(problem) ? TileOperand::lanes : TileOperand::rows;
    const TileOperand of_weights = has_pixel_lanes(problem) ? TileOperand::rows : TileOperand::lanes;
    if (weights + (taps > 1 ? rows : 0) > most_near) {
        return of_weights;
    }
    return taps == 1 ? std::optional(of_pixels) : std::nullopt;
}

ScheduleSpace amx_space(const Problem &problem, const TargetModel &) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const int height = axes.size() > 1 ? axes[1].phase_extent : 1;
    const int steps = ceil_div(static_cast<int>(problem.in_channels), dot_width(problem));
    const int channels = static_cast<int>(problem.out_channels / problem.groups);
    // Of several panels, one in part: LLVM 21 cannot allocate the registers of some, and ends the process.
    const auto constraint = [channels](const ScheduleNumbers &n) {
        const int panel = n["vectors"] * tile_lanes;
        return n["vectors"] == 1 || channels <= panel || channels % panel == 0;
    };
    return {{{"vectors", whole_range(1, 6)},
             {"rows", whole_range(1, std::min(height, 4))},
             {"blocks", whole_range(1, 4)},
             {"pixels", whole_range(1, std::min(axes[0].phase_extent, most_tile_rows))},
             {"steps", whole_range(1, std::min(steps, most_tile_rows))},
             {"panels_outside", {0, 1}}},
            constraint};
}

void schedule_matrix_tile_sums(DirectStages &s, const DirectSchedule &schedule, const AmxLanes &amx,
                               const Var &around_tile) {
    const Var lane(tile_lane), row(tile_row), vector("vector"), block("block");
    const bool rows = s.axes.size() > 1;
    s.acc.compute_at(s.interleave_buffer.value_or(s.product), around_tile).store_in(Halide::MemoryType::Stack);
    if (amx.pixel_lanes) {
        s.acc.reorder_storage({s.q[0], s.c});
    } else {
        s.acc.bound_extent(s.c, schedule.panel());  // of a panel in part too: sums lie at constant places
    }
    const auto split = [&](Halide::Stage stage) {
        stage.split(s.c, vector, amx.pixel_lanes ? row : lane, tile_lanes, TailStrategy::RoundUp);
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
