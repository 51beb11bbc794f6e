// Work for the caller's threads.
#include "moves/parallel_split.h"

namespace kiln {
namespace {

using Halide::RVar;
using Halide::Var;
using Halide::VarOrRVar;

constexpr int least_pieces = 16, most_pieces = 64, most_threads = 8;

bool is_even(int pieces) {
    return pieces >= 4 * most_threads || (pieces >= least_pieces && pieces % most_threads == 0);
}

VarOrRVar loop_of(const VarOrRVar &like, const std::string &name) {
    return like.is_rvar ? VarOrRVar(RVar(name)) : VarOrRVar(Var(name));
}

}  // namespace

void share_loops(Halide::Stage stage, const std::vector<SharedLoop> &loops) {
    SharedLoop shared = {Var(), 0};
    for (const SharedLoop &loop : loops) {
        if (shared.extent == 0 || (shared.extent == 1 && loop.extent > 1)) {
            shared = loop;
        } else if (!is_even(shared.extent) && loop.extent > 1) {
            const VarOrRVar fused = loop_of(shared.var, "shared" + std::to_string(shared.extent));
            stage.fuse(loop.var, shared.var, fused);
            shared = {fused, shared.extent * loop.extent};
        }
    }
    // A run of each length that divides: neither thread nor bounds then meet an unfinished one.
    for (int run = 2; shared.extent > most_pieces && run <= shared.extent / least_pieces; run++) {
        if (shared.extent % run == 0 && shared.extent / run <= most_pieces) {
            const VarOrRVar pieces = loop_of(shared.var, "pieces"), piece = loop_of(shared.var, "piece");
            stage.split(shared.var, pieces, piece, run);
            shared.var = pieces;
            break;
        }
    }
    if (shared.extent > 1) {
        stage.parallel(shared.var);
    }
}

}  // namespace kiln
