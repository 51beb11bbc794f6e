// The Winograd algorithm's schedule for x86: what its numbers mean. winograd_default.cpp picks them.
#include <algorithm>

#include "common/arithmetic.h"
#include "common/prefetch.h"
#include "common/share.h"
#include "common/split.h"
#include "common/vars.h"
#include "dense/direct.h"
#include "dense/register_tile.h"
#include "dense/winograd.h"

namespace kiln::dense {
namespace {

using Halide::Func;
using Halide::MemoryType;
using Halide::RVar;
using Halide::Stage;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// Beyond so many points a tile's transform no longer fits the code and the registers it takes unrolled.
constexpr int most_unrolled_points = 36;

// The largest power of two that is at most n.
int power_of_two(int n) {
    int power = 1;
    while (2 * power <= n) {
        power *= 2;
    }
    return power;
}

bool is_rolled(const WinogradShape &shape, int bits) {
    int points = 1;
    for (size_t a = 0; a < shape.axes.size(); a++) {
        points *= shape.tile_class(bits, a).points;
    }
    return points > most_unrolled_points && shape.axes.size() > 1;
}

// What has several values, of a Func whose dimensions those are (WinogradStages).
void bound(const WinogradStages &s, Func &f, const Var &var, int begin, int count) {
    if (s.has(var)) {
        f.bound(var, begin, count);
    }
}

// Where a stage is computed: at the root, or in each chunk of y.
struct Place {
    const Func *y = nullptr;
    VarOrRVar chunk = Var();

