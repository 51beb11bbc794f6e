// How loops are split.
#pragma once

#include <Halide.h>

namespace kiln {

// What is done at the end of a loop of `extent` iterations, at least `factor` of them, that is split by `factor`: the
// last part overlaps the one before where it is not whole.
inline Halide::TailStrategy tail(int extent, int factor) {
    return extent % factor == 0 ? Halide::TailStrategy::RoundUp : Halide::TailStrategy::ShiftInwards;
}

}  // namespace kiln
