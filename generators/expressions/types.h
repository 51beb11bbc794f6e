// Halide's types of a problem's tensors and of the sums between them.
#pragma once

#include <Halide.h>

#include "expressions/patches.h"
#include "expressions/sizes.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

Halide::Type halide_type(DType type);

// What a problem's products are summed in: f64 for f64, 32-bit integers where x is 8-bit, f32 for all else.
Halide::Type sum_type(const Problem &problem);

// Whether both x and y have channels last, or both channels first.
inline bool is_channels_last(const Problem &problem) {
    return problem.x_layout == Layout::nxc && problem.y_layout == Layout::nxc;
}
inline bool is_channels_first(const Problem &problem) {
    return problem.x_layout == Layout::ncx && problem.y_layout == Layout::ncx;
}

// What x and w are widened to before they are multiplied: 16-bit integers (less their zero points) where x is 8-bit, so
// that two products and their sum, at most 2 * 255 * 255, are one instruction and exact; the sum's type for all else.
Halide::Type operand_type(const Problem &problem);

// How many neighbouring products of operand_type() one lane of an instruction sums: 2 for 16-bit integers.
int products_per_lane(const Problem &problem);

// The dot products of instructions that take narrower operands, by how many products a lane sums: u8 x (s8 where
// `is_signed`, TargetModel::signed_dot) times s8 weights by 4, bf16 by 2, and f16 by 2 in matrix tiles alone. Else what
// x and w are widened to is operand_type().
struct DotTypes {
    Halide::Type x, w;
};
DotTypes dot_types(const Problem &problem, int products, bool is_signed = false);
// How many products a lane may sum on a target, and in any case: of neighbouring channels or, where `joins_taps`, taps
// of a row and their channels.
int dot_products(const Problem &problem, const TargetModel &target, bool joins_taps = false);
bool is_dot(const Problem &problem, int products, bool joins_taps = false);

// Of a tile's products, so many of 8-bit numbers a lane, that one instruction makes and another adds to sums, as on x86
// without VNNI: the registers that they take besides sums, weights and a broadcast (the last one of a broadcast takes
// the broadcast's), and whether those of several steps in a loop's body take more than there are.
int registers_of_added_products(const Problem &problem, int products, int vectors, const TargetModel &target);
bool spills_products_of_steps(const Problem &problem, int products, const TargetModel &target);

// An element of x as an operand.
Halide::Expr widen_x(const Problem &problem, const Sizes &sizes, const Halide::Expr &x);

// An element of 8-bit x as an operand of type `type`, 8-bit too: shifted by 128 where they differ in signedness. And
// what that holds for a number that stands for 0.
Halide::Expr narrow_x(Halide::Type type, const Halide::Expr &x);
int narrow_zero_point(const Problem &problem, Halide::Type type);

// The bits of a float32 rounded to float16, ties to even. Halide's own conversion turns NaN into infinity, and where
// vectors are compared in what it rounds its OpenCL code generator fails.
Halide::Expr float16_bits(const Halide::Expr &value);

// The float32 that bfloat16's bits are worth, and the bits of a float32 rounded to bfloat16, ties to even; NaN stays
// NaN. Not Halide's casts: on ARM it rounds a product of two such, and it takes numbers to be finite.
Halide::Expr bfloat16_value(const Halide::Expr &bits);
Halide::Expr nearest_bfloat16(const Halide::Expr &value);

// Weights of type `type`: w less its zero points, which are over output channels and undefined where there are none;
// they count only where has_zero_points is true. The dimensions are those of Implementation::pack, those of w
// what it had before its patches' taps became channels, with axes of one tap where `single_axes` says.
Halide::Func widen_weights(const Problem &problem, const Sizes &sizes, Halide::Type type, const Halide::Func &w,
                           const Halide::Func &zero_points, const Halide::Expr &has_zero_points, const Patches &patches,
                           const std::vector<int> &single_axes);

}  // namespace kiln
