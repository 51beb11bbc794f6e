// Quotients of float32 by a number that is known, rounded to whole numbers, without a division where that is sure to
// round alike.
#pragma once

#include <Halide.h>

namespace kiln {

// x / divisor, where x is such that it rounds, half to even, to whole numbers from `lowest` to `highest`, and is
// rounded so: lower_quotients() may then take another number that is rounded to the same.
Halide::Expr quotient_to_round(const Halide::Expr &x, float divisor, int lowest, int highest);

// The lowered statement with divisions, or products with the reciprocal, in place of quotient_to_round()'s calls.
Halide::Internal::Stmt lower_quotients(const Halide::Internal::Stmt &statement, const Halide::Target &target);

}  // namespace kiln
