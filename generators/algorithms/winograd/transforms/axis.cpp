// The index arithmetic of Winograd tiles under strides, dilations and output phases.
#include "algorithms/winograd/transforms/axis.h"

#include <algorithm>
#include <numeric>

#include "expressions/arithmetic.h"

namespace kiln {
namespace {

using Halide::Expr;

int floor_mod(int a, int b) {
    return (a % b + b) % b;
}

}  // namespace

TileClass WinogradAxis::tile_class(bool is_rest) const {
    return is_rest ? TileClass{rest, rest_points, whole * outputs, 1} : TileClass{outputs, points, 0, whole};
}

Expr WinogradAxis::origin(const Expr &u, const Expr &e, const Expr &offset) const {
    Expr at = begin_;
    at = dilation_phases > 1 ? at + u * dilation_phase_stride_ : at;
    at = input_phases > 1 ? at + e * input_phase_stride_ : at;
    return phase_offsets > 1 ? at + offset : at;
}

Expr WinogradAxis::phase_offset(const Expr &p) const {
    return phase_offsets > 1 ? (p + skew_) / phases : Expr(0);
}

Expr WinogradAxis::tap(const Expr &p, const Expr &e, const Expr &j) const {
    const Expr first = phases > 1 ? (p + skew_) % phases + first_tap_ : Expr(first_tap_);
    return first + (input_phases > 1 ? e : Expr(0)) + j * tap_step_;
}

bool WinogradAxis::reads_outside() const {
    const int last_tile = (chunks * (whole * outputs) + rest - 1 + taps - 1) * stride;
    const int last = begin_ + (dilation_phases - 1) * dilation_phase_stride_ +
                     (input_phases - 1) * input_phase_stride_ + phase_offsets - 1 + last_tile;
    return begin_ < 0 || last >= in;
}

// Input q * stride + t * dilation - pad. With g = gcd(stride, dilation), q = v * dilation / g + u and
// t = j * stride / g + e, that is (v + j) * lcm(stride, dilation) + u * stride + e * dilation - pad.
WinogradAxis WinogradAxis::conv(const Problem &problem, int axis) {
    WinogradAxis map;
    const int stride = static_cast<int>(problem.stride[axis]), dilation = static_cast<int>(problem.dilation[axis]);
    const int divisor = std::gcd(stride, dilation);
    map.in = static_cast<int>(problem.in[axis]);
    map.out = static_cast<int>(problem.out[axis]);
    map.kernel = static_cast<int>(problem.kernel[axis]);
    map.input_residues_ = stride / divisor;
    map.input_phases = std::min(map.input_residues_, map.kernel);
    map.dilation_phases = std::min(dilation / divisor, map.out);
    map.stride = std::lcm(stride, dilation);
    map.taps = ceil_div(map.kernel, map.input_residues_);
    map.length = ceil_div(map.out, map.dilation_phases);
    map.dilation_phase_stride_ = stride;
    map.input_phase_stride_ = dilation;
    map.begin_ = -static_cast<int>(problem.pad_begin[axis]);
    map.tap_step_ = map.input_residues_;
    return map;
}

// Output o = i * stride + t * dilation - pad. Dilation 1: o = q * stride + p reads inputs q + (p + pad) / stride - j by
// taps (p + pad) % stride + j * stride. Stride 1: o = v * dilation + u reads inputs (v - j) * dilation + u + pad. Taps
// are counted from the last, so that inputs ascend.
WinogradAxis WinogradAxis::conv_transpose(const Problem &problem, int axis) {
    WinogradAxis map;
    const int stride = static_cast<int>(problem.stride[axis]), dilation = static_cast<int>(problem.dilation[axis]);
    const int pad = static_cast<int>(problem.pad_begin[axis]);
    map.in = static_cast<int>(problem.in[axis]);
    map.out = static_cast<int>(problem.out[axis]);
    map.kernel = static_cast<int>(problem.kernel[axis]);
    map.phases = stride;
    map.taps = ceil_div(map.kernel, stride);
    const int phase_extent = ceil_div(map.out, stride);
    map.dilation_phases = std::min(dilation, phase_extent);
    map.stride = dilation;
    map.length = ceil_div(phase_extent, map.dilation_phases);
    map.skew_ = floor_mod(pad, stride);
    map.phase_offsets = (stride - 1 + map.skew_) / stride + 1;
    map.begin_ = (pad - map.skew_) / stride - (map.taps - 1) * dilation;
    map.first_tap_ = (map.taps - 1) * stride;
    map.tap_step_ = -stride;
    return map;
}

}  // namespace kiln
