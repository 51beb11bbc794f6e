#include "moves/sliced_sum.h"

#include <stdexcept>
#include <string>

#include "expressions/arithmetic.h"
#include "expressions/vars.h"
#include "lowering/gpu_module.h"
#include "moves/gpu_schedule.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;

// The first element of a tile of that number. A tile that would reach beyond the last element lies at the end, and
// those of threads that have none sum it once more.
Expr first_element(const SlicedSum &s, size_t a, const Expr &place) {
    const SlicedTile::Axis &axis = s.tile.axes[a];
    const int extent = s.axes[a].extent;
    const Expr first = place * axis.elements;
    return extent % (axis.elements * axis.threads) == 0 ? first : Halide::min(first, extent - axis.elements);
}

// An axis of channels comes second where they are not innermost in memory: neighbouring threads write neighbours.
std::vector<Var> innermost_first(const std::vector<Var> &axes, bool channels_are_innermost) {
    std::vector<Var> order = axes;
    if (!channels_are_innermost && order.size() > 1) {
        std::swap(order[0], order[1]);
    }
    return order;
}

Var schedule_product(const SlicedSum &s, const SlicedProduct &product) {
    const Var rest("rest"), thread("thread"), vector("vector");
    Func f = product.f;
    const int together = product.channels_are_innermost ? s.tile.vector : 1;
    std::vector<Var> inside, blocks;
    for (size_t a = 0; a < product.tiled.size(); a++) {
        const Var block("block" + std::to_string(a)), in_block("in_block" + std::to_string(a));
        const Var &of_axis = product.tiled[a];
        int count = s.tile.axes[a].elements * s.tile.axes[a].threads;
        if (a == 0) {  // whole vectors, so that what guards them is the same for all lanes
            f.split(of_axis, vector, of_axis, together, TailStrategy::RoundUp);
            count /= together;
        }
        f.split(a == 0 ? vector : of_axis, block, in_block, count, TailStrategy::GuardWithIf);
        inside.push_back(in_block);
        blocks.push_back(block);
    }
    std::vector<VarOrRVar> order = {product.tiled[0]};
    order.insert(order.end(), inside.begin(), inside.end());
    const Var panel = blocks[0];
    blocks.erase(blocks.begin());
    append(blocks, product.others);
    order.insert(order.end(), blocks.begin(), blocks.end());
    order.emplace_back(panel);
    f.reorder(order);
    const Var all = fuse_all(Halide::Stage(f), innermost_first(inside, product.channels_are_innermost), "elements");
    f.split(all, rest, thread, s.tile.threads(), TailStrategy::GuardWithIf).reorder(rest, thread);
    f.vectorize(product.tiled[0]).gpu_threads(thread);
    const Var block = fuse_all(Halide::Stage(f), blocks, "blocks");
    f.gpu_blocks(block, panel);
    return block;
}

}  // namespace

int SlicedTile::threads() const {
    int count = slices;
    for (const Axis &axis : axes) {
        count *= axis.threads;
    }
    return count;
}

int64_t SlicedTile::shared_bytes() const {
    int64_t bytes = int64_t{4} * threads();
    for (const Axis &axis : axes) {
        bytes *= axis.elements;
    }
    return bytes;
}

SumSlices::SumSlices(int steps, int unroll, int taps, int count) : steps_(steps), unroll_(unroll), taps_(taps) {
    while (of_steps_ < count && 2 * of_steps_ * unroll <= steps) {
        of_steps_ *= 2;
    }
    of_taps_ = count / of_steps_;
}

int most_slices(int steps, int unroll, int taps) {
    int count = 1;
    while (count < 32 && (2 * count * unroll <= steps || SumSlices(steps, unroll, taps, 2 * count).of_taps_ <= taps)) {
        count *= 2;
    }
    return count;
}

void check_slices(int slices, int steps, int unroll, int taps) {
    const int most = most_slices(steps, unroll, taps);
    if (slices < 1 || slices > most || (slices & (slices - 1)) != 0) {
        throw std::invalid_argument("schedule: " + std::to_string(slices) + " slices of a sum, of " +
                                    std::to_string(steps) + " channels by " + std::to_string(taps) +
                                    " taps, must be a power of 2 up to " + std::to_string(most));
    }
}

int SumSlices::part(int all, int slices, int unroll) {
    return slices == 1 ? all : round_up(ceil_div(all, slices), unroll);
}

Expr SumSlices::slice_of_steps(const Expr &slice) const {
    return of_taps_ == 1 ? slice : slice / of_taps_;
}

Expr SumSlices::step(const Expr &slice, const Expr &step) const {
    const Expr of_all = slice_of_steps(slice) * steps() + step;
    if (steps() * of_steps_ == steps_) {
        return of_all;
    }
    // A turn beyond the last is read as the last, whole and as vectors, though not summed.
    return steps_ % unroll_ == 0 ? Halide::min(of_all / unroll_ * unroll_, steps_ - unroll_) + of_all % unroll_
                                 : Halide::min(of_all, steps_ - 1);
}

Expr SumSlices::tap(const Expr &slice, const Expr &tap) const {
    const Expr of_all = slice % of_taps_ * taps() + tap;
    return taps() * of_taps_ > taps_ ? Halide::min(of_all, taps_ - 1) : of_all;
}

