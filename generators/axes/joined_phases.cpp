#include "axes/joined_phases.h"

#include <vector>

namespace kiln {

using Halide::Expr;
using Halide::Var;

int joined_phases(const Problem &problem) {
    const int axis = problem.rank - 1;
    if (!problem.traits().transposed || problem.has_open_sizes()) {
        return 1;
    }
    const int64_t phases = problem.stride[axis];
    const bool alike = problem.dilation[axis] == 1 && problem.kernel[axis] % phases == 0 &&
                       problem.pad_begin[axis] % phases == 0 && problem.out[axis] % phases == 0;
    const bool side_by_side = problem.y_layout == Layout::nxc || problem.out_channels == 1;
    return problem.groups == 1 && alike && side_by_side ? static_cast<int>(phases) : 1;
}

Problem join_phases(const Problem &problem) {
    const int phases = joined_phases(problem);
    if (phases == 1) {
        return problem;
    }
    Problem joined = problem;
    const int axis = problem.rank - 1;
    joined.stride[axis] = 1;
    joined.kernel[axis] /= phases;
    joined.out[axis] /= phases;
    joined.pad_begin[axis] /= phases;
    joined.pad_end[axis] = joined.in[axis] - 1 + joined.kernel[axis] - joined.pad_begin[axis] - joined.out[axis];
    joined.out_channels *= phases;
    joined.y_layout = Layout::nxc;
    return joined;
}

Halide::Func join_weights(const Problem &problem, const Halide::Func &w) {
    const int phases = joined_phases(problem);
    if (phases == 1) {
        return w;
    }
    const std::vector<Var> at = w.args();  // input channel, output channel, taps of the outermost axis first
    const int channels = static_cast<int>(problem.out_channels);
    std::vector<Expr> from(at.begin(), at.end());
    from[1] = at[1] % channels;
    from.back() = at[1] / channels + at.back() * phases;
    Halide::Func joined("joined_weights");
    joined(at) = w(from);
    return joined;
}

}  // namespace kiln
