// Winograd's transforms, in exact arithmetic, and the index arithmetic of their tiles against the definition.
#include "algorithms/winograd/transforms/cook_toom.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <tuple>

#include "algorithms/winograd/transforms/axis.h"
#include "algorithms/winograd/winograd.h"
#include "kiln/problem.h"

namespace kiln {
namespace {

TEST(CookToom, computes_a_correlation_exactly) {
    for (int r = 1; r <= 5; r++) {
        for (int m = 1; m + r - 1 <= max_cook_toom_points; m++) {
            for (int shared = m + r - 1; shared <= max_cook_toom_points; shared++) {
                const CookToom &f = cook_toom(m, r, shared);
                for (int i = 0; i < m; i++) {
                    for (int j = 0; j < r; j++) {
                        for (int l = 0; l < f.points; l++) {
                            Rational sum;
                            for (int k = 0; k < f.points; k++) {
                                sum = sum + f.a_t[i][k] * f.g[k][j] * f.b_t[k][l];
                            }
                            ASSERT_EQ(sum, Rational(l == i + j))
                                << "F(" << m << ", " << r << ") of " << shared << " points";
                        }
                    }
                }
            }
        }
    }
}

TEST(CookToom, smaller_tiles_share_the_filter) {
    for (int r = 1; r <= 5; r++) {
        const CookToom &whole = cook_toom(max_cook_toom_points + 1 - r, r, max_cook_toom_points);
        for (int m = 1; m < whole.outputs; m++) {
            const CookToom &smaller = cook_toom(m, r, max_cook_toom_points);
            for (int k = 0; k < smaller.points; k++) {
                EXPECT_EQ(smaller.g[k], whole.g[k]) << "F(" << m << ", " << r << ") at point " << k;
            }
        }
    }
}

TEST(CookToom, multiplies_nothing_by_a_last_tap_but_at_infinity) {
    const CookToom &f = cook_toom(4, 3, 6);
    EXPECT_EQ(f.g[cook_toom_infinity], (std::vector<Rational>{0, 0, 1}));
}

// 16-bit arithmetic takes them: what opposite points share, half their sums and differences, is whole too.
TEST(CookToom, whole_transforms_have_whole_halves) {
    int whole = 0;
    for (int r = 2; r <= 5; r++) {
        for (int shared = r; shared <= max_cook_toom_points; shared++) {
            for (int m = 1; m + r - 1 <= shared; m++) {
                const CookToom &f = cook_toom(m, r, shared);
                for (int k = 0; f.is_whole && k < f.points; k++) {
                    const int other = opposite_point(k, f.points);
                    for (int l = 0; other >= 0 && l < f.points; l++) {
                        EXPECT_EQ(((f.b_t[k][l] + f.b_t[other][l]) / 2).denominator(), 1)
                            << m << " " << r << " " << shared;
                    }
                }
                whole += f.is_whole ? 1 : 0;
            }
        }
    }
    EXPECT_GT(whole, 20);
}

TEST(CookToom, an_unscaled_filter_of_one_tap_is_that_tap_at_each_finite_point) {
    const CookToom &f = cook_toom(4, 2, 0);
    for (int k = 0; k < f.points; k++) {
        EXPECT_EQ(f.g[k][0], Rational(k == cook_toom_infinity ? 0 : 1)) << k;
    }
}

TEST(CookToom, knows_what_makes_filters_whole) {
    EXPECT_EQ(cook_toom(2, 3, 4).filter_scale, 2);
    EXPECT_EQ(cook_toom(4, 3, 6).filter_scale, 24);
    EXPECT_EQ(cook_toom(2, 3, 4).input_growth, 2);
    EXPECT_EQ(cook_toom(2, 3, 4).filter_growth, 3);
    EXPECT_EQ(cook_toom(4, 3, 6).input_growth, 10);
    EXPECT_FALSE(cook_toom(6, 3, 8).is_whole);
}

TEST(CookToom, has_the_transforms_that_lavin_and_gray_print_for_F_2_3) {
    const CookToom &f = cook_toom(2, 3, 4);  // points 0, infinity, 1, -1; theirs are 0, 1, -1, infinity, up to signs
    EXPECT_EQ(f.b_t[0], (std::vector<Rational>{-1, 0, 1, 0}));
    EXPECT_EQ(f.b_t[2], (std::vector<Rational>{0, 1, 1, 0}));
    EXPECT_EQ(f.g[2], (std::vector<Rational>{Rational(1, 2), Rational(1, 2), Rational(1, 2)}));
    EXPECT_EQ(f.a_t[1], (std::vector<Rational>{0, 1, 1, -1}));
}

using Products = std::multiset<std::tuple<int, int, int>>;  // output, input position, tap

// By the definition in kiln/problem.h.
Products defined(const Problem &p) {
    Products products;
    for (int o = 0; o < p.out[0]; o++) {
        for (int t = 0; t < p.kernel[0]; t++) {
            const int64_t at = p.op == Operator::conv ? o * p.stride[0] + t * p.dilation[0] - p.pad_begin[0]
                                                      : o + p.pad_begin[0] - t * p.dilation[0];
            if (p.op == Operator::conv) {
                products.emplace(o, at, t);
            } else if ((at % p.stride[0] + p.stride[0]) % p.stride[0] == 0) {
                products.emplace(o, at / p.stride[0], t);
            }
        }
    }
    return products;
}

int value_of(const Halide::Expr &e) {
    const auto value = Halide::Internal::as_const_int(Halide::Internal::simplify(e));
    EXPECT_TRUE(value) << e;
    return value ? static_cast<int>(*value) : 0;
}

bool is_true(const Halide::Expr &e) {
    return Halide::Internal::is_const_one(Halide::Internal::simplify(e));
}

Products mapped(const WinogradAxis &axis) {
    Products products;
    for (int v = 0; v < axis.length; v++) {
        for (int u = 0; u < axis.dilation_phases; u++) {
            for (int p = 0; p < axis.phases; p++) {
                for (int e = 0; e < axis.input_phases; e++) {
                    for (int j = 0; j < axis.taps; j++) {
                        const int o = (v * axis.dilation_phases + u) * axis.phases + p,
                                  tap = value_of(axis.tap(p, e, j));
                        if (o < axis.out && tap >= 0 && tap < axis.kernel) {
                            products.emplace(
                                o, (v + j) * axis.stride + value_of(axis.origin(u, e, axis.phase_offset(p))), tap);
                        }
                        if (j == axis.taps - 1 && axis.input_phases > 1) {
                            EXPECT_EQ(tap >= 0 && tap < axis.kernel, e < axis.first_short_input_phase());
                        }
                        const int lacking = axis.zero_point() == cook_toom_zero ? 0 : axis.taps - 1;
                        if (axis.short_phases() > 0 && j == lacking) {
                            EXPECT_EQ(tap < 0 || tap >= axis.kernel, is_true(axis.is_short(p)));
                        }
                    }
                }
            }
        }
    }
    return products;
}

TEST(WinogradAxis, has_the_products_of_the_definition) {
    std::mt19937 random(1);
    const auto draw = [&random](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    int of_blocks_and_residues = 0;
    std::set<int> zero_points;
    for (int round = 0; round < 300; round++) {
        Problem p;
        p.op = draw(0, 1) ? Operator::conv : Operator::conv_transpose;
        p.rank = 1;
        p.in[0] = draw(1, 12);
        p.kernel[0] = draw(1, round % 2 == 0 ? 7 : 24);
        p.stride[0] = draw(1, 6);
        p.dilation[0] = p.op == Operator::conv || p.stride[0] == 1 ? draw(1, 6) : 1;
        p.pad_begin[0] = draw(-3, 6);
        p.out[0] = draw(1, 20);
        const AxisMap map = p.op == Operator::conv ? AxisMap::conv(p, 0) : AxisMap::conv_transpose(p, 0);
        const std::vector<int> blocks = tap_block_counts(WinogradAxis(map).taps);
        for (const int tap_blocks : blocks) {
            ASSERT_EQ(mapped(WinogradAxis(map, tap_blocks)), defined(p))
                << "round " << round << " op " << int(p.op) << " kernel " << p.kernel[0] << " stride " << p.stride[0]
                << " dilation " << p.dilation[0] << " pad " << p.pad_begin[0] << " out " << p.out[0] << " blocks "
                << tap_blocks;
        }
        if (WinogradAxis(map).short_phases() > 0) {
            zero_points.insert(WinogradAxis(map).zero_point());
        }
        of_blocks_and_residues += blocks.back() > 1 && WinogradAxis(map).input_phases > 1 ? 1 : 0;
    }
    EXPECT_GT(of_blocks_and_residues, 5);
    EXPECT_EQ(zero_points.size(), 2u);
}

// y[2i] of 3 taps is x[i] w[1], and y[2i + 1] x[i] w[2] + x[i + 1] w[0]: both begin at x[i], the first without a last
// tap. Without padding it is the other way around, of which the short phase lacks its first.
TEST(WinogradAxis, short_phases_begin_where_most_do) {
    Problem p;
    p.op = Operator::conv_transpose;
    p.rank = 1;
    p.in[0] = 8;
    p.kernel[0] = 3;
    p.stride[0] = 2;
    p.dilation[0] = 1;
    for (const auto &[pad, zero_point] : {std::pair(1, cook_toom_infinity), {0, cook_toom_zero}}) {
        p.pad_begin[0] = pad;
        p.out[0] = 16;
        const WinogradAxis axis(AxisMap::conv_transpose(p, 0));
        EXPECT_EQ(axis.phase_offsets, 1);
        EXPECT_EQ(axis.short_phases(), 1);
        EXPECT_EQ(axis.zero_point(), zero_point);
    }
}

TEST(WinogradAxis, cuts_six_taps_or_more_into_blocks_of_three_to_seven) {
    EXPECT_EQ(tap_block_counts(1), (std::vector<int>{1}));
    EXPECT_EQ(tap_block_counts(5), (std::vector<int>{1}));
    EXPECT_EQ(tap_block_counts(6), (std::vector<int>{1, 2}));
    EXPECT_EQ(tap_block_counts(7), (std::vector<int>{1, 2, 3}));
    EXPECT_EQ(tap_block_counts(9), (std::vector<int>{2, 3}));
    EXPECT_EQ(tap_block_counts(128), (std::vector<int>{19, 22, 26, 32, 43}));
}

}  // namespace
}  // namespace kiln
