#include "fake_cuda.h"

#include <cstdlib>
#include <cstring>

namespace {

FakeCuda fake;

int result(const char *function) {
    return fake.failing == function ? fake.fails_with : 0;
}

// For functions that need a current context.
int with_context(const char *function) {
    fake.stray = fake.stray || fake.depth == 0;
    return result(function);
}

int made(int code) {
    fake.live += code == 0;
    return code;
}

int gone(int code) {
    fake.live -= code == 0;
    return code;
}

}  // namespace

extern "C" {

FakeCuda *fake_cuda() {
    return &fake;
}

int cuInit(unsigned) {
    return result("cuInit");
}
int cuDeviceGet(int *device, int index) {
    *device = index;
    return result("cuDeviceGet");
}
int cuDeviceGetCount(int *count) {
    *count = 1;
    return result("cuDeviceGetCount");
}
int cuDeviceGetName(char *name, int size, int) {
    std::strncpy(name, "a device", size);
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
    *value = attribute == 97 ? 160 << 10 : attribute == 75 ? 8 : 0;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int) {
    *context = &fake;
    return made(result("cuDevicePrimaryCtxRetain"));
}
int cuDevicePrimaryCtxRelease_v2(int) {
    return gone(0);
}
int cuCtxPushCurrent_v2(void *context) {
    fake.depth++;
    return context == nullptr ? 1 : 0;
}
int cuCtxPopCurrent_v2(void **) {
    fake.depth--;
    return 0;
}
int cuCtxGetDevice(int *device) {
    *device = 0;
    return with_context("cuCtxGetDevice");
}
int cuStreamCreate(void **stream, unsigned) {
    *stream = &fake.live;
    return made(with_context("cuStreamCreate"));
}
int cuStreamDestroy_v2(void *) {
    return gone(with_context("cuStreamDestroy"));
}
int cuStreamSynchronize(void *) {
    return with_context("cuStreamSynchronize");
}
int cuModuleLoadData(void **module, const void *source) {
    fake.source = static_cast<const char *>(source);
    *module = &fake.source;
    return made(with_context("cuModuleLoadData"));
}
int cuModuleUnload(void *) {
    return gone(with_context("cuModuleUnload"));
}
int cuModuleGetFunction(void **function, void *, const char *entry) {
    *function = const_cast<char *>(entry);
    return with_context("cuModuleGetFunction");
}
int cuFuncGetAttribute(int *value, int, void *) {
    *value = 1024;
    return with_context("cuFuncGetAttribute");
}
int cuFuncSetAttribute(void *, int, int value) {
    fake.shared_limit = value;
    return with_context("cuFuncSetAttribute");
}
int cuLaunchKernel(void *function, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
                   unsigned shared, void *stream, void **arguments, void **) {
    fake.launches.push_back({static_cast<const char *>(function),
                             {bx, by, bz},
                             {tx, ty, tz},
                             shared,
                             stream,
                             *static_cast<unsigned long long *>(arguments[0]),
                             *static_cast<int *>(arguments[1])});
    return with_context("cuLaunchKernel");
}
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
    *pointer = reinterpret_cast<unsigned long long>(std::malloc(bytes));
    return made(with_context("cuMemAlloc"));
}
int cuMemFree_v2(unsigned long long pointer) {
    std::free(reinterpret_cast<void *>(pointer));
    return gone(with_context("cuMemFree"));
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *) {
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    return with_context("cuMemcpyHtoD");
}
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *) {
    std::memcpy(to, reinterpret_cast<void *>(from), bytes);
    return with_context("cuMemcpyDtoH");
}
int cuGetErrorName(int, const char **name) {
    *name = "CUDA_ERROR_OF_SOME_KIND";
    return 0;
}

}  // extern "C"
