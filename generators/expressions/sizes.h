// A problem's numbers as Halide sees them: constants, and parameters where they are left to run time.
#pragma once

#include <Halide.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "kiln/problem.h"

namespace kiln {

// What the i-th open number is called in generated functions; whether that is the name of one.
std::string open_name(int i);
bool is_open_name(const std::string &name);

// Axes stand innermost first, as Halide counts dimensions.
struct Sizes {
    Halide::Expr batch, in_channels, out_channels, groups, offset_groups, x_zero_point, y_zero_point;
    std::vector<Halide::Expr> in, out, kernel, stride, dilation, pad_begin;
    Halide::Expr x_is_nxc, y_is_nxc;                // bool
    Halide::Expr has_bias, has_residual, has_mask;  // bool
    // The activation's number and its two parameters.
    struct OpenActivation {
        Halide::Expr number, a, b;
    };
    std::optional<OpenActivation> activation;  // where the epilogue is open

    // `open` holds what the problem leaves open, in the order of kiln_run_function's sizes.
    Sizes(const Problem &problem, const std::vector<Halide::Expr> &open);

    // With the variables open_name(i) for what is open.
    explicit Sizes(const Problem &problem);

    // Of a group.
    Halide::Expr reduction_channels() const { return in_channels / groups; }
    Halide::Expr out_of_group() const { return out_channels / groups; }

    // The sizes of w before its spatial ones (Problem::w_channels).
    std::array<Halide::Expr, 2> w_channels(const OperatorTraits &traits) const;
};

// Whether an expression is the constant 1.
bool is_one(const Halide::Expr &value);

}  // namespace kiln
