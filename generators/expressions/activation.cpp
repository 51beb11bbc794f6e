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

// exp(v) for v clamped to +-exponent_limit: 2^n * exp(r) with the integer n nearest to v / ln 2, and exp(r), |r| <=
// 0.35, by Taylor's polynomial of degree 7 (its relative error is 5e-9), of degree 13 for float64 (4e-18). Rounding v
// and n * ln 2 adds |v| roundings to the relative error.
Expr bounded_exp(const Expr &v) {
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
    return polynomial(r, taylor) * power;
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

// The activation of this number at v, with its parameters a and b.
Expr activate(Activation activation, const Expr &v, const Expr &a, const Expr &b) {
    const auto constant = [&v](double value) { return make_const(v.type(), value); };
    const Expr zero = constant(0), one = constant(1);
    switch (activation) {
        case Activation::none:
            return v;
        case Activation::relu:
            return Halide::max(v, zero);
        case Activation::leaky_relu:
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
    }
    return v;
}

// `value` where the run's activation is this one, computed only then: transcendental ones take far longer than the
// others.
Expr where_chosen(const Expr &chosen, const Expr &value, const Expr &otherwise) {
    return Halide::Internal::Call::make(value.type(), Halide::Internal::Call::if_then_else, {chosen, value, otherwise},
                                        Halide::Internal::Call::PureIntrinsic);
}

}  // namespace

Expr activate(const Problem &problem, const Sizes &sizes, const Expr &v) {
    if (!problem.open_epilogue) {
        const auto &params = problem.activation_params;
        return activate(problem.activation, v, make_const(v.type(), params[0]), make_const(v.type(), params[1]));
    }
    const Expr a = Halide::cast(v.type(), sizes.activation_params[0]);
    const Expr b = Halide::cast(v.type(), sizes.activation_params[1]);
    Expr result = v;
    for (const ActivationRow &row : activation_rows) {
        const Expr chosen = sizes.activation == static_cast<int>(row.activation);
        result = where_chosen(chosen, activate(row.activation, v, a, b), result);
    }
    return result;
}

}  // namespace kiln