std::vector<Expr> SumSlices::conditions(const Expr &slice, const Expr &step, const Expr &tap) const {
    std::vector<Expr> result;
    if (steps() * of_steps_ > steps_) {
        const Expr of_all = slice_of_steps(slice) * steps() + step;
        // One condition for all steps of an unrolled turn, where all of them are there or none.
        result.push_back(keeps_loops(steps_ % unroll_ == 0 ? of_all / unroll_ * unroll_ < steps_ : of_all < steps_));
    }
    if (taps() * of_taps_ > taps_) {
        result.push_back(keeps_loops(slice % of_taps_ * taps() + tap < taps_));
    }
    return result;
}

SlicedSum define_sliced_sum(const Func &acc, const SlicedTile &tile, const std::vector<SlicedSum::Axis> &axes) {
    SlicedSum s;
    s.tile = tile;
    s.axes = axes;
    s.acc = acc;
    s.element = vars("element", axes.size());
    s.place = vars("place", axes.size());
    std::vector<Var> from = acc.args();
    from.pop_back();
    std::vector<Expr> at(from.begin(), from.end());
    std::vector<bool> is_tiled(from.size());
    for (size_t a = 0; a < axes.size(); a++) {
        const Expr element = a == 0 ? s.element[a] * tile.vector + s.lane : Expr(s.element[a]);
        at[axes[a].dimension] = first_element(s, a, s.place[a]) + element;
        is_tiled[axes[a].dimension] = true;
    }
    for (size_t d = 0; d < from.size(); d++) {
        if (!is_tiled[d]) {
            s.others.push_back(from[d]);
        }
    }
    std::vector<Var> dimensions = {s.lane};
    append(dimensions, s.element);
    append(dimensions, s.place);
    append(dimensions, s.others);
    dimensions.push_back(s.slice);
    at.emplace_back(s.slice);
    s.slices = Func("slices");
    s.slices(dimensions) = acc(at);
    return s;
}

Expr sum_of_slices(const SlicedSum &s, const std::vector<Expr> &at) {
    std::vector<Expr> elements, places, others;
    std::vector<bool> is_tiled(at.size());
    for (size_t a = 0; a < s.axes.size(); a++) {
        const Expr &of_axis = at[s.axes[a].dimension];
        const int count = s.tile.axes[a].elements;
        is_tiled[s.axes[a].dimension] = true;
        places.push_back(of_axis / count);
        Expr element = of_axis % count;
        if (s.axes[a].extent % count != 0) {
            element = Halide::unsafe_promise_clamped(of_axis - first_element(s, a, of_axis / count), 0, count - 1);
        }
        elements.push_back(a == 0 ? element / s.tile.vector : element);
    }
    for (size_t d = 0; d < at.size(); d++) {
        if (!is_tiled[d]) {
            others.push_back(at[d]);
        }
    }
    std::vector<Expr> from = {at[s.axes[0].dimension] % s.tile.vector};
    append(from, elements);
    append(from, places);
    append(from, others);
    std::vector<Expr> sums;
    for (int slice = 0; slice < s.tile.slices; slice++) {
        std::vector<Expr> of_slice = from;
        of_slice.emplace_back(slice);
        sums.push_back(s.slices(of_slice));
    }
    return sum_by_pairs(sums);
}

Expr sum_by_pairs(std::vector<Expr> sums) {
    while (sums.size() > 1) {
        std::vector<Expr> pairs;
        for (size_t i = 0; i < sums.size(); i += 2) {
            pairs.push_back(i + 1 < sums.size() ? sums[i] + sums[i + 1] : sums[i]);
        }
        sums = pairs;
    }
    return sums[0];
}

SlicedLoops schedule_sliced_sum(SlicedSum &s, SlicedProduct product) {
    const Var block = schedule_product(s, product);
    Func &f = s.slices;
    f.compute_at(product.f, block).store_in(Halide::MemoryType::GPUShared);
    f.bound(s.lane, 0, s.tile.vector).bound(s.slice, 0, s.tile.slices);
    for (size_t a = 0; a < s.axes.size(); a++) {
        const SlicedTile::Axis &axis = s.tile.axes[a];
        f.bound(s.element[a], 0, a == 0 ? axis.elements / s.tile.vector : axis.elements);
        f.bound_extent(s.place[a], axis.threads);
    }
    std::vector<Var> threads = innermost_first(s.place, product.channels_are_innermost);
    threads.push_back(s.slice);
    std::vector<Var> order = {s.lane};
    append(order, s.element);
    append(order, threads);
    append(order, s.others);
    f.reorder(std::vector<VarOrRVar>(order.begin(), order.end()));
    // Threads lie innermost in shared memory, so that those of a warp store to different banks.
    std::vector<Var> stored = product.channels_are_innermost ? std::vector<Var>{s.lane} : std::vector<Var>();
    append(stored, threads);
    if (!product.channels_are_innermost) {
        stored.push_back(s.lane);
    }
    append(stored, s.element);
    append(stored, s.others);
    f.reorder_storage(stored);
    store_channels(f, s.lane, product.channels_are_innermost);
    for (const Var &element : s.element) {
        f.unroll(element);
    }
    const Var thread = fuse_all(Halide::Stage(f), threads, "threads");
    f.gpu_threads(thread);
    keep_loops_whole(f);
    keep_loops_whole(product.f);
    const std::vector<Var> sums = s.acc.args();
    std::vector<int> extents(sums.size(), 1);
    for (size_t a = 0; a < s.axes.size(); a++) {
        extents[s.axes[a].dimension] = s.tile.axes[a].elements;
    }
    for (size_t d = 0; d < sums.size(); d++) {
        s.acc.bound_extent(sums[d], extents[d]);
    }
    s.acc.compute_at(f, thread).store_in(Halide::MemoryType::Register);
    return {thread, block};
}

}  // namespace kiln
