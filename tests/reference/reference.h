// The value every kernel is checked against: a problem by its definition, in loops, at a higher precision than any
// kernel. It shares no code with generators/.
#pragma once

#include <cstdint>
#include <vector>

#include "kiln/problem.h"
#include "kiln/status.h"

namespace kiln::reference {

// A problem's inputs as a kernel gets them: dense, in the layouts and types the problem names; null where it has none.
struct Tensors {
    const void *x = nullptr;
    const void *w = nullptr;
    const int64_t *weight_strides =
        nullptr;                     // rank + 2 of them, in elements; kiln_pack_function (kernel.h) tells their order
    const void *bias = nullptr;      // [out_channels]
    const void *residual = nullptr;  // as y
};

// Both hold y_elements() numbers in the order of y's layout.
struct Result {
    std::vector<double> y;
    // Of each element before its activation: the sum of |x * w| over its products, plus |bias| and |residual|. What
    // rounding errors are measured by.
    std::vector<double> magnitude;
};

// Computes float64 problems in long double, all others in double; splits the work over `threads` threads. Sizes of 0
// give what the definition gives: no elements, or bias only. unsupported: DeformConv, or a type other than float32 and
// float64. invalid_argument: sizes left open, a missing tensor.
Status compute(const Problem &problem, const Tensors &tensors, Result *result, int threads = 1);

}  // namespace kiln::reference
