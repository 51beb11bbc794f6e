// Problems whose x or y has no elements: every sum is empty.
#pragma once

#include <Halide.h>

#include <vector>

#include "expressions/operands.h"
#include "kiln/problem.h"

namespace kiln {

inline bool is_empty(const Problem &problem) {
    return !problem.has_open_sizes() && (problem.x_elements() == 0 || problem.y_elements() == 0);
}

// y: bias, residual and activation alone. The packed weights are one element that is never read.
Halide::Func empty(const Problem &problem, const Operands &operands);

}  // namespace kiln
