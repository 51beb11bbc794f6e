#include "moves/tile_sum.h"

namespace kiln {

using Halide::RVar;
using Halide::Stage;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

std::vector<VarOrRVar> unroll_tile(Stage stage, const TileLoops &tile, TailStrategy tail) {
    const Var vector("vector");
    stage.split(tile.along, vector, tile.along, tile.lanes, tail).vectorize(tile.along).unroll(vector);
    std::vector<VarOrRVar> order = {tile.along};
    order.insert(order.end(), tile.interleaved.begin(), tile.interleaved.end());
    order.emplace_back(vector);
    order.insert(order.end(), tile.others.begin(), tile.others.end());
    for (const std::vector<Var> &vars : {tile.interleaved, tile.others}) {
        for (const Var &var : vars) {
            stage.unroll(var);
        }
    }
    return order;
}

SumSteps schedule_tile_sum(Halide::Func sum, const TileLoops &tile, const SumLoops &sums, TailStrategy tail) {
    Stage init = sum, update = sum.update();
    init.reorder(unroll_tile(init, tile, tail));

    // Vectors are woven where they are stored. Here a weight's products come one after the other, so that it takes one
    // register: of two phases' LLVM keeps both weights, and a tile of 12 sums by AVX2 has one on the stack.
    TileLoops phase_by_phase = tile;
    phase_by_phase.others.insert(phase_by_phase.others.begin(), tile.interleaved.begin(), tile.interleaved.end());
    phase_by_phase.interleaved.clear();
    std::vector<VarOrRVar> order = unroll_tile(update, phase_by_phase);
    if (sums.neighbours) {
        order.insert(order.begin(), *sums.neighbours);
    }
    SumSteps result = {sums.loops[0], sums.loops[0]};
    if (sums.unroll > 1) {
        result = {RVar("steps"), RVar("of_step")};
        update.split(sums.loops[0], result.steps, result.innermost, sums.unroll).unroll(result.innermost);
        order.emplace_back(result.innermost);
    }
    order.emplace_back(result.steps);
    order.insert(order.end(), sums.loops.begin() + 1, sums.loops.end());
    update.reorder(order);
    if (sums.dot_width > 1) {
        update.atomic().vectorize(*sums.neighbours);
    }
    return result;
}

void store_tile(Halide::Func copy, const Halide::LoopLevel &around, const TileLoops &tile) {
    copy.compute_at(around).store_in(Halide::MemoryType::Stack);
    copy.reorder(unroll_tile(copy, tile));
}

std::vector<RVar> loops_from(const Halide::RDom &r, int first) {
    std::vector<RVar> loops;
    for (int i = first; i < r.dimensions(); i++) {
        loops.emplace_back(r[i]);
    }
    return loops;
}

}  // namespace kiln
