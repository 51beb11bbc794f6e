// Bias, residual and activation, by ONNX's formulas; scales and zero points, by those of problem.h.
#include "common/epilogue.h"

#include "common/types.h"

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

Expr activate(const Problem &problem, const Expr &v) {
    const auto constant = [&v](double value) { return make_const(v.type(), value); };
    const Expr a = constant(problem.activation_params[0]), b = constant(problem.activation_params[1]);
    const Expr zero = constant(0), one = constant(1);
    switch (problem.activation) {
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

// saturate(round_half_even(v) + zero point). Saturating first keeps the conversion within 32 bits.
Expr quantize(const Problem &problem, const Expr &v) {
    const Halide::Type type = halide_type(problem.y_type);
    const auto zero_point = static_cast<int>(problem.y_zero_point);
    const float least = problem.y_type == DType::s8 ? -128.0f : 0.0f;
    const float low = least - static_cast<float>(zero_point);
    const Expr rounded = Halide::clamp(Halide::round(v), low, low + 255.0f);
    return Halide::cast(type, Halide::cast<int32_t>(rounded) + zero_point);
}

// Every operation is rounded by itself, so that all targets give the same bits.
Expr rescale(const Problem &problem, Expr sum, const Operands &operands, const Expr &c) {
    const bool real_bias = problem.bias && problem.bias_type == DType::f32;
    if (problem.bias && !real_bias) {
        sum += operands.bias(c);
    }
    if (problem.y_type == DType::s32) {
        return sum;
    }
    Expr v = Halide::strict_float(Halide::cast<float>(sum) * operands.scale(c));
    if (real_bias) {
        v = Halide::strict_float(v + operands.bias(c));
    }
    v = Halide::strict_float(activate(problem, v));
    if (problem.y_type == DType::f32) {
        return v;
    }
    if (!problem.rescales_once()) {
        v = Halide::strict_float(v / operands.scale(static_cast<int>(problem.out_channels)));
    }
    return quantize(problem, v);
}

}  // namespace

Expr epilogue(const Problem &problem, const Expr &sum, const Operands &operands, const std::vector<Expr> &at) {
    if (problem.is_quantized()) {
        return rescale(problem, sum, operands, at[0]);
    }
    Expr v = sum;
    if (problem.bias) {
        v += Halide::cast(sum.type(), operands.bias(at[0]));
    }
    if (problem.residual) {
        v += Halide::cast(sum.type(), operands.residual(at));
    }
    return Halide::cast(halide_type(problem.y_type), activate(problem, v));
}

}  // namespace kiln
