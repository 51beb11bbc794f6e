// The index arithmetic of strides, dilations and output phases.
#include "axes/axis_map.h"

#include <algorithm>
#include <numeric>

#include "expressions/arithmetic.h"

namespace kiln {
namespace {

using Halide::Expr;

int to_int(int64_t value) {
    return static_cast<int>(value);
}

// Division and remainder that round towards minus infinity, as Halide's do, for a positive divisor.
int floor_div(int a, int b) {
    return a / b - (a % b < 0 ? 1 : 0);
}
int floor_mod(int a, int b) {
    return a - floor_div(a, b) * b;
}
Expr floor_div(const Expr &a, int b) {
    return a / b;
}
Expr floor_mod(const Expr &a, int b) {
    return a % b;
}

int inverse_modulo(int value, int modulus) {
    for (int i = 0; i < modulus; i++) {
        if (value * i % modulus == 1 % modulus) {
            return i;
        }
    }
    return 0;
}

}  // namespace

template <typename T>
T AxisMap::first_tap(const T &phase) const {
    return floor_mod(T(floor_div(floor_mod(T(phase + pad_), phases), divisor_) * inverse_), tap_stride);
}

template <typename T>
T AxisMap::offset_of(const T &phase) const {
    if (dilation_ == 1) {  // the same number; Halide can bound it
        return floor_div(T(phase + pad_), phases);
    }
    return floor_div(T(phase + pad_ - first_tap(phase) * dilation_), phases);
}

Expr AxisMap::tap(const Expr &phase, const Expr &j) const {
    return phases == 1 ? j : first_tap(phase) + j * tap_stride;
}

Expr AxisMap::offset(const Expr &phase) const {
    return phases == 1 ? Expr(-pad_) : offset_of(phase);
}

int AxisMap::first_offset() const {
    return phases == 1 ? -pad_ : floor_div(pad_, phases);
}

int AxisMap::skew() const {
    return floor_mod(pad_, phases);
}

bool AxisMap::has_uneven_phases() const {
    return phases > 1 && (divisor_ > 1 || kernel % tap_stride != 0);
}

Expr AxisMap::is_tap(const Expr &phase, const Expr &j) const {
    Expr inside = first_tap(phase) + j * tap_stride < kernel;
    return divisor_ > 1 ? inside && (phase + pad_) % divisor_ == 0 : inside;
}

bool AxisMap::has_empty_phases() const {
    return divisor_ > 1 || (phases > 1 && kernel < tap_stride);
}

AxisMap::Range AxisMap::reads() const {
    int low = in, high = -1;
    for (int phase = 0; phase < phases; phase++) {
        if (phases > 1 && floor_mod(phase + pad_, divisor_) != 0) {
            continue;
        }
        const int first = phases == 1 ? 0 : first_tap(phase);
        const int count = first < kernel ? (kernel - 1 - first) / tap_stride + 1 : 0;
        const int at = phases == 1 ? -pad_ : offset_of(phase), reach = (count - 1) * tap_step;
        if (count > 0) {
            low = std::min(low, at + std::min(0, reach));
            high = std::max(high, at + std::max(0, reach) + (phase_extent - 1) * stride);
        }
    }
    return {low, high};
}

bool AxisMap::reads_outside() const {
    const Range range = reads();
    return range.first <= range.last && (range.first < 0 || range.last >= in);
}

bool AxisMap::reads_are_bounded() const {
    if (phases == 1) {
        return true;
    }
    const Range range = reads();
    const int reach = (taps - 1) * tap_step, last = (phase_extent - 1) * stride;
    return offset_is_bounded() && floor_div(pad_, phases) + std::min(0, reach) >= range.first &&
           floor_div(phases - 1 + pad_, phases) + std::max(0, reach) + last <= range.last;
}

Expr AxisMap::within_reads(const Expr &in) const {
    const Range range = reads();
    return reads_are_bounded() ? in
                               : Halide::unsafe_promise_clamped(in, range.first, std::max(range.first, range.last));
}

AxisMap::Range AxisMap::reads_inside() const {
    const Range range = reads();
    return {std::max(range.first, 0), std::min(range.last, in - 1)};
}

AxisMap::Range AxisMap::reads_clamped() const {
    const Range inside = reads_inside();
    return inside.first <= inside.last ? inside : Range{0, in - 1};
}

bool AxisMap::has_outputs_of_padding() const {
    if (phases > 1) {
        return false;
    }
    int covered = 0;                  // outputs from the first on that some tap reads x for
    for (int k = 0; k < taps; k++) {  // whose first such outputs follow each other
        const int j = tap_step > 0 ? taps - 1 - k : k, first = j * tap_step - pad_;
        const int begin = std::max(0, ceil_div(-first, stride)), end = floor_div(in - 1 - first, stride) + 1;
        covered = begin <= covered ? std::max(covered, end) : covered;
    }
    return covered < phase_extent;
}

bool AxisMap::has_one_tap_inside() const {
    const Range range = reads();
    return taps == 1 && !has_uneven_phases() && out % phases == 0 && range.first == 0 &&
           range.last == (phase_extent - 1) * stride && range.last < in;
}

AxisMap::TapCount AxisMap::count_taps() const {
    TapCount count;
    for (int phase = 0; phase < phases; phase++) {
        const bool has_taps = phases == 1 || floor_mod(phase + pad_, divisor_) == 0;
        const int first_of_phase = phases == 1 ? 0 : first_tap(phase), at = phases == 1 ? -pad_ : offset_of(phase);
        for (int j = 0; has_taps && first_of_phase + j * tap_stride < kernel; j++) {
            const int first = at + j * tap_step;
            const int begin = std::max(0, ceil_div(-first, stride)),
                      end = std::min(phase_extent, floor_div(in - 1 - first, stride) + 1);
            count.all += phase_extent;
            count.inside += std::max(0, end - begin);
        }
    }
    return count;
}

AxisMap AxisMap::conv(const Problem &problem, int axis) {
    AxisMap map;
    map.in = to_int(problem.in[axis]);
    map.out = map.phase_extent = to_int(problem.out[axis]);
    map.kernel = map.taps = to_int(problem.kernel[axis]);
    map.stride = to_int(problem.stride[axis]);
    map.tap_step = map.dilation_ = to_int(problem.dilation[axis]);
    map.pad_ = to_int(problem.pad_begin[axis]);
    return map;
}

AxisMap AxisMap::conv_transpose(const Problem &problem, int axis) {
    AxisMap map;
    map.in = to_int(problem.in[axis]);
    map.out = to_int(problem.out[axis]);
    map.kernel = to_int(problem.kernel[axis]);
    map.phases = to_int(problem.stride[axis]);
    map.dilation_ = to_int(problem.dilation[axis]);
    map.pad_ = to_int(problem.pad_begin[axis]);
    map.phase_extent = ceil_div(map.out, map.phases);
    map.divisor_ = std::gcd(map.phases, map.dilation_);
    map.tap_stride = map.phases / map.divisor_;
    map.inverse_ = inverse_modulo(map.dilation_ / map.divisor_ % map.tap_stride, map.tap_stride);
    map.taps = ceil_div(map.kernel, map.tap_stride);
    map.tap_step = -map.dilation_ / map.divisor_;
    if (map.phases == 1) {  // a convolution with its taps reversed: written so, offset() and tap() stay plain
        map.pad_ = -map.pad_;
    }
    return map;
}

std::vector<AxisMap> axis_maps(const Problem &problem) {
    std::vector<AxisMap> maps;
    for (int axis = problem.rank - 1; axis >= 0; axis--) {
        maps.push_back(problem.traits().transposed ? AxisMap::conv_transpose(problem, axis)
                                                   : AxisMap::conv(problem, axis));
    }
    return maps;
}

int64_t taps_of_phase(const std::vector<AxisMap> &axes) {
    int64_t taps = 1;
    for (const AxisMap &axis : axes) {
        taps *= axis.taps;
    }
    return taps;
}

bool has_one_phase(const std::vector<AxisMap> &axes) {
    return std::all_of(axes.begin(), axes.end(), [](const AxisMap &axis) { return axis.phases == 1; });
}

bool may_skip_padding(const std::vector<AxisMap> &axes, size_t a) {
    return a > 0 && axes[a].taps > 1 && axes[a].reads_outside() && !axes[a].has_outputs_of_padding();
}

bool phases_are_whole(const std::vector<AxisMap> &axes) {
    return std::all_of(axes.begin(), axes.end(), [](const AxisMap &axis) { return axis.out % axis.phases == 0; });
}

std::vector<int> whole_phases(const Problem &problem) {
    const std::vector<AxisMap> axes = axis_maps(problem);
    std::vector<int> phases(axes.size(), 1);
    if (phases_are_whole(axes)) {
        std::transform(axes.begin(), axes.end(), phases.begin(), [](const AxisMap &axis) { return axis.phases; });
    }
    return phases;
}

}  // namespace kiln
