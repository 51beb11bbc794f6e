// Parts of expressions that quantize, as QuantizeLinear does, and dequantize at once what was quantized: zero points
// are added and taken off, and what is too large saturates, without leaving float32.
#pragma once

#include <Halide.h>

#include <optional>
#include <vector>

#include "expressions/elementwise/elementwise.h"

namespace kiln {

// saturate_s8(add(saturate_s32(div(value,divisor)),zero_point)), of 8 or 16 bits; without the sum zero_point is 0,
// without a division by a number divisor is 1.
struct Quantized {
    ElementwiseExpression::TermPtr value;
    double divisor = 1;
    double zero_point = 0;
    Halide::Type type;

    // v, which is float32, as that makes of it; NaN becomes the least number of the type.
    Halide::Expr integer(const Halide::Expr &v) const;
};

// cast_f32(sub(cast_s32(quantized),zero_point)), as DequantizeLinear begins.
struct Dequantized {
    Quantized of;
    double zero_point = 0;

    // What it makes of v, which is float32 and to be quantized.
    Halide::Expr whole_number(const Halide::Expr &v) const;
};

// A term as what it stands for, if it is that; it may be written by earlier steps.
std::optional<Quantized> quantized_of(const ElementwiseExpression::TermPtr &term,
                                      const std::vector<ElementwiseExpression::TermPtr> &steps);
std::optional<Dequantized> dequantized_of(const ElementwiseExpression::TermPtr &term,
                                          const std::vector<ElementwiseExpression::TermPtr> &steps);

}  // namespace kiln
