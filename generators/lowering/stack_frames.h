// How much stack compiled functions take.
#pragma once

#include <cstdint>
#include <string>

namespace kiln {

// The deepest frame of the functions in an ELF object for x86-64 or Arm, an x86's return address included, read from
// their machine code: a listing beside the object would have LLVM generate all code twice, and the section of stack
// sizes that LLVM can write is an option of its tools (--stack-size-section), which Halide's library does not know.
// Throws std::runtime_error where the file is no such object.
int64_t stack_bytes_of_object(const std::string &object_file);

// The same of an assembly file for RISC-V, whose frames hold some number of vector registers, whatever these hold.
int64_t stack_bytes_of_riscv_listing(const std::string &assembly_file);

}  // namespace kiln
