// What schedules and tools need to know of a target, as data. A new target is a row in target_model.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "targets/core_model.h"

namespace kiln {

// What kernels are scheduled for where the target is a GPU: one table for CUDA and OpenCL.
struct GpuModel {
    int api = 0;                // kiln_gpu_api of kiln/kernel.h; 0: the target is a processor
    int threads_per_block = 0;  // that schedules may take
    int shared_bytes = 0;       // of a block, that every such GPU has
    int registers = 0;          // of a thread, 32 bits each, that sums and operands may take
    int warp = 0;               // threads that run in step, whose loads of neighbouring elements are one
    // What estimates know of a GPU: how many multiprocessors it has, and of each
    int multiprocessors = 0;
    int schedulers = 4;                   // that issue an instruction of a warp a cycle,
    int resident_threads = 0;             // the most threads
    int file_registers = 0;               //   and their registers, 32 bits each,
    int multiprocessor_shared_bytes = 0;  //   and their blocks' shared memory.
    // Cycles: of starting a kernel after another; from loading what is in the last cache until it is in shared memory;
    // and from a product to the next, of a thread that waits for shared memory.
    int launch_cycles = 0, staging_cycles = 0, product_cycles = 0;
    int cache_bytes = 0;  // that all multiprocessors together get from the last cache in a cycle
};

// How programs for a target are built and run on a machine of another architecture.
struct CrossTools {
    const char *compiler = nullptr;  // the usual C++ compiler; null: there is none to guess
    const char *emulator = nullptr;  // a command that runs what it makes; null: none is known
};

// What LLVM is told to compile for where Halide has no features for it: the processor's name, and features besides.
struct LlvmProcessor {
    const char *cpu = nullptr;
    const char *features = nullptr;
};

struct TargetModel {
    const char *name = nullptr;          // the short name users write
    const char *halide = nullptr;        // Halide's target string, without the features every kernel has
    const char *architecture = nullptr;  // targets that agree on it can share a library
    uint64_t features = 0;               // kiln/cpu.h: what the processor must have
    CrossTools cross = {};
    int vector_bits = 128;
    int vector_registers = 16;
    CoreModel core = {};
    // By how many lines weights are fetched ahead that come from memory, and how many of them a step of a sum may read
    // for that to pay: what reads more the processor fetches better by itself.
    int memory_lines_ahead = 64, memory_fetched_lines = 4;
    // How many neighbouring products a 32-bit lane of one instruction sums.
    int int8_products = 1;    // 4: u8 times s8; 2: 16-bit integers
    int bf16_products = 1;    // 1: none, the numbers are widened to f32
    bool signed_dot = false;  // whether int8_products of 4 are of s8 by s8
    // The function of Halide's runtime that int8_products of 4 are, where Halide does not find them by itself.
    const char *byte_dot = nullptr;
    LlvmProcessor llvm = {};    // where Halide's features say another
    bool matrix_tiles = false;  // products of tiles, of bytes and of bf16
    bool f16_tiles = false;     // and of f16
    // Whether products take one lane of a register as their factor, so that inputs are read by vectors.
    bool lane_indexed_fma = false;
    bool f16_arithmetic = false;  // whether there is arithmetic on f16
    bool f64_vectors = true;
    // Whether an instruction stores some lanes of a vector, under a mask, as fast as all.
    bool masked_stores = false;
    // Whether instructions interleave two vectors, the low halves and the high halves, of numbers of any size. V
    // interleaves by sums, low halves alone, as LLVM finds by itself.
    bool interleaves_vectors = true;
    // Whether whole lines that are stored to far rows of y, one after the other, hold up what comes behind them, and
    // the more the less lies between. On an Intel Xeon 3x3 of 32 to 128 channels at 27x27 by Winograd takes .16 ms in
    // place of .13 where channels-first y is transposed by few instructions; on Zen 4 it is faster.
    bool stores_wait = false;
    // Whether an instruction that repeats a number from memory in all lanes is two where the number's address is of two
    // registers: Intel's processors un-laminate it (Intel 64 and IA-32 Architectures Optimization Reference Manual,
    // "Micro-fusion").
    bool unlaminates_indexed_operands = false;
    GpuModel gpu = {};
    // Of no row: whether whoever asks for a decision will find weights in no cache, as a network's layers do.
    bool cold_weights = false;

    int lanes(int bits) const { return bits == 64 && !f64_vectors ? 1 : vector_bits / bits; }
    bool is_gpu() const { return gpu.api != 0; }
};

// Every target Kiln knows, the most demanding first within an architecture.
std::span<const TargetModel> target_models();

// The features that a function asks for before it calls a target's kernel: all where it picks among several targets'
// kernels; otherwise none, but on a processor whose tiles may not be used before the operating system was asked for
// them.
uint64_t features_to_ask_for(const TargetModel &target, bool picks);

// The names of the features in a mask of kiln/cpu.h, e.g. {"avx2", "avx512"}.
std::vector<std::string> feature_names(uint64_t features);

// Whether programs for the target are built with this machine's own compiler and run without an emulator.
bool is_own_architecture(const TargetModel &target);

// A target by its short name, by Halide's string, or "host": the best one this processor runs. Throws
// std::invalid_argument, naming the known ones.
const TargetModel &find_target(const std::string &name);

}  // namespace kiln
