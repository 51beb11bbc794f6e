/* The processor's features, as Kiln's targets name them. */
#ifndef KILN_CPU_H
#define KILN_CPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each is set only where both the processor and the operating system allow its use. */
#define KILN_CPU_AVX2 (UINT64_C(1) << 0)        /* AVX2, FMA, F16C, BMI1, BMI2, LZCNT, MOVBE */
#define KILN_CPU_AVX512 (UINT64_C(1) << 1)      /* AVX-512 F, CD, BW, DQ, VL */
#define KILN_CPU_AVX512_VNNI (UINT64_C(1) << 2) /* vpdpbusd on zmm */
#define KILN_CPU_AVX512_BF16 (UINT64_C(1) << 3) /* vdpbf16ps on zmm */

/* The features of the processor this runs on; asked once, then remembered. */
uint64_t kiln_cpu_features(void);

#ifdef __cplusplus
}
#endif

#endif
