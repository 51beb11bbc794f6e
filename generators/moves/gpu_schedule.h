// Schedule moves that GPUs' schedules share.
#pragma once

#include <Halide.h>

#include <string>
#include <vector>

namespace kiln {

// Fuses loops, the innermost first, into one. Returns it.
Halide::Var fuse_all(Halide::Stage stage, const std::vector<Halide::Var> &loops, const std::string &name);

// Any Func without updates, an element a thread. Returns the loop over threads.
Halide::Var schedule_elements_gpu(Halide::Func f);

// The loop over a vector's channels, of a Func that is stored: vectors, or one by one where channels do not lie side by
// side. Halide would weave several such vectors into one, which OpenCL has not in all widths.
void store_channels(Halide::Func f, const Halide::Var &channels, bool side_by_side);

// Keeps the loops of a Func, its sum's too, whole. Halide would take what lies in the padding out of them: loops whose
// ends differ from thread to thread, which a warp's threads wait for, and which PoCL 3.1 compiles wrong.
void keep_loops_whole(Halide::Func f);

// The widest of 4, 2 and 1 elements that divides `count`.
inline int vector_of(int count) {
    return count % 4 == 0 ? 4 : count % 2 == 0 ? 2 : 1;
}

}  // namespace kiln
