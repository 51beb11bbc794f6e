// The tensors of a kernel, as Halide sees them.
#pragma once

#include <Halide.h>

#include "expressions/sizes.h"
#include "kiln/problem.h"

namespace kiln {

// Over (channel, spatial axes innermost first, batch), `packed` and what channels have of their own excepted; undefined
// where the problem has none. Of the types the problem names. Where the epilogue is open, bias, residual and mask are
// all there, and hold nothing of meaning where `sizes` says that the run has none.
struct Operands {
    Sizes sizes;
    Halide::Func x{}, packed{}, residual{};
    Halide::Func offset{}, mask{};          // DeformConv: their channels are those of the document
    Halide::Func bias{}, scale{}, slope{};  // over output channels; the last two are f32, parts of kernel.h's scale[]
    Halide::Func y_scale{};                 // of no dimension, the rest of it
    // Whether float16 is read and written as its bits, 16-bit integers, by arithmetic on them: the target has no such
    // type. The Funcs above are float32 then.
    bool half_bits = false;
    bool bf16_instruction = false;  // whether float32 is rounded to bfloat16 by one (bf16_instruction.h)
};

// How many spatial axes a kernel sees. A DeformConv's points are numbered through, the innermost axis fastest, as one:
// its offsets say where to read.
inline int image_axes(const Problem &problem) {
    return problem.op == Operator::deform_conv ? 1 : problem.rank;
}

}  // namespace kiln