    void compute(Func &f) const {
        if (y != nullptr) {
            f.compute_at(Halide::LoopLevel(*y, chunk));
        } else {
            f.compute_root();
        }
    }
};

// Copies from a source that is contiguous in `dense` to a destination that is so in `fast`, by blocks whose vectors
// along `dense` are interleaved in registers: vectors of strided elements would be gathered one by one. `around`: loops
// of parts along `dense`.
void schedule_turn(Func &to, Func &block, const Var &fast, int fast_extent, int wide, const Var &dense,
                   int dense_extent, int narrow, const std::vector<VarOrRVar> &around = {}) {
    const Var fast_outer("fast_outer"), dense_outer("dense_outer");
    wide = std::min(wide, power_of_two(fast_extent));
    narrow = std::min(narrow, power_of_two(dense_extent));
    std::vector<VarOrRVar> order = {fast, dense, fast_outer, dense_outer};
    append(order, around);
    std::vector<Var> storage = {fast, dense};
    for (const Var &var : to.args()) {
        if (var.name() != fast.name() && var.name() != dense.name()) {
            order.push_back(var);
            storage.push_back(var);
        }
    }
    to.split(fast, fast_outer, fast, wide, tail(fast_extent, wide));
    to.split(dense, dense_outer, dense, narrow, tail(dense_extent, narrow));
    to.reorder(order).vectorize(fast).unroll(dense);
    block.compute_at(to, fast_outer).store_in(MemoryType::Stack).reorder_storage(storage);
    block.bound_extent(fast, wide).bound_extent(dense, narrow).vectorize(dense).unroll(fast);
}

// Vectors along c, of that extent, the last of which overlaps the one before.
void vectorize_channels(Func &f, const Var &c, int channels, int lanes) {
    const int width = std::min(lanes, power_of_two(channels));
    f.vectorize(c, width, tail(channels, width));
}

void schedule_image(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule, const Place &place) {
    if (!s.image.defined()) {
        return;
    }
    const bool chunked = s.shape.group_chunks > 1;
    const int channels = chunked ? s.shape.depth : static_cast<int>(problem.in_channels);
    const int batch = static_cast<int>(problem.batch);
    const std::vector<Var> at = s.image.args();
    std::vector<int> extents;
    place.compute(s.image);
    s.image.align_storage(s.c, schedule.lanes * s.shape.pair);
    for (size_t a = 0; a < s.shape.axes.size(); a++) {
        const WinogradAxis &axis = s.shape.axes[a];
        const int folded = axis.chunks * axis.covered() + axis.taps - 1;
        extents.push_back(s.shape.merges_folds ? folded : axis.in);
        s.image.bound(at[a + 1], 0, extents[a]);
    }
    s.image.bound(s.n, 0, batch);
    if (s.shape.merges_folds) {
        s.image.bound(s.c, 0, s.shape.depth).unroll(s.c);
    } else if (chunked) {
        s.image.bound_extent(s.c, channels);
    } else {
        s.image.bound(s.c, 0, channels);
    }
    if (s.turned_x.defined()) {
        schedule_turn(s.image, s.turned_x, s.c, channels, schedule.lanes * s.shape.pair, at[1], s.shape.axes[0].in, 8);
    } else if (!s.shape.merges_folds) {
        vectorize_channels(s.image, s.c, channels, schedule.lanes);
    }
    if (!schedule.parallel || chunked) {
        return;
    }
    std::vector<SharedLoop> loops = {{s.n, batch}};
    for (size_t a = s.shape.axes.size(); a-- > 0;) {
        if (a > 0 || !s.turned_x.defined()) {
            loops.push_back({at[a + 1], extents[a]});
        } else {  // the row itself is cut into vectors
            loops.push_back({Var("dense_outer"), ceil_div(extents[a], std::min(8, power_of_two(extents[a])))});
        }
    }
    share_loops(s.image, loops);
}

// The loops over tiles, the outermost first.
std::vector<SharedLoop> tile_loops(const WinogradShape &shape, const UpdateLoops &r, int bits) {
    const size_t rank = shape.axes.size();
    std::vector<SharedLoop> loops = {{r.loop(3 * rank), shape.images}};
    for (size_t a = rank; a-- > 0;) {
        loops.push_back({r.loop(rank + 2 * a + 1), shape.axes[a].subs});
        loops.push_back({r.loop(rank + 2 * a), shape.tile_class(bits, a).count});
    }
    return loops;
}

// Loops of a transform besides those over tiles.
struct TransformLoops {
    std::vector<VarOrRVar> between;  // right around a vector of a tile
    std::vector<VarOrRVar> phases;   // around the chunks of rows
    int panel_vectors = 0;           // of panels, around the tiles of a chunk; 0: none
    bool parallel = false;           // panels, or else tiles
};

// Of y, where panels, or chunks of groups, follow one another.
const Var panel_of_y("panel_of_y"), groups_of_y("groups_of_y");

// Tiles of one combination go through the steps of their transform vector by vector: all in registers, or, where a tile
// has too many points, row by row through memory. `axes`: those the steps transform.
void schedule_transform(Func &target, int update, const WinogradStages &s, const WinogradStages::Transform &transform,
                        size_t axes, int lanes, const TransformLoops &loops) {
    const size_t rank = s.shape.axes.size();
    const Var vector("vector");
    const bool rolled = is_rolled(axes < rank ? s.shape.plane() : s.shape, transform.bits);
    Stage stage = target.update(update);
    const bool whole = &target != &s.y || s.shape.columns % lanes == 0;
    stage.split(s.c, vector, s.c, lanes, whole ? TailStrategy::RoundUp : TailStrategy::PredicateStores);
    const bool groups_outermost = &target == &s.y && s.shape.group_chunks > 1;
    if (loops.panel_vectors > 0) {
        stage.split(vector, panel_of_y, vector, loops.panel_vectors);
    } else if (groups_outermost) {
        stage.split(vector, groups_of_y, vector, s.shape.group_columns / lanes);
    }
    std::vector<VarOrRVar> order = {s.c};
    for (size_t a = 0; a < axes; a++) {
        order.emplace_back(transform.r.loop(a));
    }
    order.emplace_back(vector);
    append(order, loops.between);
    for (size_t d = axes; d < transform.r.size(); d++) {
        if (d == 3 * rank + 1 && loops.panel_vectors > 0) {
            order.emplace_back(panel_of_y);
        }
        if (d == 3 * rank + 2) {
            append(order, loops.phases);
        }
        if (transform.r.has(d)) {
            order.emplace_back(transform.r.loop(d));
        }
    }
    if (groups_outermost) {
        order.emplace_back(groups_of_y);
    }
    stage.reorder(order).vectorize(s.c).unroll(transform.r.loop(0));
    for (size_t a = 1; a < axes && !rolled; a++) {
        stage.unroll(transform.r.loop(a));
    }
    if (loops.parallel && loops.panel_vectors > 0) {
        stage.parallel(panel_of_y);
    } else if (loops.parallel) {
        share_loops(stage.allow_race_conditions(), tile_loops(s.shape, transform.r, transform.bits));
    }
    for (const auto &[axis, f] : transform.steps) {
        Func step = f;
        const std::vector<Var> at = step.args();
        // All points or outputs of this axis together, which read the same vectors.
        std::vector<VarOrRVar> step_order = {s.c, at[1 + axis]};
        for (size_t a = 0; a < s.shape.axes.size(); a++) {
            if (a != axis) {
                step_order.emplace_back(at[1 + a]);
            }
        }
        step.reorder(step_order).vectorize(s.c).bound_extent(s.c, lanes);
        // Where loops over tiles are one, Halide does not see that all of this is one position's.
        for (size_t d = 1 + s.shape.axes.size(); d < at.size(); d++) {
            step.bound_extent(at[d], 1);
        }
        // Of a tile that is cut, too, so that all are of one size; rows of outputs, one after the other, are one.
        const bool by_rows = rolled && axis == 0;
        for (size_t a = 0; a < s.shape.axes.size() && s.shape.cut && &target == &s.y; a++) {
            if (a == 0 || !by_rows) {
                step.bound(at[1 + a], 0, a < axis ? s.shape.axes[a].points : s.shape.axes[a].outputs);
            }
        }
        for (size_t a = 0; a < s.shape.axes.size(); a++) {
            if (a == axis || !rolled) {
                step.unroll(at[1 + a]);
            }
        }
        if (!rolled) {
            step.compute_at(target, vector).store_in(MemoryType::Register);
        } else if (axis == 0) {
            step.compute_at(target, transform.r.loop(1)).store_in(MemoryType::Register);
        } else {
            step.compute_at(target, vector);
        }
    }
}

int all_tiles(const WinogradShape &shape) {
    int tiles = 0;
    for (const int bits : shape.tile_classes()) {
        tiles += shape.tiles(bits);
    }
    return tiles;
}

void schedule_inputs(WinogradStages &s, const WinogradSchedule &schedule, const Place &place, bool parallel) {
    const WinogradShape shape = schedule.by_point ? s.shape.plane() : s.shape;
    const size_t axes = shape.axes.size() - (schedule.by_point ? 1 : 0);
    Func &f = s.transformed;
    place.compute(f);
    TransformLoops loops;
    loops.parallel = parallel && !schedule.by_point;
    const int lanes = schedule.lanes * shape.pair;
    if (shape.group_chunks > 1 || shape.panel_inputs) {
        f.bound_extent(s.c, shape.depth);
    } else {
        f.bound(s.c, 0, s.channels).align_storage(s.c, s.channels + lanes);
    }
    f.bound(s.tile, 0, all_tiles(shape));
    for (size_t a = 0; a < axes; a++) {
        bound(s, f, s.e[a], 0, shape.folds(a));
        bound(s, f, s.j[a], 0, shape.axes[a].points);
        bound(s, f, s.z[a], 0, shape.axes[a].shifts);
        append(loops.between, s.several({s.e[a]}));
    }
    for (size_t a = 0; a < axes; a++) {
        append(loops.between, s.several({s.z[a]}));
    }
    for (size_t k = 0; k < s.inputs.size(); k++) {
        schedule_transform(f, static_cast<int>(k), s, s.inputs[k], axes, lanes, loops);
        if (parallel && schedule.by_point) {
            f.update(static_cast<int>(k)).parallel(s.depth);
        }
    }
}

// The outermost axis apart, for each point of the others: what is multiplied, the products and their transform, all in
// the nearest caches. Returns where the first two are.
Place schedule_outer(const WinogradStages &s, WinogradStages::Product &stage, const WinogradSchedule &schedule,
                     const Place &place, bool parallel) {
    const WinogradShape &shape = s.shape;
    const size_t outermost = shape.axes.size() - 1;
    const WinogradShape::Range range = shape.tiles_of_points(stage.bits);
    const Var vector("vector"), shared("shared");
    Func &f = stage.outer, &in = stage.transformed;
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
        const WinogradShape::Range points = shape.points(stage.bits, a);
        f.bound(s.j[a], points.begin, points.count);
        order.emplace_back(s.j[a]);
        storage.push_back(s.j[a]);
    }
    f.reorder(order).reorder_storage(storage).vectorize(s.c).unroll(s.i[outermost]);
    Var point = s.j[0];
    for (size_t a = 1; a < outermost && parallel; a++) {
        f.fuse(point, s.j[a], shared);
        point = shared;
    }
    if (parallel) {
        f.parallel(point);
    }

