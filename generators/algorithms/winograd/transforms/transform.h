// Sums of a tile's transforms on one axis, as expressions.
#pragma once

#include <Halide.h>

#include <vector>

#include "algorithms/winograd/transforms/cook_toom.h"

namespace kiln {

// sum of row[k] * terms[k] without the zeros.
Halide::Expr combination(const std::vector<double> &row, const std::vector<Halide::Expr> &terms);

// A row of a transform's matrix, as combination() takes it, times `scale`.
std::vector<double> values(const std::vector<Rational> &row, int64_t scale = 1);

// B^T times the inputs of a tile: opposite points share the even and the odd part of their sums.
std::vector<Halide::Expr> input_transform(const CookToom &f, const std::vector<Halide::Expr> &inputs);

// A^T times the products of a tile: opposite points share their sum and difference.
std::vector<Halide::Expr> output_transform(const CookToom &f, const std::vector<Halide::Expr> &products);

}  // namespace kiln
