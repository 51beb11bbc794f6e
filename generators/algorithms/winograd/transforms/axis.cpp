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

// Block b begins b * taps inputs of a tile, and as many taps, behind the first. The residue, e - e / residues *
// residues, is not written as a remainder, from which Halide makes wrong inputs where there are several of both
// (docs/HALIDE.md).
template <typename T>
T WinogradAxis::input_phase_origin(const T &e) const {
    const T residues = e * input_phase_stride_;
    return tap_blocks == 1 ? residues
                           : residues + e / input_residues_ * (taps * stride - input_residues_ * input_phase_stride_);
}

Expr WinogradAxis::origin(const Expr &u, const Expr &e, const Expr &offset) const {
    Expr at = begin_;
    at = dilation_phases > 1 ? at + u * dilation_phase_stride_ : at;
    at = input_phases > 1 ? at + input_phase_origin(e) : at;
    return phase_offsets > 1 ? at + offset : at;
}

Expr WinogradAxis::phase_offset(const Expr &p) const {
    return phase_offsets > 1 ? (p + skew_) / phases : Expr(0);
}

Expr WinogradAxis::is_short(const Expr &p) const {
    const Expr residue = (p + skew_) % phases;
    return lacks_last_tap_ ? residue < short_phases_ : residue >= phases - short_phases_;
}

Expr WinogradAxis::tap(const Expr &p, const Expr &e, const Expr &j) const {
    const Expr first = phases > 1 ? (p + skew_) % phases + first_tap_ : Expr(first_tap_);
    const Expr residue = input_phases > 1 ? e : Expr(0);
    const Expr block = tap_blocks > 1 ? e / input_residues_ * (taps * tap_step_ - input_residues_) : Expr(0);
    return first + residue + block + j * tap_step_;
}

bool WinogradAxis::reads_outside() const {
    const int last_tile = (chunks * (whole * outputs) + rest - 1 + taps - 1) * stride;
    const int last = begin_ + (dilation_phases - 1) * dilation_phase_stride_ + input_phase_origin(input_phases - 1) +
                     phase_offsets - 1 + last_tile;
    return begin_ < 0 || last >= in;
}

// The map's input q * stride + offset + t * tap_step: with g = gcd(stride, tap_step), q = v * tap_step / g + u and
// t = j * stride / g + e it is (v + j) * lcm(stride, tap_step) + u * stride + e * tap_step + offset. Where taps step
// backwards, as those of a ConvTranspose do, they are counted from the last, so that inputs ascend.
WinogradAxis::WinogradAxis(const AxisMap &map, int tap_blocks)
    : in(map.in), out(map.out), kernel(map.kernel), phases(map.phases), tap_blocks(tap_blocks) {
    const bool backwards = map.tap_step < 0;
    const int tap_step = std::abs(map.tap_step), divisor = std::gcd(map.stride, tap_step);
    input_residues_ = map.stride / divisor;
    input_phases = tap_blocks == 1 ? std::min(input_residues_, map.taps) : tap_blocks * input_residues_;
    dilation_phases = std::min(tap_step / divisor, map.phase_extent);
    stride = std::lcm(map.stride, tap_step);
    const int of_residue = ceil_div(map.taps, input_residues_);
    taps = ceil_div(of_residue, tap_blocks);
    // Of the last block, residues from this one on have one tap less than it, or all have fewer.
    const int whole_residues = std::clamp(map.taps - (tap_blocks * taps - 1) * input_residues_, 0, input_residues_);
    first_short_input_phase_ = (tap_blocks - 1) * input_residues_ + whole_residues;
    length = ceil_div(map.phase_extent, dilation_phases);
    dilation_phase_stride_ = map.stride;
    input_phase_stride_ = tap_step;
    skew_ = map.skew();
    phase_offsets = (phases - 1 + skew_) / phases + 1;
    begin_ = map.first_offset() - (backwards ? (of_residue - 1) * tap_step : 0);
    first_tap_ = backwards ? (of_residue - 1) * map.tap_stride : 0;
    tap_step_ = backwards ? -map.tap_stride : input_residues_;
    const bool is_dilated = map.tap_step != -1 || map.tap_stride != phases;
    if (backwards && !is_dilated && tap_blocks == 1 && kernel > phases && kernel % phases != 0) {
        align_short_phases();
    }
}

// Residues of phases from kernel % phases on have a tap less than the others: the first, as taps are counted from the
// last, or the last if those phases begin an input later. Which, is chosen by how many phase offsets there are then.
void WinogradAxis::align_short_phases() {
    short_phases_ = phases - kernel % phases;
    const int later = skew_ + short_phases_, later_offsets = (phases - 1 + later % phases) / phases + 1;
    lacks_last_tap_ = later_offsets <= phase_offsets;
    if (lacks_last_tap_) {
        skew_ = later % phases;
        begin_ += later / phases;
        first_tap_ -= short_phases_;
        phase_offsets = later_offsets;
    }
}

}  // namespace kiln
