/* The binary interface of the C headers: libraries that were compiled by one Kiln are linked with the runtime of
 * another of the same minor version. Whoever has to change a number here changes the interface, and raises the minor
 * version. */
#include <stddef.h>

#include "kiln/cpu.h"
#include "kiln/gpu.h"
#include "kiln/kernel.h"
#include "kiln/network.h"

/* For 64-bit processors; elsewhere pointers are narrower. */
#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "the size of " #type)
#define AT(type, member, bytes) _Static_assert(offsetof(type, member) == (bytes), "where " #member " lies in " #type)

SIZE(kiln_threads, 24);
AT(kiln_threads, context, 0);
AT(kiln_threads, workers, 8);
AT(kiln_threads, parallel_for, 16);

SIZE(kiln_gpu, 16);
AT(kiln_gpu, api, 0);
AT(kiln_gpu, message, 8);

SIZE(kiln_kernel_bytes, 24);
AT(kiln_kernel_bytes, packed, 0);
AT(kiln_kernel_bytes, workspace, 8);
AT(kiln_kernel_bytes, worker_workspace, 16);

SIZE(kiln_kernel, 96);
AT(kiln_kernel, problem, 0);
AT(kiln_kernel, algorithm, 8);
AT(kiln_kernel, schedule, 16);
AT(kiln_kernel, target, 24);
AT(kiln_kernel, features, 32);
AT(kiln_kernel, bytes, 40);
AT(kiln_kernel, run, 64);
AT(kiln_kernel, pack, 72);
AT(kiln_kernel, bytes_for, 80);
AT(kiln_kernel, gpu, 88);
AT(kiln_kernel, residual_in_place, 92);

SIZE(kiln_layer, 64);
AT(kiln_layer, name, 0);
AT(kiln_layer, problem, 8);
AT(kiln_layer, weight_strides, 16);
AT(kiln_layer, zero_points, 24);
AT(kiln_layer, scale, 32);
AT(kiln_layer, run_embedded, 40);
AT(kiln_layer, bias_embedded, 48);
AT(kiln_layer, pack_embedded, 56);

SIZE(kiln_library, 40);
AT(kiln_library, name, 0);
AT(kiln_library, version, 8);
AT(kiln_library, kernel_count, 16);
AT(kiln_library, layer_count, 20);
AT(kiln_library, kernels, 24);
AT(kiln_library, layers, 32);

_Static_assert(kiln_ok == 0 && kiln_invalid_argument == 1 && kiln_unsupported == 2 && kiln_failed == 3, "status codes");
_Static_assert(kiln_gpu_none == 0 && kiln_gpu_cuda == 1 && kiln_gpu_opencl == 2, "interfaces of GPUs");
_Static_assert(KILN_ALIGNMENT == 64, "the alignment of packed weights and workspaces");
_Static_assert(KILN_CPU_AVX2 == 1 && KILN_CPU_AVX512 == 2 && KILN_CPU_ZEN4 == 4 && KILN_CPU_SAPPHIRE_RAPIDS == 8 &&
                   KILN_CPU_AMX == 16 && KILN_CPU_AVXVNNI == 32 && KILN_CPU_AMX_FP16 == 64 && KILN_CPU_ARM64 == 256 &&
                   KILN_CPU_DOTPROD == 512 && KILN_CPU_FP16 == 1024 && KILN_CPU_NEON == 2048,
               "the features that kernels name");

/* The types of the functions: an initialiser of another type is an error. */
int32_t (*const run)(const void *, const void *, const void *, const void *, const void *, const void *, const float *,
                     void *, const int32_t *, void *, const kiln_threads *) = (kiln_run_function)0;
int32_t (*const pack)(const void *, const int64_t *, const int32_t *, const int32_t *, void *) = (kiln_pack_function)0;
int32_t (*const bytes)(const int32_t *, kiln_kernel_bytes *) = (kiln_bytes_function)0;
const char *(*const status_text)(int32_t) = kiln_status_text;
const char *(*const last_message)(void) = kiln_last_message;
int32_t (*const refuse)(int32_t, const char *, const char *) = kiln_refuse;
int32_t (*const refuse_size)(const char *, const char *, int64_t) = kiln_refuse_size;
int32_t (*const parallel_for)(const kiln_threads *, kiln_kernel_task, uint8_t *, int32_t, int32_t, void *,
                              int64_t) = kiln_parallel_for;
int32_t (*const parallel_for_outer)(const kiln_threads *, kiln_kernel_task, uint8_t *, int32_t, int32_t, int32_t,
                                    void *, int64_t) = kiln_parallel_for_outer;
int32_t (*const parallel_for_joined)(const kiln_threads *, const kiln_parallel_loop *, int32_t, void *,
                                     int64_t) = kiln_parallel_for_joined;
uint64_t (*const cpu_features)(void) = kiln_cpu_features;
const char *(*const cpu_feature_name)(uint64_t) = kiln_cpu_feature_name;

int main(void) {
    return 0;
}
