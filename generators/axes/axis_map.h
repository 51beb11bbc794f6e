// One spatial axis of a convolution, reduced to stride-1 sums: which input positions and taps an output position needs.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "kiln/problem.h"

namespace kiln {

// Output position q * phases + phase, with q in [0, phase_extent), is the sum over j in [0, taps) with is_tap(phase, j)
// of
//   x[q * stride + offset(phase) + j * tap_step] * w[tap(phase, j)].
// A Conv has one phase. A ConvTranspose of stride s has s: of the taps t, output o = q * s + phase takes those with
// t * dilation = o + pad (mod s), which step by s / gcd(s, dilation).
struct AxisMap {
    int in = 0, out = 0, kernel = 0;
    int phases = 1, phase_extent = 0;
    int taps = 0;  // of the phase that has the most
    int stride = 1, tap_step = 1;
    int tap_stride = 1;  // in w, between the taps of one phase

    Halide::Expr tap(const Halide::Expr &phase, const Halide::Expr &j) const;
    Halide::Expr offset(const Halide::Expr &phase) const;
    // Where dilation is 1, offset(phase) is first_offset() + (phase + skew()) / phases.
    int first_offset() const;
    int skew() const;
    // Whether phases differ in their number of taps, so that is_tap is needed.
    bool has_uneven_phases() const;
    Halide::Expr is_tap(const Halide::Expr &phase, const Halide::Expr &j) const;
    // Whether some phase has no tap at all, so that is_tap is false for it whatever j is.
    bool has_empty_phases() const;
    // The first and last input position that any q, phase and j need, inside [0, in) or not; first > last if none does.
    struct Range {
        int first, last;
    };
    Range reads() const;
    bool reads_outside() const;  // [0, in)
    Range reads_inside() const;  // what of reads() is there; first > last if nothing is
    // The same or, if nothing is, all positions: where what is skipped is read ahead of its condition.
    Range reads_clamped() const;
    // Whether some output of the only phase there is has no tap that reads x.
    bool has_outputs_of_padding() const;
    // Whether all outputs meet one tap each, that of the input their position tells, as of products of matrices.
    bool has_one_tap_inside() const;
    // How many taps the sums of all outputs have, of as many as make phases whole, and how many of them read what is
    // there.
    struct TapCount {
        int64_t all = 0, inside = 0;
    };
    TapCount count_taps() const;
    double share_of_taps_inside() const {
        const TapCount count = count_taps();
        return count.all == 0 ? 1 : static_cast<double>(count.inside) / static_cast<double>(count.all);
    }
    // Whether what Halide finds by the bounds of q, phase and j alone is within reads().
    bool reads_are_bounded() const;
    // `in`, an expression for a position that reads() has: bounded by them where Halide would find more.
    Halide::Expr within_reads(const Halide::Expr &in) const;
    // Of how many neighbouring input positions so many neighbouring q of one phase read the first and the last.
    int extent_of(int outputs) const { return (outputs - 1) * stride + (taps - 1) * std::abs(tap_step) + 1; }
    // Whether Halide bounds what a phase reads exactly: else by more than any single one does.
    bool offset_is_bounded() const { return phases == 1 || dilation_ == 1; }

    static AxisMap conv(const Problem &problem, int axis);
    static AxisMap conv_transpose(const Problem &problem, int axis);

  private:
    int pad_ = 0, dilation_ = 1;
    int inverse_ = 0;  // of dilation / gcd, modulo tap_stride
    int divisor_ = 1;  // gcd(phases, dilation): other phases have no taps

    template <typename T>
    T first_tap(const T &phase) const;
    template <typename T>
    T offset_of(const T &phase) const;
};

// Of every axis, the innermost first as Halide counts dimensions.
std::vector<AxisMap> axis_maps(const Problem &problem);

// How many taps of all axes together a sum is of, in the phases that have the most.
int64_t taps_of_phase(const std::vector<AxisMap> &axes);

// Whether no axis has several output phases.
bool has_one_phase(const std::vector<AxisMap> &axes);

// Whether sums may leave out the taps that read padding on axis `a`, rather than add up zeros. Not on the innermost
// one, whose positions share registers. Nor where there is a single tap, or some output has none inside: a condition on
// the output's position alone then bounds what is read, and the sums, otherwise than they are stated.
bool may_skip_padding(const std::vector<AxisMap> &axes, size_t a);

// Whether every phase of every axis has as many outputs, so that y can be seen as (q, phase).
bool phases_are_whole(const std::vector<AxisMap> &axes);

// The phases of each axis of y, where they are whole; else 1.
std::vector<int> whole_phases(const Problem &problem);

}  // namespace kiln
