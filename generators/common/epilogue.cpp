// Bias, residual and activation, by ONNX's formulas.
#include "common/epilogue.h"

namespace kiln {
namespace {

using Halide::Expr;

Expr sigmoid(const Expr &v) {
    return 1.0f / (1.0f + Halide::exp(-v));
}

// 1 - 2 / (exp(2v) + 1): exact at both infinities, where a quotient of exponentials would be NaN.
Expr tanh_of(const Expr &v) {
    return 1.0f - 2.0f / (Halide::exp(2.0f * v) + 1.0f);
}

Expr activate(const Problem &problem, const Expr &v) {
    const float a = problem.activation_params[0], b = problem.activation_params[1];
    switch (problem.activation) {
        case Activation::none:
            return v;
        case Activation::relu:
            return Halide::max(v, 0.0f);
        case Activation::leaky_relu:
            return Halide::select(v < 0.0f, v * a, v);
        case Activation::tanh:
            return tanh_of(v);
        case Activation::sigmoid:
            return sigmoid(v);
        case Activation::hard_sigmoid:
            return Halide::clamp(v * a + b, 0.0f, 1.0f);
        case Activation::clip:
            return Halide::min(Halide::max(v, a), b);
        case Activation::hard_swish:
            return v * Halide::clamp(v * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f);
    }
    return v;
}

}  // namespace

Expr epilogue(const Problem &problem, Expr sum, const Halide::Func &bias, const Halide::Func &residual,
              const std::vector<Expr> &at) {
    if (problem.bias) {
        sum += bias(at[0]);
    }
    if (problem.residual) {
        sum += residual(at);
    }
    return activate(problem, sum);
}

}  // namespace kiln
