// Schedule moves that GPUs' schedules share.
#pragma once

#include <Halide.h>

#include <string>
#include <vector>

namespace kiln {

// Fuses loops, the innermost first, into one. Returns it.
Halide::Var fuse_all(Halide::Stage stage, const std::vector<Halide::Var> &loops, const std::string &name);

// Any Func without updates, an element a thread.
void schedule_elements_gpu(Halide::Func f);

// The widest of 4, 2 and 1 elements that divides `count`.
inline int vector_of(int count) {
    return count % 4 == 0 ? 4 : count % 2 == 0 ? 2 : 1;
}

// The largest divisor of n up to `most`.
int largest_divisor(int64_t n, int most);

}  // namespace kiln
