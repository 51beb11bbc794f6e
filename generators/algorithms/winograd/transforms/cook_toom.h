// The Cook-Toom derivation of Winograd's minimal filtering: F(m, r) gives m outputs of an r-tap filter by m + r - 1
// products, y = A^T ((G g) * (B^T d)), d being the m + r - 1 inputs that the outputs read.
//
// Both polynomials are evaluated at m + r - 1 points, multiplied there, and interpolated: S. Winograd, "Arithmetic
// Complexity of Computations" (1980); A. Lavin, S. Gray, arXiv:1509.09308. The points of a smaller tile are the first
// of a larger tile's, so that tiles of several sizes share one transformed filter.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace kiln {

// An exact fraction in lowest terms, its denominator positive.
class Rational {
  public:
    Rational(int64_t numerator = 0, int64_t denominator = 1);

    int64_t denominator() const { return denominator_; }
    double value() const { return static_cast<double>(numerator_) / static_cast<double>(denominator_); }

    friend Rational operator+(const Rational &a, const Rational &b);
    friend Rational operator-(const Rational &a, const Rational &b);
    friend Rational operator*(const Rational &a, const Rational &b);
    friend Rational operator/(const Rational &a, const Rational &b);
    friend bool operator==(const Rational &a, const Rational &b) = default;

  private:
    int64_t numerator_, denominator_;
};

using RationalMatrix = std::vector<std::vector<Rational>>;  // by rows

// A point polynomials are evaluated at; none is infinity, where the value is the leading coefficient.
using CookToomPoint = std::optional<Rational>;

// The most points there are: m + r - 1 is at most this.
inline constexpr int max_cook_toom_points = 8;
// Where zero and infinity stand among them: products there are zero where a filter lacks its first tap, or its last.
inline constexpr int cook_toom_zero = 0, cook_toom_infinity = 1;
const std::vector<CookToomPoint> &cook_toom_points();

struct CookToom {
    int outputs, taps, points;
    RationalMatrix a_t;  // outputs x points
    RationalMatrix g;    // points x taps
    RationalMatrix b_t;  // points x points
    // How much more than a plain sum of as many products an output may err, one axis alone: with |.|_1 the sum of a
    // row's absolute values, max_i sqrt(sum_k (A_ik * |G_k|_1 * |B_k|_1)^2) / r.
    double amplification = 0;
    // Of exact transforms of integers: whether a_t and b_t are whole numbers; the least number that makes those of g
    // whole; and how many times larger than the largest input, or weight, what b_t, or so scaled g, makes of it may be.
    bool is_whole = false;
    int64_t filter_scale = 1;
    int64_t input_growth = 0, filter_growth = 0;
    // How many additions and multiplications, fused, the transforms of one column take.
    int input_operations = 0, output_operations = 0;
};

// F(m, r) for a filter that was transformed for `filter_points` points, of which this tile uses its m + r - 1: what
// that many points scale the filter by is undone in b_t; 0 of them do not scale it. Derived once in a thread, for as
// long as that lives.
const CookToom &cook_toom(int m, int r, int filter_points);

// The index of the point opposite to that at `index`, among the first `points`, or -1: rows of opposite points differ
// only in the signs of odd powers.
int opposite_point(int index, int points);

}  // namespace kiln
