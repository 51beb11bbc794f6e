// Outputs without taps: where strides of a ConvTranspose leave some, algorithms compute those that have taps as a
// problem of their own, and y has them at their places, and the epilogue of an empty sum between them.
#pragma once

#include <Halide.h>

#include "expressions/operands.h"
#include "kiln/problem.h"
#include "operators/complete_phases.h"

namespace kiln {

// The problem of the outputs that have taps (axes/outputs_with_taps.h), without its epilogue where that has a residual;
// the same where all have.
Problem dense_problem(const Problem &problem);

// y of the problem from `sums`, what an algorithm made of dense_problem(). Sums are computed first, as they are
// scheduled.
Halide::Func spread_outputs(const Problem &problem, Halide::Func sums, const SumsOrder &order, const Operands &operands,
                            bool parallel);

namespace implementations {

// An algorithm A, for the outputs that have taps.
template <class A>
using SpreadingOutputs = OfOtherProblem<A, dense_problem, spread_outputs>;

}  // namespace implementations
}  // namespace kiln
