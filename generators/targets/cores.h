// The cores that targets' rows name: what kiln calibrate printed where such a core was at hand, with --predict what
// llvm-mca has of one that was not. Of caches llvm-mca knows nothing: sizes of those are from their makers' documents,
// and rates where it says so are assumed.
#pragma once

#include "targets/core_model.h"

namespace kiln {

// Beyond the second cache, where nobody measured: as Zen 5's.
constexpr CacheModel assumed_last = {.bytes = 16 << 20, .read = 27, .write = 28, .latency = 60};
constexpr CacheModel assumed_memory = {.bytes = 0, .read = 12, .write = 10, .latency = 400};

constexpr CoreModel zen_5 = {.figures = "kiln calibrate on an AMD EPYC of Zen 5",
                             .fma_latency = 4,
                             .fma_per_cycle = 2,
                             .fma_beside_adds = 2,
                             .loads_per_cycle = 2,
                             .stores_per_cycle = 1,
                             .shuffles_per_cycle = 4,
                             .f16_widened_per_cycle = 1.4,
                             .bf16_widened_per_cycle = 1.3,
                             .int8_sums_per_cycle = 2,
                             .bf16_sums_per_cycle = 1.9,
                             .l1 = {.bytes = 48 << 10, .read = 123, .write = 64, .latency = 4},
                             .l2 = {.bytes = 1 << 20, .read = 63, .write = 63, .latency = 16},
                             .last = {.bytes = 16 << 20, .read = 27, .write = 28, .latency = 59},
                             .memory = {.read = 12, .write = 10, .latency = 650}};

// Takes vectors of 512 bits as two halves, so that all but its last cache and memory have half of Zen 5's rates. Its
// last cache's latency is taken to be a Zen 5's: the 620 cycles that calibrate printed are of pages, which are looked
// up anew.
constexpr CoreModel zen_4 = {.figures = "kiln calibrate on an AMD EPYC of Zen 4",
                             .fma_latency = 4,
                             .fma_per_cycle = 1,
                             .fma_beside_adds = 1,
                             .loads_per_cycle = 1,
                             .stores_per_cycle = 0.5,
                             .shuffles_per_cycle = 1.5,
                             .f16_widened_per_cycle = 0.75,
                             .bf16_widened_per_cycle = 0.75,
                             .int8_sums_per_cycle = 1,
                             .bf16_sums_per_cycle = 1,
                             .l1 = {.bytes = 32 << 10, .read = 58, .write = 32, .latency = 4},
                             .l2 = {.bytes = 1 << 20, .read = 30, .write = 30, .latency = 16},
                             .last = {.bytes = 16 << 20, .read = 15, .write = 14, .latency = 60},
                             .memory = {.read = 5, .write = 6, .latency = 770}};

// Of Intel's servers since Sapphire Rapids, as 4 to 32 MB of their last cache are read, of which a core may count on as
// much as elsewhere: that of the machine has 504 MB, and all of it is no faster than memory. Of its 2 MB of second
// cache threads that share the core leave half.
constexpr CoreModel sapphire_rapids = {.figures = "kiln calibrate on an Intel Xeon with AMX",
                                       .fma_latency = 4,
                                       .fma_per_cycle = 2,
                                       .fma_beside_adds = 1,
                                       .loads_per_cycle = 2,
                                       .stores_per_cycle = 1,
                                       .shuffles_per_cycle = 1,
                                       .f16_widened_per_cycle = 0.93,
                                       .bf16_widened_per_cycle = 1,
                                       .int8_sums_per_cycle = 2,
                                       .bf16_sums_per_cycle = 0.5,
                                       .l1 = {.bytes = 48 << 10, .read = 113, .write = 64, .latency = 5},
                                       .l2 = {.bytes = 1 << 20, .read = 50, .write = 16, .latency = 20},
                                       .last = {.bytes = 16 << 20, .read = 8.4, .write = 8.2, .latency = 102},
                                       .memory = {.read = 5, .write = 4.2, .latency = 600}};

// A server's: from Skylake on with two products, and first caches of 32 KB then and 48 KB since Ice Lake. Caches are
// those of the newer servers above, with which they have interconnect and kind in common.
constexpr CoreModel xeon_512 = {.figures = "kiln calibrate on an Intel Xeon with AMX, by x86-64-avx512",
                                .fma_latency = 4,
                                .fma_per_cycle = 2,
                                .fma_beside_adds = 1,
                                .loads_per_cycle = 2,
                                .stores_per_cycle = 1,
                                .shuffles_per_cycle = 1,
                                .f16_widened_per_cycle = 0.93,
                                .bf16_widened_per_cycle = 1,
                                .int8_sums_per_cycle = 1,
                                .l1 = sapphire_rapids.l1,
                                .l2 = sapphire_rapids.l2,
                                .last = sapphire_rapids.last,
                                .memory = sapphire_rapids.memory};

// With AVX2 alone: second caches have 256 KB to 2 MB, those of the last years 1.25 MB or more. A last cache is read by
// 20 to 27 bytes a cycle on AMD's processors and by 8 to 14 on Intel's: what decisions for the latter cost the former,
// some more products, is less than the other way around.
constexpr CoreModel skylake_256 = {.figures = "llvm-mca 19 for skylake-avx512, 256 bits; rates of caches assumed",
                                   .fma_latency = 4,
                                   .fma_per_cycle = 2,
                                   .fma_beside_adds = 1,
                                   .loads_per_cycle = 2,
                                   .stores_per_cycle = 1,
                                   .shuffles_per_cycle = 1,
                                   .f16_widened_per_cycle = 1,
                                   .bf16_widened_per_cycle = 1,
                                   .int8_sums_per_cycle = 1.5,
                                   .l1 = {.bytes = 32 << 10, .read = 64, .write = 32, .latency = 5},
                                   .l2 = {.bytes = 1 << 20, .read = 63, .write = 63, .latency = 16},
                                   .last = {.bytes = 16 << 20, .read = 9, .write = 14, .latency = 60},
                                   .memory = assumed_memory};

// Neoverse V1 and the larger Cortex-A do as many multiply-adds or more; smaller cores do fewer, whose schedules lose
// nothing by more accumulators.
constexpr CoreModel neoverse_n1 = {.figures = "llvm-mca 19 for neoverse-n1; rates of caches assumed",
                                   .fma_latency = 4,
                                   .fma_per_cycle = 2,
                                   .fma_beside_adds = 1,
                                   .loads_per_cycle = 2,
                                   .stores_per_cycle = 1,
                                   .shuffles_per_cycle = 2,
                                   .f16_widened_per_cycle = 0.5,
                                   .bf16_widened_per_cycle = 1,
                                   .int8_sums_per_cycle = 2,
                                   .l1 = {.bytes = 64 << 10, .read = 32, .write = 16, .latency = 4},
                                   .l2 = {.bytes = 512 << 10, .read = 16, .write = 16, .latency = 11},
                                   .last = assumed_last,
                                   .memory = assumed_memory};

// What may be without an operating system has a small second cache.
constexpr CoreModel small_arm_64 = [] {
    CoreModel core = neoverse_n1;
    core.figures = "llvm-mca 19 for neoverse-n1; caches assumed";
    core.l2.bytes = 128 << 10;
    return core;
}();

// Its products are a multiplication and an addition.
constexpr CoreModel arm_32 = {.figures = "assumed: a Cortex-A9 or larger",
                              .fma_latency = 8,
                              .fma_per_cycle = 1,
                              .fma_beside_adds = 0.5,
                              .loads_per_cycle = 1,
                              .l1 = {.bytes = 32 << 10, .read = 32, .write = 16, .latency = 4},
                              .l2 = {.bytes = 256 << 10, .read = 16, .write = 16, .latency = 16},
                              .last = assumed_last,
                              .memory = assumed_memory};

// The first cores with V issue one vector instruction a cycle, and a load of a scalar, which products take, beside it.
constexpr CoreModel riscv_64 = {.figures = "assumed: a vector instruction a cycle beside a scalar load",
                                .fma_latency = 4,
                                .fma_per_cycle = 1,
                                .fma_beside_adds = 0.5,
                                .loads_per_cycle = 2,
                                .l1 = {.bytes = 32 << 10, .read = 32, .write = 16, .latency = 4},
                                .l2 = {.bytes = 512 << 10, .read = 16, .write = 16, .latency = 16},
                                .last = assumed_last,
                                .memory = assumed_memory};

}  // namespace kiln
