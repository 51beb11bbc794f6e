// Instructions that neither Halide nor LLVM has a form for: a lowered kernel calls functions that nobody defines, and
// in PTX's text instructions stand in place of the calls.
#pragma once

#include <Halide.h>

#include <functional>
#include <string>
#include <vector>

namespace kiln {

struct PtxCall {
    std::string name;                   // of the function, less what it was found by
    std::vector<std::string> operands;  // registers, "%r1", and constants
    std::string result;                 // a register, or several as "{%rd1, %rd2}"
};

using PtxInstruction = std::function<std::string(const PtxCall &)>;

// PTX with instructions in place of the calls of all functions whose names begin with `prefix`, and without their
// declarations. Throws where a call is not as expected.
std::string replace_calls(const std::string &ptx, const std::string &prefix, const PtxInstruction &instruction);

// Puts what `rewrite` makes of a lowered module's PTX in its place, if it has any; the text must not become longer.
void rewrite_ptx(Halide::Module &module, const std::function<std::string(const std::string &)> &rewrite);

}  // namespace kiln
