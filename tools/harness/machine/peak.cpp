// The processor's peak: multiply-adds on registers alone, in as many independent chains as hide their latency.
//
// The loops are assembly, so that no compiler's register allocation or unrolling has a say. Whatever the registers
// held, a = 0.5 * a + 0.5 soon is 1: nothing overflows or becomes subnormal. (NEON adds 0.25 instead, up to 2^22.)
#include <algorithm>

#include "harness/machine/machine.h"

namespace kiln::harness {
namespace {

constexpr float half = 0.5f;

// Each loop runs `steps` steps and returns the operations in one of them.
using Loop = double (*)(long steps);

#define KILN_EACH_OF_14(row) \
    row(0) row(1) row(2) row(3) row(4) row(5) row(6) row(7) row(8) row(9) row(10) row(11) row(12) row(13)
#define KILN_EACH_OF_28(row) \
    KILN_EACH_OF_14(row)     \
    row(14) row(15) row(16) row(17) row(18) row(19) row(20) row(21) row(22) row(23) row(24) row(25) row(26) row(27)

#if defined(__x86_64__)

#define KILN_FMA_ZMM(n) "vfmadd213ps %%zmm31, %%zmm30, %%zmm" #n "\n\t"
#define KILN_FMA_YMM(n) "vfmadd213ps %%ymm15, %%ymm14, %%ymm" #n "\n\t"
#define KILN_MUL_ADD_XMM(n) "mulps %%xmm14, %%xmm" #n "\n\taddps %%xmm15, %%xmm" #n "\n\t"
#define KILN_XMM_0_15                                                                                          \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
        "xmm13", "xmm14", "xmm15"

__attribute__((target("avx512f"))) double avx512_loop(long steps) {
    asm volatile(
        "vbroadcastss %[half], %%zmm30\n\tvmovaps %%zmm30, %%zmm31\n"
        "1:\n\t" KILN_EACH_OF_28(KILN_FMA_ZMM) "dec %[steps]\n\tjnz 1b\n\tvzeroupper"
        : [steps] "+r"(steps)
        : [half] "m"(half)
        : "cc", KILN_XMM_0_15, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",
          "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31");
    return 28 * 16 * 2;
}

__attribute__((target("avx2,fma"))) double avx2_loop(long steps) {
    asm volatile(
        "vbroadcastss %[half], %%ymm14\n\tvmovaps %%ymm14, %%ymm15\n"
        "1:\n\t" KILN_EACH_OF_14(KILN_FMA_YMM) "dec %[steps]\n\tjnz 1b\n\tvzeroupper"
        : [steps] "+r"(steps)
        : [half] "m"(half)
        : "cc", KILN_XMM_0_15);
    return 14 * 8 * 2;
}

double sse2_loop(long steps) {
    asm volatile(
        "movss %[half], %%xmm14\n\tshufps $0, %%xmm14, %%xmm14\n\tmovaps %%xmm14, %%xmm15\n"
        "1:\n\t" KILN_EACH_OF_14(KILN_MUL_ADD_XMM) "dec %[steps]\n\tjnz 1b"
        : [steps] "+r"(steps)
        : [half] "m"(half)
        : "cc", KILN_XMM_0_15);
    return 14 * 4 * 2;
}

Loop loop_of(Isa isa) {
    return isa == Isa::avx512 ? avx512_loop : isa == Isa::avx2 ? avx2_loop : sse2_loop;
}

#elif defined(__aarch64__)

#define KILN_FMA_NEON(n) "fmla v" #n ".4s, v30.4s, v31.4s\n\t"
#define KILN_CLOBBER_NEON(n) "v" #n,

double neon_loop(long steps) {
    asm volatile(
        "ld1r {v30.4s}, [%[half]]\n\tmov v31.16b, v30.16b\n"
        "1:\n\t" KILN_EACH_OF_28(KILN_FMA_NEON) "subs %[steps], %[steps], #1\n\tb.ne 1b"
        : [steps] "+r"(steps)
        : [half] "r"(&half), "m"(half)
        : KILN_EACH_OF_28(KILN_CLOBBER_NEON) "v30", "v31", "cc");
    return 28 * 4 * 2;
}

Loop loop_of(Isa) {
    return neon_loop;
}

#else

double scalar_loop(long steps) {
    volatile float seed = half;
    float chains[14];
    std::fill(chains, chains + 14, seed);
    const float factor = seed, term = seed;
    for (long step = 0; step < steps; ++step)
        for (float &chain : chains) chain = chain * factor + term;
    for (const float chain : chains) seed = chain;
    return 14 * 2;
}

Loop loop_of(Isa) {
    return scalar_loop;
}

#endif

}  // namespace

double measure_peak(Isa isa, double seconds) {
    const Loop loop = loop_of(isa);
    // A first pass brings the processor to the frequency it runs such code at. Then the best of many short samples, as
    // kernels are timed by their fastest calls: a neighbour on the same core would halve a mean.
    constexpr long chunk = 10000;
    loop(chunk);
    double best = 0;
    const double begin = now();
    for (double from = begin; from - begin < seconds;) {
        const double operations = chunk * loop(chunk), to = now();
        best = std::max(best, operations / (to - from));
        from = to;
    }
    return best * 1e-9;
}

}  // namespace kiln::harness
