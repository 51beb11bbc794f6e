// How far a kernel's result may be from the reference: a bound for every element, by algorithm.
//
// A sum of n rounded terms in any order, of unit roundoff u, errs by at most gamma * sum|terms|, with gamma = n * u to
// first order in the worst case and, where rounding errors are independent and of mean zero, gamma = lambda * sqrt(n) *
// u with a probability of at least 1 - 2n * exp(-lambda^2 / 2): N. J. Higham, T. Mary, "A New Approach to Probabilistic
// Rounding Error Analysis", SIAM J. Sci. Comput. 41 (2019), A2815-A2835. With lambda = 8 and n = 4608 that fails for
// one element in 8e9; the bound used is the smaller of the two.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string_view>

#include "kiln/problem.h"

namespace kiln::reference {

inline constexpr double probabilistic_lambda = 8;

// Of one algorithm: how much more than a plain sum of products its results may err.
struct AlgorithmError {
    const char *name;                          // as kiln_kernel.algorithm
    double (*growth)(const Problem &problem);  // multiplies gamma
};

// Each term of a DeformConv's sum is itself a sum of 2^rank products with weights of a few roundings an axis.
inline double sampled_growth(const Problem &p) {
    const double roundings = (1 << p.rank) + 2.0 * p.rank + 2;
    return 1 + roundings / static_cast<double>(p.in_channels / p.groups * p.taps());
}

// The algorithms that verify knows. Those that only reorder the definition's sums have growth 1.
inline constexpr AlgorithmError algorithm_errors[] = {
    {"empty", [](const Problem &) { return 1.0; }},
    {"direct", [](const Problem &) { return 1.0; }},
    {"polyphase", [](const Problem &) { return 1.0; }},
    {"sampled", sampled_growth},
};

// The row of an algorithm, or null: an algorithm without a stated bound cannot be verified.
inline const AlgorithmError *find_algorithm_error(std::string_view name) {
    for (const AlgorithmError &row : algorithm_errors)
        if (name == row.name) return &row;
    return nullptr;
}

// Half the distance from 1 to the next number.
inline double unit_roundoff(DType type) {
    return (type == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon()) / 2;
}

// The most terms an element of y is the sum of: its products, its bias and its residual. A transposed convolution's
// element meets only the taps of its phase, one in stride / gcd(stride, dilation).
inline int64_t terms(const Problem &p) {
    int64_t n = p.in_channels / p.groups;
    for (int axis = 0; axis < p.rank; ++axis) {
        const int64_t period =
            p.op == Operator::conv_transpose ? p.stride[axis] / std::gcd(p.stride[axis], p.dilation[axis]) : 1;
        n *= (p.kernel[axis] + period - 1) / period;
    }
    return n + (p.bias ? 1 : 0) + (p.residual ? 1 : 0);
}

// The most an activation stretches a difference of its inputs.
inline double steepest_slope(const Problem &p) {
    switch (p.activation) {
        case Activation::leaky_relu:
            return std::max(1.0, std::abs(static_cast<double>(p.activation_params[0])));
        case Activation::hard_sigmoid:
            return std::abs(static_cast<double>(p.activation_params[0]));
        case Activation::sigmoid:
            return 0.25;
        case Activation::hard_swish:
            return 1.5;
        default:
            return 1;
    }
}

// Whether an activation only picks among its input, a multiple of it and constants, so that evaluating it adds no error
// of its own beyond the output's rounding.
inline bool is_piecewise_linear(Activation activation) {
    return activation == Activation::none || activation == Activation::relu || activation == Activation::leaky_relu ||
           activation == Activation::clip;
}

// The bound of every element of one kernel's result: at(y, magnitude) with the reference's two numbers (reference.h).
class ErrorBound {
  public:
    ErrorBound(const Problem &problem, const AlgorithmError &algorithm) {
        // Sums are accumulated in y's type: both types there are accumulate in themselves.
        const double u = unit_roundoff(problem.y_type), n = static_cast<double>(terms(problem));
        const double first_order = std::min(n, probabilistic_lambda * std::sqrt(n)) * u;
        gamma_ = steepest_slope(problem) * algorithm.growth(problem) * first_order / (1 - first_order);
        output_ = 2 * u;  // the output's rounding, and the reference's own
        activation_ = is_piecewise_linear(problem.activation) ? 0 : 4 * u;
        // Products that underflow, flushed to zero or not.
        underflow_ = n * (problem.y_type == DType::f64 ? std::numeric_limits<double>::min()
                                                       : static_cast<double>(std::numeric_limits<float>::min()));
    }

    double at(double y, double magnitude) const {
        return gamma_ * magnitude + output_ * std::abs(y) + activation_ * (1 + magnitude) + underflow_;
    }

  private:
    double gamma_, output_, activation_, underflow_;
};

}  // namespace kiln::reference
