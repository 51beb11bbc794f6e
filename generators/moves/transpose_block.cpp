// Copies between layouts.
#include "moves/transpose_block.h"

namespace kiln {

void schedule_transpose(Halide::Func &result, Halide::Func &block, const Halide::Var &to, const Halide::Var &from,
                        int wide, int narrow, const Halide::Var &inner, const Halide::Var &outer,
                        Halide::TailStrategy outer_tail) {
    result.split(to, inner, to, wide, Halide::TailStrategy::ShiftInwards)
        .split(from, outer, from, narrow, outer_tail)
        .reorder(to, from, inner, outer)
        .vectorize(to)
        .unroll(from);
    block.compute_at(result, inner)
        .store_in(Halide::MemoryType::Stack)
        .bound_extent(to, wide)
        .bound_extent(from, narrow)
        .reorder(from, to)
        .reorder_storage(to, from)
        .vectorize(from)
        .unroll(to);
}

}  // namespace kiln
