// Arithmetic and functions that hold for every number, NaN and infinity among them: LLVM may assume that there are none
// of those in what Halide's own operators compute. None calls a library's functions. Integers are computed as Halide
// does; f32 is right to a few roundings, f64 where a function has it.
#pragma once

#include <Halide.h>

namespace kiln::strict {

using Halide::Expr;

Expr add(const Expr &a, const Expr &b);
Expr sub(const Expr &a, const Expr &b);
Expr mul(const Expr &a, const Expr &b);
Expr div(const Expr &a, const Expr &b);  // integers: towards zero; 0 where b is 0
Expr neg(const Expr &a);
Expr abs(const Expr &a);
Expr less(const Expr &a, const Expr &b);
Expr less_equal(const Expr &a, const Expr &b);
Expr equal(const Expr &a, const Expr &b);
Expr is_nan(const Expr &a);
Expr is_inf(const Expr &a);
// NaN where either is.
Expr max(const Expr &a, const Expr &b);
Expr min(const Expr &a, const Expr &b);

// Whole numbers, of floats; ties go to even.
Expr round(const Expr &a);
Expr floor(const Expr &a);
Expr ceil(const Expr &a);
Expr trunc(const Expr &a);

// Converts as C does what the other type holds, and takes its limits for what it does not; NaN becomes 0.
Expr saturating_cast(Halide::Type type, const Expr &a);

Expr sqrt(const Expr &a);
Expr exp(const Expr &a);
Expr log(const Expr &a);
Expr log1p_of_fraction(const Expr &a);  // log(1 + a), 0 <= a <= 1
Expr pow(const Expr &a, const Expr &b);
// Of f32 only from here on.
Expr sin(const Expr &a);
Expr cos(const Expr &a);
Expr asin(const Expr &a);
Expr acos(const Expr &a);
Expr atan(const Expr &a);
Expr sinh(const Expr &a);
Expr cosh(const Expr &a);
Expr asinh(const Expr &a);
Expr acosh(const Expr &a);
Expr atanh(const Expr &a);
Expr erf(const Expr &a);

}  // namespace kiln::strict
