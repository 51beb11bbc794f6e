// What a register tile of products, vectors of channels by positions, makes of a processor: for schedules' estimates.
#pragma once

#include <algorithm>

#include "expressions/arithmetic.h"
#include "targets/target_model.h"

namespace kiln {

// The part of a sweep over `extent` positions in tiles of `tile` that is not computed twice.
inline double tile_fit(int extent, int tile) {
    return extent / (static_cast<double>(ceil_div(extent, tile)) * tile);
}

// The registers that a tile of products takes: its sums, a position's weights, and the inputs, one broadcast at a time
// or, where products take them by lane, a vector for each position and one more to load the next.
inline int registers_of_tile(int vectors, int positions, const TargetModel &target) {
    return vectors * positions + vectors + (target.lane_indexed_fma ? positions + 2 : 1);
}

// The most positions of a tile whose registers there are, of which so many are taken by what is `beside` it.
inline int most_positions(int vectors, const TargetModel &target, int beside = 0) {
    int positions = 1;
    while (registers_of_tile(vectors, positions + 1, target) + beside <= target.vector_registers) {
        positions++;
    }
    return positions;
}

// The share of the peak a register tile reaches. Each step of the sum costs its products, or an accumulator's latency
// where they are fewer, and about half a cycle for the loop and the loads that do not hide (measured on tiles of 8 to
// 28). Of a core that takes vectors in so many `parts`, elements that products repeat load at the rate of parts, and
// all else that a step issues goes on beside products that take as many times as long: on a Zen 4 tiles of 7 products
// by one vector to 28 by two reach 97 to 99% where sums are long (480 channels at 14x14).
// `more_loads`: of a step, besides.
inline double tile_rate(int vectors, int pixels, const TargetModel &target, double more_loads = 0, int parts = 1) {
    const double products = vectors * pixels / target.core.fma_per_cycle;
    const double elements = pixels / (target.lane_indexed_fma ? 4.0 : 1.0);
    const double loads = (vectors + (elements + more_loads) / parts) / target.core.loads_per_cycle;
    const double cycles = std::max({products, target.core.fma_latency, loads});
    return products / (cycles + 0.5 / (parts * parts) + 0.01 * loads);
}

// A register tile of `vectors` by `rows` by `pixels`.
struct RegisterTile {
    int vectors = 1, rows = 1, pixels = 1;
};

// The tile that scores most, the first of equals, of those with so many vectors and no more than four rows and 28
// pixels of an image of height x width; those that score 0 are not legal.
template <typename Score>
RegisterTile best_tile(int least_vectors, int most_vectors, int height, int width, const Score &score) {
    RegisterTile best, tile;
    double most = 0;
    for (tile.vectors = least_vectors; tile.vectors <= most_vectors; tile.vectors++) {
        for (tile.rows = 1; tile.rows <= std::min(height, 4); tile.rows++) {
            for (tile.pixels = 1; tile.pixels <= std::min(width, 28); tile.pixels++) {
                const double scored = score(tile);
                if (scored > most) {
                    most = scored;
                    best = tile;
                }
            }
        }
    }
    return best;
}

// Of the sizes up to `most`, that which wastes least of `count` tiles; the larger of equals.
inline int block_of(int count, int most) {
    int best = 1;
    for (int block = 1; block <= std::min(count, most); block++) {
        // A step of the sum costs its products and about half a cycle.
        const auto cost = [count](int size) { return ceil_div(count, size) * (size + 1); };
        best = cost(block) <= cost(best) ? block : best;
    }
    return best;
}

}  // namespace kiln
