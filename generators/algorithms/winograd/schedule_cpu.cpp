// The Winograd algorithm's schedule for processors: what its numbers mean. cost.cpp picks them;
// schedule_cpu_output.cpp schedules what follows the products.
#include "algorithms/winograd/schedule_cpu.h"

#include <algorithm>

#include "expressions/arithmetic.h"
#include "expressions/vars.h"
#include "lowering/prefetch/prefetch.h"
#include "moves/parallel_split.h"
#include "moves/tail_strategy.h"
#include "moves/tile_sum.h"
#include "targets/register_tile.h"

namespace kiln {

using Halide::Func;
using Halide::MemoryType;
using Halide::RVar;
using Halide::Stage;
using Halide::Var;
using Halide::VarOrRVar;

namespace {

void schedule_image(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule, const Place &place) {
    if (!s.image) {
        return;
    }
    const bool chunked = s.shape.group_chunks > 1;
    const int channels = chunked ? s.shape.reduction_channels : static_cast<int>(problem.in_channels);
    const int batch = static_cast<int>(problem.batch);
    Func &image = *s.image;
    const std::vector<Var> at = image.args();
    std::vector<int> extents;
    place.compute(image);
    image.align_storage(s.c, schedule.lanes * s.shape.dot_width);
    for (size_t a = 0; a < s.shape.axes.size(); a++) {
        const WinogradAxis &axis = s.shape.axes[a];
        const int dense_extent = axis.chunks * axis.covered() + axis.taps - 1;
        extents.push_back(s.shape.merges_input_phases ? dense_extent : axis.in);
        image.bound(at[a + 1], 0, extents[a]);
    }
    image.bound(s.n, 0, batch);
    if (s.shape.merges_input_phases) {
        image.bound(s.c, 0, s.shape.reduction_channels).unroll(s.c);
    } else if (chunked) {
        image.bound_extent(s.c, channels);
    } else {
        image.bound(s.c, 0, channels);
    }
    Var row_blocks;
    if (s.transposed_x) {
        row_blocks = schedule_transpose(image, *s.transposed_x, s.c, channels, schedule.lanes * s.shape.dot_width,
                                        at[1], s.shape.axes[0].in, 8);
    } else if (!s.shape.merges_input_phases) {
        vectorize_channels(image, s.c, channels, schedule.lanes);
    }
    if (!schedule.parallel || chunked) {
        return;
    }
    std::vector<SharedLoop> loops = {{s.n, batch}};
    for (size_t a = s.shape.axes.size(); a-- > 0;) {
        if (a > 0 || !s.transposed_x) {
            loops.push_back({at[a + 1], extents[a]});
        } else {  // the row itself is cut into vectors
            loops.push_back({row_blocks, ceil_div(extents[a], std::min(8, power_of_two(extents[a])))});
        }
    }
    share_loops(image, loops, pieces_worth(operations_of_copying(problem.x_elements())));
}

int all_tiles(const WinogradShape &shape) {
    int tiles = 0;
    for (const int tail_mask : shape.tile_classes()) {
        tiles += shape.tiles(tail_mask);
    }
    return tiles;
}

// So many, or one more. A tile writes and reads all its points: where these lie an odd number of vectors apart they
// fall into all sets of the caches (16 to 32 channels of 160x160 at stride 2, tiles of 5x5, 16 in a row: .18 ms in
// place of .26).
int odd(int count) {
    return count | 1;
}

void schedule_inputs(WinogradStages &s, const WinogradSchedule &schedule, const Place &place, const SharedWork &work) {
    const WinogradShape shape = schedule.by_point ? s.shape.plane() : s.shape;
    const size_t axes = shape.axes.size() - (schedule.by_point ? 1 : 0);
    Func &f = s.transformed;
    place.compute(f);
    TransformLoops loops;
    loops.of_tiles = schedule.by_point ? work.within(s.shape.axes.back().in) : work;
    const int lanes = schedule.lanes * shape.dot_width;
    loops.vectors = shape.group_chunks > 1 || shape.panel_inputs ? 1 : s.channels / lanes;
    if (shape.group_chunks > 1 || shape.panel_inputs) {
        f.bound_extent(s.c, shape.reduction_channels);
    } else {
        f.bound(s.c, 0, s.channels).align_storage(s.c, odd(ceil_div(s.channels, lanes)) * lanes);
    }
    f.bound(s.tile, 0, all_tiles(shape)).align_storage(s.tile, odd(all_tiles(shape)));
    for (size_t a = 0; a < axes; a++) {
        bound(s, f, s.e[a], 0, shape.input_phases(a));
        bound(s, f, s.j[a], 0, shape.axes[a].points);
        bound(s, f, s.z[a], 0, shape.axes[a].phase_offsets);
        append(loops.between, s.several({s.e[a]}));
    }
    for (size_t a = 0; a < axes; a++) {
        append(loops.between, s.several({s.z[a]}));
    }
    for (size_t k = 0; k < s.inputs.size(); k++) {
        schedule_transform(f, static_cast<int>(k), s, s.inputs[k], axes, lanes, loops);
        if (work.is_shared() && schedule.by_point) {
            f.update(static_cast<int>(k)).parallel(s.depth);
        }
    }
}

// The points of all axes but the outermost.
int points_of_planes(const WinogradShape &shape, int tail_mask) {
    int points = 1;
    for (size_t a = 0; a + 1 < shape.axes.size(); a++) {
        points *= shape.points(tail_mask, a).count;
    }
    return points;
}

// The outermost axis apart, for each point of the others: what is multiplied, the products and their transform, all in
// the nearest caches. Returns where the first two are.
Place schedule_outer(const WinogradStages &s, WinogradStages::Product &stage, const WinogradSchedule &schedule,
                     const Place &place, const SharedWork &work) {
    const WinogradShape &shape = s.shape;
    const size_t outermost = shape.axes.size() - 1;
    const WinogradShape::Range range = shape.tiles_of_points(stage.tail_mask);
    const Var vector("vector"), shared("shared");
    Func &f = stage.outer->f, &in = stage.transformed;
    place.compute(f);
    f.bound(s.c, 0, shape.panels * shape.panel).bound(s.tile, range.begin, range.count);
    f.align_storage(s.c, shape.panels * shape.panel + schedule.lanes);
    f.split(s.c, vector, s.c, schedule.lanes).bound(s.i[outermost], 0, shape.axes[outermost].outputs);
    std::vector<VarOrRVar> order = {s.c, s.i[outermost], vector, s.tile};
    std::vector<Var> storage = {s.c, s.tile, s.i[outermost]};
    for (size_t a = 0; a <= outermost; a++) {
        bound(s, f, s.p[a], 0, shape.phases(a));
        append(order, s.several({s.p[a]}));
        append(storage, s.several({s.p[a]}));
    }
    for (size_t a = 0; a < outermost; a++) {
        const WinogradShape::Range points = shape.points(stage.tail_mask, a);
        f.bound(s.j[a], points.begin, points.count);
        order.emplace_back(s.j[a]);
        storage.push_back(s.j[a]);
    }
    f.reorder(order).reorder_storage(storage).vectorize(s.c).unroll(s.i[outermost]);
    Var point = s.j[0];
    for (size_t a = 1; a < outermost && work.is_shared(); a++) {
        f.fuse(point, s.j[a], shared);
        point = shared;
    }
    if (work.is_shared()) {
        f.parallel(point);
    }
    const SharedWork of_point = work.within(points_of_planes(shape, stage.tail_mask));
    share_loops(f, {{s.tile, range.count}}, of_point);

    const Place here = {&f, point};
    here.compute(in);
    const int lanes = schedule.lanes * shape.dot_width;
    in.bound(s.c, 0, s.channels).align_storage(s.c, s.channels + lanes);
    in.bound(s.tile, range.begin, range.count).bound(s.j[outermost], 0, shape.axes[outermost].points);
    for (size_t k = 0; k < stage.outer->gathered.size(); k++) {
        const Halide::RDom &r = stage.outer->gathered[k];
        std::vector<VarOrRVar> loops = {s.c, s.j[outermost], vector, r[0], r[1], r[2], r[3]};
        append(loops, s.several(s.e));
        append(loops, s.several(s.z));
        Stage update = in.update(static_cast<int>(k));
        update.split(s.c, vector, s.c, lanes).reorder(loops).vectorize(s.c).unroll(s.j[outermost]);
        if (of_point.is_shared()) {
            share_loops(update.allow_race_conditions(),
                        {loop_of_domain(r[3]), loop_of_domain(r[2]), loop_of_domain(r[1]), loop_of_domain(r[0])},
                        of_point);
        }
    }
    return here;
}

// Of a point's panel of weights.
int steps_of_panel(const WinogradShape &shape) {
    int steps = shape.steps();
    for (size_t a = 0; a < shape.axes.size(); a++) {
        steps *= shape.input_phases(a);
    }
    return steps;
}

// How many steps ahead of a sum's its weights are fetched, by the place that they are packed at. Where panels go one by
// one, the next point's of a panel lie behind all panels of the point before: then whole panels are fetched ahead, or
// those that come next would be fetched too late and others for nothing.
int steps_ahead(const WinogradShape &shape, const WinogradSchedule &schedule) {
    const int of_panel = steps_of_panel(shape), distance = schedule.prefetch_distance;
    if (!schedule.by_panel || shape.panels == 1 || 2 * distance < of_panel) {
        return distance;
    }
    return std::max(1, (distance + of_panel / 2) / of_panel) * of_panel * shape.panels;
}

// The sums of a register tile, inside the loop over tiles of its product. Returns their loop over input channels.
RVar schedule_sum(const WinogradStages &s, WinogradStages::Product &stage, const WinogradSchedule &schedule,
                  const Var &tiles) {
    stage.acc.compute_at(stage.product, tiles).store_in(MemoryType::Register);
    const SumSteps sum =
        schedule_tile_sum(stage.acc, {s.c, schedule.lanes, {}, {s.tile}}, {loops_from(stage.r, 0), schedule.unroll});
    if (schedule.prefetch_distance > 0) {
        prefetch(stage.acc.update(), s.packed, sum.steps, ceil_div(steps_ahead(s.shape, schedule), schedule.unroll));
    }
    if (schedule.prefetch_panels) {
        const int ahead = steps_of_panel(s.shape) * (schedule.by_panel ? s.shape.panels : 1);
        prefetch(stage.acc.update(), s.packed, sum.steps, ceil_div(ahead, schedule.unroll));
    }
    return sum.steps;
}

// The loop over the blocks of tiles that a panel of weights multiplies.
constexpr const char *blocks_loop = "tiles";

// A matrix product for each point: a panel of its weights stays in the nearest caches while all tiles pass.
WinogradSteps schedule_products(WinogradStages &s, const WinogradSchedule &schedule, const Place &where,
                                const SharedWork &work) {
    WinogradSteps steps;
    const WinogradShape &shape = s.shape;
    const size_t rank = shape.axes.size();
    const Var panel("panel"), vector("vector"), tiles(blocks_loop), part("part");
    for (WinogradStages::Product &stage : s.products) {
        const WinogradShape::Range range = shape.tiles_of_points(stage.tail_mask);
        const int block = block_of(range.count, schedule.block);
        Func &f = stage.product;
        const Place place = schedule.by_point ? schedule_outer(s, stage, schedule, where, work) : where;
        place.compute(f);
        bound_columns(f, s, schedule, shape.panels * shape.panel);
        f.bound(s.tile, range.begin, range.count);
        if (shape.group_chunks == 1) {
            f.align_storage(s.c, odd((schedule.by_panel ? 1 : shape.panels) * schedule.vectors) * schedule.lanes);
        }
        f.align_storage(s.tile, odd(range.count));
        f.split(s.c, panel, s.c, shape.panel).split(s.c, vector, s.c, schedule.lanes);
        f.split(s.tile, tiles, s.tile, block, tail(range.count, block));
        // A point's tiles are read by one thread where there are many points.
        std::vector<SharedLoop> loops;
        for (size_t a = 0; a < rank; a++) {
            const WinogradShape::Range points = shape.points(stage.tail_mask, a);
            if (!schedule.by_point || a + 1 == rank) {
                f.bound(s.j[a], points.begin, points.count);
                loops.insert(loops.begin(), {s.j[a], points.count});
            }
        }
        for (size_t a = 0; a < rank && !schedule.by_phase; a++) {
            bound(s, f, s.p[a], 0, shape.phases(a));
            loops.insert(loops.begin(), {s.p[a], shape.phases(a)});
        }
        loops.push_back({panel, shape.panels});
        const double products = 1.0 * iterations_of(loops) * range.count * shape.panel * steps_of_panel(shape);
        std::vector<VarOrRVar> order = {s.c, vector, s.tile, tiles};
        const SharedWork shared = schedule.by_point ? work.within(points_of_planes(shape, stage.tail_mask)) : work;
        const int blocks = ceil_div(range.count, block);
        // Blocks that fetch a panel's share each are not parted.
        const int parts = schedule.prefetch_panels ? 1 : shared.even_parts(iterations_of(loops), blocks);
        if (parts > 1) {
            f.split(tiles, part, tiles, blocks / parts, Halide::TailStrategy::RoundUp);
            order.emplace_back(part);
            loops.push_back({part, parts});
        }
        order.emplace_back(panel);
        append(order, s.j);
        append(order, s.several(s.p));
        f.reorder(order).vectorize(s.c).unroll(vector).unroll(s.tile);
        share_loops(f, loops, shared, 2 * products);
        steps.push_back(schedule_sum(s, stage, schedule, tiles));
    }
    return steps;
}

}  // namespace

SharedPrefetches shared_winograd_prefetches(const Problem &problem, const WinogradSchedule &schedule) {
    const WinogradShape shape = winograd_shape(problem, schedule);
    return {{blocks_loop}, 0, int64_t{steps_of_panel(shape)} * schedule.panel() * 4};
}

namespace {

// How many pieces of y, which are phases, groups or images, are around its chunks of rows; 1 where nothing is.
int pieces_around_rows(const WinogradStages &s, bool shares_phases) {
    return shares_phases ? iterations_of(phase_loops(s)) : std::max(s.shape.group_chunks, s.shape.image_chunks);
}

// Makes chunks of rows, or of their parts, pieces within others.
void share_chunks(WinogradStages &s, const Var &copied, size_t in_place) {
    if (s.in_place) {
        s.y.update().allow_race_conditions().parallel(s.outputs[0].r.loop(in_place));
    } else {
        s.y.parallel(copied);
    }
}

}  // namespace

WinogradSteps schedule_winograd(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule) {
    const bool of_phases = shares_phases(s, schedule);
    const int around = pieces_around_rows(s, of_phases), rows = s.shape.axes.back().chunks;
    const int parts = s.shape.parts_of_rows();
    const SharedWork all(schedule.parallel ? problem.flops() : 0);
    const SharedWork of_piece = around > 1 ? all.within(around) : all;
    const SharedWork of_rows = rows > 1 ? of_piece.within(rows) : of_piece;
    const SharedWork of_part = parts > 1 ? of_rows.within(parts) : of_rows;
    const SharedWork of_panel = schedule.by_panel ? of_part.within(s.shape.panels) : of_part;
    const Places places =
        schedule.by_phase ? schedule_phases(s, schedule) : schedule_copy(s, problem, schedule, of_part);
    for (Func copy : s.of_columns ? s.of_columns->copies : std::vector<Func>()) {
        const int whole = s.in_place ? round_up(s.shape.columns, schedule.lanes) : s.shape.columns;
        copy.compute_root().bound(copy.args()[0], 0, whole);
    }
    const Place &inputs = s.shape.panel_inputs ? places.rest : places.inputs;
    schedule_image(s, problem, schedule, places.image);
    schedule_inputs(s, schedule, inputs, inputs.y == nullptr ? all : of_part);
    const WinogradSteps steps = schedule_products(s, schedule, places.rest, of_panel);
    schedule_outputs(s, schedule, places.rest, of_part);
    if (s.in_place && s.shape.group_chunks > 1 && schedule.parallel) {
        s.y.update().allow_race_conditions().parallel(groups_of_y);
    }
    if (of_phases) {
        share_loops(s.y.update(), phase_loops(s));
    }
    if (around > 1 && rows > 1 && of_piece.is_shared()) {
        share_chunks(s, rows_of_y, s.shape.loop_of_rows());
    }
    if (parts > 1 && of_rows.is_shared() && (s.in_place || around > 1 || rows > 1)) {
        share_chunks(s, parts_of_rows_of_y, s.shape.loop_of_parts());
    }
    return steps;
}

}  // namespace kiln
