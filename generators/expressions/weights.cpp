#include "expressions/weights.h"

namespace kiln {

using Halide::Expr;

std::vector<Expr> weight_at(const Problem &problem, const OutputChannel &out, const Expr &k,
                            const Expr &reduction_channels) {
    if (problem.traits().has_input_channels_first()) {
        return {out.group * reduction_channels + k, out.of_group};
    }
    return {out.channel, k};
}

Halide::Region weight_bounds(const Problem &problem) {
    Halide::Region bounds;
    for (const int64_t channels : problem.w_channels()) {
        bounds.emplace_back(0, static_cast<int>(channels));
    }
    return bounds;
}

}  // namespace kiln
