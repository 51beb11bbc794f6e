// The index arithmetic of Winograd tiles under strides, dilations and output phases.
#include "algorithms/winograd/transforms/axis.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "expressions/arithmetic.h"

namespace kiln {
namespace {

using Halide::Expr;

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

// The map's input q * stride + offset + t * tap_step: with g = gcd(stride, tap_step), q = v * tap_step / g + u and
// t = j * stride / g + e it is (v + j) * lcm(stride, tap_step) + u * stride + e * tap_step + offset. Where taps step
// backwards, as those of a ConvTranspose do, they are counted from the last, so that inputs ascend.
WinogradAxis::WinogradAxis(const AxisMap &map) : in(map.in), out(map.out), kernel(map.kernel), phases(map.phases) {
    const bool backwards = map.tap_step < 0;
    const int tap_step = std::abs(map.tap_step), divisor = std::gcd(map.stride, tap_step);
    input_residues_ = map.stride / divisor;
    input_phases = std::min(input_residues_, map.taps);
    dilation_phases = std::min(tap_step / divisor, map.phase_extent);
    stride = std::lcm(map.stride, tap_step);
    taps = ceil_div(map.taps, input_residues_);
    length = ceil_div(map.phase_extent, dilation_phases);
    dilation_phase_stride_ = map.stride;
    input_phase_stride_ = tap_step;
    skew_ = map.skew();
    phase_offsets = (phases - 1 + skew_) / phases + 1;
    begin_ = map.first_offset() - (backwards ? (taps - 1) * tap_step : 0);
    first_tap_ = backwards ? (taps - 1) * map.tap_stride : 0;
    tap_step_ = backwards ? -map.tap_stride : input_residues_;
}

}  // namespace kiln
