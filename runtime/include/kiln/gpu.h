/* GPUs: what a program calls, besides its library, to run kernels of the targets cuda and opencl. C types only.
 *
 * Link Kiln::gpu (kiln_add_library does for such targets). Neither CUDA nor OpenCL is linked: their drivers,
 * libcuda.so.1 and libOpenCL.so.1, are loaded when a GPU is opened, so that a machine without one gets a status.
 *
 * A kernel's tensors, packed weights and workspace are device memory: a CUdeviceptr or cl_mem, cast to a pointer, the
 * program's own or from kiln_gpu_allocate. `scale` excepted, which no GPU kernel has. Kernels are queued in the stream
 * or queue, in order, and return at once: layers follow each other without leaving the device. After kiln_gpu_prepare a
 * run allocates nothing and compiles nothing.
 *
 * Functions return a kiln_status_code: kiln_unsupported where there is no such GPU, or it cannot do what a kernel
 * needs; kiln_failed where a driver's call failed, memory being exhausted among them. kiln_gpu_message tells more. */
#ifndef KILN_GPU_H
#define KILN_GPU_H

#include "kiln/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The GPU number `index`, from 0, with a context and a stream or queue of its own; of OpenCL, among the devices of all
 * platforms, whatever their kind. */
int32_t kiln_gpu_open(int32_t api, int32_t index, kiln_gpu **gpu);

/* The program's own: a CUcontext and CUstream (null: the default stream), or a cl_context, cl_device_id and an in-order
 * cl_command_queue. They must outlive the kiln_gpu, which takes no ownership. */
int32_t kiln_gpu_wrap_cuda(void *context, void *stream, kiln_gpu **gpu);
int32_t kiln_gpu_wrap_opencl(void *context, void *device, void *queue, kiln_gpu **gpu);

/* Null is allowed. */
void kiln_gpu_close(kiln_gpu *gpu);

/* Loads all kernels of a library that are for this GPU's interface, and checks that the GPU has what they need. Else
 * each kernel's first run does. */
int32_t kiln_gpu_prepare(kiln_gpu *gpu, const kiln_library *library);

/* Device memory, for programs that have no other way to get it. */
int32_t kiln_gpu_allocate(kiln_gpu *gpu, size_t bytes, void **memory);
/* The program's memory as the device's: it must be as aligned as the device's vectors (KILN_ALIGNMENT is), must outlive
 * the result, and between a run and kiln_gpu_read of it hold nothing of meaning. Where device and processor share
 * memory nothing is copied. kiln_unsupported with CUDA. */
int32_t kiln_gpu_share(kiln_gpu *gpu, void *host, size_t bytes, void **memory);
void kiln_gpu_free(kiln_gpu *gpu, void *memory);

/* Copies that wait for all that is queued before them. */
int32_t kiln_gpu_write(kiln_gpu *gpu, void *memory, const void *host, size_t bytes);
int32_t kiln_gpu_read(kiln_gpu *gpu, void *host, const void *memory, size_t bytes);

/* Waits for all that is queued, and tells whether it failed. */
int32_t kiln_gpu_finish(kiln_gpu *gpu);

/* The device's name. */
const char *kiln_gpu_name(const kiln_gpu *gpu);

/* What was wrong with the last call in this thread that failed, a kernel's run among them; "" where none did. */
const char *kiln_gpu_message(void);

/* What generated kernels call; `gpu` is the last argument of kiln_run_function. `key` stands for the source, text for
 * the driver's compiler. Arguments of an entry are as many as `sizes` before its first 0: a value, or where is_buffer
 * says so device memory. */
int32_t kiln_gpu_load(const kiln_gpu *gpu, int32_t api, const void *key, const char *source, int32_t bytes);
int32_t kiln_gpu_launch(const kiln_gpu *gpu, const void *key, const char *entry, int32_t blocks_x, int32_t blocks_y,
                        int32_t blocks_z, int32_t threads_x, int32_t threads_y, int32_t threads_z, int32_t shared_bytes,
                        const size_t *sizes, void **arguments, const uint8_t *is_buffer);

#ifdef __cplusplus
}
#endif

#endif
