#include "algorithms/staged/samples.h"

#include "algorithms/deformable/deformable.h"
#include "algorithms/deformable/schedule_gpu.h"
#include "expressions/points.h"
#include "expressions/types.h"
#include "expressions/vars.h"

namespace kiln::staged {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

bool samples_apply(const Problem &problem) {
    return problem.groups == 1;
}

Problem product_of_samples(const Problem &problem) {
    Problem product = problem;
    product.op = Operator::conv;
    product.rank = 1;
    product.x_type = DType::f32;
    product.x_layout = Layout::nxc;
    product.in_channels = problem.in_channels * problem.taps();
    product.in = product.out = {problem.out_points()};
    product.kernel = product.stride = product.dilation = {1};
    product.pad_begin = product.pad_end = {};
    product.offset_groups = 1;
    product.mask = false;
    return product;
}

Func gather_samples(const Problem &problem, const Operands &operands) {
    // The deformable algorithm's own product, of weights as it packs them, is left out.
    Operands without_weights = operands;
    without_weights.packed = Func("none");
    without_weights.packed(vars("k", 5)) = Halide::Internal::make_zero(sum_type(problem));
    deformable::DeformableStages d = deformable::deformable(problem, deformable::DeformableSchedule(), without_weights);
    const int channels = static_cast<int>(problem.in_channels);
    const int of_offsets = channels / static_cast<int>(problem.offset_groups);
    // Without the type itself a number is made of its bits anew for each tap that reads it.
    const bool widens_slowly = operands.f16_bits && problem.x_type == DType::f16;
    deformable::schedule_samples_gpu(d, of_offsets, problem.x_layout == Layout::ncx || widens_slowly);
    const Var k("k"), p("p"), n("n");
    Func samples("samples");
    samples(k, p, n) = d.sample(k % channels % of_offsets, k % channels / of_offsets, p, k / channels, n);
    return samples;
}

Func weights_of_samples(const Problem &problem, const Sizes &sizes, const Func &w) {
    const Var c("c"), k("k"), tap("tap");
    const int channels = static_cast<int>(problem.in_channels);
    const std::vector<Expr> taps = coordinates(k / channels, sizes.kernel);
    std::vector<Expr> at = {c, k % channels};
    at.insert(at.end(), taps.rbegin(), taps.rend());
    Func flat("flat");
    flat(c, k, tap) = w(at);
    return flat;
}

}  // namespace kiln::staged
