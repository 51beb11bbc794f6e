// What the zero point of 8-bit operands adds to sums of products, where products are of numbers as they are stored.
#pragma once

#include <Halide.h>

#include <vector>

namespace kiln {

// `sum` is of weight * zero point over all products of `r`, written as the products themselves are so that it takes the
// same instruction: `zero_point` is over a lane's products, which are r[0].
struct ZeroPointCompensation {
    Halide::Func sum, zero_point;
    Halide::RDom r;
};

// Over `at`, of each `weight` of r.
inline ZeroPointCompensation define_zero_point_compensation(const std::vector<Halide::Var> &at,
                                                            const Halide::Expr &weight, const Halide::RDom &r,
                                                            const Halide::Expr &value) {
    ZeroPointCompensation result{Halide::Func("compensation"), Halide::Func("zero_point"), r};
    const Halide::Var j("j");
    result.zero_point(j) = value;
    result.sum(at) = 0;
    result.sum(at) += Halide::cast<int>(weight) * Halide::cast<int>(result.zero_point(r[0]));
    return result;
}

}  // namespace kiln
