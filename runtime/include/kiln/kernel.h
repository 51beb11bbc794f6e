/* What a generated library and a program agree on: C types only, so that kernels can be called from any language.
 *
 * A kernel computes one problem (problem.h) for one target. It takes its packed weights, never the user's: `pack` turns
 * those into what the kernel reads. A kernel allocates nothing; its scratch is the caller's workspace. */
#ifndef KILN_KERNEL_H
#define KILN_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "kiln/status_code.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using) */

/* Which pointer or processor feature was missing in the last call of a layer's function in this thread that returned a
 * code of its own: "net_conv: bias is null". It stays so until the next such call; "" before the first. On targets
 * without an operating system all threads share it. */
const char *kiln_last_message(void);

/* Used by layers' functions: keeps what kiln_last_message tells, and returns `code`. Both texts are constants. */
int32_t kiln_refuse(int32_t code, const char *function, const char *what);

/* Every pointer passed as workspace or packed weights is a multiple of this, in bytes. Tensors may lie anywhere their
 * elements may, but kernels are up to half again as fast where x and y are multiples of it too. */
#define KILN_ALIGNMENT 64

/* One piece of a kernel's work; `worker` is below kiln_threads.workers, and no two pieces run at once with the same
 * one. Returns a kiln_status_code. */
typedef int32_t (*kiln_task)(void *closure, int32_t index, int32_t worker);

/* The caller's threads. parallel_for runs task(closure, i, worker) for every i in [0, count), in any order, and returns
 * when all are done: 0, or a failed task's code. A null kiln_threads pointer means one thread: the caller's own. */
typedef struct kiln_threads {
    void *context;
    int32_t workers; /* how many pieces run at once at the most; at least 1 */
    int32_t (*parallel_for)(void *context, kiln_task task, void *closure, int32_t count);
} kiln_threads;

/* Where a kernel runs, where not on the processor: a GPU with its queue (kiln/gpu.h opens one). */
enum kiln_gpu_api { kiln_gpu_none = 0, kiln_gpu_cuda = 1, kiln_gpu_opencl = 2 };
typedef struct kiln_gpu {
    int32_t api;                  /* a kiln_gpu_api */
    const char *(*message)(void); /* what was wrong with the last call in this thread that failed */
} kiln_gpu;

/* A kernel. Pointers are null where the problem has no such tensor; `scale` is there where x is 8-bit and y not s32: a
 * factor for each output channel, then y's scale (problem.h says what they multiply); and where the activation takes a
 * slope for each output channel (PRelu), which stand there, behind those. `sizes` holds what the problem
 * leaves open (`?`) in the order of its text, end pads left out (they follow from the rest), and is null where that is
 * nothing. Data is dense, in the layouts the problem names; offset and mask lie as x does. A GPU kernel
 * (kiln_kernel.gpu) takes device memory, and in place of `threads` a const kiln_gpu *, cast to its type. */
typedef int32_t (*kiln_run_function)(const void *x, const void *packed, const void *bias, const void *residual,
                                     const void *offset, const void *mask, const float *scale, void *y,
                                     const int32_t *sizes, void *workspace, const kiln_threads *threads);

/* Turns weights into packed weights. `w` is read at strides[0] * output channel + strides[1] * input channel of the
 * group
 * + strides[2 + a] * tap on spatial axis a, in elements; for a transposed convolution output and input channels change
 * places (strides[0] runs over all input channels, strides[1] over the output channels of a group). `zero_points` holds
 * one number an output channel where the problem's weights have zero points (wz), and is null elsewhere. `sizes` are
 * those of kiln_run_function. */
typedef int32_t (*kiln_pack_function)(const void *w, const int64_t *strides, const int32_t *zero_points,
                                      const int32_t *sizes, void *packed);

/* How much memory a kernel with open sizes needs, for those sizes. */
typedef struct kiln_kernel_bytes {
    int64_t packed;
    int64_t workspace;        /* with one worker */
    int64_t worker_workspace; /* more of it for each further worker of kiln_threads */
} kiln_kernel_bytes;
typedef int32_t (*kiln_bytes_function)(const int32_t *sizes, kiln_kernel_bytes *bytes);

typedef struct kiln_kernel {
    const char *problem;     /* its canonical text */
    const char *algorithm;   /* "direct", "polyphase", ... */
    const char *schedule;    /* the schedule's text */
    const char *target;      /* the short name of the target, e.g. "x86-64-avx512" */
    uint64_t features;       /* the processor features it needs: kiln/cpu.h */
    kiln_kernel_bytes bytes; /* zeros where they depend on open sizes */
    kiln_run_function run;
    kiln_pack_function pack;
    kiln_bytes_function bytes_for; /* null where nothing is left open */
    int32_t gpu;                   /* the kiln_gpu_api it runs on; 0: the processor */
    int32_t residual_in_place;     /* whether y may be the residual's memory, and is then written over it */
} kiln_kernel;

