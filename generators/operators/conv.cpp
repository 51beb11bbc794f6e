// Conv: y[c, o] = sum over k and t of x[k, o * stride + t * dilation - pad_begin] * w[c, k, t], on each axis; what is
// outside x counts nothing.
#include "expressions/types.h"
#include "operators/definition.h"

namespace kiln::operators {

using Halide::Expr;

Definition conv(const Problem &problem, const Operands &operands) {
    const Sizes &sizes = operands.sizes;
    const Coordinates at(problem, sizes);
    Halide::RDom r(channels_and_taps(sizes), "r");  // k, then t of each axis
    std::vector<Expr> x = {at.group * sizes.reduction_channels() + r[0]}, w;
    for (size_t a = 0; a < at.o.size(); a++) {
        const Expr t = r[static_cast<int>(a) + 1];
        const Expr i = at.o[a] * sizes.stride[a] + t * sizes.dilation[a] - sizes.pad_begin[a];
        r.where(is_within(i, sizes.in[a]));
        x.push_back(Halide::unsafe_promise_clamped(i, 0, Halide::max(sizes.in[a] - 1, 0)));  // as just asked
        w.push_back(t);
    }
    x.emplace_back(at.n);
    w.insert(w.end(), {r[0], at.output_channel});
    return sum_of_products(problem, operands, at, widen_x(problem, sizes, operands.x(x)), operands.packed(w));
}

}  // namespace kiln::operators
