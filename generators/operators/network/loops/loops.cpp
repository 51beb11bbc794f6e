// The loops of operations over their tensors, and the schedule of outputs that are computed element by element.
#include "operators/network/loops/loops.h"

#include <algorithm>

#include "expressions/arithmetic.h"
#include "expressions/vars.h"
#include "moves/tail_strategy.h"

namespace kiln {
namespace {

// Waking threads takes about as long as so many additions; no thread is woken for less.
constexpr double least_cost_of_piece = 16384;
constexpr int64_t enough_pieces = 16, most_pieces = 64;

bool are_one(const Loop &outer, const Loop &inner) {
    if (outer.reduced != inner.reduced || outer.fixed || inner.fixed) {
        return false;
    }
    for (size_t t = 0; t < outer.strides.size(); t++) {
        if (outer.strides[t] != inner.strides[t] * inner.extent) {
            return false;
        }
    }
    return true;
}

}  // namespace

std::vector<Loop> merge_loops(const std::vector<Loop> &loops) {
    std::vector<Loop> result;
    for (const Loop &loop : loops) {
        if (loop.extent == 1 && !loop.fixed) {
            continue;
        }
        if (!result.empty() && are_one(loop, result.back())) {
            result.back().extent *= loop.extent;
        } else {
            result.push_back(loop);
        }
    }
    if (result.empty()) {
        result.push_back({1, std::vector<int64_t>(loops.empty() ? 0 : loops[0].strides.size(), 0)});
    }
    return result;
}

std::vector<int64_t> broadcast_strides(const OperationTensor &tensor, const std::vector<int64_t> &shape,
                                       const TextReader &reader) {
    const std::vector<int64_t> strides = tensor.strides();
    if (strides.size() > shape.size()) {
        reader.fail("an input of " + std::to_string(strides.size()) + " axes is broadcast to " +
                    std::to_string(shape.size()));
    }
    const size_t missing = shape.size() - strides.size();
    std::vector<int64_t> result(shape.size(), 0);
    for (size_t axis = missing; axis < shape.size(); axis++) {
        const int64_t size = tensor.shape[axis - missing];
        if (size != shape[axis] && size != 1) {
            reader.fail("an input of size " + std::to_string(size) + " is broadcast to size " +
                        std::to_string(shape[axis]));
        }
        result[axis] = size == 1 ? 0 : strides[axis - missing];
    }
    return result;
}

std::vector<int64_t> extents_of(const std::vector<Loop> &loops) {
    std::vector<int64_t> result;
    for (const Loop &loop : loops) {
        result.push_back(loop.extent);
    }
    return result;
}

std::vector<Halide::Var> vars_of(const std::vector<Loop> &loops) {
    return vars("i", loops.size());
}

Halide::Expr place_of(const std::vector<Loop> &loops, size_t tensor, const std::vector<Halide::Expr> &at,
                      int64_t first) {
    Halide::Expr place = static_cast<int32_t>(first);
    for (size_t d = loops.size(); d-- > 0;) {
        const int64_t stride = loops[d].strides[tensor];
        if (stride != 0) {
            place = place + (stride == 1 ? at[d] : at[d] * static_cast<int32_t>(stride));
        }
    }
    return place;
}

Halide::Expr element_at(const Halide::Func &input, ElementType type, const Halide::Expr &place) {
    return load_element(type, input(place));
}

int lanes_of(const TargetModel &target, Halide::Type type) {
    return std::max(1, target.lanes(std::max(8, type.bits())));
}

void share_pieces(Halide::Stage stage, const std::vector<Shared> &loops, double cost) {
    const int64_t worth = static_cast<int64_t>(std::min<double>(most_pieces, cost / least_cost_of_piece));
    if (worth < 2 || loops.empty()) {
        return;
    }
    Shared shared = loops[0];
    for (size_t i = 1; i < loops.size() && shared.extent < std::min(worth, enough_pieces); i++) {
        const Halide::Var fused("shared" + std::to_string(i));
        stage.fuse(loops[i].var, shared.var, fused);
        shared = {fused, shared.extent * loops[i].extent};
    }
    if (shared.extent > worth) {
        const Halide::Var pieces("pieces"), piece("piece");
        stage.split(shared.var, pieces, piece, static_cast<int32_t>(ceil_div(shared.extent, worth)),
                    Halide::TailStrategy::GuardWithIf);
        shared.var = pieces;
    }
    if (shared.extent > 1) {
        stage.parallel(shared.var);
    }
}

namespace {

// Gives the loops around the first to the caller's threads, `first` being what is left of that.
void share_outer_loops(Halide::Func f, const std::vector<int64_t> &extents, const Halide::Var &first, int64_t steps,
                       double cost) {
    const std::vector<Halide::Var> at = f.args();
    std::vector<Shared> loops;
    double total = cost * static_cast<double>(extents[0]);
    for (size_t d = extents.size(); d-- > 1;) {
        loops.push_back({at[d], extents[d]});
        total *= static_cast<double>(extents[d]);
    }
    loops.push_back({first, steps});
    share_pieces(f, loops, total);
}

}  // namespace

void schedule_elements(Halide::Func f, const std::vector<int64_t> &extents, int lanes, double cost) {
    const Halide::Var first = f.args()[0], vectors("vectors"), lane("lane");
    const int width = lanes_within(extents[0], lanes);
    if (width > 1) {
        f.split(first, vectors, lane, width, tail(static_cast<int>(extents[0]), width)).vectorize(lane);
    }
    share_outer_loops(f, extents, width > 1 ? vectors : first, ceil_div<int64_t>(extents[0], width), cost);
}

Halide::Var schedule_tiles(Halide::Func f, const std::vector<int64_t> &extents, int lanes, int width, double cost) {
    const Halide::Var first = f.args()[0], tiles("tiles"), here("here"), in_tile("in_tile");
    f.split(first, tiles, in_tile, width, tail(static_cast<int>(extents[0]), width)).split(tiles, tiles, here, 1);
    if (width > lanes) {
        const Halide::Var vectors("vectors"), lane("lane");
        f.split(in_tile, vectors, lane, lanes).vectorize(lane).unroll(vectors);
    } else if (width > 1) {
        f.vectorize(in_tile);
    }
    share_outer_loops(f, extents, tiles, ceil_div<int64_t>(extents[0], width), cost);
    return here;
}

void schedule_inner(Halide::Func f, int64_t extent, int lanes) {
    const int width = lanes_within(extent, lanes);
    if (width > 1) {
        f.vectorize(f.args()[0], width, Halide::TailStrategy::ShiftInwards);
    }
}

}  // namespace kiln
