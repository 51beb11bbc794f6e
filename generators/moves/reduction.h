// The loops of a sum: over input channels, its depth, and over taps.
#pragma once

#include <Halide.h>

#include <vector>

namespace kiln {

// The loop over steps of the depth, where a step is unrolled.
inline Halide::RVar depth_steps() {
    return Halide::RVar("outer");
}

// The loop over the steps that are unrolled.
inline Halide::RVar unrolled_steps() {
    return Halide::RVar("inner");
}

// Appends a sum's loops to an order, the innermost first: a step of `unroll` of r[depth], unrolled; all steps; and what
// r has behind r[depth].
inline void append_reduction(Halide::Stage sum, const Halide::RDom &r, int depth, int unroll,
                             std::vector<Halide::VarOrRVar> &order) {
    Halide::RVar steps = r[depth];
    if (unroll > 1) {
        const Halide::RVar inner = unrolled_steps();
        steps = depth_steps();
        sum.split(r[depth], steps, inner, unroll).unroll(inner);
        order.emplace_back(inner);
    }
    order.emplace_back(steps);
    for (int i = depth + 1; i < r.dimensions(); i++) {
        order.emplace_back(r[i]);
    }
}

}  // namespace kiln
