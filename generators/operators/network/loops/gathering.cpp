// Gathering many values into one: what is computed, and how a processor's vectors do it.
#include "operators/network/loops/gathering.h"

#include <algorithm>

#include "expressions/arithmetic.h"
#include "expressions/elementwise/strict_math.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::RDom;
using Halide::RVar;
using Halide::Var;
using Halide::Internal::make_const;

// Sums of few numbers each are nearer to the true one, and do not wait for one another.
constexpr int most_vectors = 4;

Gathering of_one(const Expr &identity, const std::function<Expr(const Expr &, const Expr &)> &combine) {
    return {{identity},
            [combine](const Exprs &a, const Exprs &b) { return Exprs{combine(a[0], b[0])}; },
            [](const Expr &value, const Expr &) { return Exprs{value}; },
            [](const Exprs &v) { return v[0]; }};
}

Expr lowest(Halide::Type type, bool negated) {
    if (type.is_float()) {
        const double infinity = std::numeric_limits<double>::infinity();
        return make_const(type, negated ? infinity : -infinity);
    }
    return negated ? type.max() : type.min();
}

// Beside the largest, the largest of all bits less signs: above infinity's where one is NaN.
Gathering extreme(Halide::Type type, bool largest) {
    const auto better = [largest](const Expr &a, const Expr &b) {
        return largest ? Halide::max(a, b) : Halide::min(a, b);
    };
    const Expr identity = lowest(type, !largest);
    if (!type.is_float()) {
        return of_one(identity, better);
    }
    const Halide::Type bits = type.with_code(Halide::Type::UInt);
    const Expr magnitude = make_const(bits, type.bits() == 64 ? INT64_MAX : INT32_MAX);
    const Expr infinity = Halide::reinterpret(bits, make_const(type, std::numeric_limits<double>::infinity()));
    return {{identity, make_const(bits, 0)},
            [better](const Exprs &a, const Exprs &b) { return Exprs{better(a[0], b[0]), Halide::max(a[1], b[1])}; },
            [bits, magnitude](const Expr &value, const Expr &) {
                return Exprs{value, Halide::reinterpret(bits, value) & magnitude};
            },
            [infinity, type](const Exprs &v) {
                return Halide::select(v[1] > infinity, Halide::reinterpret(type, v[1]), v[0]);
            }};
}

Exprs values_of(const Halide::Func &f, const Exprs &at) {
    Exprs result;
    if (f.outputs() == 1) {
        result.push_back(f(at));
    } else {
        for (int i = 0; i < f.outputs(); i++) {
            result.push_back(Halide::FuncRef(f(at))[i]);
        }
    }
    return result;
}

template <typename Position>
void define(Halide::Func f, const std::vector<Position> &at, const Exprs &values) {
    if (values.size() == 1) {
        f(at) = values[0];
    } else {
        f(at) = Halide::Tuple(values);
    }
}

// The reduced loops' extents, the first divided.
Halide::Region region_of(const std::vector<Loop> &loops, int64_t divide_first) {
    Halide::Region region;
    for (const Loop &loop : loops) {
        if (loop.reduced) {
            const int64_t extent = &loop == &loops.front() ? loop.extent / divide_first : loop.extent;
            region.emplace_back(0, static_cast<int32_t>(extent));
        }
    }
    return region;
}

// A step of all loops, from the kept ones' and the reduced ones'.
Exprs steps_of(const std::vector<Loop> &loops, const Exprs &kept, const Exprs &reduced) {
    Exprs at;
    size_t k = 0, r = 0;
    for (const Loop &loop : loops) {
        at.push_back(loop.reduced ? reduced[r++] : kept[k++]);
    }
    return at;
}

Exprs steps_of(const RDom &domain) {
    Exprs result;
    for (int d = 0; d < domain.dimensions(); d++) {
        result.emplace_back(domain[d]);
    }
    return result;
}

// The place of a step on the reduced loops, the innermost counting by 1.
Expr place_on_reduced(const std::vector<Loop> &loops, const Exprs &at) {
    Expr place = 0;
    for (size_t d = loops.size(); d-- > 0;) {
        place = loops[d].reduced ? place * static_cast<int32_t>(loops[d].extent) + at[d] : place;
    }
    return place;
}

}  // namespace

void define_and_add(Halide::Func f, const std::vector<Var> &at, const Gathering &gathering, const Exprs &values) {
    define(f, at, gathering.identity);
    const Exprs steps = exprs(at);
    define(f, steps, gathering.combine(values_of(f, steps), values));
}

Gathering gather_sum(Halide::Type type) {
    return of_one(make_const(type, 0), [](const Expr &a, const Expr &b) { return a + b; });
}

Gathering gather_product(Halide::Type type) {
    return of_one(make_const(type, 1), [](const Expr &a, const Expr &b) { return strict::mul(a, b); });
}

Gathering gather_max(Halide::Type type) {
    return extreme(type, true);
}

Gathering gather_min(Halide::Type type) {
    return extreme(type, false);
}

