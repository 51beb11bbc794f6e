// Deriving the transforms of F(m, r) in exact arithmetic.
#include "algorithms/winograd/transforms/cook_toom.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace kiln {
namespace {

Rational power(const Rational &base, int exponent) {
    Rational result = 1;
    for (int i = 0; i < exponent; i++) {
        result = result * base;
    }
    return result;
}

// What multiplies coefficient k of a polynomial of `size` coefficients in its value at a point.
Rational evaluation(const CookToomPoint &point, int k, int size) {
    return point ? power(*point, k) : Rational(k == size - 1);
}

// The derivative, at a finite point, of the polynomial whose roots are the first `count` points: the denominator of
// Lagrange's interpolation.
Rational scale(const CookToomPoint &point, int count) {
    Rational product = 1;
    for (int i = 0; point && i < count; i++) {
        const CookToomPoint &other = cook_toom_points()[i];
        product = other && *other != *point ? product * (*point - *other) : product;
    }
    return product;
}

// By Gauss and Jordan.
RationalMatrix inverse(RationalMatrix matrix) {
    const size_t n = matrix.size();
    for (size_t row = 0; row < n; row++) {
        matrix[row].resize(2 * n);
        matrix[row][n + row] = 1;
    }
    for (size_t column = 0; column < n; column++) {
        size_t pivot = column;
        while (matrix[pivot][column] == Rational(0)) {
            pivot++;
        }
        std::swap(matrix[pivot], matrix[column]);
        const Rational head = matrix[column][column];
        for (Rational &value : matrix[column]) {
            value = value / head;
        }
        for (size_t row = 0; row < n; row++) {
            const Rational factor = matrix[row][column];
            for (size_t k = 0; row != column && k < 2 * n; k++) {
                matrix[row][k] = matrix[row][k] - factor * matrix[column][k];
            }
        }
    }
    for (auto &row : matrix) {
        row.erase(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(n));
    }
    return matrix;
}

}  // namespace

Rational::Rational(int64_t numerator, int64_t denominator) {
    const int64_t divisor = std::gcd(numerator, denominator) * (denominator < 0 ? -1 : 1);
    numerator_ = numerator / divisor;
    denominator_ = denominator / divisor;
}

Rational operator+(const Rational &a, const Rational &b) {
    return {a.numerator_ * b.denominator_ + b.numerator_ * a.denominator_, a.denominator_ * b.denominator_};
}
Rational operator-(const Rational &a, const Rational &b) {
    return {a.numerator_ * b.denominator_ - b.numerator_ * a.denominator_, a.denominator_ * b.denominator_};
}
Rational operator*(const Rational &a, const Rational &b) {
    return {a.numerator_ * b.numerator_, a.denominator_ * b.denominator_};
}
Rational operator/(const Rational &a, const Rational &b) {
    return {a.numerator_ * b.denominator_, a.denominator_ * b.numerator_};
}

// Small numbers first, and opposite ones together, for small errors and few additions. With infinity second, one point
// serves one tap and two points serve two, without any addition.
const std::vector<CookToomPoint> &cook_toom_points() {
    static const std::vector<CookToomPoint> points = {Rational(0), std::nullopt, Rational(1),    Rational(-1),
                                                      Rational(2), Rational(-2), Rational(1, 2), Rational(-1, 2)};
    return points;
}

int opposite_point(int index, int points) {
    const auto &all = cook_toom_points();
    for (int other = 0; all[index] && other < points; other++) {
        if (other != index && all[other] && *all[other] == Rational(0) - *all[index]) {
            return other;
        }
    }
    return -1;
}

