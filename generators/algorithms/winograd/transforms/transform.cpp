#include "algorithms/winograd/transforms/transform.h"

#include <algorithm>
#include <iterator>

namespace kiln {

using Halide::Expr;

namespace {

// Integers wrap around, unsigned ones too.
Expr factor(Halide::Type type, double value) {
    return type.is_float() ? Halide::Internal::make_const(type, value)
                           : Halide::Internal::make_const(type, static_cast<int64_t>(value));
}

}  // namespace

Expr combination(const std::vector<double> &row, const std::vector<Expr> &terms) {
    Expr sum;
    for (size_t k = 0; k < row.size(); k++) {
        if (row[k] != 0) {
            const Expr term = row[k] == 1 ? terms[k] : terms[k] * factor(terms[k].type(), row[k]);
            sum = sum.defined() ? sum + term : term;
        }
    }
    return sum.defined() ? sum : Halide::Internal::make_zero(terms[0].type());
}

std::vector<double> values(const std::vector<Rational> &row, int64_t scale) {
    std::vector<double> result;
    std::transform(row.begin(), row.end(), std::back_inserter(result),
                   [scale](const Rational &v) { return (v * scale).value(); });
    return result;
}

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

}  // namespace kiln
