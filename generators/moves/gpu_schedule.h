// Schedule moves that GPUs' schedules share.
#pragma once

#include <Halide.h>

#include <cstdint>
#include <string>
#include <vector>

#include "targets/target_model.h"

namespace kiln {

// Fuses loops, the innermost first, into one. Returns it.
Halide::Var fuse_all(Halide::Stage stage, const std::vector<Halide::Var> &loops, const std::string &name);

// Any Func without updates, an element a thread; neighbouring threads have neighbours along its first dimension, or
// along the first of `order`, which has all of them. Returns the loop over threads.
Halide::Var schedule_elements_gpu(Halide::Func f, const std::vector<Halide::Var> &order = {});

// The loop over a vector's channels, of a Func that is stored: vectors, or one by one where channels do not lie side by
// side. Halide would weave several such vectors into one, which OpenCL has not in all widths.
void store_channels(Halide::Func f, const Halide::Var &channels, bool side_by_side);

// Keeps the loops of a Func, its sum's too, whole. Halide would take what lies in the padding out of them: loops whose
// ends differ from thread to thread, which a warp's threads wait for, and which PoCL 3.1 compiles wrong.
void keep_loops_whole(Halide::Func f);

// How many blocks the registers, threads and shared memory of a multiprocessor hold at once, one at the least. Of
// shared memory a block takes 1 KB beside its own.
int resident_blocks(const GpuModel &gpu, int threads, int registers_of_thread, int64_t shared_bytes);

// The widest of 4, 2 and 1 elements that divides `count`.
inline int vector_of(int count) {
    return count % 4 == 0 ? 4 : count % 2 == 0 ? 2 : 1;
}

}  // namespace kiln
