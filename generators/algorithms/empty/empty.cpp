// Problems whose x or y has no elements.
#include "algorithms/empty/empty.h"

#include "expressions/epilogue.h"
#include "expressions/types.h"
#include "expressions/vars.h"

namespace kiln {

Halide::Func empty(const Problem &problem, const Operands &operands) {
    const std::vector<Halide::Var> at = vars("y", static_cast<size_t>(image_axes(problem)) + 2);
    Halide::Func y("y");
    y(at) = epilogue(problem, Halide::Internal::make_zero(sum_type(problem)), operands, {at.begin(), at.end()});
    return y;
}

}  // namespace kiln
