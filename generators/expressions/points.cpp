#include "expressions/points.h"

namespace kiln {

using Halide::Expr;
using Halide::reinterpret;
using Halide::Type;

std::vector<Expr> coordinates(Expr index, const std::vector<Expr> &sizes) {
    std::vector<Expr> at;
    for (size_t a = 0; a < sizes.size(); a++) {
        const bool last = a + 1 == sizes.size();
        at.push_back(last ? index : index % sizes[a]);
        index = index / sizes[a];
    }
    return at;
}

Expr number_of(const std::vector<Expr> &at, const std::vector<Expr> &sizes) {
    Expr number = 0, points = 1;
    for (size_t a = 0; a < sizes.size(); a++) {
        number += at[a] * points;
        points *= sizes[a];
    }
    return number;
}

Expr product(const std::vector<Expr> &sizes) {
    Expr result = 1;
    for (const Expr &size : sizes) {
        result *= size;
    }
    return Halide::Internal::simplify(result);
}

// On the bits, by two integer minima: Halide lets LLVM assume that no float is NaN or infinite, so no float comparison
// may see one.
Expr finite(const Expr &offset) {
    const Type type = offset.type(), as_int = Halide::Int(type.bits()), as_uint = Halide::UInt(type.bits());
    const Expr most = Halide::Internal::make_const(type, 1 << 30);
    const Expr bits = Halide::min(reinterpret(as_int, offset), reinterpret(as_int, most));
    return reinterpret(type, Halide::min(reinterpret(as_uint, bits), reinterpret(as_uint, -most)));
}

}  // namespace kiln
