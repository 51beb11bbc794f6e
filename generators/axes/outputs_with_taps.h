// The outputs of a ConvTranspose that have taps, where strides leave others without any: a stride and a dilation that
// share a divisor have taps in one output of as many, and a kernel smaller than its stride in runs of its size.
#pragma once

#include <Halide.h>

#include <vector>

#include "kiln/problem.h"

namespace kiln {

// Which of an axis' outputs have taps: of every `step`-th output from `begin` on, in every `period` a run of `run`.
struct OutputsWithTaps {
    int step = 1, begin = 0;
    int run = 1, period = 1, first = 0, pad = 0;
    int phases = 1;  // of the problem that has them alone
    int count = 0;   // how many there are; it may have more, which y has not

    bool are_all = true;
    // Where y has the one that is quotient * phases + phase of them. Where there are runs, phases are as many.
    Halide::Expr output(const Halide::Expr &quotient, const Halide::Expr &phase) const;
};

// The problem whose outputs are those alone, as many as make its phases whole, and of each axis, the innermost first,
// which they are.
struct DenseOutputs {
    Problem problem;
    std::vector<OutputsWithTaps> axes;

    bool are_all() const;  // the problem is then the given one
};
DenseOutputs outputs_with_taps(const Problem &problem);

}  // namespace kiln
