// The tensors of a kernel and of its pack function (kiln/tensor.h) as Halide sees them: types, extents and strides.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "axes/simplify_problem.h"
#include "expressions/sizes.h"
#include "kiln/kernel.h"
#include "kiln/problem.h"

namespace kiln {

struct TensorLayout {
    struct Dimension {
        Halide::Expr extent;
        Halide::Expr stride;  // in elements; undefined where it is known at run time only
    };
    std::string name;  // as kiln_run_function's and kiln_pack_function's arguments are called
    Halide::Type type;
    std::vector<Dimension> dimensions;
};

// Strides of a tensor that is a part of a larger image, in elements, which a run says.
struct ImageStrides {
    Halide::Expr channel;            // of channels-first ones
    std::vector<Halide::Expr> axes;  // innermost first; undefined for the innermost, whose positions are side by side
};

// Those of a part's tensors that are told of any; the residual's are y's.
struct PartStrides {
    std::optional<ImageStrides> x, y;
};

// How many numbers they are in a run's sizes.
constexpr int part_strides = 2 * kiln_part_axes;

// Those of a part, whose kernel computes `simplified`, `strides` being numbered as kiln_part_kernel says: y's alone, or
// x's too. Nothing where the kernel does not see the part's axes.
std::optional<PartStrides> strides_of_part(const Problem &part, const Problem &simplified,
                                           const std::vector<Halide::Expr> &strides, bool of_x);

// Those that the problem has, y last. x, residual and y are over (channel, spatial axes innermost first, batch), split
// as Implementation::output_phases() and splits_groups() say; they are dense, but for what has `strides`.
std::vector<TensorLayout> kernel_tensors(const Problem &problem, const Implementation &implementation,
                                         const Sizes &sizes, const PartStrides &strides = {});

// The weights as they are given, their zero points where they have any, and the packed weights of the simplified
// problem, whose sizes these are.
std::vector<TensorLayout> pack_tensors(const Simplification &simplification, const Implementation &implementation,
                                       const Sizes &sizes);

// Where in w, counted by its dimensions, the weights begin that pack_tensors() has: behind the taps that were left out.
std::vector<int64_t> weights_origin(const Simplification &simplification);

// Of packed weights: a constant, or an expression of the sizes that the problem leaves open.
Halide::Expr packed_bytes(const Problem &problem, const Implementation &implementation);

}  // namespace kiln
