// The formulas of activations, ONNX's, one case each (kiln/activation.h has the rest of the table).
//
// LLVM lets itself assume that no float is infinite, and no kernel may call a library's functions. So exponentials are
// polynomials of arguments that are clamped to where the result is finite, and each formula is written so that what is
// lost by clamping is less than the smallest number of the type.
#include "expressions/activation.h"

#include <vector>

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::make_const;

// Beyond it, exp(-v) is as good as 0: exp(-87) is near the smallest float32, exp(-700) near the smallest float64.
double exponent_limit(const Halide::Type &type) {
    return type.bits() == 64 ? 700 : 87;
}

// coefficients[0] + coefficients[1] * v + ...
Expr polynomial(const Expr &v, const std::vector<double> &coefficients) {
    Expr sum = make_const(v.type(), coefficients.back());
    for (size_t i = coefficients.size() - 1; i-- > 0;) {
        sum = sum * v + make_const(v.type(), coefficients[i]);
    }
    return sum;
}

// exp(v) for v clamped to +-exponent_limit is 2^n * exp(r) with the integer n nearest to v / ln 2, so that |r| <= 0.35,
// and exp(r) is Taylor's polynomial of degree 7 (its relative error is 5e-9), of degree 13 for float64 (4e-18).
// Rounding v and n * ln 2 adds |v| roundings to the relative error.
struct Exponential {
    Expr r, power;               // 2^n
    std::vector<double> taylor;  // of exp(r)
};

Exponential exponential(const Expr &v) {
    const Halide::Type type = v.type();
    const bool is_double = type.bits() == 64;
    const Expr limit = make_const(type, exponent_limit(type));
    const Expr x = Halide::clamp(v, -limit, limit);
    // Made positive, so that cutting its digits off rounds down.
    constexpr int offset = 2048;
    const Expr n =
        Halide::cast<int32_t>(x * make_const(type, 1.4426950408889634) + make_const(type, offset + 0.5)) - offset;
    const Expr r = x - Halide::cast(type, n) * make_const(type, 0.6931471805599453);
    std::vector<double> taylor = {1};
    for (int i = 1; i <= (is_double ? 13 : 7); i++) {
        taylor.push_back(taylor.back() / i);
    }
    const Expr power = is_double ? Halide::reinterpret<double>(Halide::cast<uint64_t>(n + 1023) << 52)
                                 : Halide::reinterpret<float>(Halide::cast<uint32_t>(n + 127) << 23);
    return {r, power, taylor};
}

Expr bounded_exp(const Expr &v) {
    const Exponential e = exponential(v);
    return polynomial(e.r, e.taylor) * e.power;
}

// exp(v) - 1 = 2^n * (exp(r) - 1) + (2^n - 1), of which nothing cancels: exp(r) - 1 is the polynomial less its first
// term, and 0.35 at most, while 2^n - 1 is 0 or -0.5 at least.
Expr bounded_exp_less_one(const Expr &v) {
    const Exponential e = exponential(v);
    const Expr part = e.r * polynomial(e.r, {e.taylor.begin() + 1, e.taylor.end()});
    return part * e.power + (e.power - make_const(v.type(), 1));
}

Expr sigmoid(const Expr &v) {
    const Expr one = make_const(v.type(), 1);
    return one / (one + bounded_exp(-v));
}

// 1 - 2 / (exp(2v) + 1): at both ends what tanh is there, where a quotient of exponentials would not be.
Expr tanh_of(const Expr &v) {
    const Expr one = make_const(v.type(), 1), two = make_const(v.type(), 2);
    return one - two / (bounded_exp(two * v) + one);
}

// v * gate, where the gate at z is less than exp(z) for negative z: it vanishes faster than v grows, even to infinity.
Expr gated(const Expr &v, const Expr &z, const Expr &gate) {
    const Expr zero = make_const(v.type(), 0);
    return Halide::select(z < make_const(v.type(), -exponent_limit(v.type())), zero, v * gate);
}

// v * tanh(log(1 + exp(v))) = v * n / (n + 2) with n = exp(v) * (exp(v) + 2). From 20 (float64: 40) on that is v
// itself, and n * v would not fit. v is chosen there: to add what exceeds 20, max(v - 20, 0), Halide adds max(v, 20)
// and takes 20 off the sum, which leaves a small result the digits that 20 has.
Expr mish(const Expr &v) {
    const Halide::Type type = v.type();
    const Expr two = make_const(type, 2), top = make_const(type, type.bits() == 64 ? 40 : 20);
    const Expr below = Halide::min(v, top), e = bounded_exp(below), n = e * (e + two);
    return Halide::select(v > top, v, gated(below, below, n / (n + two)));
}

// max(v, 0) + log(1 + t) with t = exp(-|v|), where log(1 + t) = 2 * atanh(s), s = t / (2 + t) <= 1/3, is 2 * s times a
// sum of s^(2k) / (2k + 1): of 8 terms its relative error is 2e-9, of 17 for float64 2e-18.
Expr softplus(const Expr &v) {
    const Halide::Type type = v.type();
    const Expr two = make_const(type, 2), t = bounded_exp(-Halide::abs(v)), s = t / (two + t);
    std::vector<double> atanh;
    for (int k = 0; k < (type.bits() == 64 ? 17 : 8); k++) {
        atanh.push_back(2.0 / (2 * k + 1));
    }
    return Halide::max(v, make_const(type, 0)) + s * polynomial(s * s, atanh);
}

