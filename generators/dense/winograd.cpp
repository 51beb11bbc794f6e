// The Winograd algorithm's stages; winograd_x86.cpp beside it schedules them.
#include "dense/winograd.h"

#include <algorithm>
#include <stdexcept>

#include "common/arithmetic.h"
#include "common/epilogue.h"
#include "common/schedule_text.h"
#include "common/types.h"
#include "common/vars.h"
#include "dense/cook_toom.h"
#include "dense/direct.h"

namespace kiln::dense {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

constexpr int max_rank = 3;
constexpr int least_masked_lanes = 8;       // of vectors that targets store under a mask in one instruction
constexpr size_t most_stack_bytes = 16384;  // of one allocation: Halide takes larger ones from a heap

template <typename To, typename From>
void append(std::vector<To> &to, const std::vector<From> &from) {
    to.insert(to.end(), from.begin(), from.end());
}

// sum of row[k] * terms[k] without the zeros.
Expr combination(const std::vector<double> &row, const std::vector<Expr> &terms) {
    Expr sum;
    for (size_t k = 0; k < row.size(); k++) {
        if (row[k] != 0) {
            const Expr term = row[k] == 1 ? terms[k] : terms[k] * Halide::Internal::make_const(terms[k].type(), row[k]);
            sum = sum.defined() ? sum + term : term;
        }
    }
    return sum.defined() ? sum : Halide::Internal::make_zero(terms[0].type());
}

std::vector<double> values(const std::vector<Rational> &row) {
    std::vector<double> result;
    std::transform(row.begin(), row.end(), std::back_inserter(result), [](const Rational &v) { return v.value(); });
    return result;
}

// B^T times the inputs of a tile: opposite points share the even and the odd part of their sums.
std::vector<Expr> input_transform(const CookToom &f, const std::vector<Expr> &inputs) {
    std::vector<Expr> result(f.points);
    for (int k = 0; k < f.points; k++) {
        const int other = opposite_point(k, f.points);
        if (other < 0) {
            result[k] = combination(values(f.b_t[k]), inputs);
        } else if (k < other) {
            std::vector<double> even, odd;
            for (int l = 0; l < f.points; l++) {
                even.push_back((f.b_t[k][l].value() + f.b_t[other][l].value()) / 2);
                odd.push_back((f.b_t[k][l].value() - f.b_t[other][l].value()) / 2);
            }
            const Expr e = combination(even, inputs), o = combination(odd, inputs);
            result[k] = e + o;
            result[other] = e - o;
        }
    }
    return result;
}

// A^T times the products of a tile: opposite points share their sum and difference.
std::vector<Expr> output_transform(const CookToom &f, const std::vector<Expr> &products) {
    std::vector<Expr> result;
    for (int i = 0; i < f.outputs; i++) {
        std::vector<double> row;
        std::vector<Expr> terms;
        for (int k = 0; k < f.points; k++) {
            const int other = opposite_point(k, f.points);
            if (other < 0 || k < other) {
                const Expr pair = other < 0    ? products[k]
                                  : i % 2 == 0 ? products[k] + products[other]
                                               : products[k] - products[other];
                row.push_back(f.a_t[i][k].value());
                terms.push_back(pair);
            }
        }
        result.push_back(combination(row, terms));
    }
    return result;
}

// The transform of axis `a` in tiles of a combination.
const CookToom &transform_of(const WinogradShape &shape, int bits, size_t a) {
    const WinogradAxis &axis = shape.axes[a];
    return cook_toom(shape.tile_class(bits, a).outputs, axis.taps, axis.points);
}

}  // namespace

std::vector<WinogradAxis> winograd_axes(const Problem &problem) {
    std::vector<WinogradAxis> axes;
    for (int axis = problem.rank - 1; axis >= 0; axis--) {
        axes.push_back(problem.op == Operator::conv ? WinogradAxis::conv(problem, axis)
                                                    : WinogradAxis::conv_transpose(problem, axis));
    }
    return axes;
}

double winograd_amplification(const std::vector<WinogradAxis> &axes, const std::vector<int> &tile) {
    double product = 1;
    for (size_t a = 0; a < axes.size(); a++) {
        product *= cook_toom(tile[a], axes[a].taps, tile[a] + axes[a].taps - 1).amplification;
    }
    return product;
}

bool winograd_applies(const Problem &p) {
    if (p.op == Operator::deform_conv || p.rank > max_rank || p.accuracy == Accuracy::strict ||
        sum_type(p) != Halide::Float(32) || p.y_elements() == 0 || p.has_open_sizes() || p.x_elements() == 0) {
        return false;
    }
    const std::vector<WinogradAxis> axes = winograd_axes(p);
    bool pays = false;
    for (int axis = 0; axis < p.rank; axis++) {
        const WinogradAxis &map = axes[p.rank - 1 - axis];
        if (p.op == Operator::conv_transpose && p.stride[axis] > 1 && p.dilation[axis] > 1) {
            return false;
        }
        if (map.taps >= max_cook_toom_points) {
            return false;
        }
        pays = pays || (map.taps >= 2 && map.length >= 2);
    }
    return pays;
}

