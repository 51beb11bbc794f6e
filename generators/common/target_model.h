// What schedules need to know of a target, as data. A new target is a row in target_model.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kiln {

struct TargetModel {
    const char *name;          // the short name users write
    const char *halide;        // Halide's target string, without the features every kernel has
    const char *architecture;  // targets that agree on it can share a library
    uint64_t features;         // kiln/cpu.h: what the processor must have
    int vector_bits;
    int vector_registers;
    int fma_latency, fma_per_cycle;  // accumulators needed = their product
    int64_t l2_bytes;                // of the cache that a panel of weights may count on
    // How many neighbouring products a 32-bit lane of one instruction sums.
    int int8_products;          // 4: u8 times s8; 2: 16-bit integers
    int bf16_products;          // 1: none, the numbers are widened to f32
    bool matrix_tiles = false;  // AMX, of bytes and of bf16

    int lanes(int bits) const { return vector_bits / bits; }
};

// Every target Kiln knows, the most demanding first within an architecture.
std::span<const TargetModel> target_models();

// The names of the features in a mask of kiln/cpu.h, e.g. {"avx2", "avx512"}.
std::vector<std::string> feature_names(uint64_t features);

// A target by its short name, by Halide's string, or "host": the best one this processor runs. Throws
// std::invalid_argument, naming the known ones.
const TargetModel &find_target(const std::string &name);

}  // namespace kiln
