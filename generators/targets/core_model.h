// What estimates need to know of a core, as data: kiln calibrate measures one and prints it as it is written here.
#pragma once

#include <cstdint>
#include <span>

namespace kiln {

// Bytes of a line of a cache, as all targets are taken to have.
constexpr int line_bytes = 64;

// A cache, or memory, which has no bytes.
struct CacheModel {
    int64_t bytes = 0;           // that one core may count on: half of those that several share
    double read = 0, write = 0;  // bytes a cycle, of vectors that follow each other
    double latency = 0;          // cycles of a load that waits for the one before
};

// Figures are those of the widest vectors that a target uses: cycles, or instructions of such a vector a cycle.
struct CoreModel {
    const char *figures = nullptr;  // where they come from
    double fma_latency = 4;
    double fma_per_cycle = 2;    // accumulators needed = their product
    double fma_beside_adds = 1;  // a cycle, where as many additions go on beside them
    double loads_per_cycle = 2, stores_per_cycle = 1;
    double shuffles_per_cycle = 1;      // of the elements of two vectors, as transposing takes them
    double f16_widened_per_cycle = 1;   // to a vector of float32
    double bf16_widened_per_cycle = 1;  //   the same
    double int8_sums_per_cycle = 1;     // sums of a target's int8_products
    double bf16_sums_per_cycle = 0;     // sums of two products of bfloat16; 0: no instruction does it
    CacheModel l1 = {.bytes = 32 << 10, .read = 32, .write = 16, .latency = 4};
    CacheModel l2 = {.bytes = 256 << 10, .read = 32, .write = 16, .latency = 14};
    CacheModel last = {.bytes = 16 << 20, .read = 14, .write = 14, .latency = 60};
    CacheModel memory = {.bytes = 0, .read = 4, .write = 4, .latency = 300};

    // Whether its units are half as wide as its vectors, as a Zen 4's are: each instruction of a vector is two there,
    // and whoever fills half a vector only saves one of them. Stores tell, of which such a core finishes one in two
    // cycles.
    bool splits_vectors() const { return stores_per_cycle < 1; }
    // Cycles of a vector's instruction beside those of a core whose units are as wide as its vectors.
    int halves() const { return splits_vectors() ? 2 : 1; }

    // Whether additions have units of their own beside those of products.
    bool has_separate_adders() const { return fma_beside_adds > 0.75 * fma_per_cycle; }
};

// The numbers of a CoreModel but for its caches, by name.
struct CoreFigure {
    const char *name, *meaning;
    double CoreModel::*value;
};
std::span<const CoreFigure> core_figures();

// The caches of a CoreModel, the nearest first, and memory.
struct CoreCache {
    const char *name;
    CacheModel CoreModel::*cache;
};
std::span<const CoreCache> core_caches();

}  // namespace kiln
