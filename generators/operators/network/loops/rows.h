// Schedules of what is computed row by row: outputs whose elements depend on all of their row, the steps of the loops
// that are reduced.
#pragma once

#include <vector>

#include "operators/network/loops/gathering.h"

namespace kiln {

// Loops over a tensor of which at least one is not reduced.
std::vector<Loop> row_loops(std::vector<Loop> loops);

class Rows {
  public:
    Rows(const std::vector<Loop> &loops, int lanes);

    // Orders the output's loops so that rows are outside, of as many neighbours as make a vector where the innermost
    // loop is not reduced, and hands rows to the caller's threads.
    void schedule_output(Halide::Func out, double cost);
    // A Func over all loops, and one over those that are kept, each computed for one row.
    void compute(Halide::Func of_elements);
    void compute(const Gathered &of_row);
    void compute_of_row(Halide::Func of_row);
    // A Func over parts of a row, for one row; what each of them is gathered from is read once for all of these.
    void compute_blocks(Halide::Func of_blocks, const Halide::Var &block, const std::vector<Gathered> &of_block);

  private:
    const std::vector<Loop> &loops_;
    int lanes_;
    int64_t tile_;  // how many rows side by side
    Halide::Func out_;
    Halide::Var here_;
};

}  // namespace kiln