    const Place here = {&f, point};
    here.compute(in);
    const int lanes = schedule.lanes * shape.pair;
    in.bound(s.c, 0, s.channels).align_storage(s.c, s.channels + lanes);
    in.bound(s.tile, range.begin, range.count).bound(s.j[outermost], 0, shape.axes[outermost].points);
    for (size_t k = 0; k < stage.gathered.size(); k++) {
        const Halide::RDom &r = stage.gathered[k];
        std::vector<VarOrRVar> loops = {s.c, s.j[outermost], vector, r[0], r[1], r[2], r[3]};
        append(loops, s.several(s.e));
        append(loops, s.several(s.z));
        Stage update = in.update(static_cast<int>(k));
        update.split(s.c, vector, s.c, lanes).reorder(loops).vectorize(s.c).unroll(s.j[outermost]);
    }
    return here;
}

// A Func of all columns, or of a panel, or of a chunk of groups.
void bound_columns(Func &f, const WinogradStages &s, const WinogradSchedule &schedule, int all) {
    if (schedule.by_panel || s.shape.group_chunks > 1) {
        f.bound_extent(s.c, schedule.by_panel ? s.shape.panel : s.shape.group_columns);
    } else {
        f.bound(s.c, 0, all);
    }
}

// A matrix product for each point: a panel of its weights stays in the nearest caches while all tiles pass.
void schedule_products(WinogradStages &s, const WinogradSchedule &schedule, const Place &where, bool parallel) {
    const WinogradShape &shape = s.shape;
    const size_t rank = shape.axes.size();
    const Var panel("panel"), vector("vector"), tiles("tiles");
    for (WinogradStages::Product &stage : s.products) {
        const WinogradShape::Range range = shape.tiles_of_points(stage.bits);
        const int block = block_of(range.count, schedule.block);
        Func &f = stage.product, &acc = stage.acc;
        const Place place = schedule.by_point ? schedule_outer(s, stage, schedule, where, parallel) : where;
        place.compute(f);
        bound_columns(f, s, schedule, shape.panels * shape.panel);
        f.bound(s.tile, range.begin, range.count);
        if (shape.group_chunks == 1) {
            f.align_storage(s.c, (schedule.by_panel ? 1 : shape.panels) * shape.panel + schedule.lanes);
        }
        f.split(s.c, panel, s.c, shape.panel).split(s.c, vector, s.c, schedule.lanes);
        f.split(s.tile, tiles, s.tile, block, tail(range.count, block));
        std::vector<VarOrRVar> order = {s.c, vector, s.tile, tiles, panel};
        std::vector<SharedLoop> loops, phases;  // a point's tiles are read by one thread where there are many points
        for (size_t a = 0; a < rank; a++) {
            const WinogradShape::Range points = shape.points(stage.bits, a);
            if (!schedule.by_point || a + 1 == rank) {
                f.bound(s.j[a], points.begin, points.count);
            }
            if (!schedule.by_phase) {
                bound(s, f, s.p[a], 0, shape.phases(a));
                phases.insert(phases.begin(), {s.p[a], shape.phases(a)});
            }
            order.emplace_back(s.j[a]);
            loops.insert(loops.begin(), {s.j[a], points.count});
        }
        append(order, s.several(s.p));
        f.reorder(order).vectorize(s.c).unroll(vector).unroll(s.tile);
        if (parallel && !schedule.by_point) {
            loops.insert(loops.begin(), phases.begin(), phases.end());
            loops.push_back({panel, shape.panels});
            share_loops(f, loops);
        }

        acc.compute_at(f, tiles).store_in(MemoryType::Register);
        acc.split(s.c, vector, s.c, schedule.lanes).vectorize(s.c).unroll(vector).unroll(s.tile);
        Stage sum = acc.update();
        const Halide::RVar depth(sum.get_schedule().rvars()[0].var);
        std::vector<VarOrRVar> sum_order = {s.c, vector, s.tile};
        sum.split(s.c, vector, s.c, schedule.lanes);
        RVar steps = depth;
        if (schedule.unroll > 1) {
            const RVar inner("inner"), outer("outer");
            sum.split(depth, outer, inner, schedule.unroll).unroll(inner);
            sum_order.emplace_back(inner);
            steps = outer;
        }
        sum_order.emplace_back(steps);
        for (size_t fold = 1; fold < sum.get_schedule().rvars().size(); fold++) {
            sum_order.emplace_back(RVar(sum.get_schedule().rvars()[fold].var));
        }
        sum.reorder(sum_order).vectorize(s.c).unroll(vector).unroll(s.tile);
        if (schedule.ahead > 0) {
            prefetch(sum, s.packed, steps, ceil_div(schedule.ahead, schedule.unroll));
        }
    }
}

// Whether threads share y's phases, which have weights of their own: each then reads its own ones alone.
bool shares_phases(const WinogradShape &shape, const WinogradSchedule &schedule) {
    int phases = 1;
    for (size_t a = 0; a < shape.axes.size(); a++) {
        phases *= shape.phases(a);
    }
    return schedule.parallel && schedule.by_phase && shape.image_chunks == 1 && phases >= 8;
}

void schedule_outputs(WinogradStages &s, const WinogradSchedule &schedule, const Place &place, bool parallel) {
    const WinogradShape &shape = s.shape;
    // Whole vectors of channels, as the products have them.
    int lanes = schedule.lanes;
    while (shape.panels * shape.panel % lanes != 0) {
        lanes /= 2;
    }
    TransformLoops loops;
    std::vector<VarOrRVar> &phases = schedule.by_phase ? loops.phases : loops.between;
    for (size_t a = 0; a < shape.axes.size(); a++) {
        append(phases, s.several({s.p[a]}));
    }
    loops.panel_vectors = s.in_place && schedule.by_panel ? schedule.panel() / lanes : 0;
    loops.parallel = parallel && (s.in_place || !schedule.by_panel);
    Func &target = s.in_place ? s.y : s.result;
    if (!s.in_place) {
        place.compute(target);
        bound_columns(target, s, schedule,
                      shape.pads_groups() ? shape.panels * shape.panel : round_up(shape.columns, lanes));
        for (size_t a = 0; a < shape.axes.size(); a++) {
            bound(s, target, s.q[a], 0, shape.axes[a].covered());
            bound(s, target, s.p[a], 0, shape.phases(a));
        }
        target.bound(s.n, 0, shape.images);
    }
    for (size_t k = 0; k < s.outputs.size(); k++) {
        const size_t rank = shape.axes.size();
        schedule_transform(target, static_cast<int>(k), s, s.outputs[k], schedule.by_point ? rank - 1 : rank, lanes,
                           loops);
    }
    if (shares_phases(shape, schedule)) {
        std::vector<SharedLoop> shared;
        for (size_t a = shape.axes.size(); a-- > 0;) {
            shared.push_back({s.p[a], shape.phases(a)});
        }
        share_loops(s.y.update(), shared);
    }
}

// Where the stages are: the copy of the input, its transform, and what follows it.
struct Places {
    Place image, inputs, rest;
};

// The loop over panels of y, outside all others but those over chunks. `channels`: the loop over vectors or blocks of
// `width` channels.
void split_panels(WinogradStages &s, const WinogradSchedule &schedule, const Var &channels, int width,
                  const Place &chunk) {
    s.y.split(channels, panel_of_y, channels, schedule.panel() / width);
    std::vector<VarOrRVar> order;
    for (const Halide::Internal::Dim &dim : s.y.get_schedule().dims()) {
        const std::string name = dim.var.substr(dim.var.rfind('.') + 1);  // loops of splits are called "whole.part"
        if (chunk.y != nullptr && name == chunk.chunk.name()) {
            break;
        }
        if (name != panel_of_y.name() && name != Var::outermost().name()) {
            order.emplace_back(Var(name));
        }
    }
    order.emplace_back(panel_of_y);
    s.y.reorder(order);
}

// One output phase after the other is written in place: within it, in chunks of rows where there are several.
Places schedule_phases(WinogradStages &s, const WinogradSchedule &schedule) {
    const size_t rank = s.shape.axes.size();
    const RVar rows = s.outputs[0].r.loop(3 * rank + 1), images = s.outputs[0].r.loop(3 * rank + 2);
    Places places;
    if (s.shape.image_chunks > 1) {
        places.inputs = {&s.y, VarOrRVar(images)};
    }
    places.rest = {&s.y, VarOrRVar(rows)};
    if (schedule.parallel && !shares_phases(s.shape, schedule) &&
        (s.shape.image_chunks > 1 || s.shape.axes.back().chunks > 1)) {
        s.y.update().allow_race_conditions().parallel(s.shape.image_chunks > 1 ? images : rows);
    }
    if (schedule.by_panel) {
        places.rest = {&s.y, panel_of_y};
    }
    return places;
}

// The copy from the scratch to y, a chunk at a time where there are several.
Places schedule_copy(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule) {
    const WinogradShape &shape = s.shape;
    const size_t rank = shape.axes.size();
    const bool of_groups = shape.group_chunks > 1;
    const Place image = of_groups ? Place{&s.y, groups_of_y} : Place();
    Place place = image;
    if (s.in_place) {
        const bool of_rows = shape.axes.back().chunks > 1;
        if (of_rows || shape.image_chunks > 1) {
            const UpdateLoops &loops = s.outputs[0].r;
            place = {&s.y, VarOrRVar(loops.loop(3 * rank + (of_rows ? 1 : 2)))};
            if (schedule.parallel && !of_groups) {
                const size_t chunk = 3 * rank + (of_rows && problem.batch == 1 ? 1 : 2);
                s.y.update().allow_race_conditions().parallel(loops.loop(chunk));
            }
        }
        return {image, place, schedule.by_panel ? Place{&s.y, panel_of_y} : place};
    }
    const std::vector<Var> at = s.y.args();
    // y's dimensions: c, each axis, and after those seen by phases their phase, n.
    const std::vector<int> phases = s.seen_phases;
    Var outermost = at[at.size() - 2];
    if (phases[rank - 1] > 1) {
        outermost = at[at.size() - 3];
    }
    Var shared = problem.batch > 1 ? s.n : outermost;
    int channels = static_cast<int>(problem.out_channels);
    if (of_groups) {
        channels = shape.group_columns;
        std::vector<VarOrRVar> order(at.begin(), at.end());
        order.emplace_back(groups_of_y);
        s.y.split(s.c, groups_of_y, s.c, channels).reorder(order);
    }
    std::vector<VarOrRVar> groups;
    if (shape.pads_groups()) {
        const Var group("group");
        channels = shape.group_columns;
        s.y.split(s.c, group, s.c, channels);
        groups.emplace_back(group);
    }
    const WinogradAxis &axis = shape.axes[rank - 1];
    const Var chunk("chunk");
    const int size = axis.covered() * (phases[rank - 1] > 1 ? 1 : shape.phases(rank - 1));
    if (axis.chunks > 1) {
        place = {&s.y, chunk};
        s.y.split(outermost, chunk, outermost, size, TailStrategy::GuardWithIf);
        shared = problem.batch > 1 ? s.n : chunk;
    }
    if (shape.y_has_columns()) {
        vectorize_channels(s.y, s.c, shape.columns, schedule.lanes);
    } else if (shape.merges_phases) {
        s.y.reorder({s.p[0], at[1], s.c});
        vectorize_channels(s.y, s.p[0], phases[0], schedule.lanes);
    } else if (s.turned_y.defined()) {
        int extent = static_cast<int>(problem.out[problem.rank - 1]) / phases[0];
        extent = rank == 1 && axis.chunks > 1 ? size : extent;
        schedule_turn(s.y, s.turned_y, at[1], extent, schedule.lanes, s.c, channels, turned_channels, groups);
        if (rank == 1 && axis.chunks == 1 && problem.batch == 1) {
            shared = Var("dense_outer");  // the row itself is cut into vectors
        }
    } else {
        vectorize_channels(s.y, s.c, channels, schedule.lanes);
    }
    if (axis.chunks > 1) {
        if (phases[rank - 1] > 1 && !(shape.merges_phases && rank == 1)) {
            s.y.reorder({s.p[rank - 1], chunk, s.n});
        } else {
            s.y.reorder({chunk, s.n});
        }
    } else if (shape.image_chunks > 1) {
        place = {&s.y, s.n};
        if (shape.images > 1) {
            s.y.split(s.n, chunk, s.n, shape.images);
            place.chunk = shared = chunk;
        }
    }
    Places places = {image, place, place};
    if (schedule.by_panel) {
        const bool turns = s.turned_y.defined();
        split_panels(s, schedule, turns ? Var("dense_outer") : s.c, turns ? turned_channels : schedule.lanes, place);
        places.rest = {&s.y, panel_of_y};
        shared = place.y == nullptr ? panel_of_y : shared;
    }
    if (schedule.parallel) {
        s.y.parallel(of_groups ? groups_of_y : shared);
    }
    return places;
}

}  // namespace

