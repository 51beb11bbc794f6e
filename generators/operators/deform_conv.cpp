// DeformConv: a Conv that reads between the elements of x: y[c, o] = sum over k and t of mask[t, o] * w[c, k, t] * x at
// o * stride + t * dilation - pad_begin + offset[t, o], which is interpolated between the neighbours q = 0 and 1 on
// each axis: those weigh 1 - fraction and fraction, and what is outside x counts nothing.
#include "expressions/points.h"
#include "expressions/types.h"
#include "operators/definition.h"

namespace kiln::operators {

using Halide::Expr;

Definition deform_conv(const Problem &problem, const Operands &operands) {
    const Sizes &sizes = operands.sizes;
    const Coordinates at(problem, sizes);  // o is the number of a point of y
    Halide::Region terms = channels_and_taps(sizes);
    terms.insert(terms.end(), problem.rank, {0, 2});
    Halide::RDom r(terms, "r");  // k, t of each axis, q of each axis
    const std::vector<Expr> o = coordinates(at.o[0], sizes.out);
    std::vector<Expr> w, neighbour;
    for (int a = 0; a < problem.rank; a++) {
        w.push_back(r[a + 1]);
    }
    const Expr k = at.group * sizes.reduction_channels() + r[0];
    const Expr offset_group = k / (sizes.in_channels / sizes.offset_groups);
    const Expr sample = offset_group * product(sizes.kernel) + number_of(w, sizes.kernel);

    const Halide::Type type = sum_type(problem);
    Expr weight = Halide::Internal::make_one(type);
    if (operands[Tensor::mask].defined()) {
        const Expr mask = cast(type, operands[Tensor::mask](sample, at.o[0], at.n));
        weight = problem.open_epilogue ? Halide::select(sizes.has_mask, mask, weight) : mask;
    }
    for (int a = 0; a < problem.rank; a++) {
        const Expr t = w[a], q = r[1 + problem.rank + a];
        const int document_axis = problem.rank - 1 - a;
        const Expr offset =
            finite(cast(type, operands[Tensor::offset](sample * problem.rank + document_axis, at.o[0], at.n)));
        const Expr fraction = offset - floor(offset);
        const Expr i =
            o[a] * sizes.stride[a] + t * sizes.dilation[a] - sizes.pad_begin[a] + cast<int>(floor(offset)) + q;
        r.where(is_within(i, sizes.in[a]));
        neighbour.push_back(Halide::unsafe_promise_clamped(i, 0, sizes.in[a] - 1));  // as just asked
        weight *= Halide::select(q == 1, fraction, Halide::Internal::make_one(type) - fraction);
    }
    const Expr x = widen_x(problem, sizes, operands.x(k, number_of(neighbour, sizes.in), at.n));
    w.insert(w.end(), {r[0], at.output_channel});
    return sum_of_products(problem, operands, at, weight * x, operands.packed(w));
}

}  // namespace kiln::operators
