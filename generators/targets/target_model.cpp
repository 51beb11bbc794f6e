// The table of targets.
#include "targets/target_model.h"

#include <Halide.h>

#include <stdexcept>
#include <string_view>

#include "kiln/cpu.h"
#include "kiln/kernel.h"
#include "targets/cores.h"

namespace kiln {
namespace {

// How programs for other machines are built and run.
constexpr CrossTools x86_64_linux = {.compiler = "x86_64-linux-gnu-g++", .emulator = "qemu-x86_64 -cpu max"};
constexpr CrossTools arm_64_linux = {.compiler = "aarch64-linux-gnu-g++", .emulator = "qemu-aarch64 -cpu max"};
constexpr CrossTools arm_32_linux = {.compiler = "arm-linux-gnueabihf-g++", .emulator = "qemu-arm -cpu max"};
constexpr CrossTools riscv_64_linux = {.compiler = "riscv64-linux-gnu-g++",
                                       .emulator = "qemu-riscv64 -cpu rv64,v=true,vlen=128,vext_spec=v1.0"};

// Blocks of 256 threads, shared memory and 64 numbers a thread is what every CUDA GPU since Ampere and nearly every
// OpenCL device has. What estimates know is of an H100 (SXM): the counts are NVIDIA's (CUDA C++ Programming Guide,
// compute capability 9.0), cycles and bytes follow from timings of schedules there (docs/GPU.md). No other GPU was
// measured.
constexpr GpuModel cuda = {.api = kiln_gpu_cuda,
                           .threads_per_block = 256,
                           .shared_bytes = 48 << 10,
                           .registers = 64,
                           .warp = 32,
                           .multiprocessors = 132,
                           .resident_threads = 2048,
                           .file_registers = 64 << 10,
                           .multiprocessor_shared_bytes = 227 << 10,
                           .launch_cycles = 2500,
                           .staging_cycles = 880,
                           .product_cycles = 61,
                           .cache_bytes = 1700};
constexpr GpuModel opencl_of(GpuModel model) {
    model.api = kiln_gpu_opencl;
    model.shared_bytes = 32 << 10;
    return model;
}
constexpr GpuModel opencl = opencl_of(cuda);

constexpr TargetModel sapphire_rapids_target = {
    .name = "x86-64-sapphire-rapids",
    .halide =
        "x86-64-linux-sse41-avx-avx2-f16c-fma-avx512-avx512_skylake-avx512_cannonlake-avx512_zen4-"
        "avx512_sapphirerapids",
    .architecture = "x86-64-linux",
    .features = KILN_CPU_AVX2 | KILN_CPU_AVX512 | KILN_CPU_SAPPHIRE_RAPIDS,
    .cross = x86_64_linux,
    .vector_bits = 512,
    .vector_registers = 32,
    .core = sapphire_rapids,
    .int8_products = 4,
    .masked_stores = true,
    .stores_wait = true,
    .unlaminates_indexed_operands = true};

// The same with matrix tiles: `features` says of which types.
constexpr TargetModel with_tiles(const char *name, uint64_t features) {
    TargetModel result = sapphire_rapids_target;
    result.name = name;
    result.features |= features;
    result.matrix_tiles = true;
    result.f16_tiles = (features & KILN_CPU_AMX_FP16) != 0;
    return result;
}

// Halide knows dot products of bytes by the name of the first processor that had all it asks for. vdpbf16ps is as fast
// as an FMA on Zen; on Sapphire Rapids it takes 2.7 cycles, and widening to f32 is faster. On Zen 5 a panel of one
// vector, fetched 128 lines ahead, takes 0.34 ms with 11 MB of cold weights, one of two vectors 0.43, and 0.63 where
// its weights are fetched.
constexpr TargetModel zen_4_target = {
    .name = "x86-64-zen4",
    .halide = "x86-64-linux-sse41-avx-avx2-f16c-fma-avx512-avx512_skylake-avx512_cannonlake-avx512_zen4",
    .architecture = "x86-64-linux",
    .features = KILN_CPU_AVX2 | KILN_CPU_AVX512 | KILN_CPU_ZEN4,
    .cross = x86_64_linux,
    .vector_bits = 512,
    .vector_registers = 32,
    .core = zen_4,
    .memory_lines_ahead = 128,
    .memory_fetched_lines = 1,
    .int8_products = 4,
    .bf16_products = 2,
    .masked_stores = true};

// Its instructions by another core; those that it has besides are AVX-VNNI, by which processors tell the two apart.
constexpr TargetModel zen_5_target = [] {
    TargetModel result = zen_4_target;
    result.name = "x86-64-zen5";
    result.halide = "x86-64-linux-sse41-avx-avx2-f16c-fma-avx512-avx512_skylake-avx512_cannonlake-avx512_zen4-avxvnni";
    result.features |= KILN_CPU_AVXVNNI;
    result.core = zen_5;
    return result;
}();

constexpr TargetModel models[] = {
    zen_5_target,
    zen_4_target,
    with_tiles("x86-64-amx-fp16", KILN_CPU_AMX | KILN_CPU_AMX_FP16),
    with_tiles("x86-64-amx", KILN_CPU_AMX),
    sapphire_rapids_target,
    {.name = "x86-64-avx512",
     .halide = "x86-64-linux-sse41-avx-avx2-f16c-fma-avx512-avx512_skylake",
     .architecture = "x86-64-linux",
     .features = KILN_CPU_AVX2 | KILN_CPU_AVX512,
     .cross = x86_64_linux,
     .vector_bits = 512,
     .vector_registers = 32,
     .core = xeon_512,
     .int8_products = 2,
     .masked_stores = true,
     .stores_wait = true,
     .unlaminates_indexed_operands = true},
    // Intel since Alder Lake (Gracemont cores and N processors too) and AMD Zen 5 have dot products of bytes in AVX2's
    // own encoding. Halide tells LLVM of them beside AVX-512 only, whose feature here says no more than where its
    // runtime has the instruction's wrapper.
    {.name = "x86-64-avxvnni",
     .halide = "x86-64-linux-sse41-avx-avx2-f16c-fma-avx512-avxvnni",
     .architecture = "x86-64-linux",
     .features = KILN_CPU_AVX2 | KILN_CPU_AVXVNNI,
     .cross = x86_64_linux,
     .vector_bits = 256,
     .core = skylake_256,
     .int8_products = 4,
     .byte_dot = "dpbusd",
     .llvm = {.cpu = "haswell", .features = "+fma,+f16c,+avxvnni,+prefer-no-gather"}},
    {.name = "x86-64-avx2",
     .halide = "x86-64-linux-sse41-avx-avx2-f16c-fma",
     .architecture = "x86-64-linux",
     .features = KILN_CPU_AVX2,
     .cross = x86_64_linux,
     .vector_bits = 256,
     .core = skylake_256,
     .int8_products = 2},
    {.name = "arm-64-linux-dotprod-fp16",
     .halide = "arm-64-linux-arm_dot_prod-arm_fp16",
     .architecture = "arm-64-linux",
     .features = KILN_CPU_ARM64 | KILN_CPU_DOTPROD | KILN_CPU_FP16,
     .cross = arm_64_linux,
     .vector_registers = 32,
     .core = neoverse_n1,
     .int8_products = 4,
     .signed_dot = true,
     .lane_indexed_fma = true,
     .f16_arithmetic = true},
    {.name = "arm-64-linux",
     .halide = "arm-64-linux",
     .architecture = "arm-64-linux",
     .features = KILN_CPU_ARM64,
     .cross = arm_64_linux,
     .vector_registers = 32,
     .core = neoverse_n1,
     .lane_indexed_fma = true},
    {.name = "arm-64-noos",
     .halide = "arm-64-noos",
     .architecture = "arm-64-noos",
     .features = KILN_CPU_ARM64,
     .vector_registers = 32,
     .core = small_arm_64,
     .lane_indexed_fma = true},
    {.name = "arm-32-linux",
     .halide = "arm-32-linux",
     .architecture = "arm-32-linux",
     .features = KILN_CPU_NEON,
     .cross = arm_32_linux,
     .core = arm_32,
     .lane_indexed_fma = true,
     .f64_vectors = false},
    // Every processor with V has registers of 128 bits or more: 32 that hold one vector each.
    {.name = "riscv-64-linux",
     .halide = "riscv-64-linux-rvv-vector_bits_128",
     .architecture = "riscv-64-linux",
     .features = KILN_CPU_RISCV_V,
     .cross = riscv_64_linux,
     .vector_registers = 32,
     .core = riscv_64,
     .masked_stores = true,
     .interleaves_vectors = false},
    // GPUs, with an x86-64 processor that hands out the work. PTX for compute capability 8.0 runs on all newer ones.
    {.name = "cuda",
     .halide = "x86-64-linux-cuda-cuda_capability_80",
     .architecture = "x86-64-linux-cuda",
     .cross = x86_64_linux,
     .gpu = cuda},
    {.name = "opencl",
     .halide = "x86-64-linux-opencl",
     .architecture = "x86-64-linux-opencl",
     .cross = x86_64_linux,
     .gpu = opencl},
};

// The architecture that this program itself runs on.
#if defined(__x86_64__)
constexpr std::string_view own_architecture = "x86-64-linux";
#elif defined(__aarch64__)
constexpr std::string_view own_architecture = "arm-64-linux";
#elif defined(__riscv)
constexpr std::string_view own_architecture = "riscv-64-linux";
#else
constexpr std::string_view own_architecture = "none of those above";
#endif

std::string known_names() {
    std::string names;
    for (const TargetModel &model : models) {
        names += (names.empty() ? "" : ", ") + std::string(model.name);
    }
    return names;
}

const TargetModel &host_target() {
    for (const TargetModel &model : models) {
        if (!model.is_gpu() && (kiln_cpu_features() & model.features) == model.features) {
            return model;
        }
    }
    throw std::invalid_argument("this processor runs none of the targets " + known_names());
}

}  // namespace

std::span<const TargetModel> target_models() {
    return models;
}

uint64_t features_to_ask_for(const TargetModel &target, bool picks) {
    return picks || (target.features & KILN_CPU_AMX) != 0 ? target.features : 0;
}

std::vector<std::string> feature_names(uint64_t features) {
    std::vector<std::string> result;
    for (int bit = 0; bit < 64; bit++) {
        const char *name = kiln_cpu_feature_name(uint64_t{1} << bit);
        if ((features >> bit & 1) != 0 && name != nullptr) {
            result.emplace_back(name);
        }
    }
    return result;
}

bool is_own_architecture(const TargetModel &target) {
    return std::string_view(target.architecture).starts_with(own_architecture);
}

const TargetModel &find_target(const std::string &name) {
    if (name == "host") {
        return host_target();
    }
    for (const TargetModel &model : models) {
        if (name == model.name) {
            return model;
        }
    }
    if (!Halide::Target::validate_target_string(name)) {
        throw std::invalid_argument("target \"" + name + "\" is neither a short name (" + known_names() +
                                    ", host) nor a Halide target string");
    }
    const Halide::Target wanted(name);
    for (const TargetModel &model : models) {
        if (wanted == Halide::Target(model.halide)) {
            return model;
        }
    }
    throw std::invalid_argument("target \"" + name + "\" has no schedules: Kiln knows " + known_names());
}

}  // namespace kiln