namespace {

double amplification(const CookToom &f) {
    const auto norm = [](const std::vector<Rational> &row) {
        double sum = 0;
        for (const Rational &value : row) {
            sum += std::abs(value.value());
        }
        return sum;
    };
    double largest = 0;
    for (int i = 0; i < f.outputs; i++) {
        double squares = 0;
        for (int k = 0; k < f.points; k++) {
            const double term = f.a_t[i][k].value() * norm(f.g[k]) * norm(f.b_t[k]);
            squares += term * term;
        }
        largest = std::max(largest, std::sqrt(squares) / f.taps);
    }
    return largest;
}

bool is_whole(const RationalMatrix &matrix) {
    return std::all_of(matrix.begin(), matrix.end(), [](const std::vector<Rational> &row) {
        return std::all_of(row.begin(), row.end(), [](const Rational &value) { return value.denominator() == 1; });
    });
}

// The largest sum of a row's absolute values, times `scale`, which makes them whole.
int64_t growth(const RationalMatrix &matrix, int64_t scale) {
    double largest = 0;
    for (const std::vector<Rational> &row : matrix) {
        double sum = 0;
        for (const Rational &value : row) {
            sum += std::abs((value * scale).value());
        }
        largest = std::max(largest, sum);
    }
    return static_cast<int64_t>(largest);
}

// Rows of opposite points together need each entry once, for their even or for their odd half.
int input_operations(const CookToom &f) {
    int operations = 0;
    for (int k = 0; k < f.points; k++) {
        const int other = opposite_point(k, f.points);
        for (int l = 0; l < f.points; l++) {
            operations += (other < 0 || k < other) && !(f.b_t[k][l] == Rational(0)) ? 1 : 0;
        }
        operations += other < 0 ? 0 : 1;
    }
    return operations;
}

int output_operations(const CookToom &f) {
    int operations = 0;
    for (int k = 0; k < f.points; k++) {
        const int other = opposite_point(k, f.points);
        for (int i = 0; i < f.outputs; i++) {
            operations += (other < 0 || k < other) && !(f.a_t[i][k] == Rational(0)) ? 1 : 0;
        }
        operations += other < 0 ? 0 : 1;
    }
    return operations;
}

// The transposition principle: multiplying polynomials of m and r coefficients is evaluation, products, and
// interpolation by V^-1, V being the evaluation of their product. Filtering is its transpose, hence B^T = V^-T.
CookToom derive(int m, int r, int filter_points) {
    const int n = m + r - 1;
    const std::vector<CookToomPoint> &points = cook_toom_points();
    CookToom result = {m,
                       r,
                       n,
                       RationalMatrix(m, std::vector<Rational>(n)),
                       RationalMatrix(n, std::vector<Rational>(r)),
                       RationalMatrix(n, std::vector<Rational>(n))};
    RationalMatrix v = result.b_t;
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < n; i++) {
            v[k][i] = evaluation(points[k], i, n);
        }
    }
    v = inverse(v);
    for (int k = 0; k < n; k++) {
        const Rational shared = scale(points[k], filter_points);
        for (int i = 0; i < m; i++) {
            result.a_t[i][k] = evaluation(points[k], i, m);
        }
        for (int j = 0; j < r; j++) {
            result.g[k][j] = evaluation(points[k], j, r) / shared;
        }
        for (int l = 0; l < n; l++) {
            result.b_t[k][l] = v[l][k] * shared;
        }
    }
    result.amplification = amplification(result);
    for (const std::vector<Rational> &row : result.g) {
        for (const Rational &value : row) {
            result.filter_scale = std::lcm(result.filter_scale, value.denominator());
        }
    }
    result.is_whole = is_whole(result.a_t) && is_whole(result.b_t);
    result.filter_growth = growth(result.g, result.filter_scale);
    result.input_growth = growth(result.b_t, 1);
    result.input_operations = input_operations(result);
    result.output_operations = output_operations(result);
    return result;
}

}  // namespace

const CookToom &cook_toom(int m, int r, int filter_points) {
    static thread_local std::map<std::tuple<int, int, int>, CookToom> derived;
    const auto key = std::make_tuple(m, r, filter_points);
    const auto found = derived.find(key);
    return found != derived.end() ? found->second : derived.emplace(key, derive(m, r, filter_points)).first->second;
}

}  // namespace kiln
