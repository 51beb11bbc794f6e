// The value every kernel is checked against: a problem by its definition, in loops, at a higher precision than any
// kernel. It shares no code with generators/.
#pragma once

#include <cstdint>
#include <vector>

#include "kiln/problem.h"
#include "kiln/status.h"
#include "kiln/tensor.h"

namespace kiln::reference {

// A problem's inputs as a kernel gets them: dense, in the layouts and types the problem names; null where it has none.
struct Tensors {
    const void *x = nullptr;
    const void *w = nullptr;
    const int64_t *weight_strides =
        nullptr;                     // rank + 2 of them, in elements; kiln_pack_function (kernel.h) tells their order
    const void *bias = nullptr;      // [out_channels]
    const void *residual = nullptr;  // as y
    const void *offset = nullptr;    // DeformConv: [batch][offset group, tap, axis][out...], lies as x
    const void *mask = nullptr;      // DeformConv: [batch][offset group, tap][out...], lies as x
    const float *scale = nullptr;    // as kiln_run_function has it
    const int32_t *zero_points = nullptr;  // of w, one an output channel; null: 0

    void set(Tensor tensor, const void *data);  // an input
};

// All hold y_elements() numbers in the order of y's layout.
struct Result {
    std::vector<double> y;  // as the problem defines it, but for floating types not rounded to y's
    // Of each element before its activation: the sum of |x * w| over its products, plus |bias| and |residual|. What
    // rounding errors are measured by.
    std::vector<double> magnitude;
    // DeformConv, else empty: what an element may change by, in units of roundoff, because positions and interpolation
    // weights are rounded. A sample at position q = base + offset interpolates x linearly on each axis, with zeros
    // outside, so it changes by at most 2 max|x| where q does by 1; and q, a sum of two numbers, is rounded by
    // |base| + |offset| units at the most. Weights q - floor(q) and 1 - that, and the products with them, add 4 units
    // of max|x| an axis. max|x| is over the channel. Times |mask * w|, summed over the products.
    std::vector<double> interpolation;
};

// Computes float64 problems in long double, quantised ones in integers up to their sums and then in float32, operation
// by operation, all others in double; splits the work over `threads` threads. Sizes of 0 give what the definition
// gives: no elements, or bias only. invalid_argument: sizes left open, a missing tensor.
Status compute(const Problem &problem, const Tensors &tensors, Result *result, int threads = 1);

}  // namespace kiln::reference
