// The Winograd algorithm's schedule for processors, from products to y.
#include <algorithm>
#include <optional>

#include "algorithms/winograd/schedule_cpu.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "expressions/vars.h"
#include "moves/parallel_split.h"
#include "moves/tail_strategy.h"
#include "moves/transpose_block.h"

namespace kiln {

using Halide::Func;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

namespace {

// A loop's name of a Func without those of the loops that it is a part of ("whole.part").
std::string name_of(const Halide::Internal::Dim &dim) {
    return dim.var.substr(dim.var.rfind('.') + 1);
}

// Makes loops the outermost ones, in this order, the innermost first.
void order_outermost(Func &f, const std::vector<Var> &outermost) {
    std::vector<VarOrRVar> order;
    for (const Halide::Internal::Dim &dim : f.get_schedule().dims()) {
        const std::string name = name_of(dim);
        const bool is_one =
            std::any_of(outermost.begin(), outermost.end(), [&](const Var &var) { return var.name() == name; });
        if (!is_one && name != groups_of_y.name() && name != Var::outermost().name()) {
            order.emplace_back(Var(name));
        }
    }
    append(order, outermost);
    f.reorder(order);
}

// The loop over panels of y, outside all others but those over chunks. `channels`: the loop over vectors or blocks of
// `width` channels.
void split_panels(WinogradStages &s, const WinogradSchedule &schedule, const Var &channels, int width,
                  const Place &chunk) {
    s.y.split(channels, panel_of_y, channels, schedule.panel() / width);
    std::vector<VarOrRVar> order;
    for (const Halide::Internal::Dim &dim : s.y.get_schedule().dims()) {
        const std::string name = name_of(dim);
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

}  // namespace

std::vector<SharedLoop> phase_loops(const WinogradStages &s) {
    std::vector<SharedLoop> loops;
    for (size_t a = s.shape.axes.size(); a-- > 0;) {
        loops.push_back({s.p[a], s.shape.phases(a)});
    }
    return loops;
}

bool shares_phases(const WinogradStages &s, const WinogradSchedule &schedule) {
    return schedule.parallel && schedule.by_phase && s.shape.image_chunks == 1 && iterations_of(phase_loops(s)) >= 8;
}

void schedule_outputs(WinogradStages &s, const WinogradSchedule &schedule, const Place &place, const SharedWork &work) {
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
    loops.shares_panels = work.is_shared() && loops.panel_vectors > 0;
    loops.of_tiles = schedule.by_panel ? work.within(shape.panels) : work;
    loops.vectors = shape.columns % lanes == 0 && shape.panels * shape.panel == shape.columns && !schedule.by_panel &&
                            shape.group_chunks == 1
                        ? shape.columns / lanes
                        : 1;
    Func &target = s.in_place ? s.y : *s.result;
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
}

Places schedule_phases(WinogradStages &s, const WinogradSchedule &schedule) {
    const UpdateLoops &r = s.outputs[0].r;
    const RVar rows = r.loop(s.shape.loop_of_rows()), images = r.loop(s.shape.loop_of_images());
    Places places;
    if (s.shape.image_chunks > 1) {
        places.inputs = {&s.y, VarOrRVar(images)};
    }
    places.rest = {&s.y, VarOrRVar(s.shape.parts_of_rows() > 1 ? r.loop(s.shape.loop_of_parts()) : rows)};
    if (schedule.parallel && !shares_phases(s, schedule) &&
        (s.shape.image_chunks > 1 || s.shape.axes.back().chunks > 1)) {
        s.y.update().allow_race_conditions().parallel(s.shape.image_chunks > 1 ? images : rows);
    }
    if (schedule.by_panel) {
        places.rest = {&s.y, panel_of_y};
    }
    return places;
}

namespace {

// y in place: by a chunk of rows, or of images, where there are several.
Place schedule_in_place(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule,
                        const Place &around) {
    const WinogradShape &shape = s.shape;
    const bool rows = shape.axes.back().chunks > 1, parts = shape.parts_of_rows() > 1;
    if (!rows && !parts && shape.image_chunks == 1) {
        return around;
    }
    const UpdateLoops &loops = s.outputs[0].r;
    const size_t shared = rows && problem.batch == 1 ? shape.loop_of_rows() : shape.loop_of_images();
    if (schedule.parallel && shape.group_chunks == 1 && loops.has(shared)) {
        s.y.update().allow_race_conditions().parallel(loops.loop(shared));
    }
    return {&s.y, VarOrRVar(loops.loop(parts  ? shape.loop_of_parts()
                                       : rows ? shape.loop_of_rows()
                                              : shape.loop_of_images()))};
}

// y's dimension along an axis, within a phase where those are seen: each follows c and the axes before.
Var along_axis(const WinogradStages &s, size_t axis) {
    size_t d = 1;
    for (size_t a = 0; a < axis; a++) {
        d += s.seen_phases[a] > 1 ? 2 : 1;
    }
    return s.y.args()[d];
}

// How many outputs of an axis are copied together, where it has chunks.
int copied_size(const WinogradStages &s, size_t axis) {
    return s.shape.axes[axis].covered() * (s.seen_phases[axis] > 1 ? 1 : s.shape.phases(axis));
}

// A copy's loops: over its channels or, where those are transposed, over blocks of them; and over the row, where that
// is cut into vectors.
struct CopyLoops {
    Var channels;
    int width = 1;  // channels of an iteration
    std::optional<Var> row;
    std::optional<SharedLoop> blocks = {};  // of positions along the outermost axis, around the loop over channels
};

// The vectors of the copy to y.
CopyLoops schedule_copy_vectors(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule,
                                int channels) {
    const WinogradShape &shape = s.shape;
    const size_t rank = shape.axes.size();
    const std::vector<Var> at = s.y.args();
    const int seen = s.seen_phases[0];
    std::vector<VarOrRVar> groups;
    if (shape.pads_groups()) {
        const Var group("group");
        channels = shape.group_columns;
        s.y.split(s.c, group, s.c, channels);
        groups.emplace_back(group);
    }
    if (shape.y_has_columns()) {
        vectorize_channels(s.y, s.c, shape.columns, schedule.lanes);
    } else if (shape.merges_phases) {
        s.y.reorder({s.p[0], at[1], s.c});
        vectorize_channels(s.y, s.p[0], seen, schedule.lanes);
    } else if (s.transposed_y) {
        const bool by_chunks = shape.axes[0].chunks > 1;
        const int extent = by_chunks ? copied_size(s, 0) : static_cast<int>(problem.out[problem.rank - 1]) / seen;
        const Var blocks = schedule_transpose(s.y, *s.transposed_y, at[1], extent, schedule.lanes, s.c, channels,
                                              transposed_channels, groups);
        const bool shares_row = rank == 1 && !by_chunks && problem.batch == 1;
        return {blocks, transposed_channels, shares_row ? std::optional(blocks) : std::nullopt};
    } else {
        vectorize_channels(s.y, s.c, channels, schedule.lanes);
    }
    return {s.c, schedule.lanes, std::nullopt};
}

// How many positions along an axis are copied together, within a phase where those are seen.
int copied_positions(const WinogradStages &s, const Problem &problem, size_t axis) {
    return s.shape.axes[axis].chunks > 1 ? copied_size(s, axis)
                                         : static_cast<int>(problem.out[problem.rank - 1 - axis]) / s.seen_phases[axis];
}

// The loops of the copy to y, the outermost first: over images or not, over blocks of channels that are transposed, and
// over positions of all axes, but not along rows of images.
std::vector<SharedLoop> loops_of_copy(const WinogradStages &s, const Problem &problem, const CopyLoops &copy,
                                      bool images) {
    const size_t rank = s.shape.axes.size();
    std::vector<SharedLoop> loops;
    if (images) {
        loops.push_back({s.n, static_cast<int>(problem.batch)});
    }
    if (copy.blocks) {
        loops.push_back(*copy.blocks);
    }
    if (s.transposed_y && !s.shape.pads_groups()) {
        loops.push_back({copy.channels, ceil_div(static_cast<int>(problem.out_channels), copy.width)});
    }
    for (size_t a = rank; a-- > 0;) {
        if (a > 0) {
            loops.push_back({s.p[a], s.seen_phases[a]});
        }
        if (a > 0 || (rank == 1 && !s.transposed_y)) {
            const int positions = copied_positions(s, problem, a);
            loops.push_back(
                {along_axis(s, a), a + 1 == rank && copy.blocks ? positions / copy.blocks->extent : positions});
        }
    }
    return loops;
}

// Blocks of so many positions along the outermost axis as lie a kilobyte or more behind each other in a plane; all of
// them where a plane is not as large as two.
int positions_of_block(const WinogradStages &s, const Problem &problem) {
    constexpr int64_t least_bytes = 1024;
    const size_t outermost = s.shape.axes.size() - 1;
    const int all = copied_positions(s, problem, outermost);
    int64_t bytes = halide_type(problem.y_type).bytes() * s.seen_phases[outermost];
    for (size_t a = 0; a < outermost; a++) {
        bytes *= problem.out[problem.rank - 1 - a];
    }
    int block = 1;
    while (block < all && (all % block != 0 || block * bytes < least_bytes)) {
        block++;
    }
    return block;
}

// The planes of a line of channels one after the other, and not rows of all planes in turn, which lie pages apart.
// Around that, blocks of rows: threads that share them have written what they read. `channels`: of a group, where
// groups are copied one by one.
void order_planes(WinogradStages &s, const Problem &problem, int channels, CopyLoops &copy) {
    constexpr int line = 16;
    const size_t outermost = s.shape.axes.size() - 1;
    std::vector<VarOrRVar> order;
    if (copy.width < line && channels % line == 0) {
        const Var lines("lines");
        s.y.split(copy.channels, lines, copy.channels, line / copy.width);
        order.emplace_back(copy.channels);
        copy.channels = lines;
        copy.width = line;
    }
    const int all = copied_positions(s, problem, outermost), block = positions_of_block(s, problem);
    const Var blocks("blocks");
    if (s.shape.axes[outermost].chunks == 1 && block < all) {
        const Var along = along_axis(s, outermost);
        s.y.split(along, blocks, along, block);
        copy.blocks = {blocks, all / block};
    }
    for (size_t a = 1; a < s.shape.axes.size(); a++) {
        order.emplace_back(along_axis(s, a));
        if (s.seen_phases[a] > 1) {
            order.emplace_back(s.p[a]);
        }
    }
    order.emplace_back(copy.channels);
    if (copy.blocks) {
        order.emplace_back(blocks);
    }
    s.y.reorder(order);
}

// In pieces that are worth it: copying takes little of the work that it is a part of.
void share_copy(WinogradStages &s, const Problem &problem, const CopyLoops &copy, bool images, const SharedWork &work) {
    if (!copy.row) {
        share_loops(s.y, loops_of_copy(s, problem, copy, images), work, operations_of_copying(problem.y_elements()));
    }
}

// Divides the copy to y into chunks of rows, and of their parts. Returns where a chunk is, or `around` without any.
Place split_chunks(WinogradStages &s, const Place &around) {
    const size_t outermost = s.shape.axes.size() - 1;
    Place place = around;
    if (s.shape.axes.back().chunks > 1) {
        place = {&s.y, rows_of_y};
        const Var row = along_axis(s, outermost);
        s.y.split(row, rows_of_y, row, copied_size(s, outermost), TailStrategy::GuardWithIf);
    }
    if (s.shape.parts_of_rows() > 1) {
        place = {&s.y, parts_of_rows_of_y};
        const Var part = along_axis(s, outermost - 1);
        s.y.split(part, parts_of_rows_of_y, part, copied_size(s, outermost - 1), TailStrategy::GuardWithIf);
    }
    return place;
}

// The loop over chunks of rows, around those that a chunk has.
void order_rows(WinogradStages &s) {
    const size_t outermost = s.shape.axes.size() - 1;
    if (s.shape.merges_phases && outermost == 0) {
        order_outermost(s.y, {rows_of_y, s.n});  // channels are inside, or all stages would pass once for each
    } else if (s.seen_phases[outermost] > 1) {
        s.y.reorder({s.p[outermost], rows_of_y, s.n});
    } else {
        s.y.reorder({rows_of_y, s.n});
    }
}

}  // namespace

Places schedule_copy(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule,
                     const SharedWork &work) {
    const WinogradShape &shape = s.shape;
    const size_t rank = shape.axes.size();
    const bool of_groups = shape.group_chunks > 1;
    const Place image = of_groups ? Place{&s.y, groups_of_y} : Place();
    if (s.in_place) {
        const Place place = schedule_in_place(s, problem, schedule, image);
        return {image, place, schedule.by_panel ? Place{&s.y, panel_of_y} : place};
    }
    const std::vector<Var> at = s.y.args();
    const Var outermost = along_axis(s, rank - 1);
    const int channels = of_groups ? shape.group_columns : static_cast<int>(problem.out_channels);
    if (of_groups) {
        std::vector<VarOrRVar> order(at.begin(), at.end());
        order.emplace_back(groups_of_y);
        s.y.split(s.c, groups_of_y, s.c, channels).reorder(order);
    }
    const bool has_rows = shape.axes.back().chunks > 1;
    Place place = split_chunks(s, image);
    CopyLoops loops = schedule_copy_vectors(s, problem, schedule, channels);
    if (s.transposed_y && !shape.pads_groups() && !schedule.by_panel && rank > 1) {
        order_planes(s, problem, channels, loops);
    }
    Var shared = problem.batch > 1           ? s.n
                 : has_rows                  ? rows_of_y
                 : shape.parts_of_rows() > 1 ? parts_of_rows_of_y
                                             : loops.row.value_or(outermost);
    if (has_rows) {
        order_rows(s);
    } else if (shape.image_chunks > 1) {
        place = {&s.y, s.n};
        if (shape.images > 1) {
            s.y.split(s.n, images_of_y, s.n, shape.images);
            place.chunk = shared = images_of_y;
        }
    }
    if (shape.parts_of_rows() > 1) {
        order_outermost(s.y, has_rows ? std::vector<Var>{parts_of_rows_of_y, rows_of_y, s.n}
                                      : std::vector<Var>{parts_of_rows_of_y, s.n});
    }
    Places places = {image, place, place};
    if (schedule.by_panel) {
        split_panels(s, schedule, loops.channels, loops.width, place);
        places.rest = {&s.y, panel_of_y};
        shared = place.y == nullptr ? panel_of_y : shared;
    }
    const bool is_whole = place.y == nullptr && !schedule.by_panel && !loops.row;
    if (schedule.parallel && (of_groups || !is_whole)) {
        s.y.parallel(of_groups ? groups_of_y : shared);
    }
    if (schedule.by_panel && work.is_shared()) {
        s.y.parallel(panel_of_y);
    }
    const SharedWork of_copy = schedule.by_panel ? work.within(shape.panels) : work;
    share_copy(s, problem, loops, is_whole, of_copy);
    return places;
}

}  // namespace kiln