WinogradSchedule WinogradSchedule::parse(const std::string &text) {
    const ScheduleText numbers(text, {"lanes", "vectors", "block", "unroll", "tile_x", "tile_y", "tile_z", "rows",
                                      "images", "by_phase", "by_point", "parallel"});
    for (const char *name : {"lanes", "vectors", "block", "unroll", "tile_x", "tile_y", "tile_z", "images"}) {
        if (numbers[name] < 1) {
            throw std::invalid_argument("schedule: \"" + std::string(name) + "\" must be 1 or more");
        }
    }
    return {numbers["lanes"],
            numbers["vectors"],
            numbers["block"],
            numbers["unroll"],
            {numbers["tile_x"], numbers["tile_y"], numbers["tile_z"]},
            numbers["rows"],
            numbers["images"],
            numbers["by_phase"] != 0,
            numbers["by_point"] != 0,
            numbers["parallel"] != 0};
}

std::string WinogradSchedule::print() const {
    return ScheduleText::print({{"lanes", lanes},
                                {"vectors", vectors},
                                {"block", block},
                                {"unroll", unroll},
                                {"tile_x", tile[0]},
                                {"tile_y", tile[1]},
                                {"tile_z", tile[2]},
                                {"rows", rows},
                                {"images", images},
                                {"by_phase", by_phase},
                                {"by_point", by_point},
                                {"parallel", parallel}});
}

// Each panel within a group, or whole groups in each.
bool panel_fits_groups(const Problem &problem, int panel) {
    const int64_t of_group = problem.out_channels / problem.groups;
    return problem.groups == 1 || of_group % panel == 0 ||
           (panel % of_group == 0 && problem.groups % (panel / of_group) == 0);
}

bool WinogradSchedule::allows_by_phase(const Problem &problem) const {
    const WinogradShape shape = winograd_shape(problem, *this);
    return !by_point && shape.covers_exactly(problem, lanes) && shape.tile_classes().size() == 1;
}

void WinogradSchedule::check(const Problem &problem) const {
    const char *names[] = {"tile_x", "tile_y", "tile_z"};
    const std::vector<WinogradAxis> axes = winograd_axes(problem);
    for (size_t a = 0; a < tile.size(); a++) {
        const int taps = a < axes.size() ? axes[a].taps : 1, length = a < axes.size() ? axes[a].length : 1;
        if (tile[a] > length || (taps == 1 && tile[a] > 1) || tile[a] + taps - 1 > max_cook_toom_points) {
            throw std::invalid_argument("schedule: \"" + std::string(names[a]) + "\" is " + std::to_string(tile[a]) +
                                        " for " + std::to_string(length) + " outputs of " + std::to_string(taps) +
                                        " taps");
        }
    }
    if (winograd_amplification(axes, tile) > most_amplification) {
        throw std::invalid_argument("schedule: errors of such large tiles come to " +
                                    std::to_string(winograd_amplification(axes, tile)) + " times those of a sum");
    }
    if (problem.batch % images != 0 || (rows > 0 && images > 1)) {
        throw std::invalid_argument("schedule: \"images\" is " + std::to_string(images) + " for a batch of " +
                                    std::to_string(problem.batch) + " and \"rows\" " + std::to_string(rows));
    }
    if (by_phase && !allows_by_phase(problem)) {
        throw std::invalid_argument("schedule: \"by_phase\" is 1, but not all tiles are of one size and dense in y");
    }
    if (by_point && (problem.rank < max_rank || rows > 0)) {
        throw std::invalid_argument("schedule: \"by_point\" is 1 for " + std::to_string(problem.rank) +
                                    " axes and \"rows\" " + std::to_string(rows));
    }
    if (!panel_fits_groups(problem, panel())) {
        throw std::invalid_argument("schedule: a panel of " + std::to_string(panel()) + " channels in " +
                                    std::to_string(problem.groups) + " groups of " +
                                    std::to_string(problem.out_channels / problem.groups));
    }
}

namespace {

constexpr int64_t few_inputs = 4, few_outputs = 32;

bool merges_phases(const Problem &problem, const std::vector<WinogradAxis> &axes) {
    const bool whole =
        std::all_of(axes.begin(), axes.end(), [](const WinogradAxis &axis) { return axis.out % axis.phases == 0; });
    return problem.groups == 1 && problem.out_channels < few_outputs && axes[0].phases > 1 && axes[0].shifts == 1 &&
           whole;
}

bool merges_folds(const Problem &problem, const std::vector<WinogradAxis> &axes) {
    bool any = false, dense = true;
    for (const WinogradAxis &axis : axes) {
        any = any || axis.folds > 1;
        dense = dense && axis.subs == 1;
    }
    return problem.groups == 1 && problem.in_channels <= few_inputs && any && dense;
}

}  // namespace

WinogradShape winograd_shape(const Problem &problem, const WinogradSchedule &schedule) {
    WinogradShape shape;
    shape.axes = winograd_axes(problem);
    for (size_t a = 0; a < shape.axes.size(); a++) {
        WinogradAxis &axis = shape.axes[a];
        axis.outputs = schedule.tile[a];
        axis.points = axis.outputs + axis.taps - 1;
        axis.whole = axis.length / axis.outputs;
        if (a + 1 == shape.axes.size() && schedule.rows > 0) {
            const int tiles = ceil_div(axis.length, axis.outputs);
            axis.whole = std::min(schedule.rows, tiles);
            axis.chunks = ceil_div(tiles, axis.whole);
        } else if (a < 2) {  // on a third axis, some point's tiles would not be contiguous
            axis.rest = axis.length % axis.outputs;
            axis.rest_points = axis.rest + axis.taps - 1;
        } else {
            axis.whole = ceil_div(axis.length, axis.outputs);
        }
    }
    shape.merges_phases = merges_phases(problem, shape.axes);
    shape.merges_folds = merges_folds(problem, shape.axes);
    shape.channels_first = problem.y_layout == Layout::nxc;
    shape.columns = static_cast<int>(problem.out_channels) * (shape.merges_phases ? shape.axes[0].phases : 1);
    shape.panel = schedule.panel();
    shape.panels = ceil_div(shape.columns, shape.panel);
    const int of_group = shape.columns / static_cast<int>(problem.groups);
    shape.joined = problem.groups == 1 ? 1 : std::max(1, shape.panel / of_group);
    shape.depth = static_cast<int>(problem.in_channels / problem.groups) * shape.joined;
    for (const WinogradAxis &axis : shape.axes) {
        shape.depth *= shape.merges_folds ? axis.folds : 1;
    }
    shape.images = schedule.images;
    shape.image_chunks = static_cast<int>(problem.batch) / schedule.images;
    return shape;
}

