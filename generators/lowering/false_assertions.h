#pragma once

#include <functional>

#include "Halide.h"

namespace kiln {

// What `lower` returns. Halide takes what an assertion asks for true behind it; of one that it finds false while it
// lowers it only warns, and from then on takes whatever it finds false for true: guards are lost, and the kernel would
// read and write behind its tensors. Throws Halide::InternalError then.
Halide::Module without_false_assertions(const std::function<Halide::Module()> &lower);

}  // namespace kiln
