// The processor's peaks, float32 as the harness measures it and 8-bit and bfloat16 products in loops like its own; and
// kernels run several times over, so that no Python is between two calls.
#include <algorithm>

#include "harness/machine/machine.h"
#include "kiln/cpu.h"
#include "kiln/kernel.h"

namespace {

using kiln::harness::Isa;

// Each loop runs `steps` steps and returns the operations in one of them.
using Loop = double (*)(long steps);

#define KILN_EACH_OF_12(row) row(0) row(1) row(2) row(3) row(4) row(5) row(6) row(7) row(8) row(9) row(10) row(11)
#define KILN_EACH_OF_28(row)                                                                                        \
    KILN_EACH_OF_12(row)                                                                                            \
    row(12) row(13) row(14) row(15) row(16) row(17) row(18) row(19) row(20) row(21) row(22) row(23) row(24) row(25) \
        row(26) row(27)
#define KILN_XMM_0_15                                                                                          \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
        "xmm13", "xmm14", "xmm15"
#define KILN_XMM_16_31                                                                                          \
    "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", \
        "xmm28", "xmm29", "xmm30", "xmm31"

// All factors are zero: sums stay what they are, and nothing becomes subnormal.
#define KILN_DPBUSD(n) "vpdpbusd %%zmm31, %%zmm30, %%zmm" #n "\n\t"
__attribute__((target("avx512f"))) double vnni_loop(long steps) {
    asm volatile(
        "vpxorq %%zmm30, %%zmm30, %%zmm30\n\tvpxorq %%zmm31, %%zmm31, %%zmm31\n"
        "1:\n\t" KILN_EACH_OF_28(KILN_DPBUSD) "dec %[steps]\n\tjnz 1b\n\tvzeroupper"
        : [steps] "+r"(steps)
        :
        : "cc", KILN_XMM_0_15, KILN_XMM_16_31);
    return 28 * 64 * 2;
}

#define KILN_CLEAR(n) "vpxorq %%zmm" #n ", %%zmm" #n ", %%zmm" #n "\n\t"
#define KILN_DPBF16(n) "vdpbf16ps %%zmm31, %%zmm30, %%zmm" #n "\n\t"
__attribute__((target("avx512f"))) double bf16_loop(long steps) {
    asm volatile(
        KILN_EACH_OF_28(KILN_CLEAR) "vpxorq %%zmm30, %%zmm30, %%zmm30\n\tvpxorq %%zmm31, %%zmm31, %%zmm31\n"
        "1:\n\t" KILN_EACH_OF_28(KILN_DPBF16) "dec %[steps]\n\tjnz 1b\n\tvzeroupper"
        : [steps] "+r"(steps)
        :
        : "cc", KILN_XMM_0_15, KILN_XMM_16_31);
    return 28 * 32 * 2;
}

// Exact products of 8-bit numbers without VNNI: two 16-bit ones a lane, and the addition of their sum.
#define KILN_MADD(n) "vpmaddwd %%ymm15, %%ymm14, %%ymm13\n\tvpaddd %%ymm13, %%ymm" #n ", %%ymm" #n "\n\t"
__attribute__((target("avx2"))) double madd_loop(long steps) {
    asm volatile(
        "vpxor %%ymm14, %%ymm14, %%ymm14\n\tvpxor %%ymm15, %%ymm15, %%ymm15\n"
        "1:\n\t" KILN_EACH_OF_12(KILN_MADD) "dec %[steps]\n\tjnz 1b\n\tvzeroupper"
        : [steps] "+r"(steps)
        :
        : "cc", KILN_XMM_0_15);
    return 12 * 16 * 2;
}

// The best of many short samples within `seconds`, in 1e9 operations a second.
double measure(Loop loop, double seconds) {
    constexpr long chunk = 10000;
    loop(chunk);
    double best = 0;
    const double begin = kiln::harness::now();
    for (double from = begin; from - begin < seconds;) {
        const double operations = chunk * loop(chunk), to = kiln::harness::now();
        best = std::max(best, operations / (to - from));
        from = to;
    }
    return best * 1e-9;
}

bool has(uint64_t features, const char *name) {
    const auto names = kiln::harness::feature_names(features);
    return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

extern "C" {

// 1e9 operations a second of type 'f' (float32), 'i' (8-bit) or 'b' (bfloat16), held to AVX2 where `avx2` is not 0.
// bfloat16's is float32's where the processor has no products of bfloat16, or is slower with them (Sapphire Rapids is).
double kiln_bench_peak(char type, int avx2, double seconds) {
    const uint64_t features = kiln_cpu_features();
    const bool vnni = avx2 == 0 && (has(features, "sapphire_rapids") || has(features, "zen4"));
    if (type == 'i') return measure(vnni ? vnni_loop : madd_loop, seconds);
    const Isa isa = kiln::harness::isa_of(features);
    const double peak = kiln::harness::measure_peak(avx2 != 0 ? std::min(isa, Isa::avx2) : isa, seconds);
    return type == 'b' && vnni ? std::max(peak, measure(bf16_loop, seconds)) : peak;
}

// The seconds that `calls` runs of a kernel take; negative where one failed.
double kiln_bench_run(kiln_run_function run, const void *const *tensors, void *y, void *workspace, long calls) {
    const double begin = kiln::harness::now();
    int32_t code = kiln_ok;
    for (long i = 0; i < calls; ++i)
        code |= run(tensors[0], tensors[1], tensors[2], tensors[3], tensors[4], tensors[5],
                    static_cast<const float *>(tensors[6]), y, nullptr, workspace, nullptr);
    return code == kiln_ok ? kiln::harness::now() - begin : -1;
}
}
