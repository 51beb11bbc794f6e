// Processor features, against what the compiler's own library finds.
#include "kiln/cpu.h"

#include <gtest/gtest.h>

namespace {

#if defined(__x86_64__)
TEST(Cpu, AgreesWithTheCompiler) {
    const uint64_t features = kiln_cpu_features();
    EXPECT_EQ((features & KILN_CPU_AVX2) != 0,
              __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"));
    EXPECT_EQ((features & KILN_CPU_AVX512) != 0,
              __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl"));
    const bool both = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16") &&
                      __builtin_cpu_supports("avx512ifma") && __builtin_cpu_supports("avx512vbmi2") &&
                      __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("avx512vpopcntdq");
    EXPECT_EQ((features & KILN_CPU_ZEN4) != 0, both && __builtin_cpu_supports("sse4a"));
#if !defined(__clang__)  // clang 14 has no name for it
    EXPECT_EQ((features & KILN_CPU_SAPPHIRE_RAPIDS) != 0, both && __builtin_cpu_supports("avx512fp16"));
    if ((features & KILN_CPU_AMX) != 0) {  // the operating system may not permit it
        EXPECT_TRUE(__builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-int8") &&
                    __builtin_cpu_supports("amx-bf16"));
    }
    // GCC 12 has no name for it.
    if ((features & KILN_CPU_AMX_FP16) != 0) {
        EXPECT_NE(features & KILN_CPU_AMX, 0u);
    }
#endif
    EXPECT_EQ(kiln_cpu_features(), features);
}
#elif defined(__aarch64__)
TEST(Cpu, IsArm64) {
    EXPECT_NE(kiln_cpu_features() & KILN_CPU_ARM64, 0u);
    EXPECT_EQ(kiln_cpu_features() & ~(KILN_CPU_ARM64 | KILN_CPU_DOTPROD | KILN_CPU_FP16), 0u);
}
#elif !defined(__arm__) && !defined(__riscv)
TEST(Cpu, HasNoFeaturesElsewhere) {
    EXPECT_EQ(kiln_cpu_features(), 0u);
}
#endif

}  // namespace
