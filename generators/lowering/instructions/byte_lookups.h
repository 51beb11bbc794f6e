// Tables of what becomes of each value of a byte, in which vectors of bytes are looked up.
#pragma once

#include <Halide.h>

namespace kiln {

constexpr int byte_values = 256;

// Whether vectors of bytes are looked up by instructions of the target; elsewhere each byte is by a load.
bool looks_up_vectors(const Halide::Target &target);

// The byte of a table, a stage of byte_values bytes, that a byte is the place of. lower_byte_lookups() then.
Halide::Expr look_up(const Halide::Func &table, const Halide::Expr &byte);

// The lowered statement with instructions, or loads, in place of look_up()'s calls.
Halide::Internal::Stmt lower_byte_lookups(const Halide::Internal::Stmt &statement, const Halide::Target &target);

}  // namespace kiln
