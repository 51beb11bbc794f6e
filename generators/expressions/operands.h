// The tensors of a kernel, as Halide sees them.
#pragma once

#include <Halide.h>

#include <array>

#include "expressions/sizes.h"
#include "kiln/problem.h"
#include "kiln/tensor.h"

namespace kiln {

// Over (channel, spatial axes innermost first, batch), `packed` and what channels have of their own excepted; undefined
// where the problem has none. Of the types the problem names. Where the epilogue is open, bias, residual and mask are
// all there, and hold nothing of meaning where `sizes` says that the run has none.
struct Operands {
    Sizes sizes;
    Halide::Func x{}, packed{};
    // The other inputs, as operator[] gives them; the channels of DeformConv's are those of the document.
    std::array<Halide::Func, tensor_count> others{};
    // The parts of kernel.h's scale[], all float32: two over output channels, the last of no dimension.
    Halide::Func scale{}, slope{}, y_scale{};
    // Whether float16, or bfloat16, is read and written as its bits, 16-bit integers, by arithmetic on them: the target
    // has no such type. The Funcs above are float32 then.
    bool f16_bits = false, bf16_bits = false;
    // x and packed as they lie in memory.
    Halide::Func stored_x{}, stored_packed{};
    bool bf16_instruction = false;         // whether float32 is rounded to bfloat16 by one (bf16_instruction.h)
    bool quantizing_instructions = false;  // whether float32 is rounded to bytes by such (quantization.h)

    const Halide::Func &operator[](Tensor tensor) const { return others[static_cast<size_t>(tensor)]; }
    Halide::Func &operator[](Tensor tensor) { return others[static_cast<size_t>(tensor)]; }
};

// How many spatial axes a kernel sees. A DeformConv's points are numbered through, the innermost axis fastest, as one:
// its offsets say where to read.
inline int image_axes(const Problem &problem) {
    return problem.traits().deformable ? 1 : problem.rank;
}

}  // namespace kiln
