// The use of a matrix tile's sums among the products of the next.
#pragma once

#include <optional>

#include "lowering/amx/tile_products.h"

namespace kiln {

// The loops around a register tile as one, in which what is done with a tile's sums stands among the products of the
// next; nothing where there is more in those loops. `lets`: the values with names around them. `all_registers`: as
// load_all_ahead()'s.
std::optional<IrStmt> overlap_tiles(const Halide::Internal::For *outermost, Lets lets, bool all_registers);

}  // namespace kiln
