// One spatial axis of a convolution as Winograd tiles of a stride-1 one: how outputs, inputs and taps are numbered.
#pragma once

#include <Halide.h>

#include <vector>

#include "kiln/problem.h"

namespace kiln {

// Tiles of one size on one axis.
struct TileClass {
    int outputs, points;
    int start, count;  // the first tile's first output, and how many tiles follow each other
};

// Output o = q * phases + p is, with q = v * subs + u, an output of sub-image u; of each sub-image, tile by tile,
// outputs v need a sum over folds e and taps j of
//   x[(v + j) * step + origin(u, e, shift)] * w[tap(p, e, j)],   shift = shift_of(p).
// A dilated Conv has a sub-image for each residue of q. A strided Conv has a fold for each residue of its inputs,
// summed as if they were channels. A strided ConvTranspose has a phase for each residue of its outputs; a shift tells
// which inputs a phase begins at.
struct WinogradAxis {
    int in = 0, out = 0, kernel = 0;
    int phases = 1, subs = 1, folds = 1, shifts = 1;
    int step = 1;                   // in x, between neighbouring inputs of a tile
    int taps = 1;                   // of the fold that has the most
    int length = 0;                 // outputs v of a sub-image
    int outputs = 1, points = 1;    // of a whole tile
    int whole = 0;                  // tiles
    int rest = 0, rest_points = 0;  // of the smaller tile behind them; 0 if there is none
    int chunks = 1;                 // the tiles are those of one of so many chunks

    int tiles() const { return whole + (rest > 0 ? 1 : 0); }
    int covered() const { return (whole * outputs + rest) * subs; }  // outputs q of a chunk
    // Where `is_rest` tells which of the two sizes.
    TileClass tile_class(bool is_rest) const;
    // Whether folds lack their last tap from some fold on: their products at infinity are zero. Returns that fold.
    int first_short_fold() const { return (kernel - 1) % fold_stride_ + 1; }

    Halide::Expr origin(const Halide::Expr &u, const Halide::Expr &e, const Halide::Expr &shift) const;
    Halide::Expr shift_of(const Halide::Expr &p) const;
    Halide::Expr tap(const Halide::Expr &p, const Halide::Expr &e, const Halide::Expr &j) const;
    bool reads_outside() const;  // [0, in)

    static WinogradAxis conv(const Problem &problem, int axis);
    static WinogradAxis conv_transpose(const Problem &problem, int axis);

  private:
    int sub_step_ = 1, fold_step_ = 1, fold_stride_ = 1;
    int begin_ = 0;  // the origin where u, e and shift are 0
    int skew_ = 0;   // of phases against their shifts
    int first_tap_ = 0, tap_step_ = 1;
};

}  // namespace kiln
