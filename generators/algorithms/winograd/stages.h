// What the files that define the Winograd algorithm's stages share.
#pragma once

#include <vector>

#include "algorithms/winograd/transforms/cook_toom.h"
#include "algorithms/winograd/winograd.h"

namespace kiln {

// The transform of axis `a` in tiles of a combination.
const CookToom &transform_of(const WinogradShape &shape, int tail_mask, size_t a);

struct TilePosition {
    std::vector<Halide::Expr> inner, t, u;  // point or output, tile, dilation phase of each axis
    Halide::Expr image;
};

TilePosition position_of(const UpdateLoops &r, size_t rank);

// The tile of that number among those of the image (tile_number()), all of one size, and `inner` in it.
TilePosition position_of(const WinogradShape &shape, const std::vector<Halide::Expr> &inner, Halide::Expr number);

// The number of a tile among those of its combination: (tile, dilation phase) of each axis, then the image.
Halide::Expr tile_number(const WinogradShape &shape, int tail_mask, const std::vector<Halide::Expr> &t,
                         const std::vector<Halide::Expr> &u, const Halide::Expr &image);

// Extents of loops over points or outputs of each axis, then tile and dilation phase of each, then the image.
std::vector<int> tile_domain(const WinogradShape &shape, int tail_mask, bool outputs);

// The transforms of products on the outermost axis, whose tiles are all of one size.
void define_outer(WinogradStages &s);

// The output's tiles, written in place or into a scratch that y copies from.
void define_outputs(WinogradStages &s, const Problem &problem, const WinogradSchedule &schedule,
                    const Operands &operands);

// y from the scratch: cropped, in its own layout, with the epilogue.
void define_copy(WinogradStages &s, const Problem &problem, const Operands &operands);

}  // namespace kiln
