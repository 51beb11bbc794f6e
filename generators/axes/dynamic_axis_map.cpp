// The index arithmetic of strides, dilations and output phases that are read at run time.
#include "axes/dynamic_axis_map.h"

#include "expressions/arithmetic.h"

namespace kiln {

using Halide::Expr;

DynamicAxisMap::DynamicAxisMap(const Problem &problem, const Sizes &sizes, size_t a)
    : in(sizes.in[a]),
      out(sizes.out[a]),
      taps(sizes.kernel[a]),
      phases(problem.traits().transposed ? sizes.stride[a] : Expr(1)),
      phase_extent(is_one(phases) ? out : ceil_div(out, phases)),
      transposed_(problem.traits().transposed),
      stride_(sizes.stride[a]),
      dilation_(sizes.dilation[a]),
      pad_(sizes.pad_begin[a]) {}

Expr DynamicAxisMap::is_tap(const Expr &phase, const Expr &t) const {
    return transposed_ ? from(phase, t) % phases == 0 : Halide::Internal::const_true();
}

Expr DynamicAxisMap::input(const Expr &q, const Expr &phase, const Expr &t) const {
    return transposed_ ? q + from(phase, t) / phases : q * stride_ + t * dilation_ - pad_;
}

std::pair<Expr, Expr> DynamicAxisMap::reads(int multiple) const {
    const Expr last = ceil_div<Expr>(phase_extent, multiple) * multiple - 1;
    const Expr reach = (taps - 1) * dilation_;
    if (!transposed_) {
        return {-pad_, last * stride_ + reach + 1};
    }
    const Expr first = (pad_ - reach) / phases;
    return {first, last + (phases - 1 + pad_) / phases - first + 1};
}

std::vector<DynamicAxisMap> dynamic_axis_maps(const Problem &problem, const Sizes &sizes) {
    std::vector<DynamicAxisMap> maps;
    for (size_t a = 0; a < sizes.in.size(); a++) {
        maps.emplace_back(problem, sizes, a);
    }
    return maps;
}

}  // namespace kiln
