// What each operator computes, as its document's formula says it: Funcs without a schedule, of any rank, type and
// layout.
//
// They are kernels too: with the plain schedules below, which are always legal, the last of each operator's algorithms
// and what stands in where the compiler fails at another. Weights are as the user gives them, widened. Error: a plain
// sum of products in the order of the loops.
#pragma once

#include <Halide.h>

#include <vector>

#include "expressions/operands.h"
#include "kiln/problem.h"

namespace kiln::operators {

// y's coordinates, and what they say of a convolution's channels.
struct Coordinates {
    Halide::Var c{"c"}, g{"g"}, n{"n"};  // g, the group, is one of them where the number of groups is open
    std::vector<Halide::Var> o;          // of each axis, the innermost first
    std::vector<Halide::Var> all;        // c, g, o, n
    Halide::Expr output_channel, group;

    Coordinates(const Problem &problem, const Sizes &sizes);
};

// The Funcs of a definition: y, and the sum that it is made of.
struct Definition {
    Halide::Func sum, y;
};

Definition conv(const Problem &problem, const Operands &operands);
Definition conv_transpose(const Problem &problem, const Operands &operands);
Definition deform_conv(const Problem &problem, const Operands &operands);

// That of the problem's operator.
Definition define(const Problem &problem, const Operands &operands);

// Each element by itself: one after the other, or each in a thread of a GPU.
void schedule_plainly(Definition &definition);
void schedule_plainly_gpu(Definition &definition);

// The weights: w in its own order, the last dimension innermost.
std::vector<Halide::Expr> weight_extents(const Problem &problem, const Sizes &sizes);
Halide::Func weights_in_order(const Problem &problem, const Halide::Func &w);

// What a definition sums over: input channels of a group, then taps of each axis.
Halide::Region channels_and_taps(const Sizes &sizes);

// Whether x has an element there. It is one comparison of unsigned numbers, in which what is below 0 is beyond the
// last: from comparisons of signed ones Halide may tell what number a coordinate of y must be, and writes that number
// for it within sum alone, which then is of more elements than one.
Halide::Expr is_within(const Halide::Expr &i, const Halide::Expr &extent);

// sum = sum of x * w, in the type that sums have, over the reduction domain that x and w are expressions of;
// y = epilogue(sum).
Definition sum_of_products(const Problem &problem, const Operands &operands, const Coordinates &at,
                           const Halide::Expr &x, const Halide::Expr &w);

}  // namespace kiln::operators