// v * P(v), with the normal distribution P(v) = (1 + erf(v / sqrt 2)) / 2, is max(v, 0) - |v| * P(-|v|). And P(-a) is
// exp(-a^2 / 2) * t * polynomial(t) with t = 1 / (1 + c * a). The polynomials interpolate at Chebyshev's points of the
// values that a takes up to where P(-a) is 0: their relative error is 4e-8, for float64 2e-18.
Expr gelu(const Expr &v) {
    const Halide::Type type = v.type();
    const bool is_double = type.bits() == 64;
    const double c = is_double ? 0.19 : 0.35, farthest = is_double ? 37 : 13;
    const std::vector<double> of_float = {0.1396192375, 0.139901687,   0.1195322885, 0.1067301772,  -0.02605236568,
                                          0.1634932637, -0.2595086626, 0.1458046663, -0.02952030812};
    const std::vector<double> of_double = {
        0.075799033273125879987,  0.075799033487004208322,  0.073062681591019216047,   0.067590125668427584587,
        0.059675582809504561807,  0.049934617229623953143,  0.039011866719445395007,   0.029149872508358409161,
        0.014432224951205650473,  0.026279675313421116418,  -0.048235097760452675353,  0.14228125724703769525,
        -0.31664107269620095246,  0.57699448490817566255,   -0.86938576469737237822,   1.0585913362622421515,
        -1.0322663631297070093,   0.78878028464433280286,   -0.45614563993480362042,   0.19109478531753028883,
        -0.054520169810182064048, 0.0094752345052652515681, -0.00075798840700112798347};
    const Expr a = Halide::min(Halide::abs(v), make_const(type, farthest));
    const Expr one = make_const(type, 1), t = one / (one + make_const(type, c) * a);
    const Expr tail = bounded_exp(a * a * make_const(type, -0.5)) * t * polynomial(t, is_double ? of_double : of_float);
    return Halide::max(v, make_const(type, 0)) - a * tail;
}

}  // namespace

Expr activation_formula(Activation activation, const Expr &v, const Expr &a, const Expr &b) {
    const auto constant = [&v](double value) { return make_const(v.type(), value); };
    const Expr zero = constant(0), one = constant(1);
    switch (activation) {
        case Activation::none:
            return v;
        case Activation::relu:
            return Halide::max(v, zero);
        case Activation::leaky_relu:
        case Activation::prelu:
            return Halide::select(v < zero, v * a, v);
        case Activation::tanh:
            return tanh_of(v);
        case Activation::sigmoid:
            return sigmoid(v);
        case Activation::hard_sigmoid:
            return Halide::clamp(v * a + b, zero, one);
        case Activation::clip:
            return Halide::min(Halide::max(v, a), b);
        case Activation::hard_swish:
            return Halide::max(v, constant(-3)) * Halide::clamp(v * constant(1.0 / 6.0) + constant(0.5), zero, one);
        case Activation::swish:
            return gated(v, v * a, sigmoid(v * a));
        case Activation::gelu:
            return gelu(v);
        case Activation::gelu_tanh: {
            // (1 + tanh(z / 2)) / 2 is sigmoid(z).
            const double slope = 2 * 0.7978845608028654;  // 2 * sqrt(2 / pi)
            const Expr z = v * (constant(slope) + constant(slope * 0.044715) * v * v);
            return gated(v, z, sigmoid(z));
        }
        case Activation::mish:
            return mish(v);
        case Activation::elu:
            return Halide::select(v < zero, a * bounded_exp_less_one(v), v);
        case Activation::softplus:
            return softplus(v);
    }
    return v;
}

namespace {

// `value` where the run's activation is this one, computed only then: transcendental ones take far longer than the
// others.
Expr where_chosen(const Expr &chosen, const Expr &value, const Expr &otherwise) {
    return Halide::Internal::Call::make(value.type(), Halide::Internal::Call::if_then_else, {chosen, value, otherwise},
                                        Halide::Internal::Call::PureIntrinsic);
}

}  // namespace

Expr activate(const Problem &problem, const Operands &operands, const Expr &v, const Expr &c) {
    const Sizes &sizes = operands.sizes;
    if (!problem.open_epilogue) {
        const auto &params = problem.activation_params;
        const Expr a = takes_slopes(problem.activation) ? Halide::cast(v.type(), operands.slope(c))
                                                        : make_const(v.type(), params[0]);
        return activation_formula(problem.activation, v, a, make_const(v.type(), params[1]));
    }
    const Expr a = Halide::cast(v.type(), sizes.activation->a);
    const Expr b = Halide::cast(v.type(), sizes.activation->b);
    Expr result = v;
    for (const ActivationRow &row : activation_rows) {
        const Expr chosen = sizes.activation->number == static_cast<int>(row.activation);
        const Expr first = row.takes_slopes ? Halide::cast(v.type(), operands.slope(c)) : a;
        result = where_chosen(chosen, activation_formula(row.activation, v, first, b), result);
    }
    return result;
}

}  // namespace kiln
