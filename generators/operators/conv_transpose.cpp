// ConvTranspose: y[c, i * stride + t * dilation - pad_begin] += x[k, i] * w[k, c, t], on each axis, for all k, i and t.
// So that each y is a sum by itself, it is read from y's side: o takes those t for which o + pad_begin - t * dilation
// is a whole number i of strides.
#include "expressions/types.h"
#include "operators/definition.h"

namespace kiln::operators {

using Halide::Expr;

Definition conv_transpose(const Problem &problem, const Operands &operands) {
    const Sizes &sizes = operands.sizes;
    const Coordinates at(problem, sizes);
    Halide::RDom r(channels_and_taps(sizes), "r");  // k, then t of each axis
    const Expr k = at.group * sizes.reduction_channels() + r[0];
    std::vector<Expr> x = {k}, w;
    for (size_t a = 0; a < at.o.size(); a++) {
        const Expr t = r[static_cast<int>(a) + 1];
        const Expr strides = at.o[a] + sizes.pad_begin[a] - t * sizes.dilation[a];
        const Expr i = strides / sizes.stride[a];
        r.where(strides % sizes.stride[a] == 0 && is_within(i, sizes.in[a]));
        x.push_back(Halide::unsafe_promise_clamped(i, 0, Halide::max(sizes.in[a] - 1, 0)));  // as just asked
        w.push_back(t);
    }
    x.emplace_back(at.n);
    w.insert(w.end(), {at.output_channel - at.group * sizes.out_of_group(), k});
    return sum_of_products(problem, operands, at, widen_x(problem, sizes, operands.x(x)), operands.packed(w));
}

}  // namespace kiln::operators