void schedule_winograd(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule) {
    Places places;
    if (schedule.by_phase) {
        places = schedule_phases(s, schedule);
    } else {
        places = schedule_copy(s, problem, schedule);
    }
    // Else y's chunks or phases are parallel.
    const bool chunked = schedule.by_phase ? s.shape.image_chunks > 1 || s.shape.axes.back().chunks > 1 ||
                                                 shares_phases(s.shape, schedule)
                                           : places.inputs.y != nullptr;
    const bool parallel = schedule.parallel && !chunked;
    if (s.column_bias.defined()) {
        const int whole = s.in_place ? round_up(s.shape.columns, schedule.lanes) : s.shape.columns;
        s.column_bias.compute_root().bound(s.column_bias.args()[0], 0, whole);
    }
    if (s.shape.panel_inputs) {
        places.inputs = places.rest;
    }
    schedule_image(s, problem, schedule, places.image);
    schedule_inputs(s, schedule, places.inputs, schedule.parallel && places.inputs.y == nullptr);
    schedule_products(s, schedule, places.rest, parallel && !schedule.by_panel);
    schedule_outputs(s, schedule, places.rest, parallel);
    if (s.in_place && s.shape.group_chunks > 1 && schedule.parallel) {
        s.y.update().allow_race_conditions().parallel(groups_of_y);
    }
}

}  // namespace kiln::dense
