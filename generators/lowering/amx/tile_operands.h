// Operands of matrix tiles, loaded into registers ahead of the products that take them.
#pragma once

#include "lowering/amx/tile_products.h"

namespace kiln {

// The statement with all straight-line code in it such that operands of products are loaded some products ahead.
// `sums`: the tiles that are summed. `all_registers`: whether all others may hold operands.
IrStmt load_all_ahead(const IrStmt &statement, int sums, bool all_registers);

}  // namespace kiln
