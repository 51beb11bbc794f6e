// The Winograd algorithm's stages up to its products; output.cpp has the others, schedule_cpu.cpp schedules
// them.
#include "algorithms/winograd/winograd.h"

#include <algorithm>

#include "algorithms/winograd/stages.h"
#include "algorithms/winograd/transforms/cook_toom.h"
#include "algorithms/winograd/transforms/exact.h"
#include "algorithms/winograd/transforms/transform.h"
#include "axes/axis_map.h"
#include "expressions/arithmetic.h"
#include "expressions/types.h"
#include "expressions/vars.h"

namespace kiln {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

const CookToom &transform_of(const WinogradShape &shape, int tail_mask, size_t a) {
    const WinogradAxis &axis = shape.axes[a];
    return cook_toom(shape.tile_class(tail_mask, a).outputs, axis.taps, shape.filter_points(a));
}

Expr tile_number(const WinogradShape &shape, int tail_mask, const std::vector<Expr> &t, const std::vector<Expr> &u,
                 const Expr &image) {
    Expr number = image;
    for (size_t a = shape.axes.size(); a-- > 0;) {
        number = (number * shape.tile_class(tail_mask, a).count + t[a]) * shape.axes[a].dilation_phases + u[a];
    }
    return number + shape.tiles_before(tail_mask);
}

std::vector<int> tile_domain(const WinogradShape &shape, int tail_mask, bool outputs) {
    std::vector<int> extents;
    for (size_t a = 0; a < shape.axes.size(); a++) {
        const TileClass tile = shape.tile_class(tail_mask, a);
        extents.push_back(outputs ? tile.outputs : tile.points);
    }
    for (size_t a = 0; a < shape.axes.size(); a++) {
        extents.push_back(shape.tile_class(tail_mask, a).count);
        extents.push_back(shape.axes[a].dilation_phases);
    }
    extents.push_back(shape.images);
    return extents;
}

TilePosition position_of(const UpdateLoops &r, size_t rank) {
    TilePosition at;
    for (size_t a = 0; a < rank; a++) {
        at.inner.push_back(r[a]);
        at.t.push_back(r[rank + 2 * a]);
        at.u.push_back(r[rank + 2 * a + 1]);
    }
    at.image = r[3 * rank];
    return at;
}

TilePosition position_of(const WinogradShape &shape, const std::vector<Expr> &inner, Expr number) {
    TilePosition at = {inner, {}, {}, {}};
    for (const WinogradAxis &axis : shape.axes) {
        at.u.push_back(number % axis.dilation_phases);
        number = number / axis.dilation_phases;
        at.t.push_back(number % axis.whole);
        number = number / axis.whole;
    }
    at.image = number;
    return at;
}

namespace {

Expr zero_of(const Func &f) {
    return Halide::Internal::make_zero(f.type());
}

// x over the same coordinates, widened to what transforms take.
Func widened(const Problem &problem, const Operands &operands, const Func &x) {
    if (problem.x_type == DType::f32) {
        return x;
    }
    const std::vector<Var> at = vars("x", static_cast<size_t>(x.dimensions()));
    Func wide("wide");
    wide(at) = widen_x(problem, operands.sizes, x(std::vector<Expr>(at.begin(), at.end())));
    return wide;
}

// The channels of all input phases together, and zeros around them, over (c, position in tiles of each axis, n).
Func define_folded_image(WinogradStages &s, const Problem &problem, const Operands &operands) {
    const Func x = widened(problem, operands, operands.x);
    const int channels = static_cast<int>(problem.in_channels);
    std::vector<Var> at = {s.c};
    append(at, vars("x", s.shape.axes.size()));
    at.push_back(s.n);
    std::vector<Expr> from = {s.c % channels};
    Halide::Region bounds(1);
    Expr input_phases = s.c / channels;
    for (size_t a = 0; a < s.shape.axes.size(); a++) {
        const WinogradAxis &axis = s.shape.axes[a];
        from.push_back(at[a + 1] * axis.stride + axis.origin(0, input_phases % axis.input_phases, 0));
        input_phases = input_phases / axis.input_phases;
        bounds.emplace_back(0, axis.in);
    }
    from.push_back(s.n);
    bounds.emplace_back();
    s.image = Func("image");
    (*s.image)(at) = Halide::BoundaryConditions::constant_exterior(x, zero_of(x), bounds)(from);
    from.assign(at.begin(), at.end());
    from[0] = Halide::unsafe_promise_clamped(s.c, 0, s.shape.reduction_channels - 1);  // as below
    Func filled_up("filled_up");
    filled_up(at) = (*s.image)(from);
    return filled_up;
}

// `source`, over (c, position on each axis, n), with zeros outside the image.
Func pad(const WinogradStages &s, const Func &source) {
    Halide::Region bounds(s.shape.axes.size() + 2);
    bool pads = false;
    for (size_t a = 0; a < s.shape.axes.size(); a++) {
        if (s.shape.axes[a].reads_outside()) {
            bounds[a + 1] = {0, s.shape.axes[a].in};
            pads = true;
        }
    }
    return pads ? Halide::BoundaryConditions::constant_exterior(source, zero_of(source), bounds) : source;
}

// x with zeros outside it, over (c, position on each axis, n), and s.image where x will not do by itself.
Func define_image(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule,
                  const Operands &operands) {
    const int lanes = schedule.lanes * s.shape.dot_width, channels = static_cast<int>(problem.in_channels);
    s.channels = round_up(s.shape.merges_input_phases ? s.shape.reduction_channels : channels, lanes);
    if (s.shape.merges_input_phases) {
        return define_folded_image(s, problem, operands);
    }
    std::vector<Var> at = {s.c};
    append(at, vars("x", s.shape.axes.size()));
    at.push_back(s.n);
    // An image of bytes is one of bytes: what reads it widens them.
    const bool copies = problem.x_layout != Layout::nxc || s.channels != channels;
    const Func x = problem.is_quantized() && copies ? operands.x : widened(problem, operands, operands.x);
    Func source = x;
    if (copies) {
        std::vector<Expr> from(at.begin(), at.end());
        if (problem.x_layout != Layout::nxc) {
            s.transposed_x = Func("transposed_x");
            (*s.transposed_x)(at) = x(from);
        }
        s.image = Func("image");
        (*s.image)(at) = s.transposed_x.value_or(x)(from);
        // Products do not read the channels that fill up the last vector: anything may lie there.
        from[0] = Halide::unsafe_promise_clamped(s.c, 0, channels - 1);
        source = Func("filled_up");
        source(at) = (*s.image)(from);
        source = problem.is_quantized() ? widened(problem, operands, source) : source;
    }
    return pad(s, source);
}

// A tile's first input on each axis, and its image.
struct FirstInput {
    std::vector<Expr> position;
    Expr n;
};

// The transform of tiles of one combination: a Func for each axis, over (c, inputs or points of each axis, and `keys`,
// of which the tile's first input follows). Where tiles are numbered, s.taken too.
std::vector<WinogradStages::Step> input_steps(WinogradStages &s, const WinogradShape &shape, int tail_mask,
                                              const Func &padded, const std::vector<Var> &keys,
                                              const FirstInput &first) {
    const size_t rank = shape.axes.size();
    std::vector<Var> at = {s.c};
    append(at, s.j);
    append(at, keys);
    const auto input = [&](const std::vector<Expr> &of_tile) {
        std::vector<Expr> x = {shape.channel_of(s.c)};
        for (size_t a = 0; a < rank; a++) {
            x.push_back(first.position[a] + of_tile[1 + a] * (shape.merges_input_phases ? 1 : shape.axes[a].stride));
        }
        x.push_back(first.n);
        return Expr(padded(x));
    };
    if (s.numbered) {
        s.taken = Func("taken");
        (*s.taken)(at) = input({at.begin(), at.end()});
    }
    std::vector<WinogradStages::Step> steps;
    for (size_t a = rank; a-- > 0;) {
        const CookToom &f = transform_of(shape, tail_mask, a);
        std::vector<Expr> inputs;
        for (int l = 0; l < f.points; l++) {
            std::vector<Expr> from(at.begin(), at.end());
            from[1 + a] = l;
            inputs.push_back(!steps.empty() ? Expr(steps.back().f(from))
                             : s.taken      ? Expr((*s.taken)(from))
                                            : input(from));
        }
        const std::vector<Expr> points = input_transform(f, inputs);
        Func step("input" + std::to_string(a));
        step(at) = points.size() == 1 ? points[0] : Halide::mux(s.j[a], points);
        steps.push_back({a, step});
    }
    return steps;
}

FirstInput first_input(const WinogradStages &s, const WinogradShape &shape, int tail_mask, const TilePosition &tile,
                       bool by_point) {
    FirstInput first;
    for (size_t a = 0; a < shape.axes.size() - (by_point ? 1 : 0); a++) {
        const WinogradAxis &axis = shape.axes[a];
        const Var &chunk = a + 1 == shape.axes.size() ? s.rows : s.parts;
        const Expr row = axis.chunks > 1 ? chunk * axis.whole + tile.t[a] : tile.t[a];
        const Expr start = row * axis.outputs + shape.tile_class(tail_mask, a).start;
        first.position.push_back(
            shape.merges_input_phases ? start : start * axis.stride + axis.origin(tile.u[a], s.e[a], s.z[a]));
    }
    if (by_point) {
        first.position.emplace_back(s.depth);
    }
    first.n = s.has(s.n) ? s.value(s.images) * shape.images + tile.image : Expr(0);
    return first;
}

// The transform of numbered tiles.
void define_numbered_inputs(WinogradStages &s, const Func &padded) {
    const TilePosition tile = position_of(s.shape, {s.j.begin(), s.j.end()}, s.tile);
    std::vector<Var> keys = {s.tile};
    append(keys, s.several(s.e));
    append(keys, s.several(s.z));
    s.inputs = {{0, input_steps(s, s.shape, 0, padded, keys, first_input(s, s.shape, 0, tile, false)), UpdateLoops()}};
    std::vector<Var> at = {s.c}, from = {s.c};
    append(at, s.several(s.e));
    at.push_back(s.tile);
    append(at, s.j);
    append(at, s.several(s.z));
    append(from, s.j);
    append(from, keys);
    s.transformed = Func("transformed");
    s.transformed(at) = s.inputs[0].steps.back().f(std::vector<Expr>(from.begin(), from.end()));
}

void define_inputs(WinogradStages &s, const Func &padded, bool by_point) {
    const WinogradShape shape = by_point ? s.shape.plane() : s.shape;
    const size_t rank = shape.axes.size(), inner = by_point ? rank - 1 : rank;
    s.transformed = Func(by_point ? "planes" : "transformed");
    const auto of_inner = [&](const std::vector<Var> &vars) {
        return std::vector<Var>(vars.begin(), vars.begin() + static_cast<std::ptrdiff_t>(inner));
    };
    std::vector<Var> at = {s.c};
    append(at, s.several(of_inner(s.e)));
    const size_t tile_at = at.size();
    at.push_back(s.tile);
    if (by_point) {
        at.push_back(s.depth);
    }
    const size_t first_point = at.size();
    append(at, of_inner(s.j));
    append(at, s.several(of_inner(s.z)));
    append(at, by_point ? s.several({s.images}) : s.chunks());
    s.transformed(at) = Halide::undef(padded.type());
    const std::vector<Var> position = vars("position", rank);
    std::vector<Var> keys = position;
    append(keys, s.several({s.n}));
    for (const int tail_mask : shape.tile_classes()) {
        WinogradStages::Transform transform = {
            tail_mask,
            input_steps(s, shape, tail_mask, padded, keys, {{position.begin(), position.end()}, s.value(s.n)}),
            UpdateLoops(tile_domain(shape, tail_mask, false), rank, "of_input")};
        const TilePosition tile = position_of(transform.r, rank);
        const FirstInput first = first_input(s, shape, tail_mask, tile, by_point);
        std::vector<Expr> to(at.begin(), at.end()), from = {s.c};
        append(from, tile.inner);
        append(from, first.position);
        if (s.has(s.n)) {
            from.push_back(first.n);
        }
        for (size_t a = 0; a < inner; a++) {
            to[first_point + a] = tile.inner[a];
        }
        to[tile_at] = tile_number(shape, tail_mask, tile.t, tile.u, tile.image);
        s.transformed(to) = transform.steps.back().f(from);
        s.inputs.push_back(transform);
    }
}

// What the products of some points multiply, from planes: their transform on the outermost axis, tile of a plane by
// tile of a plane. Returns the domains of its updates.
std::vector<RDom> gather_planes(const WinogradStages &s, WinogradStages::Product &product, const Func &planes) {
    const WinogradShape &shape = s.shape, plane = shape.plane();
    const size_t rank = shape.axes.size(), outer = rank - 1;
    const WinogradAxis &axis = shape.axes[outer];
    const CookToom &f = transform_of(shape, 0, outer);
    std::vector<Var> at = {s.c};
    append(at, s.several(s.e));
    const size_t tile_at = at.size();
    at.push_back(s.tile);
    append(at, s.j);
    append(at, s.several(s.z));
    append(at, s.chunks());
    std::vector<RDom> gathered;
    product.transformed = Func("transformed");
    product.transformed(at) = Halide::undef(planes.type());
    for (const int tail_mask : shape.tile_classes()) {
        if ((tail_mask & product.tail_mask) != 0) {
            continue;
        }
        const int tiles = plane.tiles(tail_mask) / shape.images;
        const TileClass outermost = shape.tile_class(0, outer);
        const RDom r({{0, tiles}, {0, outermost.count}, {0, axis.dilation_phases}, {0, shape.images}}, "of_plane");
        std::vector<Expr> to(at.begin(), at.end()), inputs;
        to[tile_at] = shape.tiles_before(tail_mask) +
                      ((r[3] * outermost.count + r[1]) * axis.dilation_phases + r[2]) * tiles + r[0];
        for (int l = 0; l < f.points; l++) {
            const Expr start = r[1] * axis.outputs + l;
            std::vector<Expr> from = {s.c};
            append(from, s.several(std::vector<Var>(s.e.begin(), s.e.end() - 1)));
            from.push_back(plane.tiles_before(tail_mask) + r[3] * tiles + r[0]);
            from.push_back(shape.merges_input_phases ? start
                                                     : start * axis.stride + axis.origin(r[2], s.e[outer], s.z[outer]));
            append(from, std::vector<Var>(s.j.begin(), s.j.end() - 1));
            append(from, s.several(std::vector<Var>(s.z.begin(), s.z.end() - 1)));
            append(from, s.several({s.images}));
            inputs.push_back(planes(from));
        }
        const std::vector<Expr> points = input_transform(f, inputs);
        product.transformed(to) = points.size() == 1 ? points[0] : Halide::mux(s.j[outer], points);
        gathered.push_back(r);
    }
    return gathered;
}

// acc += weight * input, of neighbours in one instruction where they are 16-bit integers: modulo 2^32.
void define_sum(Func &acc, const std::vector<Var> &at, int dot_width, const Func &transformed,
                const std::vector<Expr> &in, const Func &packed, const std::vector<Expr> &weight) {
    if (dot_width == 1) {
        acc(at) = zero_of(transformed);
        acc(at) += packed(weight) * transformed(in);
        return;
    }
    Expr sum = 0;
    for (int k = 0; k < dot_width; k++) {
        std::vector<Expr> weight_k = weight, in_k = in;
        weight_k[0] += k;
        in_k[0] += k;
        sum += Halide::cast<int32_t>(packed(weight_k)) * Halide::cast<int32_t>(transformed(in_k));
    }
    acc(at) = Halide::Expr(uint32_t{0});
    acc(at) += Halide::reinterpret<uint32_t>(sum);
}

// The planes that products by points transform, with zeros around them on the outermost axis.
Func padded_planes(const WinogradStages &s) {
    const WinogradAxis &outermost = s.shape.axes.back();
    if (!outermost.reads_outside() || s.shape.merges_input_phases) {
        return s.transformed;
    }
    Halide::Region bounds(s.transformed.dimensions());
    bounds[2 + s.several(std::vector<Var>(s.e.begin(), s.e.end() - 1)).size()] = {0, outermost.in};
    return Halide::BoundaryConditions::constant_exterior(s.transformed, zero_of(s.transformed), bounds);
}

// Where the product of point j and phase p at this step and input phases r[1...] finds its weight and its input. Adds
// to the sum's domain which input phases it has.
struct Factors {
    std::vector<Expr> weight, input;
};

Factors factors_of(const WinogradStages &s, const Problem &problem, UpdateLoops &r, const Expr &step) {
    const WinogradShape &shape = s.shape;
    const size_t rank = shape.axes.size();
    const Expr channel = step * (shape.dot_width * shape.interleaved) + s.c % shape.interleaved;
    const Expr group = s.c / (shape.group_panels * shape.panel);
    Factors f = {{s.c % shape.panel * shape.dot_width, step},
                 {problem.groups == 1 ? channel + 0 : group * shape.reduction_channels + channel}};
    for (size_t a = 0; a < rank; a++) {
        f.weight.push_back(r[a + 1]);
        if (s.has(s.e[a])) {
            f.input.push_back(r[a + 1]);
        }
    }
    f.input.emplace_back(s.tile);
    append(f.input, s.j);
    f.weight.push_back(s.c / shape.panel);
    for (size_t a = 0; a < rank; a++) {
        const WinogradAxis &axis = shape.axes[a];
        const Expr has_last_tap = r[a + 1] < axis.first_short_input_phase();
        const bool shares = shape.shares_weights(a) && !s.numbered;
        f.weight.push_back(shares ? Halide::select(has_last_tap, s.j[a], 0) : Expr(s.j[a]));
        if (s.has(s.z[a])) {
            f.input.push_back(axis.phase_offset(s.p[a]));
        }
        // Threads of a GPU would wait for those whose sums are longer: they multiply by the zeros that are packed
        // there.
        if (axis.taps > 1 && axis.first_short_input_phase() < shape.input_phases(a) && !s.numbered) {
            r.domain().where(s.j[a] != cook_toom_infinity || has_last_tap);
        }
    }
    for (size_t a = 0; a < rank; a++) {
        const WinogradAxis &axis = shape.axes[a];
        if (axis.short_phases() > 0 && s.has(s.p[a]) && !s.numbered) {
            r.domain().where(s.j[a] != axis.zero_point() || !axis.is_short(s.p[a]));
        }
        f.weight.push_back(s.value(s.p[a]));
    }
    append(f.input, s.chunks());
    return f;
}

void define_products(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule) {
    const WinogradShape &shape = s.shape;
    const bool by_point = schedule.by_point, is_sliced = schedule.sliced.slices > 1;
    const Func planes = by_point ? padded_planes(s) : s.transformed;
    const SumSlices slices(shape.steps(), schedule.unroll, 1, schedule.sliced.slices);
    const Var slice("slice");
    std::vector<int> extents = {slices.steps()};
    for (size_t a = 0; a < shape.axes.size(); a++) {
        extents.push_back(shape.input_phases(a));
    }
    std::vector<Var> at = {s.c, s.tile};
    append(at, s.j);
    append(at, s.several(s.p));
    append(at, s.chunks());
    int most = 0;
    for (const int tail_mask : shape.tile_classes()) {
        most |= tail_mask;
    }
    for (int tail_mask = 0; tail_mask <= most; tail_mask++) {
        if ((tail_mask & ~most) != 0) {
            continue;
        }
        UpdateLoops r(extents, 1, "r");
        const Expr step = is_sliced ? slices.step(slice, r[0]) : r[0];
        if (is_sliced) {
            for (const Expr &is_there : slices.conditions(slice, r[0], 0)) {
                r.domain().where(is_there);
            }
        }
        const Factors factors = factors_of(s, problem, r, step);
        WinogradStages::Product product = {tail_mask,       s.transformed, r.domain(),  Func("acc"),
                                           Func("product"), std::nullopt,  std::nullopt};
        if (by_point) {
            product.outer = {Func(), gather_planes(s, product, planes)};
        }
        std::vector<Var> summed = at;
        if (is_sliced) {
            summed.push_back(slice);
        }
        define_sum(product.acc, summed, shape.dot_width, product.transformed, factors.input, s.packed, factors.weight);
        const std::vector<Expr> finished(at.begin(), at.end());
        if (is_sliced) {
            product.sliced = define_sliced_sum(product.acc, schedule.sliced,
                                               {{0, static_cast<int>(problem.out_channels)}, {1, shape.tiles(0)}});
        }
        product.product(at) = is_sliced ? sum_of_slices(*product.sliced, finished) : product.acc(finished);
        s.products.push_back(product);
    }
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

UpdateLoops::UpdateLoops(const std::vector<int> &extents, size_t inner, const std::string &name,
                         const std::set<size_t> &kept) {
    Halide::Region domain;
    for (size_t d = 0; d < extents.size(); d++) {
        const bool is_loop = d < inner || extents[d] > 1 || kept.contains(d);
        numbers_.push_back(is_loop ? static_cast<int>(domain.size()) : -1);
        if (is_loop) {
            domain.emplace_back(0, extents[d]);
        }
    }
    domain_ = RDom(domain, name);
}

WinogradStages winograd(const Problem &problem, const WinogradSchedule &schedule, const Operands &operands,
                        TileOrder order) {
    WinogradStages s;
    s.numbered = order == TileOrder::numbered;
    s.shape = winograd_shape(problem, schedule);
    if (s.numbered) {  // all images' tiles
        s.shape.images *= s.shape.image_chunks;
        s.shape.image_chunks = 1;
    }
    const size_t rank = s.shape.axes.size();
    s.i = vars("i", rank), s.j = vars("j", rank), s.e = vars("e", rank), s.z = vars("z", rank);
    s.p = vars("p", rank), s.q = vars("q", rank);
    const auto has_values = [&](const Var &var, int values) {
        if (values == 1) {
            s.single.insert(var.name());
        }
    };
    for (size_t a = 0; a < rank; a++) {
        has_values(s.e[a], s.shape.input_phases(a));
        has_values(s.z[a], s.shape.axes[a].phase_offsets);
        has_values(s.p[a], s.shape.phases(a));
    }
    has_values(s.n, static_cast<int>(problem.batch));
    has_values(s.rows, s.shape.axes.back().chunks);
    has_values(s.parts, s.shape.parts_of_rows());
    has_values(s.images, s.shape.image_chunks);
    s.seen_phases = winograd_output_phases(problem);
    s.in_place = s.numbered || s.shape.covers_exactly(problem, schedule.lanes);
    s.masked = s.in_place && !s.numbered && s.shape.columns % schedule.lanes != 0;
    // Bytes are copied rather than sums, unless a vector reaches beyond the channels that have a scale.
    s.finished =
        s.in_place || (problem.is_quantized() && s.shape.columns % schedule.lanes == 0 && !s.shape.pads_groups());
    if (s.numbered) {
        define_numbered_inputs(s, pad(s, widened(problem, operands, operands.x)));
    } else {
        define_inputs(s, define_image(s, problem, schedule, operands), schedule.by_point);
    }
    s.packed = operands.packed;
    define_products(s, problem, schedule);
    if (schedule.by_point) {
        define_outer(s);
    }
    define_outputs(s, problem, schedule, operands);
    if (!s.in_place) {
        define_copy(s, problem, operands);
    }
    return s;
}

}  // namespace kiln
