#include "algorithms/staged/words.h"

#include <algorithm>

#include "axes/tap_weights.h"
#include "expressions/arithmetic.h"
#include "expressions/vars.h"
#include "lowering/gpu/byte_words.h"

namespace kiln::staged {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

int steps(const Problem &problem) {
    const int channels = static_cast<int>(problem.in_channels);
    return problem.is_quantized() ? ceil_div(channels, channels_of_word) : channels;
}

int padded_steps(const Problem &problem, const Schedule &schedule) {
    return schedule.chunk * schedule.chunks(problem) * schedule.slices;
}

bool is_compensated(const Problem &problem) {
    return problem.is_quantized() && problem.x_zero_point != 0;
}

bool gathers_bytes(const Problem &problem) {
    return problem.is_quantized() && (problem.x_layout != Layout::nxc || problem.in_channels % channels_of_word != 0);
}

Expr input_word(const Problem &problem, const Operands &operands, const std::vector<Expr> &at) {
    const int channels = static_cast<int>(problem.in_channels);
    std::vector<Expr> from = at;
    if (!gathers_bytes(problem)) {
        from[0] = at[0] * channels_of_word;
        return word_of_bytes(operands.stored_x(from));
    }
    std::vector<Expr> bytes;
    for (int i = 0; i < channels_of_word; i++) {
        // Weights are 0 of channels that fill up the last word.
        from[0] = Halide::min(at[0] * channels_of_word + i, channels - 1);
        bytes.emplace_back(operands.stored_x(from));
    }
    return word_of_bytes(bytes);
}

Expr zero_word(const Problem &problem) {
    const auto byte = static_cast<uint8_t>(problem.x_zero_point);
    return Halide::Internal::make_const(Halide::Int(32), static_cast<int32_t>(byte * 0x01010101u));
}

Func pack_words(const Problem &problem, const Schedule &schedule, const Func &w) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    const Var lane("lane"), step("step"), panel("panel");
    const std::vector<Var> tap = vars("tap", axes.size()), phase = vars("phase", axes.size());
    const Expr channel = panel * schedule.panel() + lane;
    const int channels = static_cast<int>(problem.in_channels);
    const auto weight = [&](const Expr &k, const std::vector<Expr> &taps) {
        return weight_or_zero(problem, w, {channel, 0, channel}, k, channels, axes, taps, phase);
    };
    std::vector<Var> at = {lane, step};
    append(at, tap);
    at.push_back(panel);
    append(at, phase);
    std::vector<Expr> bytes;
    for (int i = 0; i < channels_of_word; i++) {
        bytes.push_back(weight(step * channels_of_word + i, {tap.begin(), tap.end()}));
    }
    Func packed("packed");
    packed(at) = word_of_bytes(bytes);
    if (!is_compensated(problem)) {
        return packed;
    }
    Halide::Region all = {{0, channels}};
    std::vector<Expr> behind = {lane, padded_steps(problem, schedule)}, taps;
    for (const AxisMap &axis : axes) {
        all.emplace_back(0, axis.taps);
        behind.emplace_back(0);
    }
    const RDom r(all, "r");
    for (size_t a = 0; a < axes.size(); a++) {
        taps.emplace_back(r[static_cast<int>(a) + 1]);
    }
    behind.emplace_back(panel);
    append(behind, phase);
    packed(behind) -= static_cast<int>(problem.x_zero_point) * weight(r[0], taps);
    return packed;
}

}  // namespace kiln::staged
