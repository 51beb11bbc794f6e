/* The processor's features, as Kiln's targets name them. */
#ifndef KILN_CPU_H
#define KILN_CPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each is set only where both the processor and the operating system allow its use. */
#define KILN_CPU_AVX2 (UINT64_C(1) << 0)   /* AVX2, FMA, F16C, BMI1, BMI2, LZCNT, MOVBE */
#define KILN_CPU_AVX512 (UINT64_C(1) << 1) /* AVX-512 F, CD, BW, DQ, VL */
/* What all processors since these two have that use 512-bit dot products of bytes (VNNI): BF16, IFMA, VBMI, VBMI2,
 * BITALG, VPOPCNTDQ, GFNI, VAES, VPCLMULQDQ, and of their makers' own SSE4a, or FP16 and AVX-VNNI. */
#define KILN_CPU_ZEN4 (UINT64_C(1) << 2)
#define KILN_CPU_SAPPHIRE_RAPIDS (UINT64_C(1) << 3)
#define KILN_CPU_AMX (UINT64_C(1) << 4)      /* AMX-TILE, AMX-INT8, AMX-BF16 */
#define KILN_CPU_AVXVNNI (UINT64_C(1) << 5)  /* AVX-VNNI: dot products of bytes in the encoding of AVX2 */
#define KILN_CPU_AMX_FP16 (UINT64_C(1) << 6) /* AMX-FP16, on processors that have KILN_CPU_AMX */
#define KILN_CPU_ARM64 (UINT64_C(1) << 8)    /* AArch64, whose every processor has NEON */
#define KILN_CPU_DOTPROD (UINT64_C(1) << 9)  /* FEAT_DotProd: SDOT and UDOT */
#define KILN_CPU_FP16 (UINT64_C(1) << 10)    /* FEAT_FP16: arithmetic on float16 */
#define KILN_CPU_NEON (UINT64_C(1) << 11)    /* 32-bit ARM with NEON */
#define KILN_CPU_RISCV_V \
    (UINT64_C(1) << 16) /* 64-bit RISC-V: G, C and V 1.0, with vector registers of 128 bits or more */

/* The features of the processor this runs on; asked once, then remembered. Where the processor has AMX, Linux is asked
 * to let this process use it (arch_prctl, ARCH_REQ_XCOMP_PERM): from then on signals need larger stacks, and
 * sigaltstack refuses ones below getauxval(AT_MINSIGSTKSZ). */
uint64_t kiln_cpu_features(void);

/* What one of the bits above is called, "avx2" for instance; null for any other number. */
const char *kiln_cpu_feature_name(uint64_t feature);

#ifdef __cplusplus
}
#endif

#endif