// Tiles that are smaller on the innermost axis alone come first, then whole ones, then those smaller on the next axis
// alone, then on both: so the tiles that are whole on either axis, or on both, follow each other.
std::vector<int> WinogradShape::tile_classes() const {
    std::vector<int> classes;
    for (const int bits : {1, 0, 2, 3}) {
        const bool has_x = (bits & 1) == 0 || axes[0].rest > 0;
        const bool has_y = (bits & 2) == 0 || (axes.size() > 1 && axes[1].rest > 0);
        if (has_x && has_y) {
            classes.push_back(bits);
        }
    }
    return classes;
}

int WinogradShape::tiles(int bits) const {
    int count = images;
    for (size_t a = 0; a < axes.size(); a++) {
        count *= tile_class(bits, a).count * axes[a].subs;
    }
    return count;
}

int WinogradShape::tiles_before(int bits) const {
    int before = 0;
    for (const int other : tile_classes()) {
        if (other == bits) {
            break;
        }
        before += tiles(other);
    }
    return before;
}

WinogradShape WinogradShape::plane() const {
    WinogradShape result = *this;
    result.axes.back() = WinogradAxis();
    result.axes.back().whole = result.axes.back().length = 1;
    return result;
}

WinogradShape::Range WinogradShape::tiles_of_points(int bits) const {
    Range range = {-1, 0};
    for (const int other : tile_classes()) {
        if ((bits & other) == 0) {
            range.begin = range.count == 0 ? tiles_before(other) : range.begin;
            range.count += tiles(other);
        }
    }
    return range;
}

WinogradShape::Range WinogradShape::points(int bits, size_t axis) const {
    const int low = axes[axis].rest > 0 ? axes[axis].rest_points : axes[axis].points;
    return (bits >> axis & 1) != 0 ? Range{low, axes[axis].points - low} : Range{0, low};
}

bool WinogradShape::covers_exactly(const Problem &problem, int lanes) const {
    // Merged columns are stored under a mask where they are no whole vectors.
    const bool whole = columns % lanes == 0 || (merges_phases && lanes >= least_masked_lanes);
    bool exact = problem.y_layout == Layout::nxc && whole && !(merges_phases && problem.residual);
    for (const WinogradAxis &axis : axes) {
        exact = exact && axis.chunks * axis.covered() * axis.phases == axis.out;
    }
    // Chunks of several combinations would be as many updates of y, which cannot share a loop.
    const bool chunks = axes.back().chunks > 1 || image_chunks > 1;
    return exact && (!chunks || tile_classes().size() == 1);
}

std::vector<int> WinogradShape::packed_extents() const {
    std::vector<int> extents = {panel, depth};
    for (size_t a = 0; a < axes.size(); a++) {
        extents.push_back(folds(a));
    }
    extents.push_back(panels);
    for (const WinogradAxis &axis : axes) {
        extents.push_back(axis.points);
    }
    for (size_t a = 0; a < axes.size(); a++) {
        extents.push_back(phases(a));
    }
    return extents;
}

