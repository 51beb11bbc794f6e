// The table of targets.
#include "targets/target_model.h"

#include <Halide.h>

#include <stdexcept>

#include "kiln/cpu.h"
#include "kiln/kernel.h"

namespace kiln {
namespace {

// Latencies and rates: Intel Skylake to Granite Rapids and AMD Zen 2 to 5 agree on 4 cycles and two a cycle.
constexpr TargetModel models[] = {
    // Halide knows dot products of bytes by the name of the first processor that had all it asks for. vdpbf16ps is as
    // fast
    // as an FMA on Zen; on Sapphire Rapids it takes 2.7 cycles, and widening to f32 is faster.
    {"x86-64-zen4", "x86-64-linux-sse41-avx-avx2-f16c-fma-avx512-avx512_skylake-avx512_cannonlake-avx512_zen4",
     "x86-64-linux", KILN_CPU_AVX2 | KILN_CPU_AVX512 | KILN_CPU_ZEN4, 512, 32, 4, 2, 1 << 20, 4, 2},
    {"x86-64-amx",
     "x86-64-linux-sse41-avx-avx2-f16c-fma-avx512-avx512_skylake-avx512_cannonlake-avx512_zen4-avx512_sapphirerapids",
     "x86-64-linux", KILN_CPU_AVX2 | KILN_CPU_AVX512 | KILN_CPU_SAPPHIRE_RAPIDS | KILN_CPU_AMX, 512, 32, 4, 2, 1 << 20,
     4, 1, true},
    {"x86-64-sapphire-rapids",
     "x86-64-linux-sse41-avx-avx2-f16c-fma-avx512-avx512_skylake-avx512_cannonlake-avx512_zen4-avx512_sapphirerapids",
     "x86-64-linux", KILN_CPU_AVX2 | KILN_CPU_AVX512 | KILN_CPU_SAPPHIRE_RAPIDS, 512, 32, 4, 2, 1 << 20, 4, 1},
    {"x86-64-avx512", "x86-64-linux-sse41-avx-avx2-f16c-fma-avx512-avx512_skylake", "x86-64-linux",
     KILN_CPU_AVX2 | KILN_CPU_AVX512, 512, 32, 4, 2, 1 << 20, 2, 1},
    // Processors with AVX2 alone have 256 KB to 2 MB of L2; those of the last years 1.25 MB or more.
    {"x86-64-avx2", "x86-64-linux-sse41-avx-avx2-f16c-fma", "x86-64-linux", KILN_CPU_AVX2, 256, 16, 4, 2, 1 << 20, 2,
     1},
    // Neoverse N1 and V1 and the larger Cortex-A do two FMAs a cycle in 4; smaller cores do fewer, whose schedules lose
    // nothing by more accumulators.
    {"arm-64-linux-dotprod-fp16", "arm-64-linux-arm_dot_prod-arm_fp16", "arm-64-linux",
     KILN_CPU_ARM64 | KILN_CPU_DOTPROD | KILN_CPU_FP16, 128, 32, 4, 2, 512 << 10, 4, 1, false, true, true, true},
    {"arm-64-linux", "arm-64-linux", "arm-64-linux", KILN_CPU_ARM64, 128, 32, 4, 2, 512 << 10, 1, 1, false, true},
    {"arm-64-noos", "arm-64-noos", "arm-64-noos", KILN_CPU_ARM64, 128, 32, 4, 2, 128 << 10, 1, 1, false, true},
    {"arm-32-linux", "arm-32-linux", "arm-32-linux", KILN_CPU_NEON, 128, 16, 8, 1, 256 << 10, 1, 1, false, true, false,
     false, false, false},
    // GPUs, with an x86-64 processor that hands out the work. Blocks of 256 threads, shared memory and 64 numbers
    // a thread is what every CUDA GPU since Ampere and nearly every OpenCL device has; PTX for compute capability 8.0
    // runs on all newer ones.
    // clang-format off
    {"cuda", "x86-64-linux-cuda-cuda_capability_80", "x86-64-linux-cuda", 0, 128, 16, 4, 2, 256 << 10, 1, 1, false, false,
     false, false, true, true, {kiln_gpu_cuda, 256, 48 << 10, 64, 32}},
    {"opencl", "x86-64-linux-opencl", "x86-64-linux-opencl", 0, 128, 16, 4, 2, 256 << 10, 1, 1, false, false,
     false, false, true, true, {kiln_gpu_opencl, 256, 32 << 10, 64, 32}},
    // clang-format on
};

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

std::vector<std::string> feature_names(uint64_t features) {
    constexpr std::pair<uint64_t, const char *> names[] = {
        {KILN_CPU_AVX2, "avx2"},       {KILN_CPU_AVX512, "avx512"},
        {KILN_CPU_ZEN4, "zen4"},       {KILN_CPU_SAPPHIRE_RAPIDS, "sapphire_rapids"},
        {KILN_CPU_AMX, "amx"},         {KILN_CPU_ARM64, "arm64"},
        {KILN_CPU_DOTPROD, "dotprod"}, {KILN_CPU_FP16, "fp16"},
        {KILN_CPU_NEON, "neon"}};
    std::vector<std::string> result;
    for (const auto &[bit, name] : names) {
        if (features & bit) {
            result.emplace_back(name);
        }
    }
    return result;
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
