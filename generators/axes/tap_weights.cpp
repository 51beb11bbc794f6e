#include "axes/tap_weights.h"

namespace kiln {

using Halide::Expr;

Expr weight_or_zero(const Problem &problem, const Halide::Func &w, const OutputChannel &out, const Expr &k,
                    int reduction_channels, const std::vector<AxisMap> &axes, const std::vector<Expr> &taps,
                    const std::vector<Halide::Var> &phases) {
    std::vector<Expr> at = weight_at(problem, out, k, reduction_channels);
    Halide::Region bounds = weight_bounds(problem);
    for (size_t a = axes.size(); a-- > 0;) {
        at.push_back(axes[a].tap(phases[a], taps[a]));
        bounds.emplace_back(0, axes[a].kernel);
    }
    const Expr zero = Halide::Internal::make_zero(w.type());
    return Halide::BoundaryConditions::constant_exterior(w, zero, bounds)(at);
}

}  // namespace kiln
