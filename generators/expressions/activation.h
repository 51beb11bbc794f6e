// The activations that kernels compute behind their sums.
#pragma once

#include <Halide.h>

#include "expressions/operands.h"
#include "kiln/problem.h"

namespace kiln {

// An activation at v, a float32 or float64, with its parameters a and b; `a` is the slope where it takes one.
Halide::Expr activation_formula(Activation activation, const Halide::Expr &v, const Halide::Expr &a,
                                const Halide::Expr &b);

// The problem's activation at v, a float32 or float64 of output channel c; where the epilogue is open, that which the
// run says.
Halide::Expr activate(const Problem &problem, const Operands &operands, const Halide::Expr &v, const Halide::Expr &c);

}  // namespace kiln
