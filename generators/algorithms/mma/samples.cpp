#include "algorithms/mma/samples.h"

#include "algorithms/staged/samples.h"

namespace kiln::mma {

using Halide::Func;

bool samples_apply(const Problem &problem) {
    return staged::samples_apply(problem) && problem.in_channels / problem.offset_groups % 4 == 0 &&
           applies(staged::product_of_samples(problem));
}

void SamplesSchedule::check(const Problem &problem) const {
    MmaSchedule::check(staged::product_of_samples(problem));
}

Func build_samples(const Problem &problem, const MmaSchedule &schedule, const Operands &operands) {
    Operands of_product = operands;
    of_product.stored_x = staged::gather_samples(problem, operands);
    const Problem product = staged::product_of_samples(problem);
    Stages s = define(product, schedule, of_product);
    schedule_gpu(s, product, schedule);
    return s.y;
}

Func pack_samples(const Problem &problem, const MmaSchedule &schedule, const Sizes &sizes, const Func &w) {
    return pack(staged::product_of_samples(problem), schedule, staged::weights_of_samples(problem, sizes, w));
}

}  // namespace kiln::mma
