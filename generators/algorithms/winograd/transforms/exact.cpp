// When Winograd tiles of 8-bit numbers are exact.
#include "algorithms/winograd/transforms/exact.h"

#include <algorithm>
#include <cstdlib>

#include "algorithms/winograd/transforms/cook_toom.h"

namespace kiln {
namespace {

int64_t power_of_two_in(int64_t scale) {
    return scale & -scale;
}

// The largest absolute value of what an 8-bit type holds, less a zero point.
int64_t largest(DType type, int64_t zero_point) {
    const int64_t low = type == DType::u8 ? 0 : -128;
    return std::max(std::abs(low - zero_point), std::abs(low + 255 - zero_point));
}

}  // namespace

int64_t exact_scale(const std::vector<WinogradAxis> &axes, const std::vector<int> &tile) {
    int64_t scale = 1;
    for (size_t a = 0; a < axes.size(); a++) {
        scale *= cook_toom(tile[a], axes[a].taps, tile[a] + axes[a].taps - 1).filter_scale;
    }
    return scale;
}

bool is_exact(const Problem &problem, const std::vector<WinogradAxis> &axes, const std::vector<int> &tile) {
    int64_t x = largest(problem.x_type, problem.x_zero_point);
    int64_t w = problem.w_zero_points ? 255 : largest(problem.w_type, 0);
    double sum = static_cast<double>(x * w) * static_cast<double>(problem.in_channels / problem.groups);
    for (size_t a = 0; a < axes.size(); a++) {
        const int taps = axes[a].taps, points = tile[a] + taps - 1, rest = axes[a].length % tile[a];
        const CookToom &whole = cook_toom(tile[a], taps, points);
        const CookToom &last = rest > 0 ? cook_toom(rest, taps, points) : whole;
        if (!whole.is_whole || !last.is_whole) {
            return false;
        }
        x *= std::max(whole.input_growth, last.input_growth);
        w *= whole.filter_growth;
        sum *= taps * axes[a].input_phases;
    }
    const double scaled = sum * static_cast<double>(power_of_two_in(exact_scale(axes, tile)));
    return x <= INT16_MAX && w <= INT16_MAX && 2 * x * w <= INT32_MAX && scaled <= INT32_MAX;
}

Halide::Expr exact_sum(const Halide::Expr &scaled, int64_t scale) {
    const int64_t power = power_of_two_in(scale);
    const auto odd = static_cast<uint32_t>(scale / power);
    uint32_t inverse = odd;  // modulo 8; each step doubles the bits
    for (int bits = 3; bits < 32; bits *= 2) {
        inverse *= 2 - odd * inverse;
    }
    int shift = 0;
    while ((int64_t{1} << shift) < power) {
        shift++;
    }
    const Halide::Expr sum = odd == 1 ? scaled : scaled * Halide::Expr(inverse);
    return Halide::reinterpret<int32_t>(sum) >> shift;
}

}  // namespace kiln