// Transformed in double, one axis after the other, and rounded once.
Func pack_winograd(const Problem &problem, const WinogradShape &shape, const Func &w) {
    const size_t rank = shape.axes.size();
    const Var lane("lane"), k("k"), block("block");
    const std::vector<Var> e = vars("e", rank), j = vars("j", rank), p = vars("p", rank);
    const bool transposed = problem.op == Operator::conv_transpose;
    const int out_of_group = static_cast<int>(problem.out_channels / problem.groups);
    Expr channel = block * shape.panel + lane, input = k;
    std::vector<Expr> phase(p.begin(), p.end()), fold(e.begin(), e.end());
    if (shape.merges_phases) {
        const Expr column = channel;
        const int channels = static_cast<int>(problem.out_channels), phases = shape.axes[0].phases;
        channel = shape.channels_first ? column % channels : column / phases;
        phase[0] = shape.channels_first ? column / channels : column % phases;
        channel = Halide::select(column < shape.columns, channel, channels);
    }
    const int depth = static_cast<int>(problem.in_channels / problem.groups);
    if (shape.merges_folds) {
        input = k % depth;
        Expr folds = k / depth;
        for (size_t a = 0; a < rank; a++) {
            fold[a] = folds % shape.axes[a].folds;
            folds = folds / shape.axes[a].folds;
        }
    }

    // Outside these bounds, in the last panel's empty lanes, beyond a fold's or a phase's taps and between groups that
    // share a panel, weights are zero.
    Expr group = channel / out_of_group;
    if (shape.joined > 1) {
        input = Halide::select(k / depth == group % shape.joined, k % depth, -1);
        group = Halide::select(input < 0, static_cast<int>(-problem.groups), group);
    }
    std::vector<Expr> at = {channel, input};
    Halide::Region bounds = {{0, static_cast<int>(problem.out_channels)}, {0, depth}};
    if (transposed) {
        at = {group * depth + input, channel % out_of_group};
        bounds = {{0, static_cast<int>(problem.in_channels)}, {0, out_of_group}};
    }
    for (size_t a = rank; a-- > 0;) {
        at.push_back(shape.axes[a].tap(phase[a], fold[a], j[a]));
        bounds.emplace_back(0, shape.axes[a].kernel);
    }
    std::vector<Var> order = {lane, k};
    append(order, e);
    order.push_back(block);
    append(order, j);
    append(order, p);
    Func result("packed"), step("taps");
    step(order) = Halide::cast<double>(Halide::BoundaryConditions::constant_exterior(w, 0.0f, bounds)(at));
    const Var vector("vector");
    std::vector<Func> steps = {step};
    for (size_t a = 0; a < rank; a++) {
        const CookToom &f = cook_toom(shape.axes[a].outputs, shape.axes[a].taps, shape.axes[a].points);
        std::vector<Expr> rows;
        for (int point = 0; point < f.points; point++) {
            std::vector<Expr> terms;
            for (int tap = 0; tap < f.taps; tap++) {
                std::vector<Expr> from(order.begin(), order.end());
                from[3 + rank + a] = tap;
                terms.push_back(steps.back()(from));
            }
            rows.push_back(combination(values(f.g[point]), terms));
        }
        Func next("filter" + std::to_string(a));
        next(order) = rows.size() == 1 ? rows[0] : Halide::mux(j[a], rows);
        steps.push_back(next);
    }
    const std::vector<Expr> same(order.begin(), order.end());
    result(order) = Halide::cast<float>(steps.back()(same));

    // All points of a few weights at a time, as many as fit the stack.
    int lanes = 8, points = 1;
    for (const WinogradAxis &axis : shape.axes) {
        points *= axis.points;
    }
    while (shape.panel % lanes != 0 || lanes * points * sizeof(double) > most_stack_bytes) {
        lanes /= 2;
    }
    std::vector<Halide::VarOrRVar> loops = {lane};
    append(loops, j);
    loops.insert(loops.end(), {vector, k});
    append(loops, e);
    loops.push_back(block);
    append(loops, p);
    result.split(lane, vector, lane, lanes).reorder(loops).vectorize(lane);
    for (size_t at_step = 0; at_step < steps.size(); at_step++) {
        Func &f = steps[at_step];
        f.compute_at(result, vector).store_in(Halide::MemoryType::Stack).vectorize(lane, lanes);
        if (at_step > 0) {
            f.bound(j[at_step - 1], 0, shape.axes[at_step - 1].points).unroll(j[at_step - 1]);
        }
    }
    return result;
}

