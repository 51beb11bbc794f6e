// Problems whose x or y has no elements.
#include "dense/empty.h"

#include "common/epilogue.h"
#include "common/types.h"

namespace kiln::dense {

Halide::Func empty(const Problem &problem, const Operands &operands) {
    std::vector<Halide::Var> at;
    for (int d = 0; d < image_axes(problem) + 2; d++) {
        at.emplace_back("y" + std::to_string(d));
    }
    Halide::Func y("y");
    y(at) = epilogue(problem, Halide::Internal::make_zero(sum_type(problem)), operands, {at.begin(), at.end()});
    return y;
}

}  // namespace kiln::dense
