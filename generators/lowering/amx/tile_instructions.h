// Instructions on matrix tiles that Halide 21 does not have.
//
// Halide has the plain load (TILELOADD) and products of bytes and of bf16, and no way to call others of LLVM's: their
// results are of a type that it cannot name. Two more differ from those in bits of a prefix alone, and a kernel that
// has been compiled is given them:
// - TILELOADDT1 loads what is read once only, and leaves the first cache to other data: measured, where one operand
//   streams past the other, 1.05 to 1.3 times as fast, since the other stays where it is.
// - TDPFP16PS sums products of f16. Operands of f16 take the same places as those of bf16, and sums are f32 of both.
#pragma once

#include <string>

namespace kiln {

// The operands of a tile's product: of its rows, and of its lanes.
enum class TileOperand { rows, lanes };

// Has the object's loads of that operand be of data that are read once; `listing_file`: the same code in assembly,
// before either function. Throws std::runtime_error where the object's loads are not those of its listing. There are
// none where an activation makes all sums one number.
void stream_tile_operand(const std::string &object_file, const std::string &listing_file, TileOperand operand);

// Has the object's products of bf16 be of f16. Throws std::runtime_error where they are not those of its listing.
void multiply_tiles_of_f16(const std::string &object_file, const std::string &listing_file);

}  // namespace kiln
