// Points of an image, or taps of a kernel, numbered through, the innermost axis fastest; and where offsets lead.
#pragma once

#include <Halide.h>

#include <vector>

namespace kiln {

// The coordinates of point number `index`, the innermost first.
std::vector<Halide::Expr> coordinates(Halide::Expr index, const std::vector<Halide::Expr> &sizes);

// The number of the point at these coordinates.
Halide::Expr number_of(const std::vector<Halide::Expr> &at, const std::vector<Halide::Expr> &sizes);

// How many there are.
Halide::Expr product(const std::vector<Halide::Expr> &sizes);

// An offset, of float32 or float64, with plus or minus 2^30 in place of NaN, infinite and huge ones.
Halide::Expr finite(const Halide::Expr &offset);

}  // namespace kiln
