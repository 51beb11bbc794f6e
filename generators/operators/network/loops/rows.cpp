// Schedules of what is computed row by row.
#include "operators/network/loops/rows.h"

#include "expressions/arithmetic.h"
#include "moves/tail_strategy.h"

namespace kiln {

using Halide::Var;
using Halide::VarOrRVar;

std::vector<Loop> row_loops(std::vector<Loop> loops) {
    loops = merge_loops(loops);
    if (kept_of(loops, extents_of(loops)).empty()) {
        loops.push_back({1, std::vector<int64_t>(loops[0].strides.size(), 0)});
    }
    return loops;
}

Rows::Rows(const std::vector<Loop> &loops, int lanes)
    : loops_(loops),
      lanes_(lanes),
      tile_(loops[0].reduced ? 1 : lanes_within(loops[0].extent, 4 * lanes)),
      here_("here") {}

void Rows::schedule_output(Halide::Func out, double cost) {
    out_ = out;
    const std::vector<Var> at = out.args();
    const Var lane("lane"), vectors("vectors"), tiles("tiles");
    std::vector<VarOrRVar> order;
    std::vector<Shared> rows;
    double total = cost;
    const int width = lanes_within(loops_[0].reduced ? loops_[0].extent : tile_, lanes_);
    const Var first = loops_[0].reduced ? at[0] : Var("in_tile");
    if (!loops_[0].reduced) {
        out.split(at[0], tiles, first, static_cast<int>(tile_),
                  tail(static_cast<int>(loops_[0].extent), static_cast<int>(tile_)));
        rows.insert(rows.begin(), {tiles, ceil_div<int64_t>(loops_[0].extent, tile_)});
    }
    out.split(first, vectors, lane, width, tail(static_cast<int>(loops_[0].reduced ? loops_[0].extent : tile_), width))
        .vectorize(lane);
    order = {lane, vectors};
    for (size_t d = 0; d < loops_.size(); d++) {
        total *= static_cast<double>(loops_[d].extent);
        if (d > 0 && loops_[d].reduced) {
            order.emplace_back(at[d]);
        } else if (d > 0) {
            rows.insert(rows.begin(), {at[d], loops_[d].extent});
        }
    }
    out.split(rows.back().var, rows.back().var, here_, 1);
    order.emplace_back(here_);
    for (size_t i = rows.size(); i-- > 0;) {
        order.emplace_back(rows[i].var);
    }
    out.reorder(order);
    share_pieces(out, rows, total);
}

void Rows::compute(Halide::Func of_elements) {
    of_elements.compute_at(out_, here_);
    schedule_inner(of_elements, loops_[0].reduced ? loops_[0].extent : tile_, lanes_);
}

void Rows::compute(const Gathered &of_row) {
    of_row.compute_at(out_, here_, tile_);
}

void Rows::compute_blocks(Halide::Func of_blocks, const Var &block, const std::vector<Gathered> &of_block) {
    of_blocks.compute_at(out_, here_);
    std::vector<VarOrRVar> order;
    for (const Var &var : of_blocks.args()) {
        if (var.name() != block.name()) {
            order.emplace_back(var);
        }
    }
    order.emplace_back(block);
    of_blocks.reorder(order);
    if (!loops_[0].reduced) {
        const Var lane("lane"), vectors("vectors");
        const int width = lanes_within(tile_, lanes_);
        of_blocks.split(of_blocks.args()[0], vectors, lane, width, tail(static_cast<int>(tile_), width))
            .vectorize(lane);
    }
    for (const Gathered &gathered : of_block) {
        gathered.compute_at(of_blocks, block, tile_);
    }
}

void Rows::compute_of_row(Halide::Func of_row) {
    of_row.compute_at(out_, here_).store_in(Halide::MemoryType::Stack);
    if (!loops_[0].reduced) {
        schedule_inner(of_row, tile_, lanes_);
    }
}

}  // namespace kiln
