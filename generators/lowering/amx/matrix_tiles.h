// Sums of products in a processor's two-dimensional registers: AMX, Intel's matrix tiles.
//
// Halide's own matching of tiles (MemoryType::AMXTile) holds one tile an allocation and reads weights of one step; a
// direct convolution needs several tiles at once, and images whose pixels lie apart. So a schedule leaves the loops of
// a tile plain, under the names below, and once the pipeline is lowered they are replaced. Loops with nothing in them
// but the sums of a register tile and their use become one, in which the use of a tile's sums stands among the products
// of the next; and operands are loaded some products ahead, into registers that the products at hand do not read.
#pragma once

#include <Halide.h>

namespace kiln {

// The loops of a Func whose sums are tiles: along a tile's row, over its rows, and over the products that one
// instruction sums, of neighbours and of steps.
inline constexpr const char *tile_lane = "tile_lane", *tile_row = "tile_row";
inline constexpr const char *tile_pair = "tile_pair", *tile_step = "tile_step";

// Of a tile register: its rows, and the 32-bit numbers in one of them.
inline constexpr int most_tile_rows = 16, tile_lanes = 16;
// How many tile registers there are.
inline constexpr int tile_registers = 8;

// The lowered statement with those loops as instructions on tiles; the same statement where there are none. `found`
// grows by the Funcs whose sums are tiles. `plainly`: sums are used behind their products, and no register is kept for
// what is loaded ahead; LLVM 21 finds registers for some tiles only so. Throws Halide::InternalError where the loops
// are not what is expected.
Halide::Internal::Stmt use_matrix_tiles(const Halide::Internal::Stmt &statement, int &found, bool plainly = false);

}  // namespace kiln
