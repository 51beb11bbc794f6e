// Winograd tiles of 8-bit numbers, exact: points are integers, and filters are scaled so that what they become are
// integers too. All transformed numbers fit 16 bits and the sum of two products 32, so that one instruction makes it.
// Sums wrap around: modulo 2^32 they are the scale times the definition's, which the inverse of the scale's odd part
// and a shift by its power of two give back whole, as long as they fit the bits that the shift leaves.
#pragma once

#include <Halide.h>

#include <vector>

#include "algorithms/winograd/transforms/axis.h"
#include "kiln/problem.h"

namespace kiln {

// By how much the filters of such tiles are scaled on all axes together.
int64_t exact_scale(const std::vector<WinogradAxis> &axes, const std::vector<int> &tile);

// Whether tiles of these sizes, and the smaller ones behind them, are exact for whatever numbers the problem's types
// and zero points allow.
bool is_exact(const Problem &problem, const std::vector<WinogradAxis> &axes, const std::vector<int> &tile);

// The sum, of 32-bit integers, that `scaled`, unsigned and modulo 2^32, is the scale times.
Halide::Expr exact_sum(const Halide::Expr &scaled, int64_t scale);

}  // namespace kiln
