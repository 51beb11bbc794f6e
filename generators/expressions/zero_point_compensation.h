// What the zero point of 8-bit operands adds to sums of products, where products are of numbers as they are stored.
#pragma once

#include <Halide.h>

#include <vector>

namespace kiln {

// `sum` is of weight * zero point over all products, written as the products themselves are so that it takes the same
// instruction: `zero_point` is over a lane's products.
struct ZeroPointCompensation {
    Halide::Func sum, zero_point;
};

// Over `at`. `pair`: which of a lane's products `weight` is of.
inline ZeroPointCompensation define_zero_point_compensation(const std::vector<Halide::Var> &at,
                                                            const Halide::Expr &weight, const Halide::RVar &pair,
                                                            const Halide::Expr &value) {
    ZeroPointCompensation surplus{Halide::Func("surplus"), Halide::Func("zero_point")};
    const Halide::Var j("j");
    surplus.zero_point(j) = value;
    surplus.sum(at) = 0;
    surplus.sum(at) += Halide::cast<int>(weight) * Halide::cast<int>(surplus.zero_point(pair));
    return surplus;
}

}  // namespace kiln
