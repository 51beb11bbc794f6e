// Bias and residual, by ONNX's formulas, and activation; scales and zero points, by those of problem.h.
#include "expressions/epilogue.h"

#include "expressions/activation.h"
#include "expressions/types.h"
#include "lowering/instructions/bf16_instruction.h"
#include "lowering/instructions/quantization.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Var;

// v + addend, where there is one.
Expr add_if(const Expr &present, const Expr &v, const Expr &addend) {
    const Expr sum = v + Halide::cast(v.type(), addend);
    return Halide::Internal::is_const_one(present) ? sum : Halide::select(present, sum, v);
}

// Problem::rescales_once(), at run time.
Expr rescales_once(const Problem &problem, const Sizes &sizes) {
    if (!problem.open_epilogue) {
        return problem.rescales_once() ? Halide::Internal::const_true() : Halide::Internal::const_false();
    }
    const Expr simple = sizes.activation->number <= static_cast<int>(Activation::relu);
    return problem.bias_type == DType::f32 ? simple && !sizes.has_bias : simple;
}

// Every operation is rounded by itself, so that all targets give the same bits.
Expr rescale(const Problem &problem, Expr sum, const Operands &operands, const Expr &c) {
    const Sizes &sizes = operands.sizes;
    const bool real_bias = problem.bias_type == DType::f32;
    if (operands[Tensor::bias].defined() && !real_bias) {
        sum = add_if(sizes.has_bias, sum, operands[Tensor::bias](c));
    }
    if (problem.y_type == DType::s32) {
        return sum;
    }
    Expr v = Halide::strict_float(Halide::cast<float>(sum) * operands.scale(c));
    if (operands[Tensor::bias].defined() && real_bias) {
        v = Halide::strict_float(add_if(sizes.has_bias, v, operands[Tensor::bias](c)));
    }
    if (problem.y_type == DType::f32) {
        return Halide::strict_float(activate(problem, operands, v, c));
    }
    const bool is_relu = problem.activation == Activation::relu && !problem.open_epilogue;
    const bool by_instructions = operands.quantizing_instructions;
    Quantization quantization = {halide_type(problem.y_type), sizes.y_zero_point};
    // Where 0 is the least result, saturation is Relu.
    const bool saturates =
        is_relu && by_instructions && Halide::Internal::is_const(sizes.y_zero_point, quantization.least());
    quantization.above = is_relu && !saturates;
    if (!saturates) {
        v = Halide::strict_float(activate(problem, operands, v, c));
    }
    const Expr once = rescales_once(problem, sizes);
    if (!Halide::Internal::is_const_one(once)) {
        v = Halide::select(once, v, Halide::strict_float(v / operands.y_scale()));
    }
    return by_instructions ? quantization.by_instructions(v) : quantization.by_arithmetic(v);
}

}  // namespace

Expr epilogue(const Problem &problem, const Expr &sum, const Operands &operands, const std::vector<Expr> &at,
              const Expr &channel) {
    if (problem.is_quantized()) {
        return rescale(problem, sum, operands, channel);
    }
    const Sizes &sizes = operands.sizes;
    Expr v = sum;
    if (operands[Tensor::bias].defined()) {
        v = add_if(sizes.has_bias, v, operands[Tensor::bias](channel));
    }
    if (operands[Tensor::residual].defined()) {
        v = add_if(sizes.has_residual, v, operands[Tensor::residual](at));
    }
    v = activate(problem, operands, v, channel);
    if (operands.f16_bits && problem.y_type == DType::f16) {
        return float16_bits(v);
    }
    if (operands.bf16_bits && problem.y_type == DType::bf16) {
        return bf16_bits(v);
    }
    if (operands.bf16_instruction && problem.y_type == DType::bf16) {
        return to_bf16(v);
    }
    return Halide::cast(halide_type(problem.y_type), v);
}

Expr epilogue(const Problem &problem, const Expr &sum, const Operands &operands, const std::vector<Expr> &at) {
    return epilogue(problem, sum, operands, at, at[0]);
}

ChannelCopies copy_channel_operands(const Operands &operands, const Var &at, const Expr &channel) {
    ChannelCopies result = {operands, {}};
    std::vector<Halide::Func *> of_channels;
    for (const TensorTraits &row : tensor_traits) {
        if (row.shape == TensorShape::list) {
            of_channels.push_back(&result.operands[row.tensor]);
        }
    }
    of_channels.insert(of_channels.end(), {&result.operands.scale, &result.operands.slope});
    for (Halide::Func *operand : of_channels) {
        if (operand->defined()) {
            Halide::Func copy("copy_of_" + operand->name());
            copy(at) = (*operand)(channel);
            *operand = copy;
            result.copies.push_back(copy);
        }
    }
    return result;
}

}  // namespace kiln