namespace {

// The channels of all folds together, and zeros around them, over (c, position in tiles of each axis, n).
Func define_folded_image(WinogradStages &s, const Problem &problem, const Func &x) {
    const int channels = static_cast<int>(problem.in_channels);
    std::vector<Var> at = {s.c};
    append(at, vars("x", s.shape.axes.size()));
    at.push_back(s.n);
    std::vector<Expr> from = {s.c % channels};
    Halide::Region bounds(1);
    Expr folds = s.c / channels;
    for (size_t a = 0; a < s.shape.axes.size(); a++) {
        const WinogradAxis &axis = s.shape.axes[a];
        from.push_back(at[a + 1] * axis.step + axis.origin(0, folds % axis.folds, 0));
        folds = folds / axis.folds;
        bounds.emplace_back(0, axis.in);
    }
    from.push_back(s.n);
    bounds.emplace_back();
    s.image = Func("image");
    s.image(at) = Halide::BoundaryConditions::constant_exterior(x, 0.0f, bounds)(from);
    from.assign(at.begin(), at.end());
    from[0] = Halide::unsafe_promise_clamped(s.c, 0, s.shape.depth - 1);  // as below
    Func filled_up("filled_up");
    filled_up(at) = s.image(from);
    return filled_up;
}

// x with zeros outside it, over (c, position on each axis, n), and s.image where x will not do by itself.
Func define_image(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule, const Func &x) {
    const int lanes = schedule.lanes, channels = static_cast<int>(problem.in_channels);
    s.channels = round_up(s.shape.merges_folds ? s.shape.depth : channels, lanes);
    if (s.shape.merges_folds) {
        return define_folded_image(s, problem, x);
    }
    std::vector<Var> at = {s.c};
    append(at, vars("x", s.shape.axes.size()));
    at.push_back(s.n);
    Func source = x;
    if (problem.x_layout != Layout::nxc || s.channels != channels) {
        std::vector<Expr> from(at.begin(), at.end());
        if (problem.x_layout != Layout::nxc) {
            s.turned_x = Func("turned_x");
            s.turned_x(at) = x(from);
        }
        s.image = Func("image");
        s.image(at) = (s.turned_x.defined() ? s.turned_x : x)(from);
        // Products do not read the channels that fill up the last vector: anything may lie there.
        from[0] = Halide::unsafe_promise_clamped(s.c, 0, channels - 1);
        source = Func("filled_up");
        source(at) = s.image(from);
    }
    Halide::Region bounds(s.shape.axes.size() + 2);
    bool pads = false;
    for (size_t a = 0; a < s.shape.axes.size(); a++) {
        if (s.shape.axes[a].reads_outside()) {
            bounds[a + 1] = {0, s.shape.axes[a].in};
            pads = true;
        }
    }
    return pads ? Halide::BoundaryConditions::constant_exterior(source, 0.0f, bounds) : source;
}

// The number of a tile among those of its combination: (tile, sub-image) of each axis, then the image.
Expr tile_number(const WinogradShape &shape, int bits, const std::vector<Expr> &t, const std::vector<Expr> &u,
                 const Expr &image) {
    Expr number = image;
    for (size_t a = shape.axes.size(); a-- > 0;) {
        number = (number * shape.tile_class(bits, a).count + t[a]) * shape.axes[a].subs + u[a];
    }
    return number + shape.tiles_before(bits);
}

// A domain of `sizes` for each axis, then tile and sub-image of each, then the image, then, for outputs, the chunks of
// rows and of images.
RDom tile_domain(const WinogradShape &shape, int bits, bool outputs, bool chunked_in_place, const std::string &name) {
    Halide::Region domain;
    for (size_t a = 0; a < shape.axes.size(); a++) {
        const TileClass tile = shape.tile_class(bits, a);
        domain.emplace_back(0, outputs ? tile.outputs : tile.points);
    }
    for (size_t a = 0; a < shape.axes.size(); a++) {
        domain.emplace_back(0, shape.tile_class(bits, a).count);
        domain.emplace_back(0, shape.axes[a].subs);
    }
    domain.emplace_back(0, shape.images);
    if (outputs) {
        domain.emplace_back(0, chunked_in_place ? shape.axes.back().chunks : 1);
        domain.emplace_back(0, chunked_in_place ? shape.image_chunks : 1);
    }
    return RDom(domain, name);
}

struct TilePosition {
    std::vector<Expr> inner, t, u;  // point or output, tile, sub-image of each axis
    Expr image;
};

TilePosition position_of(const RDom &r, size_t rank) {
    TilePosition at;
    for (size_t a = 0; a < rank; a++) {
        at.inner.push_back(r[static_cast<int>(a)]);
        at.t.push_back(r[static_cast<int>(rank + 2 * a)]);
        at.u.push_back(r[static_cast<int>(rank + 2 * a + 1)]);
    }
    at.image = r[static_cast<int>(3 * rank)];
    return at;
}

// The transform of tiles of one combination whose first input is at given positions: a Func for each axis, over
// (c, inputs or points of each axis, position of each axis, n).
std::vector<WinogradStages::Step> input_steps(const WinogradStages &s, const WinogradShape &shape, int bits,
                                              const Func &padded) {
    const size_t rank = shape.axes.size();
    const std::vector<Var> position = vars("position", rank);
    std::vector<Var> at = {s.c};
    append(at, s.j);
    append(at, position);
    at.push_back(s.n);
    std::vector<WinogradStages::Step> steps;
    for (size_t a = rank; a-- > 0;) {
        const CookToom &f = transform_of(shape, bits, a);
        std::vector<Expr> inputs;
        for (int l = 0; l < f.points; l++) {
            std::vector<Expr> from(at.begin(), at.end());
            from[1 + a] = l;
            if (!steps.empty()) {
                inputs.push_back(steps.back().f(from));
                continue;
            }
            std::vector<Expr> x = {s.c};
            for (size_t b = 0; b < rank; b++) {
                x.push_back(position[b] + from[1 + b] * (shape.merges_folds ? 1 : shape.axes[b].step));
            }
            x.push_back(s.n);
            inputs.push_back(padded(x));
        }
        const std::vector<Expr> points = input_transform(f, inputs);
        Func step("input" + std::to_string(a));
        step(at) = points.size() == 1 ? points[0] : Halide::mux(s.j[a], points);
        steps.push_back({a, step});
    }
    return steps;
}

void define_inputs(WinogradStages &s, const Func &padded, bool by_point) {
    const WinogradShape shape = by_point ? s.shape.plane() : s.shape;
    const size_t rank = shape.axes.size(), inner = by_point ? rank - 1 : rank;
    s.transformed = Func(by_point ? "planes" : "transformed");
    std::vector<Var> at = {s.c};
    at.insert(at.end(), s.e.begin(), s.e.begin() + static_cast<std::ptrdiff_t>(inner));
    at.push_back(s.tile);
    if (by_point) {
        at.push_back(s.depth);
    }
    const size_t first_point = at.size();
    at.insert(at.end(), s.j.begin(), s.j.begin() + static_cast<std::ptrdiff_t>(inner));
    at.insert(at.end(), s.z.begin(), s.z.begin() + static_cast<std::ptrdiff_t>(inner));
    if (!by_point) {
        at.push_back(s.rows);
    }
    at.push_back(s.images);
    s.transformed(at) = Halide::undef<float>();
    for (const int bits : shape.tile_classes()) {
        WinogradStages::Transform transform = {bits, input_steps(s, shape, bits, padded),
                                               tile_domain(shape, bits, false, false, "of_input")};
        const TilePosition tile = position_of(transform.r, rank);
        std::vector<Expr> to(at.begin(), at.end()), from = {s.c};
        append(from, tile.inner);
        for (size_t a = 0; a < inner; a++) {
            const WinogradAxis &axis = shape.axes[a];
            const Expr row = axis.chunks > 1 ? s.rows * axis.whole + tile.t[a] : tile.t[a];
            const Expr start = row * axis.outputs + shape.tile_class(bits, a).start;
            from.push_back(shape.merges_folds ? start : start * axis.step + axis.origin(tile.u[a], s.e[a], s.z[a]));
            to[first_point + a] = tile.inner[a];
        }
        if (by_point) {
            from.push_back(s.depth);
        }
        from.push_back(s.images * shape.images + tile.image);
        to[1 + inner] = tile_number(shape, bits, tile.t, tile.u, tile.image);
        s.transformed(to) = transform.steps.back().f(from);
        s.inputs.push_back(transform);
    }
}

// What the products of some points multiply, from planes: their transform on the outermost axis, tile of a plane by
// tile of a plane.
void gather_planes(WinogradStages &s, WinogradStages::Product &product, const Func &planes) {
    const WinogradShape &shape = s.shape, plane = shape.plane();
    const size_t rank = shape.axes.size(), outer = rank - 1;
    const WinogradAxis &axis = shape.axes[outer];
    const CookToom &f = transform_of(shape, 0, outer);
    std::vector<Var> at = {s.c};
    append(at, s.e);
    at.push_back(s.tile);
    append(at, s.j);
    append(at, s.z);
    at.insert(at.end(), {s.rows, s.images});
    product.transformed = Func("transformed");
    product.transformed(at) = Halide::undef<float>();
    for (const int bits : shape.tile_classes()) {
        if ((bits & product.bits) != 0) {
            continue;
        }
        const int tiles = plane.tiles(bits) / shape.images;
        const TileClass outermost = shape.tile_class(0, outer);
        const RDom r({{0, tiles}, {0, outermost.count}, {0, axis.subs}, {0, shape.images}}, "of_plane");
        std::vector<Expr> to(at.begin(), at.end()), inputs;
        to[1 + rank] = shape.tiles_before(bits) + ((r[3] * outermost.count + r[1]) * axis.subs + r[2]) * tiles + r[0];
        for (int l = 0; l < f.points; l++) {
            const Expr start = r[1] * axis.outputs + l;
            std::vector<Expr> from = {s.c};
            append(from, std::vector<Var>(s.e.begin(), s.e.end() - 1));
            from.push_back(plane.tiles_before(bits) + r[3] * tiles + r[0]);
            from.push_back(shape.merges_folds ? start : start * axis.step + axis.origin(r[2], s.e[outer], s.z[outer]));
            append(from, std::vector<Var>(s.j.begin(), s.j.end() - 1));
            append(from, std::vector<Var>(s.z.begin(), s.z.end() - 1));
            from.push_back(s.images);
            inputs.push_back(planes(from));
        }
        const std::vector<Expr> points = input_transform(f, inputs);
        product.transformed(to) = points.size() == 1 ? points[0] : Halide::mux(s.j[outer], points);
        product.gathered.push_back(r);
    }
}

void define_products(WinogradStages &s, const Problem &problem, const Func &packed, bool by_point) {
    const WinogradShape &shape = s.shape;
    Func planes = s.transformed;
    if (by_point && shape.axes.back().reads_outside() && !shape.merges_folds) {
        Halide::Region bounds(s.transformed.dimensions());
        bounds[shape.axes.size() + 1] = {0, shape.axes.back().in};
        planes = Halide::BoundaryConditions::constant_exterior(s.transformed, 0.0f, bounds);
    }
    const size_t rank = shape.axes.size();
    const int columns = shape.columns / static_cast<int>(problem.groups) * shape.joined;  // that read the same inputs
    Halide::Region domain = {{0, shape.depth}};
    for (size_t a = 0; a < rank; a++) {
        domain.emplace_back(0, shape.folds(a));
    }
    int most = 0;
    for (const int bits : shape.tile_classes()) {
        most |= bits;
    }
    for (int bits = 0; bits <= most; bits++) {
        if ((bits & ~most) != 0) {
            continue;
        }
        RDom r(domain, "r");
        std::vector<Expr> weight = {s.c % shape.panel},
                          in = {problem.groups == 1 ? r[0] + 0 : s.c / columns * shape.depth + r[0]};
        for (size_t a = 0; a <= rank; a++) {
            weight.push_back(r[static_cast<int>(a)]);
        }
        append(in, std::vector<Expr>(weight.begin() + 2, weight.end()));
        in.push_back(s.tile);
        append(in, s.j);
        weight.push_back(s.c / shape.panel);
        append(weight, s.j);
        append(weight, s.p);
        for (size_t a = 0; a < rank; a++) {
            const WinogradAxis &axis = shape.axes[a];
            in.push_back(axis.shift_of(s.p[a]));
            if (axis.taps > 1 && axis.first_short_fold() < shape.folds(a)) {
                r.where(s.j[a] != cook_toom_infinity || r[static_cast<int>(a) + 1] < axis.first_short_fold());
            }
        }
        in.insert(in.end(), {s.rows, s.images});
        std::vector<Var> at = {s.c, s.tile};
        append(at, s.j);
        append(at, s.p);
        at.insert(at.end(), {s.rows, s.images});
        WinogradStages::Product product = {bits, s.transformed, Func("acc"), Func("product"), Func(), {}};
        if (by_point) {
            gather_planes(s, product, planes);
        }
        product.acc(at) = 0.0f;
        product.acc(at) += packed(weight) * product.transformed(in);
        product.product(at) = product.acc(std::vector<Expr>(at.begin(), at.end()));
        s.products.push_back(product);
    }
}

// The transform on axis `a` of tiles of one combination, over (c, points of lower axes, outputs of this and higher
// ones, tile, p of each axis, rows, images), from Funcs by bits of this and the lower axes to Funcs by bits of the
// lower ones.
std::map<int, Func> output_step(const WinogradStages &s, size_t a, int bits, const std::map<int, Func> &from) {
    const WinogradShape &shape = s.shape;
    const size_t rank = shape.axes.size();
    const CookToom &f = transform_of(shape, bits, a);
    std::map<int, Func> to;
    for (const auto &[from_bits, unused] : from) {
        // Points that these tiles lack are no part of it.
        if ((from_bits >> a) != 0 || (from_bits & bits) != 0) {
            continue;
        }
        std::vector<Var> at = {s.c};
        append(at, std::vector<Var>(s.j.begin(), s.j.begin() + static_cast<std::ptrdiff_t>(a)));
        append(at, std::vector<Var>(s.i.begin() + static_cast<std::ptrdiff_t>(a), s.i.end()));
        at.push_back(s.tile);
        append(at, s.p);
        at.insert(at.end(), {s.rows, s.images});
        std::vector<Expr> terms;
        for (int k = 0; k < f.points; k++) {
            const bool high = k >= shape.points(0, a).count;
            const Func &source = from.at(from_bits | (high ? 1 << a : 0));
            std::vector<Expr> with_point(at.begin(), at.end());
            with_point[1 + a] = k;
            if (a + 1 == rank) {  // the products: tile follows c
                std::vector<Expr> in = {s.c, s.tile};
                append(in, std::vector<Expr>(with_point.begin() + 1,
                                             with_point.begin() + 1 + static_cast<std::ptrdiff_t>(rank)));
                append(in,
                       std::vector<Expr>(with_point.begin() + 2 + static_cast<std::ptrdiff_t>(rank), with_point.end()));
                with_point = in;
            }
            terms.push_back(source(with_point));
        }
        const std::vector<Expr> outputs = output_transform(f, terms);
        Func step("output" + std::to_string(a));
        step(at) = outputs.size() == 1 ? outputs[0] : Halide::mux(s.i[a], outputs);
        to[from_bits] = step;
    }
    return to;
}

// The transforms of products on the outermost axis, whose tiles are all of one size.
void define_outer(WinogradStages &s) {
    std::map<int, Func> products;
    for (const WinogradStages::Product &product : s.products) {
        products[product.bits] = product.product;
    }
    const std::map<int, Func> outer = output_step(s, s.shape.axes.size() - 1, 0, products);
    for (WinogradStages::Product &product : s.products) {
        product.outer = outer.at(product.bits);
    }
}

// The transform of tiles of one combination, the outermost axis first. Where a lower axis has two kinds of points, a
// step is two Funcs, by bits of the lower axes.
std::vector<WinogradStages::Step> output_steps(const WinogradStages &s, int bits) {
    std::map<int, Func> from;
    size_t a = s.shape.axes.size();
    for (const WinogradStages::Product &product : s.products) {
        from[product.bits] = product.outer.defined() ? product.outer : product.product;
        a = product.outer.defined() ? s.shape.axes.size() - 1 : a;
    }
    std::vector<WinogradStages::Step> steps;
    while (a-- > 0) {
        from = output_step(s, a, bits, from);
        for (const auto &[unused, f] : from) {
            steps.push_back({a, f});
        }
    }
    return steps;
}

// (c, q and, where there are several, p of each axis ..., last): y's coordinates.
std::vector<Expr> output_coordinates(const WinogradStages &s, const std::vector<Expr> &q, const std::vector<Expr> &p,
                                     bool all_phases) {
    std::vector<Expr> at = {s.c};
    for (size_t a = 0; a < q.size(); a++) {
        at.push_back(q[a]);
        if (all_phases || s.shape.phases(a) > 1) {
            at.push_back(p[a]);
        }
    }
    return at;
}

// What y holds at `at`, of this column.
Expr finish(WinogradStages &s, const Problem &problem, const Expr &value, const Expr &column, const Operands &operands,
            const std::vector<Expr> &at) {
    if (!s.shape.merges_phases || !problem.bias) {
        return epilogue(problem, value, operands, at);
    }
    if (!s.column_bias.defined()) {  // a vector of columns would gather its biases one by one
        const int channels = static_cast<int>(problem.out_channels);
        const Var c("column");
        s.column_bias = Func("column_bias");
        s.column_bias(c) = operands.bias(s.shape.channels_first ? c % channels : c / s.shape.axes[0].phases);
    }
    Operands rest = operands;
    rest.bias = Func();
    return epilogue(problem, value + s.column_bias(column), rest, at);
}

// The output's tiles, written in place or into a scratch that y copies from.
void define_outputs(WinogradStages &s, const Problem &problem, const Operands &operands) {
    const WinogradShape &shape = s.shape;
    const size_t rank = shape.axes.size();
    const std::vector<Var> q = vars("q", rank);
    std::vector<Var> at = {s.c};
    for (size_t a = 0; a < rank; a++) {
        at.push_back(q[a]);
        if (!s.in_place || shape.phases(a) > 1) {
            at.push_back(s.p[a]);
        }
    }
    at.push_back(s.n);
    if (!s.in_place) {
        at.insert(at.end(), {s.rows, s.images});
    }
    Func &target = s.in_place ? s.y : s.result;
    target = Func(s.in_place ? "y" : "result");
    target(at) = Halide::undef(s.in_place ? halide_type(problem.y_type) : Halide::Float(32));
    for (const int bits : shape.tile_classes()) {
        WinogradStages::Transform transform = {bits, output_steps(s, bits),
                                               tile_domain(shape, bits, true, s.in_place, "of_output")};
        TilePosition tile = position_of(transform.r, rank);
        const Expr rows = transform.r[static_cast<int>(3 * rank) + 1],
                   images = transform.r[static_cast<int>(3 * rank) + 2];
        std::vector<Expr> from = {s.c}, position;
        append(from, tile.inner);
        from.push_back(tile_number(shape, bits, tile.t, tile.u, tile.image));
        for (size_t a = 0; a < rank; a++) {
            const WinogradAxis &axis = shape.axes[a];
            from.push_back(s.in_place && shape.phases(a) == 1 ? Expr(0) : Expr(s.p[a]));
            const Expr t = s.in_place && axis.chunks > 1 ? rows * axis.whole + tile.t[a] : tile.t[a];
            const Expr v = shape.tile_class(bits, a).start + t * axis.outputs + tile.inner[a];
            position.push_back(v * axis.subs + tile.u[a]);
        }
        append(from, s.in_place ? std::vector<Expr>{rows, images} : std::vector<Expr>{s.rows, s.images});
        std::vector<Expr> to = output_coordinates(s, position, std::vector<Expr>(s.p.begin(), s.p.end()), !s.in_place);
        to.push_back(s.in_place ? images * shape.images + tile.image : tile.image);
        const Expr value = transform.steps.back().f(from);
        if (s.in_place) {
            target(to) = finish(s, problem, value, s.c, operands, to);
        } else {
            append(to, std::vector<Expr>{s.rows, s.images});
            target(to) = value;
        }
        s.outputs.push_back(transform);
    }
}

// y from the scratch: cropped, in its own layout, with the epilogue.
void define_copy(WinogradStages &s, const Problem &problem, const Operands &operands) {
    const WinogradShape &shape = s.shape;
    const std::vector<int> &seen = s.seen_phases;
    s.y = Func("y");
    std::vector<Var> at = {s.c};
    std::vector<Expr> from = {s.c};
    Expr rows = 0;
    for (size_t a = 0; a < shape.axes.size(); a++) {
        const WinogradAxis &axis = shape.axes[a];
        const Var x("x" + std::to_string(a));
        at.push_back(x);
        Expr q = x, p = 0;
        if (axis.phases > 1 && seen[a] > 1) {
            at.push_back(s.p[a]);
            p = s.p[a];
            if (shape.merges_phases && a == 0) {
                from[0] = p + s.c * axis.phases;
                p = 0;
            }
        } else if (axis.phases > 1 && !(a == 0 && shape.y_has_columns())) {
            q = x / axis.phases;
            p = x % axis.phases;
        }
        if (axis.chunks > 1) {
            const bool interleaved = shape.phases(a) > 1 && seen[a] == 1;  // in one division, which Halide can bound
            rows = interleaved ? x / (axis.phases * axis.covered()) : q / axis.covered();
            q = q % axis.covered();
        }
        from.insert(from.end(), {q, p});
    }
    at.push_back(s.n);
    const Expr image = shape.image_chunks > 1 ? s.n % shape.images : s.n;
    from.insert(from.end(), {image, rows, shape.image_chunks > 1 ? s.n / shape.images : 0});
    const std::vector<Expr> y_at(at.begin(), at.end());
    Expr value = s.result(from);
    if (problem.y_layout != Layout::nxc && !shape.merges_phases) {
        s.turned_y = Func("turned_y");
        s.turned_y(at) = value;
        value = s.turned_y(y_at);
    }
    s.y(at) = finish(s, problem, value, from[0], operands, y_at);
}

}  // namespace

