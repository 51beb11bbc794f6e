// Which of Kiln's processor features can be used here: on x86 asked of CPUID and, for what the operating system must
// save, XGETBV; on ARM and RISC-V of Linux, by the bits of its <asm/hwcap.h>.
#include "kiln/cpu.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__linux__) && (defined(__aarch64__) || defined(__arm__) || defined(__riscv))
#include <sys/auxv.h>
#endif

namespace {

#if defined(__x86_64__)

struct Registers {
    uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// All zero where the processor has no such leaf.
Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) {
    Registers r;
    if (leaf <= static_cast<uint32_t>(__get_cpuid_max(leaf & 0x80000000u, nullptr))) {
        __cpuid_count(leaf, subleaf, r.eax, r.ebx, r.ecx, r.edx);
    }
    return r;
}

// The register states that the operating system saves (XCR0).
uint32_t saved_states() {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

constexpr bool has(uint32_t word, uint32_t bits) {
    return (word & bits) == bits;
}
constexpr uint32_t bit(int n) {
    return uint32_t{1} << n;
}

// Whether the operating system lets this process use tile registers; Linux wants to be asked.
bool may_use_tiles() {
    constexpr uint32_t tile_states = 0x60000;
    if (!has(saved_states(), tile_states)) return false;
#if defined(__linux__) && defined(SYS_arch_prctl)
    constexpr long request_permission = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}

uint64_t detect() {
    const Registers basic = cpuid(1), extended = cpuid(7), extended_1 = extended.eax >= 1 ? cpuid(7, 1) : Registers(),
                    amd = cpuid(0x80000001u);
    constexpr uint32_t osxsave = bit(27), ymm_states = 0x06, zmm_states = 0xe6;
    if (!has(basic.ecx, osxsave) || !has(saved_states(), ymm_states)) return 0;

    constexpr uint32_t fma = bit(12), movbe = bit(22), f16c = bit(29), bmi1 = bit(3), avx2 = bit(5), bmi2 = bit(8),
                       lzcnt = bit(5);
    if (!has(basic.ecx, fma | movbe | f16c) || !has(extended.ebx, bmi1 | avx2 | bmi2) || !has(amd.ecx, lzcnt)) return 0;
    uint64_t features = KILN_CPU_AVX2;
    constexpr uint32_t avxvnni = bit(4);
    if (has(extended_1.eax, avxvnni)) features |= KILN_CPU_AVXVNNI;

    constexpr uint32_t f = bit(16), dq = bit(17), cd = bit(28), bw = bit(30), vl = bit(31);
    if (!has(saved_states(), zmm_states) || !has(extended.ebx, f | dq | cd | bw | vl)) return features;
    features |= KILN_CPU_AVX512;

    constexpr uint32_t ifma = bit(21), vbmi = bit(1), vbmi2 = bit(6), gfni = bit(8), vaes = bit(9),
                       vpclmulqdq = bit(10), vnni = bit(11), bitalg = bit(12), vpopcntdq = bit(14), bf16 = bit(5),
                       fp16 = bit(23), sse4a = bit(6);
    const bool both = has(extended.ebx, ifma) && has(extended_1.eax, bf16) &&
                      has(extended.ecx, vbmi | vbmi2 | gfni | vaes | vpclmulqdq | vnni | bitalg | vpopcntdq);
    if (both && has(amd.ecx, sse4a)) features |= KILN_CPU_ZEN4;
    if (both && has(extended.edx, fp16) && has(extended_1.eax, avxvnni)) features |= KILN_CPU_SAPPHIRE_RAPIDS;
    constexpr uint32_t amx_bf16 = bit(22), amx_tile = bit(24), amx_int8 = bit(25);
    if (has(extended.edx, amx_bf16 | amx_tile | amx_int8) && may_use_tiles()) {
        constexpr uint32_t amx_fp16 = bit(21);
        features |= KILN_CPU_AMX;
        if (has(extended_1.eax, amx_fp16)) features |= KILN_CPU_AMX_FP16;
    }
    return features;
}

#elif defined(__aarch64__)

uint64_t detect() {
    uint64_t features = KILN_CPU_ARM64;
#if defined(__linux__)
    constexpr unsigned long asimdhp = 1ul << 10, asimddp = 1ul << 20;
    const unsigned long hwcap = getauxval(AT_HWCAP);
    if ((hwcap & asimddp) != 0) features |= KILN_CPU_DOTPROD;
    if ((hwcap & asimdhp) != 0) features |= KILN_CPU_FP16;
#endif
    return features;
}

#elif defined(__arm__) && defined(__linux__)

uint64_t detect() {
    constexpr unsigned long neon = 1ul << 12;
    return (getauxval(AT_HWCAP) & neon) != 0 ? KILN_CPU_NEON : 0;
}

#elif defined(__riscv) && __riscv_xlen == 64 && defined(__linux__)

uint64_t detect() {
    constexpr unsigned long v = 1ul << ('V' - 'A');
    return (getauxval(AT_HWCAP) & v) != 0 ? KILN_CPU_RISCV_V : 0;
}

#else

uint64_t detect() {
    return 0;
}

#endif

constexpr struct {
    uint64_t feature;
    const char *name;
} names[] = {
    {KILN_CPU_AVX2, "avx2"},         {KILN_CPU_AVX512, "avx512"},
    {KILN_CPU_ZEN4, "zen4"},         {KILN_CPU_SAPPHIRE_RAPIDS, "sapphire_rapids"},
    {KILN_CPU_AMX, "amx"},           {KILN_CPU_AVXVNNI, "avxvnni"},
    {KILN_CPU_AMX_FP16, "amx_fp16"}, {KILN_CPU_ARM64, "arm64"},
    {KILN_CPU_DOTPROD, "dotprod"},   {KILN_CPU_FP16, "fp16"},
    {KILN_CPU_NEON, "neon"},         {KILN_CPU_RISCV_V, "riscv_v"},
};

}  // namespace

const char *kiln_cpu_feature_name(uint64_t feature) {
    for (const auto &row : names) {
        if (row.feature == feature) return row.name;
    }
    return nullptr;
}

uint64_t kiln_cpu_features(void) {
    // Not a static local: its guard would ask for the C++ library. Two threads may both ask; they hear the same.
    static std::atomic<uint64_t> answer{0};
    constexpr uint64_t asked = uint64_t{1} << 63;
    uint64_t features = answer.load(std::memory_order_relaxed);
    if (features == 0) {
        features = detect() | asked;
        answer.store(features, std::memory_order_relaxed);
    }
    return features & ~asked;
}