/* One layer of a library: a name, and what it resolved to. */
typedef struct kiln_layer {
    const char *name;
    const char *problem;
    const int64_t *weight_strides; /* how the layer's own filter layout lies in memory, for kiln_pack_function */
    const int32_t *zero_points;    /* of its weights, one an output channel; null where they have none */
    const float *scale;            /* as kiln_run_function takes it; null where the layer says none */
    /* Ignores `packed`, unless there is a pack_embedded; null where weights are not embedded. */
    kiln_run_function run_embedded;
    int32_t bias_embedded; /* whether run_embedded ignores `bias` too */
    /* Packs the weights that are embedded as the layer has them: ignores w, strides and zero_points. Null where they
     * are embedded packed, or not at all. */
    kiln_pack_function pack_embedded;
} kiln_layer;

typedef struct kiln_library {
    const char *name;
    const char *version; /* of the Kiln that made it */
    int32_t kernel_count;
    int32_t layer_count;
    const kiln_kernel *kernels; /* the most specific and fastest first */
    const kiln_layer *layers;
} kiln_library;

/* Used by kernels: runs `task` over [0, count) on `threads`, or in the calling thread where that is null; each worker's
 * scratch is the workspace's at + worker * stride. Defined by the Kiln runtime. */
typedef int32_t (*kiln_kernel_task)(void *scratch, int32_t index, uint8_t *closure);
int32_t kiln_parallel_for(const kiln_threads *threads, kiln_kernel_task task, uint8_t *closure, int32_t begin,
                          int32_t count, void *scratch, int64_t scratch_stride);

/* The same where pieces have loops of their own that may be shared too, of `within` pieces in the mean. The first 8
 * bytes of a piece's scratch tell it whom by: null while all workers have pieces, and `threads` where fewer are left,
 * if sharing each of them is worth it. */
int32_t kiln_parallel_for_outer(const kiln_threads *threads, kiln_kernel_task task, uint8_t *closure, int32_t begin,
                                int32_t count, int32_t within, void *scratch, int64_t scratch_stride);

/* Several loops that share nothing, as one: each worker has its part of each. Threads meet once, behind all of them. */
typedef struct kiln_parallel_loop {
    kiln_kernel_task task;
    uint8_t *closure;
    int32_t begin;
    int32_t count;
} kiln_parallel_loop;
int32_t kiln_parallel_for_joined(const kiln_threads *threads, const kiln_parallel_loop *loops, int32_t loop_count,
                                 void *scratch, int64_t scratch_stride);

/* Used by kernels of images of any size: how they are computed in parts of sizes that are known. */

enum { kiln_part_axes = 3, kiln_part_kernels = 3 };

/* A number, or where `index` is not negative, sizes[index]. */
typedef struct kiln_size {
    int64_t value, index;
} kiln_size;

typedef struct kiln_part_axis {
    kiln_size in, out, pad_begin;
    int64_t stride;
    int64_t reach; /* (kernel - 1) * dilation */
} kiln_part_axis;

/* A kernel of parts, all of one size. Its sizes are strides, in elements: of y and the residual, where y is strided,
 * that of a channel, where channels lie apart, that of the axis around the innermost one, and that of the axis around
 * that; behind them, where x is strided, the same of x. */
typedef struct kiln_part_kernel {
    int64_t in[kiln_part_axes], out[kiln_part_axes];
    int64_t cycles; /* an estimate */
    int64_t x_strided, y_strided;
} kiln_part_kernel;

typedef struct kiln_image_parts {
    int64_t rank, transposed;
    int64_t pointwise; /* y's positions are x's where both have as many */
    int64_t x_channels, y_channels, x_element_bytes, y_element_bytes, x_channels_last, y_channels_last;
    int64_t fill; /* each byte of the padding */
    int64_t has_residual;
    int64_t x_bytes, y_bytes; /* that the largest part takes in the scratch, which begins with x, y and residual */
    int64_t scratch_bytes;    /* of a worker */
    kiln_size batch;
    kiln_part_axis axes[kiln_part_axes];
    int64_t kernel_count;
    kiln_part_kernel kernels[kiln_part_kernels];
} kiln_image_parts;

typedef struct kiln_part_tensors {
    const void *x, *packed, *bias, *residual;
    const float *scale;
    void *y;
} kiln_part_tensors;

/* The cycles that the parts of an image of `out` positions along each axis are estimated to take together. */
int64_t kiln_parts_cycles(const kiln_image_parts *parts, const int64_t *out);

/* Computes all images in the parts that are estimated to take the least time, each by a worker: its scratch is the
 * workspace's at worker * scratch_bytes. Kernels that there are not are null. Defined by the Kiln runtime. */
int32_t kiln_run_parts(const kiln_image_parts *parts, kiln_run_function large, kiln_run_function middle,
                       kiln_run_function small, const void *x, const void *packed, const void *bias,
                       const void *residual, const float *scale, void *y, const int32_t *sizes, void *workspace,
                       const kiln_threads *threads);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
