// The reduction of an axis to phases and taps, against the definition of a convolution.
#include "axes/axis_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "axes/outputs_with_taps.h"

namespace kiln {
namespace {

using Products = std::multiset<std::pair<int, int>>;  // (input position, tap) of one output

// By the definition in kiln/problem.h; positions in the padding included for a Conv, as AxisMap does.
Products defined(const Problem &p, int o) {
    Products products;
    for (int t = 0; t < p.kernel[0]; t++) {
        const int64_t at = p.op == Operator::conv ? o * p.stride[0] + t * p.dilation[0] - p.pad_begin[0]
                                                  : o + p.pad_begin[0] - t * p.dilation[0];
        if (p.op == Operator::conv) {
            products.emplace(at, t);
        } else if ((at % p.stride[0] + p.stride[0]) % p.stride[0] == 0) {
            const int64_t floor = (at - (at % p.stride[0] + p.stride[0]) % p.stride[0]) / p.stride[0];
            products.emplace(floor, t);
        }
    }
    return products;
}

int value_of(const Halide::Expr &e) {
    const auto value = Halide::Internal::as_const_int(Halide::Internal::simplify(e));
    EXPECT_TRUE(value) << e;
    return value ? static_cast<int>(*value) : 0;
}

Products mapped(const AxisMap &map, int o) {
    Products products;
    const Halide::Expr phase = o % map.phases;
    const int q = o / map.phases;
    for (int j = 0; j < map.taps; j++) {
        if (map.has_uneven_phases() &&
            !Halide::Internal::is_const_one(Halide::Internal::simplify(map.is_tap(phase, j)))) {
            continue;
        }
        products.emplace(q * map.stride + value_of(map.offset(phase)) + j * map.tap_step, value_of(map.tap(phase, j)));
    }
    return products;
}

Problem random_axis(std::mt19937 &random) {
    const auto draw = [&random](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    Problem p;
    p.op = draw(0, 1) ? Operator::conv : Operator::conv_transpose;
    p.rank = 1;
    p.in[0] = draw(1, 12);
    p.kernel[0] = draw(1, 7);
    p.stride[0] = draw(1, 6);
    p.dilation[0] = draw(1, 6);
    p.pad_begin[0] = draw(-3, 6);
    p.out[0] = draw(1, 20);
    return p;
}

TEST(AxisMap, has_the_products_of_the_definition) {
    std::mt19937 random(1);
    for (int round = 0; round < 300; round++) {
        const Problem p = random_axis(random);
        const AxisMap map = axis_maps(p)[0];
        for (int o = 0; o < p.out[0]; o++) {
            ASSERT_EQ(mapped(map, o), defined(p, o))
                << "round " << round << " op " << int(p.op) << " kernel " << p.kernel[0] << " stride " << p.stride[0]
                << " dilation " << p.dilation[0] << " pad " << p.pad_begin[0] << " output " << o;
        }
    }
}

TEST(AxisMap, reads_covers_every_position) {
    std::mt19937 random(2);
    for (int round = 0; round < 300; round++) {
        const Problem p = random_axis(random);
        const AxisMap map = axis_maps(p)[0];
        const AxisMap::Range range = map.reads();
        for (int o = 0; o < map.phase_extent * map.phases; o++) {
            for (const auto &[position, tap] : mapped(map, o)) {
                ASSERT_GE(position, range.first);
                ASSERT_LE(position, range.last);
            }
        }
    }
}

TEST(AxisMap, counts_taps_inside) {
    std::mt19937 random(5);
    for (int round = 0; round < 300; round++) {
        const Problem p = random_axis(random);
        const AxisMap map = axis_maps(p)[0];
        double all = 0, inside = 0;
        for (int o = 0; o < map.phase_extent * map.phases; o++) {
            for (const auto &[position, tap] : mapped(map, o)) {
                all++;
                inside += position >= 0 && position < map.in ? 1 : 0;
            }
        }
        ASSERT_DOUBLE_EQ(map.share_of_taps_inside(), all == 0 ? 1 : inside / all) << "round " << round;
    }
}

TEST(AxisMap, knows_whether_an_output_reads_padding_alone) {
    std::mt19937 random(7);
    int found = 0;
    for (int round = 0; round < 500; round++) {
        const AxisMap map = axis_maps(random_axis(random))[0];
        bool is_alone = false;
        for (int o = 0; o < map.phase_extent && map.phases == 1; o++) {
            const Products products = mapped(map, o);
            is_alone = is_alone || std::none_of(products.begin(), products.end(), [&map](const auto &product) {
                           return product.first >= 0 && product.first < map.in;
                       });
        }
        ASSERT_EQ(map.has_outputs_of_padding(), is_alone) << "round " << round;
        found += is_alone ? 1 : 0;
    }
    EXPECT_GT(found, 50);
}

TEST(AxisMap, knows_whether_a_phase_has_no_tap) {
    std::mt19937 random(4);
    int with_empty_phases = 0;
    for (int round = 0; round < 300; round++) {
        const Problem p = random_axis(random);
        const AxisMap map = axis_maps(p)[0];
        bool found = false;
        for (int phase = 0; phase < map.phases; phase++) {
            found = found || mapped(map, phase).empty();
        }
        with_empty_phases += found;
        ASSERT_EQ(map.has_empty_phases(), found) << "round " << round << " kernel " << p.kernel[0] << " stride "
                                                 << p.stride[0] << " dilation " << p.dilation[0];
    }
    EXPECT_GT(with_empty_phases, 30);
}

bool reads_nothing(const Problem &p, int o) {
    const Products products = defined(p, o);
    return std::none_of(products.begin(), products.end(),
                        [&p](const auto &product) { return product.first >= 0 && product.first < p.in[0]; });
}

// The dense problem's outputs are those of the given one that have taps, in order, with the same products; what is left
// out reads nothing.
TEST(OutputsWithTaps, have_the_products_of_the_problem) {
    std::mt19937 random(6);
    int spread = 0;
    for (int round = 0; round < 600; round++) {
        Problem p = random_axis(random);
        p.op = Operator::conv_transpose;
        const DenseOutputs dense = outputs_with_taps(p);
        const OutputsWithTaps &axis = dense.axes[0];
        if (dense.are_all()) {
            ASSERT_EQ(dense.problem.out, p.out) << "round " << round;
            continue;
        }
        spread++;
        ASSERT_LE(axis.count, dense.problem.out[0]) << "round " << round;
        ASSERT_EQ(dense.problem.out[0] % dense.problem.stride[0], 0) << "round " << round;
        const AxisMap map = axis_maps(dense.problem)[0];
        int next = 0;
        for (int e = 0; e < axis.count; e++, next++) {
            const int o = value_of(axis.output(e / axis.phases, e % axis.phases));
            for (; next < o; next++) {
                ASSERT_TRUE(reads_nothing(p, next)) << "round " << round << " output " << next;
            }
            ASSERT_EQ(next, o) << "round " << round << " number " << e;
            ASSERT_LT(o, p.out[0]) << "round " << round << " number " << e;
            ASSERT_EQ(mapped(map, e), defined(p, o)) << "round " << round << " output " << o;
        }
        for (; next < p.out[0]; next++) {
            ASSERT_TRUE(reads_nothing(p, next)) << "round " << round << " output " << next;
        }
    }
    EXPECT_GT(spread, 200);
}

// What Halide finds by the bounds of q, phase and j, one by one.
bool halide_bounds_reads(const AxisMap &map) {
    const Halide::Var q("q"), phase("phase"), j("j");
    Halide::Internal::Scope<Halide::Internal::Interval> scope;
    scope.push(q.name(), {0, map.phase_extent - 1});
    scope.push(phase.name(), {0, map.phases - 1});
    scope.push(j.name(), {0, map.taps - 1});
    const Halide::Expr in = q * map.stride + map.offset(phase) + j * map.tap_step;
    const Halide::Internal::Interval found = Halide::Internal::bounds_of_expr_in_scope(in, scope);
    const AxisMap::Range range = map.reads();
    return found.is_bounded() && Halide::Internal::is_const_one(
                                     Halide::Internal::simplify(found.min >= range.first && found.max <= range.last));
}

TEST(AxisMap, knows_whether_halide_bounds_what_is_read) {
    std::mt19937 random(3);
    int bounded = 0;
    for (int round = 0; round < 300; round++) {
        const Problem p = random_axis(random);
        const AxisMap map = axis_maps(p)[0];
        if (map.taps > 0 && map.kernel >= map.phases && map.reads_are_bounded()) {
            bounded++;
            ASSERT_TRUE(halide_bounds_reads(map))
                << "round " << round << " op " << int(p.op) << " kernel " << p.kernel[0] << " stride " << p.stride[0]
                << " dilation " << p.dilation[0] << " pad " << p.pad_begin[0] << " outputs " << p.out[0];
        }
    }
    EXPECT_GT(bounded, 100);
    Problem p;  // whose phases have two taps and one, so that the first read depends on the phase
    p.op = Operator::conv_transpose;
    p.rank = 1;
    p.in[0] = 11, p.kernel[0] = 3, p.stride[0] = 2, p.dilation[0] = 1, p.pad_begin[0] = 3, p.out[0] = 20;
    EXPECT_FALSE(axis_maps(p)[0].reads_are_bounded());
    EXPECT_FALSE(halide_bounds_reads(axis_maps(p)[0]));
}

TEST(AxisMap, dilated_strides_share_taps_of_one_residue) {
    Problem p;  // stride 4, dilation 2: odd phases have no taps
    p.op = Operator::conv_transpose;
    p.rank = 1;
    p.in[0] = 3, p.kernel[0] = 3, p.stride[0] = 4, p.dilation[0] = 2, p.out[0] = 13;
    const AxisMap map = axis_maps(p)[0];
    EXPECT_TRUE(map.has_uneven_phases());
    EXPECT_TRUE(mapped(map, 1).empty());
    EXPECT_EQ(mapped(map, 4), (Products{{1, 0}, {0, 2}}));
}

}  // namespace
}  // namespace kiln
