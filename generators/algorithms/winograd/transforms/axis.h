// One spatial axis of a convolution as Winograd tiles of a stride-1 one: how outputs, inputs and taps are numbered.
#pragma once

#include <Halide.h>

#include <vector>

#include "algorithms/winograd/transforms/cook_toom.h"
#include "axes/axis_map.h"

namespace kiln {

// Tiles of one size on one axis.
struct TileClass {
    int outputs, points;
    int start, count;  // the first tile's first output, and how many tiles follow each other
};

// An AxisMap seen so that neighbouring taps lie as far apart in x as neighbouring outputs do. Output o = q * phases + p
// is, with q = v * dilation_phases + u, an output of dilation phase u; of each dilation phase, tile by tile, outputs v
// need a sum over input phases e and taps j of
//   x[(v + j) * stride + origin(u, e, offset)] * w[tap(p, e, j)],   offset = phase_offset(p).
// A dilated Conv has a dilation phase for each residue of q. A strided Conv has an input phase for each residue of its
// inputs, summed as if they were channels. A strided ConvTranspose has a phase for each residue of its outputs; a phase
// offset tells which inputs a phase begins at. Where phases have a tap more or fewer than others, the short ones lack
// their first or their last: whichever lets more phases begin at the same inputs.
//
// Taps may be cut into blocks of so many, each of which is summed as an input phase of its own: the transforms then are
// those of a block's taps, few whatever the kernel has. Block b and residue r are input phase b * residues + r; taps
// that the last block lacks weigh nothing.
struct WinogradAxis {
    int in = 0, out = 0, kernel = 0;
    int phases = 1, dilation_phases = 1, input_phases = 1, phase_offsets = 1;
    int stride = 1;                 // in x, between neighbouring inputs of a tile
    int tap_blocks = 1;             // into which the taps of a residue are cut
    int taps = 1;                   // of the input phase that has the most
    int length = 0;                 // outputs v of a dilation phase
    int outputs = 1, points = 1;    // of a whole tile
    int whole = 0;                  // tiles
    int rest = 0, rest_points = 0;  // of the smaller tile behind them; 0 if there is none
    int chunks = 1;                 // the tiles are those of one of so many chunks

    int tiles() const { return whole + (rest > 0 ? 1 : 0); }
    int covered() const { return (whole * outputs + rest) * dilation_phases; }  // outputs q of a chunk
    // Where `is_rest` tells which of the two sizes.
    TileClass tile_class(bool is_rest) const;
    // Whether input phases lack their last tap from some input phase on: their products at infinity are zero. Returns
    // that input phase.
    int first_short_input_phase() const { return first_short_input_phase_; }
    // How many phases lack one of several taps, whether phase p does, and the point at which their products are zero.
    int short_phases() const { return short_phases_; }
    Halide::Expr is_short(const Halide::Expr &p) const;
    int zero_point() const { return lacks_last_tap_ ? cook_toom_infinity : cook_toom_zero; }

    Halide::Expr origin(const Halide::Expr &u, const Halide::Expr &e, const Halide::Expr &offset) const;
    Halide::Expr phase_offset(const Halide::Expr &p) const;
    Halide::Expr tap(const Halide::Expr &p, const Halide::Expr &e, const Halide::Expr &j) const;
    bool reads_outside() const;  // [0, in)

    WinogradAxis() = default;
    explicit WinogradAxis(const AxisMap &map, int tap_blocks = 1);

  private:
    template <typename T>
    T input_phase_origin(const T &e) const;
    void align_short_phases();

    int dilation_phase_stride_ = 1, input_phase_stride_ = 1, input_residues_ = 1;
    int first_short_input_phase_ = 1;
    int begin_ = 0;  // the origin where u, e and phase offset are 0
    int skew_ = 0;   // of phases against their phase offsets
    int short_phases_ = 0;
    bool lacks_last_tap_ = false;  // or the first one
    int first_tap_ = 0, tap_step_ = 1;
};

}  // namespace kiln
