// Copies between layouts.
#pragma once

#include <Halide.h>

namespace kiln {

// Schedules `result`, a copy of what `block`, its only producer, over the same Vars, finds contiguous along `from`, and
// which is itself contiguous along `to`: blocks of `wide` along `to` by `narrow` are loaded, and transposed in
// registers, where a copy element by element would gather. `inner` and `outer` become the loops over blocks, along `to`
// and `from`. The extent of `to` must be at least `wide`; `outer_tail` says what is done at the end of `from`.
void schedule_transpose(Halide::Func &result, Halide::Func &block, const Halide::Var &to, const Halide::Var &from,
                        int wide, int narrow, const Halide::Var &inner, const Halide::Var &outer,
                        Halide::TailStrategy outer_tail);

// The blocks in which channels-last sums become rows of channels-first y.
inline constexpr int transposed_positions = 16, transposed_channels = 8;

}  // namespace kiln
