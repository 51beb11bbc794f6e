// The formulas of activations, ONNX's, one case each (kiln/activation.h has the rest of the table).
#include "expressions/activation.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::make_const;

Expr sigmoid(const Expr &v) {
    return make_const(v.type(), 1) / (make_const(v.type(), 1) + Halide::exp(-v));
}

// 1 - 2 / (exp(2v) + 1): exact at both infinities, where a quotient of exponentials would be NaN.
Expr tanh_of(const Expr &v) {
    const Expr one = make_const(v.type(), 1), two = make_const(v.type(), 2);
    return one - two / (Halide::exp(two * v) + one);
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
            return v * Halide::clamp(v * constant(1.0 / 6.0) + constant(0.5), zero, one);
    }
    return v;
}

}  // namespace

Expr activate(const Problem &problem, const Sizes &sizes, const Expr &v) {
    if (!problem.open_epilogue) {
        const auto &params = problem.activation_params;
        return activate(problem.activation, v, make_const(v.type(), params[0]), make_const(v.type(), params[1]));
    }
    Expr result = v;
    for (const ActivationRow &row : activation_rows) {
        const Expr a = Halide::cast(v.type(), sizes.activation_params[0]);
        const Expr b = Halide::cast(v.type(), sizes.activation_params[1]);
        result = Halide::select(sizes.activation == static_cast<int>(row.activation), activate(row.activation, v, a, b),
                                result);
    }
    return result;
}

}  // namespace kiln