std::vector<int> winograd_output_phases(const Problem &problem) {
    const bool interleaves = problem.y_layout == Layout::ncx && !merges_phases(problem, winograd_axes(problem));
    std::vector<int> phases = interleaves ? std::vector<int>(problem.rank, 1) : whole_phases(problem);
    if (winograd_phases_as_channels(problem) > 1) {
        phases[0] = 1;
    }
    return phases;
}

int winograd_phases_as_channels(const Problem &problem) {
    const std::vector<WinogradAxis> axes = winograd_axes(problem);
    return problem.y_layout == Layout::nxc && merges_phases(problem, axes) ? axes[0].phases : 1;
}

WinogradStages winograd(const Problem &problem, const WinogradSchedule &schedule, const Operands &operands) {
    WinogradStages s;
    s.shape = winograd_shape(problem, schedule);
    const size_t rank = s.shape.axes.size();
    s.i = vars("i", rank), s.j = vars("j", rank), s.e = vars("e", rank), s.z = vars("z", rank);
    s.p = vars("p", rank), s.u = vars("u", rank), s.t = vars("t", rank);
    s.seen_phases = winograd_output_phases(problem);
    s.in_place = s.shape.covers_exactly(problem, schedule.lanes);
    Func x = operands.x;
    if (problem.x_type != DType::f32) {
        const std::vector<Var> at = vars("x", s.shape.axes.size() + 2);
        const std::vector<Expr> same(at.begin(), at.end());
        x = Func("wide");
        x(at) = widen_x(problem, operands.sizes, operands.x(same));
    }
    define_inputs(s, define_image(s, problem, schedule, x), schedule.by_point);
    define_products(s, problem, operands.packed, schedule.by_point);
    if (schedule.by_point) {
        define_outer(s);
    }
    define_outputs(s, problem, operands);
    if (!s.in_place) {
        define_copy(s, problem, operands);
    }
    return s;
}

}  // namespace kiln::dense
