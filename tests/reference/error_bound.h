// How far a kernel's result may be from the reference: a bound for every element, by algorithm.
//
// A sum of n rounded terms in any order, of unit roundoff u, errs by at most gamma * sum|terms|, with gamma = n * u to
// first order in the worst case and, where rounding errors are independent and of mean zero, gamma = lambda * sqrt(n) *
// u with a probability of at least 1 - 2n * exp(-lambda^2 / 2): N. J. Higham, T. Mary, "A New Approach to Probabilistic
// Rounding Error Analysis", SIAM J. Sci. Comput. 41 (2019), A2815-A2835. With lambda = 8 and n = 4608 that fails for
// one element in 8e9; the bound used is the smaller of the two.
//
// float16 and bfloat16 accumulate in float32 and round once, so u is float32's there and half a unit in the last place
// of y comes on top. DeformConv's samples err besides; reference.h tells by how much. Quantised problems are exact:
// problem.h fixes every operation, and only activations that are not made of comparisons and one product leave room.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string_view>

#include "kiln/problem.h"
#include "reference/activation.h"
#include "reference/numbers.h"
#include "reference/reference.h"

namespace kiln::reference {

inline constexpr double probabilistic_lambda = 8;

// Whose magnitudes an element errs by besides its own: the largest among them counts.
enum class Mixed : uint8_t { none, channel, all };

// Of one algorithm: how much more than a plain sum of products its results may err.
struct AlgorithmError {
    const char *name;                          // as kiln_kernel.algorithm
    double (*growth)(const Problem &problem);  // multiplies gamma
    Mixed mixed;
};

double winograd_growth(const Problem &problem);
double half_growth(const Problem &problem);
double strassen_growth(const Problem &problem);
double mma_growth(const Problem &problem);

// The algorithms that verify knows. Those that only reorder the definition's sums have growth 1.
inline constexpr AlgorithmError algorithm_errors[] = {
    {"empty", [](const Problem &) { return 1.0; }, Mixed::none},
    {"dynamic", [](const Problem &) { return 1.0; }, Mixed::none},
    {"dynamic_depthwise", [](const Problem &) { return 1.0; }, Mixed::none},
    {"depthwise", [](const Problem &) { return 1.0; }, Mixed::none},
    {"inner_product", [](const Problem &) { return 1.0; }, Mixed::none},
    {"kn2row", [](const Problem &) { return 1.0; }, Mixed::none},
    {"direct", [](const Problem &) { return 1.0; }, Mixed::none},
    {"gemm", [](const Problem &) { return 1.0; }, Mixed::none},
    {"amx", [](const Problem &) { return 1.0; }, Mixed::none},
    {"f16_accumulate", half_growth, Mixed::none},
    {"polyphase", [](const Problem &) { return 1.0; }, Mixed::none},
    {"deformable", [](const Problem &) { return 1.0; }, Mixed::none},
    {"definition", [](const Problem &) { return 1.0; }, Mixed::none},
    {"gpu_definition", [](const Problem &) { return 1.0; }, Mixed::none},
    {"gpu_empty", [](const Problem &) { return 1.0; }, Mixed::none},
    {"gpu_depthwise", [](const Problem &) { return 1.0; }, Mixed::none},
    {"gpu_direct", [](const Problem &) { return 1.0; }, Mixed::none},
    {"gpu_staged_samples", [](const Problem &) { return 1.0; }, Mixed::none},
    {"gpu_staged", [](const Problem &) { return 1.0; }, Mixed::none},
    {"gpu_polyphase", [](const Problem &) { return 1.0; }, Mixed::none},
    {"gpu_mma", mma_growth, Mixed::none},
    {"gpu_mma_samples", mma_growth, Mixed::none},
    {"gpu_winograd", winograd_growth, Mixed::channel},
    {"gpu_deformable", [](const Problem &) { return 1.0; }, Mixed::none},
    {"winograd", winograd_growth, Mixed::channel},
    {"strassen", strassen_growth, Mixed::all},
};

// The row of an algorithm, or null: an algorithm without a stated bound cannot be verified.
inline const AlgorithmError *find_algorithm_error(std::string_view name) {
    for (const AlgorithmError &row : algorithm_errors)
        if (name == row.name) return &row;
    return nullptr;
}

// Half the distance from 1 to the next number.
inline double unit_roundoff(DType type) {
    switch (type) {
        case DType::f64:
            return 0x1p-53;
        case DType::f16:
            return 0x1p-11;
        case DType::bf16:
            return 0x1p-8;
        case DType::f32:
        case DType::s8:
        case DType::u8:
        case DType::s32:
            return 0x1p-24;
    }
    return 0x1p-24;
}

// The type that sums of products are accumulated in; quantised problems' are int32.
inline DType accumulator(DType type) {
    return type == DType::f64 ? DType::f64 : DType::f32;
}

// Half the smallest positive number, at least: what rounding to `type` loses where numbers are too small for its
// digits.
inline double underflow(DType type) {
    if (type == DType::f64) return std::numeric_limits<double>::min();
    return type == DType::f16 ? 0x1p-25 : static_cast<double>(std::numeric_limits<float>::min());
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

// min(n, lambda * sqrt(n)): gamma in units of the unit roundoff, to first order.
inline double roundoffs(double n) {
    return std::min(n, probabilistic_lambda * std::sqrt(n));
}

// A tile's output is sum_k A_ik * sum_c U_ck * V_ck over points k and channels c, and what is rounded are the inner
// sums. Where inputs and weights are of even size, whatever their signs, |U_k| and |V_k| are at most the 1-norms of row
// k of G and B^T times those sizes; so independent errors come to at most
//   amplification = max_i sqrt(sum_k (A_ik * |G_k|_1 * |B_k|_1)^2) / r
// times those of a plain sum of as many terms, on each axis with r taps. The numbers are the largest of F(m, r) for
// points 0, infinity, 1, -1, 2, -2, 1/2, -1/2 and m + r - 1 up to 8; over all axes, tiles above 111 are refused. Inner
// sums are shorter than the definition's, by the taps; their terms have passed through transforms of up to eight terms
// on each axis. From six taps on, an axis may be cut into blocks, which inner sums add up as they do channels: the more
// blocks the more their errors, and three taps are the fewest of a block.
inline double winograd_growth(const Problem &p) {
    constexpr double amplification[] = {1, 1, 13.8, 10.6, 8.7, 7.6};  // by taps
    constexpr int64_t most_whole_taps = 5, least_taps_of_block = 3;
    double growth = 1, inner = static_cast<double>(p.in_channels / p.groups);
    for (int axis = 0; axis < p.rank; ++axis) {
        const int64_t divisor = std::gcd(p.stride[axis], p.dilation[axis]), period = p.stride[axis] / divisor;
        const int64_t taps = (p.kernel[axis] + period - 1) / period;
        const bool cut = taps > most_whole_taps;
        growth *= amplification[cut ? least_taps_of_block : taps];
        inner *= cut ? static_cast<double>((taps + least_taps_of_block - 1) / least_taps_of_block) : 1;
        inner *= p.op == Operator::conv ? static_cast<double>(std::min(period, p.kernel[axis])) : 1;
        inner += 8;
    }
    growth = std::min(growth, 111.0);
    return growth * probabilistic_lambda * std::sqrt(inner) / roundoffs(static_cast<double>(terms(p)));
}

// As above, with 7 products of sums of half the terms for points: an output is the sum of up to four of them, whose
// factors are sums of up to two numbers, |G_k|_1 * |B_k|_1 = 4, 2, 2 and 4, and the definition has two such products:
// amplification = sqrt(40) / 2. Inner sums have half the terms, which have passed through sums of two and of four.
inline double strassen_growth(const Problem &p) {
    const double inner = static_cast<double>(p.in_channels) / 2 + 8;
    return std::sqrt(40.0) / 2 * probabilistic_lambda * std::sqrt(inner) / roundoffs(static_cast<double>(terms(p)));
}

// Sums of up to fast_products terms, and the products themselves, are rounded to float16 before float32 sums go on.
inline double half_growth(const Problem &p) {
    const double n = static_cast<double>(terms(p)), inner = std::min<double>(n, fast_products) + 1;
    return 1 + roundoffs(inner) * unit_roundoff(DType::f16) / (roundoffs(n) * unit_roundoff(DType::f32));
}

// Matrix instructions cut digits off rather than round, which errs twice as far, and to one side. A float32 is two TF32
// there, of 11 digits each: what is left of each factor is cut by one unit in its last place, and the product of both
// rests, of 2^-11 of the factors at the most, is left out, which is 8 roundoffs of a product.
inline double mma_growth(const Problem &p) {
    return p.x_type == DType::f32 || p.op == Operator::deform_conv ? 2 + 8 / roundoffs(static_cast<double>(terms(p)))
                                                                   : 2;
}

// The bound of every element of one kernel's result.
class ErrorBound {
  public:
    ErrorBound(const Problem &problem, const AlgorithmError &algorithm) : mixed_(algorithm.mixed) {
        const auto [slope, exact_activation] = activation_error(problem);
        const double u = unit_roundoff(accumulator(problem.x_type)), n = static_cast<double>(terms(problem));
        activation_ = exact_activation ? 0 : 4 * u;
        if (problem.is_quantized()) {
            // The float32 before the activation is exact. Behind it, an 8-bit y is off by one at the most: the
            // activation's error is far below 1.
            const bool eight_bits = problem.y_type != DType::s32 && problem.y_type != DType::f32;
            if (eight_bits) activation_ = 0;
            underflow_ = eight_bits && !exact_activation ? 1 : 0;
            return;
        }
        const double first_order = roundoffs(n) * u;
        gamma_ = slope * algorithm.growth(problem) * first_order / (1 - first_order);
        interpolation_ = slope * u;
        output_ = unit_roundoff(problem.y_type) + u;  // the output's rounding, and the reference's own
        // Products that underflow, flushed to zero or not.
        const bool fast = problem.accuracy == Accuracy::fast;
        underflow_ = n * underflow(fast ? DType::f16 : accumulator(problem.x_type)) + underflow(problem.y_type);
    }

    // Of element `index`, whose magnitude must be the largest of those mixed().
    double at(const Result &expected, int64_t index) const {
        const double magnitude = expected.magnitude[index];
        const double interpolation = expected.interpolation.empty() ? 0 : expected.interpolation[index];
        return gamma_ * magnitude + interpolation_ * interpolation + output_ * std::abs(expected.y[index]) +
               activation_ * (1 + magnitude) + underflow_;
    }

    Mixed mixed() const { return mixed_; }

  private:
    Mixed mixed_;
    double gamma_ = 0, interpolation_ = 0, output_ = 0, activation_ = 0, underflow_ = 0;
};

}  // namespace kiln::reference
