// Where copies of x are made.
#pragma once

#include <Halide.h>

#include <cstdint>

namespace kiln {

// A copy is made ahead of everything else or, of a batch, of each image ahead of the outputs of `y`, which find it in a
// cache that holds an image, and its memory is that of one. Each Var is of images, the outermost loop of y's.
inline void compute_ahead(Halide::Func copy, const Halide::Var &of_copy, int64_t batch, const Halide::Func &y,
                          const Halide::Var &of_y) {
    if (batch > 1) {
        copy.compute_at(y, of_y);
    } else {
        copy.compute_root().bound(of_copy, 0, 1);
    }
}

}  // namespace kiln
