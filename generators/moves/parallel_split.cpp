// Work for the caller's threads.
#include "moves/parallel_split.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "expressions/arithmetic.h"

namespace kiln {
namespace {

using Halide::RVar;
using Halide::Var;
using Halide::VarOrRVar;

constexpr int least_pieces = 16, most_threads = 8;
constexpr double of_a_piece = 4e5;  // operations

// The time that threads leave unused as they share so many pieces, over all that they have; most often they are few.
double idle_share(int pieces) {
    constexpr std::pair<int, double> shares[] = {{2, 0.4}, {4, 0.25}, {8, 0.15}, {16, 0.12}, {64, 0.08}};
    double idle = 0;
    for (const auto &[threads, share] : shares) {
        idle += share * (1 - static_cast<double>(pieces) / round_up(pieces, threads));
    }
    return idle;
}

// Whether no more loops need be taken together for work that is worth `most` pieces. Where those are many, 64 threads
// too are to be even.
bool is_even(int pieces, int most) {
    if (most > pieces_worth(0)) {
        return idle_share(pieces) <= 0.03;
    }
    return pieces >= 4 * most_threads || (pieces >= least_pieces && pieces % most_threads == 0);
}

// Whether so many pieces are even, or nearly, for up to 16 threads.
bool is_nearly_even(int pieces) {
    return idle_share(pieces) <= 0.065;
}

// How many neighbouring iterations are a piece.
int run_of(int iterations, int most) {
    return iterations > most ? iterations / even_pieces(iterations, most) : 1;
}

VarOrRVar loop_of(const VarOrRVar &like, const std::string &name) {
    return like.is_rvar ? VarOrRVar(RVar(name)) : VarOrRVar(Var(name));
}

}  // namespace

SharedLoop loop_of_domain(const RVar &loop) {
    return {loop, static_cast<int>(*Halide::Internal::as_const_int(loop.extent()))};
}

int iterations_of(const std::vector<SharedLoop> &loops) {
    return std::accumulate(loops.begin(), loops.end(), 1,
                           [](int product, const SharedLoop &loop) { return product * loop.extent; });
}

int pieces_worth(double operations) {
    return static_cast<int>(std::clamp(operations / of_a_piece, 64.0, 256.0));
}

double operations_of_copying(int64_t elements) {
    return 60.0 * static_cast<double>(elements);
}

SharedWork SharedWork::within(int pieces) const {
    constexpr double least_pieces_within = 32;
    const double of_piece = operations_ / pieces;
    SharedWork piece(of_piece >= least_pieces_within * of_a_piece && !is_nearly_even(pieces) ? of_piece : 0);
    piece.is_within_ = true;
    return piece;
}

int SharedWork::even_parts(int pieces, int iterations) const {
    if (is_within_ || !is_shared()) {
        return 1;
    }
    for (int parts = 1; parts < iterations; parts++) {
        if (iterations % parts == 0 && is_nearly_even(pieces * parts)) {
            return parts;
        }
    }
    return iterations;
}

int even_pieces(int iterations, int most) {
    constexpr double cost_of_piece = 1e-4;  // of all the time that is shared
    int best = iterations;
    double least = 0;
    for (int pieces = std::min(most, iterations); pieces >= std::min(least_pieces, iterations); pieces--) {
        const double cost = idle_share(pieces) + cost_of_piece * pieces;
        if (iterations % pieces == 0 && (least == 0 || cost < least)) {
            best = pieces;
            least = cost;
        }
    }
    return best;
}

bool is_left_whole(int inner, const std::vector<int> &outer, int most) {
    int pieces = 1;
    for (const int iterations : outer) {
        pieces *= iterations;
        if (is_even(pieces, most)) {
            return true;
        }
    }
    return run_of(pieces * inner, most) % inner == 0;
}

void share_loops(Halide::Stage stage, const std::vector<SharedLoop> &loops, int most) {
    SharedLoop shared = {Var(), 0};
    for (const SharedLoop &loop : loops) {
        if (shared.extent == 0 || (shared.extent == 1 && loop.extent > 1)) {
            shared = loop;
        } else if (!is_even(shared.extent, most) && loop.extent > 1) {
            const VarOrRVar fused = loop_of(shared.var, shared_loops + std::to_string(shared.extent));
            stage.fuse(loop.var, shared.var, fused);
            shared = {fused, shared.extent * loop.extent};
        }
    }
    // Of runs that divide neither thread nor bounds meet an unfinished one.
    if (const int run = run_of(shared.extent, most); run > 1) {
        const VarOrRVar pieces = loop_of(shared.var, piece_loops);
        stage.split(shared.var, pieces, shared.var, run);
        shared.var = pieces;
    }
    if (shared.extent > 1) {
        stage.parallel(shared.var);
    }
}

void share_loops(Halide::Stage stage, const std::vector<SharedLoop> &loops, const SharedWork &work) {
    if (work.is_shared()) {
        share_loops(std::move(stage), loops, work.most_pieces());
    }
}

void share_loops(Halide::Stage stage, const std::vector<SharedLoop> &loops, const SharedWork &work, double operations) {
    if (work.is_shared()) {
        share_loops(std::move(stage), loops, std::min(work.most_pieces(), pieces_worth(operations)));
    }
}

}  // namespace kiln