Gathering gather_place(Halide::Type type, bool largest, bool last) {
    const auto combine = [largest, last](const Exprs &a, const Exprs &b) {
        const Expr is_better = largest ? strict::less(a[0], b[0]) : strict::less(b[0], a[0]);
        const Expr is_equal = strict::equal(a[0], b[0]) || (strict::is_nan(a[0]) && strict::is_nan(b[0]));
        // Where nothing was seen yet a place is below 0.
        const Expr is_sooner = b[1] >= 0 && (a[1] < 0 || (last ? a[1] < b[1] : b[1] < a[1]));
        const Expr takes = (is_better && b[1] >= 0) || (is_equal && is_sooner) || (a[1] < 0 && b[1] >= 0) ||
                           (strict::is_nan(b[0]) && !strict::is_nan(a[0]));
        return Exprs{Halide::select(takes, b[0], a[0]), Halide::select(takes, b[1], a[1])};
    };
    return {{lowest(type, !largest), make_const(Halide::Int(32), -1)},
            combine,
            [](const Expr &value, const Expr &place) { return Exprs{value, place}; },
            [](const Exprs &v) { return v[1]; }};
}

int64_t count_reduced(const std::vector<Loop> &loops) {
    int64_t count = 1;
    for (const Loop &loop : loops) {
        count *= loop.reduced ? loop.extent : 1;
    }
    return count;
}

Expr Gathered::operator()(const Exprs &kept) const {
    return gathering.finish(values_of(total, kept));
}

Gathered gather(const std::string &name, const std::vector<Loop> &loops, const Gathering &gathering, int lanes,
                const std::function<Expr(const Exprs &)> &value) {
    const std::vector<Var> kept = kept_of(loops, vars_of(loops));
    const Exprs kept_at(kept.begin(), kept.end());
    Gathered result = {Halide::Func(name), Halide::Func(), gathering, lanes};
    define(result.total, kept, gathering.identity);
    const auto begin = [&](const Exprs &reduced) {
        const Exprs at = steps_of(loops, kept_at, reduced);
        return gathering.begin(value(at), place_on_reduced(loops, at));
    };
    const auto add = [&](Halide::Func to, const Exprs &at, const Exprs &values) {
        define(to, at, gathering.combine(values_of(to, at), values));
    };
    if (std::none_of(loops.begin(), loops.end(), [](const Loop &loop) { return loop.reduced; })) {
        add(result.total, kept_at, begin({}));
        return result;
    }
    const int64_t extent = loops[0].extent;
    if (!loops[0].reduced || extent < lanes || lanes == 1) {
        add(result.total, kept_at, begin(steps_of(RDom(region_of(loops, 1), name + "_r"))));
        return result;
    }
    const int64_t width = lanes * std::min<int64_t>(most_vectors, extent / lanes), rest = extent % width;
    const Var lane("lane");
    std::vector<Var> in_lanes = {lane};
    in_lanes.insert(in_lanes.end(), kept.begin(), kept.end());
    const Exprs lanes_at(in_lanes.begin(), in_lanes.end());
    result.lanes = Halide::Func(name + "_lanes");
    define(result.lanes, in_lanes, gathering.identity);
    Exprs steps = steps_of(RDom(region_of(loops, width), name + "_r"));
    steps[0] = steps[0] * static_cast<int32_t>(width) + lane;
    add(result.lanes, lanes_at, begin(steps));
    if (rest > 0) {
        // The last vectors overlap those before, of which nothing counts twice.
        Halide::Region others = region_of(loops, 1);
        others.erase(others.begin());
        steps = others.empty() ? Exprs{} : steps_of(RDom(others, name + "_t"));
        steps.insert(steps.begin(), static_cast<int32_t>(extent - width) + lane);
        Exprs values = begin(steps);
        for (size_t i = 0; i < values.size(); i++) {
            values[i] = Halide::select(lane >= static_cast<int32_t>(width - rest), values[i], gathering.identity[i]);
        }
        add(result.lanes, lanes_at, values);
    }
    const RDom all(0, static_cast<int32_t>(width), name + "_l");
    Exprs at_all = kept_at;
    at_all.insert(at_all.begin(), all.x);
    add(result.total, kept_at, values_of(result.lanes, at_all));
    return result;
}

void Gathered::compute_at(Halide::Func consumer, const Var &loop, int64_t tile) const {
    Halide::Func f = total;
    const auto order = [](Halide::Func g, int update, const std::vector<Halide::VarOrRVar> &first) {
        std::vector<Halide::VarOrRVar> loops = first;
        for (const Halide::Internal::ReductionVariable &r : g.function().update(update).schedule().rvars()) {
            loops.emplace_back(RVar(r.var));
        }
        g.update(update).reorder(loops);
    };
    // Both are as large as a few registers.
    f.compute_at(consumer, loop).store_in(Halide::MemoryType::Stack);
    if (lanes.defined()) {
        Halide::Func g = lanes;
        const Var lane = g.args()[0], vectors("vectors"), in_vector("in_vector");
        g.compute_at(consumer, loop).store_in(Halide::MemoryType::Stack).vectorize(lane, vector);
        for (int update = 0; update < g.num_update_definitions(); update++) {
            g.update(update).split(lane, vectors, in_vector, vector).vectorize(in_vector).unroll(vectors);
            order(g, update, {in_vector, vectors});
        }
        for (const Halide::Internal::ReductionVariable &r : f.function().update(0).schedule().rvars()) {
            f.update(0).unroll(RVar(r.var));
        }
        return;
    }
    const int width = lanes_within(tile, vector);
    if (width > 1) {
        const Var first = f.args()[0], vectors("vectors"), in_vector("in_vector");
        f.vectorize(first, width);
        f.update(0).split(first, vectors, in_vector, width).vectorize(in_vector).unroll(vectors);
        order(f, 0, {in_vector, vectors});
    }
}

}  // namespace kiln
