// The tensors of a kernel, as Halide sees them.
#pragma once

#include <Halide.h>

namespace kiln {

// Over (channel, spatial axes innermost first, batch), `packed`, `bias` and `scale` excepted; undefined where the
// problem has none. Of the types the problem names.
struct Operands {
    Halide::Func x, packed, bias, residual;
    Halide::Func offset, mask;  // DeformConv
    Halide::Func scale;         // [out_channels + 1], f32: kernel.h
};

}  // namespace kiln
