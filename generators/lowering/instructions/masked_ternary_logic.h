// What LLVM 21 gets wrong of AVX-512's ternary logic. Where a vpternlog merges into one of its operands by a mask and
// reads memory, LLVM swaps two of the ways to reorder the operands (llvm/llvm-project#157929, mended in July 2026), and
// some of its truth tables are another function's. Nothing in the instruction tells.
#pragma once

#include <stdexcept>
#include <string>

namespace kiln {

// Code in which such an instruction was found.
struct MaskedTernaryLogic : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Throws MaskedTernaryLogic where an ELF object for x86-64 has a vpternlog that merges by a mask and reads memory.
void check_ternary_logic(const std::string &object_file);

}  // namespace kiln
