// Addresses of numbers that instructions read from memory and repeat in all lanes.
#pragma once

#include <Halide.h>

namespace kiln {

// Has innermost loops address such operands, where they read several at constant distances, by one register: a pointer
// that moves by a step which LLVM does not know to be a constant. By a constant LLVM would rather add the loop's
// counter to a pointer in each instruction, which saves an addition an iteration, and such operands are fast where
// TargetModel::unlaminates_indexed_operands is false alone.
Halide::Internal::Stmt address_broadcasts_by_one_register(const Halide::Internal::Stmt &statement);

}  // namespace kiln
