// Conv: y[c, o] = sum over k and t of x[k, o * stride + t * dilation - pad_begin] * w[c, k, t], on each axis; what is
// outside x counts nothing.
#include "expressions/types.h"
#include "operators/definition.h"

namespace kiln::operators {

using Halide::Expr;

Definition conv(const Problem &problem, const Operands &operands) {
    const Sizes &sizes = operands.sizes;
    const Coordinates at(problem, sizes);
    Halide::Region terms = {{0, sizes.depth()}};
    for (const Expr &taps : sizes.kernel) {
        terms.emplace_back(0, taps);
    }
    Halide::RDom r(terms, "r");  // k, then t of each axis
    std::vector<Expr> x = {at.group * sizes.depth() + r[0]}, w;
    for (size_t a = 0; a < at.o.size(); a++) {
        const Expr t = r[static_cast<int>(a) + 1];
        const Expr i = at.o[a] * sizes.stride[a] + t * sizes.dilation[a] - sizes.pad_begin[a];
        r.where(i >= 0 && i < sizes.in[a]);
        x.push_back(i);
        w.push_back(t);
    }
    x.emplace_back(at.n);
    w.insert(w.end(), {r[0], at.output_channel});

    Definition definition{Halide::Func("sum"), Halide::Func()};
    definition.sum(at.all) = Halide::Internal::make_zero(sum_type(problem));
    definition.sum(at.all) += multiply(problem, widen_x(problem, sizes, operands.x(x)), operands.packed(w));
    definition.y = finish(problem, operands, at, definition.sum);
    return definition;
}

}  // namespace kiln::operators
