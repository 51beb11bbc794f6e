// One spatial axis whose numbers may be read at run time: axis_map.h's map without what needs their divisors.
#pragma once

#include <Halide.h>

#include <utility>
#include <vector>

#include "expressions/sizes.h"
#include "kiln/problem.h"

namespace kiln {

// Output position q * phases + phase, with q in [0, phase_extent), is the sum over t in [0, taps) with is_tap(phase, t)
// of
//   x[input(q, phase, t)] * w[t].
// A Conv has one phase. A ConvTranspose of stride s has s: of the taps t, output o = q * s + phase takes those with
// t * dilation = o + pad (mod s). Which those are is found tap by tap.
struct DynamicAxisMap {
    Halide::Expr in, out, taps, phases, phase_extent;

    // Whether every phase has all taps: is_tap() is then true.
    bool has_all_taps() const { return !transposed_; }
    Halide::Expr is_tap(const Halide::Expr &phase, const Halide::Expr &t) const;
    Halide::Expr input(const Halide::Expr &q, const Halide::Expr &phase, const Halide::Expr &t) const;
    // What all phases and taps of q in [0, phase_extent), made a multiple of `multiple`, reach of the input: the first
    // position, inside [0, in) or not, and how many.
    std::pair<Halide::Expr, Halide::Expr> reads(int multiple) const;

    // Of axis `a`, the innermost first.
    DynamicAxisMap(const Problem &problem, const Sizes &sizes, size_t a);

  private:
    bool transposed_;
    Halide::Expr stride_, dilation_, pad_;

    Halide::Expr from(const Halide::Expr &phase, const Halide::Expr &t) const { return phase + pad_ - t * dilation_; }
};

// Of every axis, the innermost first.
std::vector<DynamicAxisMap> dynamic_axis_maps(const Problem &problem, const Sizes &sizes);

}  // namespace kiln
