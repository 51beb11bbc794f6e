// Memory as kernels want it: aligned to KILN_ALIGNMENT.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include "kiln/kernel.h"

namespace kiln::harness {

struct Free {
    void operator()(void *memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<void, Free>;

// Never null, even for 0 bytes. Throws std::bad_alloc.
inline Buffer allocate(size_t bytes) {
    void *memory = std::aligned_alloc(KILN_ALIGNMENT, (bytes / KILN_ALIGNMENT + 1) * KILN_ALIGNMENT);
    if (memory == nullptr) throw std::bad_alloc();
    return Buffer(memory);
}

}  // namespace kiln::harness
