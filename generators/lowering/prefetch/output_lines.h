// Fetching the lines of y that a tile of sums will write.
#pragma once

#include <Halide.h>

#include <string>

namespace kiln {

// Has each tile of sums, which a statement stores to `output` as soon as they are complete, ask for the lines that it
// will write: some in each of a few iterations of the loops over what is summed. A core reads a line before it writes
// into it, and those that no near cache holds come from far, many at once at each tile's end, where the next tile's
// products wait behind them. Adds to `tiles` those that do; others store elements, or in loops.
//
// `output`: the name of the argument, whatever lowering called it.
Halide::Internal::Stmt prefetch_output_lines(const Halide::Internal::Stmt &statement, const std::string &output,
                                             int &tiles);

}  // namespace kiln
