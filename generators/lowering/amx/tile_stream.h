// Loads of matrix tiles that leave the first cache to other data.
//
// AMX has a load for what is read once only (TILELOADDT1): measured, where one operand streams past the other, 1.05 to
// 1.3 times as fast, since the other stays where it is. Halide 21 has the plain load (TILELOADD) alone, and no way to
// call another of LLVM's: their results are of a type that it cannot name. The two encodings differ in two bits, and a
// kernel that has been compiled is given them.
#pragma once

#include <string>

namespace kiln {

// The operands of a tile's product: of its rows, and of its lanes.
enum class TileOperand { rows, lanes };

// Has the object's loads of that operand be of data that are read once; `listing_file`: the same code in assembly.
// Throws std::runtime_error where the object's loads are not those of its listing, or there are none.
void stream_tile_operand(const std::string &object_file, const std::string &listing_file, TileOperand operand);

}  // namespace kiln
