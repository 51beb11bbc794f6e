// The Winograd algorithm's stages from products to y: transforms of outputs, and a copy where y cannot be written in
// place.
#include "algorithms/winograd/stages.h"
#include "algorithms/winograd/transforms/exact.h"
#include "algorithms/winograd/transforms/transform.h"
#include "expressions/epilogue.h"
#include "expressions/types.h"
#include "expressions/vars.h"

namespace kiln {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

namespace {

// The transform on axis `a` of tiles of one combination, over (c, points of lower axes, outputs of this and higher
// ones, tile, p of each axis, rows, images), from Funcs by the tail masks of this and the lower axes to Funcs by the
// tail masks of the lower ones.
std::map<int, Func> output_step(const WinogradStages &s, size_t a, int tail_mask, const std::map<int, Func> &from) {
    const WinogradShape &shape = s.shape;
    const size_t rank = shape.axes.size();
    const CookToom &f = transform_of(shape, tail_mask, a);
    std::map<int, Func> to;
    for (const auto &[from_mask, unused] : from) {
        // Points that these tiles lack are no part of it.
        if ((from_mask >> a) != 0 || (from_mask & tail_mask) != 0) {
            continue;
        }
        std::vector<Var> at = {s.c};
        append(at, std::vector<Var>(s.j.begin(), s.j.begin() + static_cast<std::ptrdiff_t>(a)));
        append(at, std::vector<Var>(s.i.begin() + static_cast<std::ptrdiff_t>(a), s.i.end()));
        at.push_back(s.tile);
        append(at, s.several(s.p));
        append(at, s.chunks());
        std::vector<Expr> terms;
        for (int k = 0; k < f.points; k++) {
            const bool high = k >= shape.points(0, a).count;
            const Func &source = from.at(from_mask | (high ? 1 << a : 0));
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
        to[from_mask] = step;
    }
    return to;
}

// The transform of tiles of one combination, the outermost axis first. Where a lower axis has two kinds of points, a
// step is two Funcs, by the tail masks of the lower axes.
std::vector<WinogradStages::Step> output_steps(const WinogradStages &s, int tail_mask) {
    std::map<int, Func> from;
    size_t a = s.shape.axes.size();
    for (const WinogradStages::Product &product : s.products) {
        from[product.tail_mask] = product.outer ? product.outer->f : product.product;
        a = product.outer ? s.shape.axes.size() - 1 : a;
    }
    std::vector<WinogradStages::Step> steps;
    while (a-- > 0) {
        from = output_step(s, a, tail_mask, from);
        for (const auto &[unused, f] : from) {
            steps.push_back({a, f});
        }
    }
    return steps;
}

// (c, q and, where there are several, p of each axis): the first of the output's coordinates.
std::vector<Expr> output_coordinates(const WinogradStages &s, const std::vector<Expr> &q) {
    std::vector<Expr> at = {s.c};
    for (size_t a = 0; a < q.size(); a++) {
        at.push_back(q[a]);
        append(at, s.several({s.p[a]}));
    }
    return at;
}

// What y holds at `at`, of this column.
Expr finish(WinogradStages &s, const Problem &problem, const Expr &value, const Expr &column, const Operands &operands,
            const std::vector<Expr> &at) {
    const Expr sum = problem.is_quantized() ? exact_sum(value, s.shape.scale) : value;
    // A vector of merged columns would gather what its channels have one by one, and one stored under a mask read
    // beyond the last.
    const bool gathers = s.shape.merges_phases && !problem.is_quantized();
    if (!gathers && !s.masked) {
        return epilogue(problem, sum, operands, at);
    }
    if (!s.of_columns) {
        const int channels = static_cast<int>(problem.out_channels);
        const bool phases_first = s.shape.merges_phases && !s.shape.channels_first;
        const Var c("column");
        s.of_columns = copy_channel_operands(operands, c, phases_first ? c / s.shape.axes[0].phases : c % channels);
    }
    return epilogue(problem, sum, s.of_columns->operands, at, column);
}

// Where an update of y, or of what y is copied from, or a numbered tile's output lies.
struct OutputPosition {
    TilePosition tile;
    Expr rows, part, images;     // the chunks, of outputs in place
    Expr n;                      // of y or, of a chunk of images, of what it is copied from
    std::vector<Expr> position;  // on each axis, of its phase
};

// One of WinogradStages::chunks(), of those that are several.
std::vector<Expr> chunk(const WinogradStages &s, const Expr &rows, const Expr &part, const Expr &images) {
    std::vector<Expr> at;
    for (const auto &[var, value] : {std::pair(s.rows, rows), {s.parts, part}, {s.images, images}}) {
        if (s.has(var)) {
            at.push_back(value);
        }
    }
    return at;
}

OutputPosition looped_position(const WinogradStages &s, WinogradStages::Transform &transform) {
    const WinogradShape &shape = s.shape;
    const size_t rank = shape.axes.size();
    OutputPosition at = {position_of(transform.r, rank),
                         transform.r[shape.loop_of_rows()],
                         transform.r[shape.loop_of_parts()],
                         transform.r[shape.loop_of_images()],
                         Expr(),
                         {}};
    at.n = s.in_place ? at.images * shape.images + at.tile.image : at.tile.image;
    for (size_t a = 0; a < rank; a++) {
        const WinogradAxis &axis = shape.axes[a];
        const Expr &of_axis = a + 1 == rank ? at.rows : at.part;
        const Expr t = s.in_place && axis.chunks > 1 ? of_axis * axis.whole + at.tile.t[a] : at.tile.t[a];
        const Expr v = shape.tile_class(transform.tail_mask, a).start + t * axis.outputs + at.tile.inner[a];
        at.position.push_back(v * axis.dilation_phases + at.tile.u[a]);
        if (shape.clipped_tail && axis.chunks * axis.covered() > axis.out) {
            transform.r.domain().where(at.position[a] < axis.out);
        }
    }
    return at;
}

OutputPosition numbered_position(const WinogradStages &s) {
    OutputPosition at = {{{}, {}, {}, s.n}, 0, 0, 0, s.n, {s.q.begin(), s.q.end()}};
    for (size_t a = 0; a < s.q.size(); a++) {
        const WinogradAxis &axis = s.shape.axes[a];
        const Expr v = s.q[a] / axis.dilation_phases;
        at.tile.u.push_back(s.q[a] % axis.dilation_phases);
        at.tile.t.push_back(v / axis.outputs);
        at.tile.inner.push_back(v % axis.outputs);
    }
    return at;
}

}  // namespace

void define_outer(WinogradStages &s) {
    std::map<int, Func> products;
    for (const WinogradStages::Product &product : s.products) {
        products[product.tail_mask] = product.product;
    }
    const std::map<int, Func> outer = output_step(s, s.shape.axes.size() - 1, 0, products);
    for (WinogradStages::Product &product : s.products) {
        product.outer->f = outer.at(product.tail_mask);
    }
}

void define_outputs(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule,
                    const Operands &operands) {
    const WinogradShape &shape = s.shape;
    const size_t rank = shape.axes.size();
    std::vector<Var> at = {s.c};
    for (size_t a = 0; a < rank; a++) {
        at.push_back(s.q[a]);
        append(at, s.several({s.p[a]}));
    }
    at.push_back(s.n);
    if (!s.in_place) {
        append(at, s.chunks());
    }
    Func target(s.in_place ? "y" : "result");
    (s.in_place ? s.y : s.result.emplace()) = target;
    const Halide::Type type = s.finished ? halide_type(problem.y_type) : s.products[0].product.type();
    if (!s.numbered) {
        target(at) = Halide::undef(type);
    }
    for (const int tail_mask : shape.tile_classes()) {
        WinogradStages::Transform transform = {tail_mask, output_steps(s, tail_mask), UpdateLoops()};
        if (!s.numbered) {
            std::vector<int> extents = tile_domain(shape, tail_mask, true);
            extents.push_back(s.in_place ? shape.parts_of_rows() : 1);
            extents.push_back(s.in_place ? shape.axes.back().chunks : 1);
            extents.push_back(s.in_place ? shape.image_chunks : 1);
            // Phases follow one another in the loop over chunks of rows, also where there is a single one.
            const std::set<size_t> kept =
                schedule.by_phase ? std::set<size_t>{shape.loop_of_rows()} : std::set<size_t>{};
            transform.r = UpdateLoops(extents, rank, "of_output", kept);
        }
        const auto [tile, rows, part, images, n, position] =
            s.numbered ? numbered_position(s) : looped_position(s, transform);
        std::vector<Expr> from = {shape.column_of(s.c)};
        append(from, tile.inner);
        from.push_back(tile_number(shape, tail_mask, tile.t, tile.u, tile.image));
        append(from, s.several(s.p));
        if (s.in_place) {
            append(from, chunk(s, rows, part, images));
        } else {
            append(from, s.chunks());
        }
        std::vector<Expr> to = output_coordinates(s, position);
        to.push_back(n);
        Expr value = transform.steps.back().f(from);
        value = s.finished ? finish(s, problem, value, s.c, operands, to) : value;
        if (!s.in_place) {
            append(to, s.chunks());
        }
        target(to) = value;
        s.outputs.push_back(transform);
    }
}

void define_copy(WinogradStages &s, const Problem &problem, const Operands &operands) {
    const WinogradShape &shape = s.shape;
    const std::vector<int> &seen = s.seen_phases;
    s.y = Func("y");
    std::vector<Var> at = {s.c};
    std::vector<Expr> from = {s.c};
    if (shape.pads_groups()) {
        from[0] = s.c / shape.group_columns * (shape.group_panels * shape.panel) + s.c % shape.group_columns;
    }
    Expr rows = 0, part = 0;
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
            (a + 1 == shape.axes.size() ? rows : part) =
                interleaved ? x / (axis.phases * axis.covered()) : q / axis.covered();
            q = q % axis.covered();
        }
        from.push_back(q);
        if (s.has(s.p[a])) {
            from.push_back(p);
        }
    }
    at.push_back(s.n);
    const Expr image = shape.image_chunks > 1 ? s.n % shape.images : s.n;
    from.push_back(image);
    append(from, chunk(s, rows, part, s.n / shape.images));
    const std::vector<Expr> y_at(at.begin(), at.end());
    Expr value = (*s.result)(from);
    if (problem.y_layout != Layout::nxc && !shape.merges_phases) {
        s.transposed_y = Func("transposed_y");
        (*s.transposed_y)(at) = value;
        value = (*s.transposed_y)(y_at);
    }
    s.y(at) = s.finished ? value : finish(s, problem, value, from[0], operands, y_at);
}

}  // namespace kiln
