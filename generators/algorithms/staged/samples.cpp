#include "algorithms/staged/samples.h"

#include "algorithms/deformable/deformable.h"
#include "algorithms/deformable/schedule_gpu.h"
#include "expressions/points.h"
#include "moves/gpu_schedule.h"

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

Func build_samples(const Problem &problem, const Schedule &schedule, const Operands &operands) {
    deformable::DeformableStages d = deformable::deformable(problem, deformable::DeformableSchedule(), operands);
    const int channels = static_cast<int>(problem.in_channels);
    const int of_offsets = channels / static_cast<int>(problem.offset_groups);
    deformable::schedule_samples_gpu(d, of_offsets);
    const Problem product = product_of_samples(problem);
    const Var k("k"), p("p"), n("n");
    Operands of_product = operands;
    of_product.x = Func("samples");
    of_product.x(k, p, n) = d.sample(k % channels % of_offsets, k % channels / of_offsets, p, k / channels, n);
    Stages s = define(product, schedule, of_product);
    schedule_gpu(s, product, schedule);
    return s.y;
}

Func pack_samples(const Problem &problem, const Schedule &schedule, const Sizes &sizes, const Func &w) {
    const Var c("c"), k("k"), tap("tap");
    const int channels = static_cast<int>(problem.in_channels);
    const std::vector<Expr> taps = coordinates(k / channels, sizes.kernel);
    std::vector<Expr> at = {c, k % channels};
    at.insert(at.end(), taps.rbegin(), taps.rend());
    Func flat("flat");
    flat(c, k, tap) = w(at);
    return pack(product_of_samples(problem), schedule, flat);
}

}  // namespace kiln::staged
