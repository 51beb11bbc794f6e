// Seeded random numbers for a problem's tensors (kiln/tensor.h), the same on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kiln/plan.h"
#include "kiln/problem.h"
#include "kiln/tensor.h"

namespace kiln::harness {

using kiln::Tensor;
// All but y, in their order.
inline constexpr std::array<Tensor, tensor_count - 1> all_inputs = [] {
    std::array<Tensor, tensor_count - 1> inputs{};
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<Tensor>(i);
    return inputs;
}();
static_assert(Tensor::y == static_cast<Tensor>(tensor_count - 1));

size_t bytes_of(const Problem &problem, Tensor tensor);

// What its address in a run of a plan must be a multiple of: its elements' size, and in 8-bit problems on a GPU, whose
// kernels read what channels have by vectors, whatever its size, and write y by words, that of the widest vectors.
size_t alignment_of(const Problem &problem, const Plan &plan, Tensor tensor);

// The strides of kiln_pack_function, in elements, for weights that lie densely in its own order.
std::vector<int64_t> dense_weight_strides(const Problem &problem);

// Raw elements; empty where the problem has no such tensor.
class Tensors {
  public:
    std::vector<char> &operator[](Tensor tensor) { return data_[static_cast<size_t>(tensor)]; }
    const std::vector<char> &operator[](Tensor tensor) const { return data_[static_cast<size_t>(tensor)]; }

  private:
    std::array<std::vector<char>, tensor_count> data_;
};

// The inputs among `pointers`, one for each tensor in the order of Tensor; null where the problem has none.
using Pointers = std::array<void *, tensor_count>;
RunArguments run_arguments(const Problem &problem, const Pointers &pointers);

// DeformConv's offsets: ordinary, or also positions that are not finite, far outside, or exactly on a border.
enum class Offsets : uint8_t { ordinary, hostile };

// Floating tensors uniform in [-1, 1]; w scaled as trained weights are, with variance 1 / fan_in, so that y stays near
// 1. 8-bit tensors take all their values, and scales are such that y does too without saturating everywhere.
Tensors random_tensors(const Problem &problem, uint64_t seed, Offsets offsets);

// small: odd sizes that are quickly checked, 0 among them. typical: what networks have, to time.
enum class Sizes : uint8_t { small, typical };

// One of the problems, without open sizes, that a kernel for `pattern` computes, another for each seed. It is valid and
// canonical.
Problem random_problem(const Problem &pattern, uint64_t seed, Sizes sizes);

}  // namespace kiln::harness
