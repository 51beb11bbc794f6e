// Seeded random tensors, the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kiln/problem.h"

namespace kiln::harness {

// Raw elements; empty where the problem has no such tensor.
struct Tensors {
    std::vector<char> x, w, bias, residual;
};

// x and residual uniform in [-1, 1]; w scaled as trained weights are, with variance 1 / fan_in, so that y stays near 1.
// Types: float32 and float64.
Tensors random_tensors(const Problem &problem, uint64_t seed);

// Element `index` of a float32 or float64 tensor.
double load(DType type, const void *data, int64_t index);

// Bytes of a tensor of a problem.
size_t x_bytes(const Problem &problem);
size_t w_bytes(const Problem &problem);
size_t y_bytes(const Problem &problem);  // of the residual too
size_t bias_bytes(const Problem &problem);

}  // namespace kiln::harness
