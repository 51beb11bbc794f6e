// A library of one hand-written kernel, and ways in which it can be wrong, to test the harness with.
#pragma once

#include <string>

#include "kiln/kernel.h"
#include "kiln/problem.h"

namespace kiln::test {

enum class Defect {
    none,
    wrong_value,   // one product of one element is left out
    unwritten,     // one element is never written
    nan,           // one element is NaN
    write_past_y,  // by one element
    write_before_y,
    read_past_x,
    read_before_x,
    write_past_workspace,
    read_workspace,  // before writing it
    write_x,
    write_packed,
    wrong_when_threaded,
    wrong_unaligned,  // where x is at no multiple of 8 bytes
    shared_state,     // runs at the same time use the same scratch
    error_code,
    illegal_instruction,
    killed,          // as by a system without memory
    stack_overflow,  // which leaves a signal's handler no stack
};

// conv1d, float32: 2 channels of 5 points (NCX) to 3 channels, 3 taps, pads 1 and 1, bias.
Problem fake_problem();

// Valid until the next call.
kiln_library &fake_library(Defect defect);
// The same kernel for any number of points and any pads: its layer "open" leaves them to run time. Valid until the next
// call.
kiln_library &fake_open_library(Defect defect);
// Three layers, "before", "bad" and "behind", of which the second's kernel has the defect. Valid until the next call.
kiln_library &fake_library_of_three(Defect defect);
// Its only kernel and layer, to change.
kiln_kernel &fake_kernel();
kiln_layer &fake_layer();

}  // namespace kiln::test
