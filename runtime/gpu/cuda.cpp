// CUDA's driver interface, loaded when a device is opened.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "gpu/driver.h"

namespace kiln::gpu {
namespace {

// The part of cuda.h that is needed, so that building needs no toolkit.
using Result = int;
using Device = int;
using Pointer = unsigned long long;
using Handle = void *;
constexpr Result out_of_memory = 2, no_device = 100, invalid_device = 101, no_binary = 209, invalid_ptx = 218,
                 unsupported_ptx = 222, launch_resources = 701;
constexpr int max_shared_optin = 97, capability_major = 75, capability_minor = 76;  // CUdevice_attribute
constexpr int max_threads = 0, max_dynamic_shared = 8;                              // CUfunction_attribute
constexpr int static_shared_limit = 48 << 10;  // what a kernel gets without asking for more

struct Functions {
    Result (*Init)(unsigned);
    Result (*DeviceGet)(Device *, int);
    Result (*DeviceGetCount)(int *);
    Result (*DeviceGetName)(char *, int, Device);
    Result (*DeviceGetAttribute)(int *, int, Device);
    Result (*DevicePrimaryCtxRetain)(Handle *, Device);
    Result (*DevicePrimaryCtxRelease)(Device);
    Result (*CtxPushCurrent)(Handle);
    Result (*CtxPopCurrent)(Handle *);
    Result (*CtxGetDevice)(Device *);
    Result (*StreamCreate)(Handle *, unsigned);
    Result (*StreamDestroy)(Handle);
    Result (*StreamSynchronize)(Handle);
    Result (*ModuleLoadData)(Handle *, const void *);
    Result (*ModuleUnload)(Handle);
    Result (*ModuleGetFunction)(Handle *, Handle, const char *);
    Result (*FuncGetAttribute)(int *, int, Handle);
    Result (*FuncSetAttribute)(Handle, int, int);
    Result (*LaunchKernel)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle,
                           void **, void **);
    Result (*MemAlloc)(Pointer *, size_t);
    Result (*MemFree)(Pointer);
    Result (*MemcpyHtoDAsync)(Pointer, const void *, size_t, Handle);
    Result (*MemcpyDtoHAsync)(void *, Pointer, size_t, Handle);
    Result (*GetErrorName)(Result, const char **);
};

// Newer forms of functions have names of their own.
int32_t load_functions(Functions *cu) {
    SharedLibrary library;
    if (!library.open("libcuda.so.1")) return fail(kiln_unsupported, "no CUDA here: libcuda.so.1 cannot be loaded");
    library.find("cuInit", &cu->Init);
    library.find("cuDeviceGet", &cu->DeviceGet);
    library.find("cuDeviceGetCount", &cu->DeviceGetCount);
    library.find("cuDeviceGetName", &cu->DeviceGetName);
    library.find("cuDeviceGetAttribute", &cu->DeviceGetAttribute);
    library.find("cuDevicePrimaryCtxRetain", &cu->DevicePrimaryCtxRetain);
    library.find("cuDevicePrimaryCtxRelease_v2", &cu->DevicePrimaryCtxRelease);
    library.find("cuCtxPushCurrent_v2", &cu->CtxPushCurrent);
    library.find("cuCtxPopCurrent_v2", &cu->CtxPopCurrent);
    library.find("cuCtxGetDevice", &cu->CtxGetDevice);
    library.find("cuStreamCreate", &cu->StreamCreate);
    library.find("cuStreamDestroy_v2", &cu->StreamDestroy);
    library.find("cuStreamSynchronize", &cu->StreamSynchronize);
    library.find("cuModuleLoadData", &cu->ModuleLoadData);
    library.find("cuModuleUnload", &cu->ModuleUnload);
    library.find("cuModuleGetFunction", &cu->ModuleGetFunction);
    library.find("cuFuncGetAttribute", &cu->FuncGetAttribute);
    library.find("cuFuncSetAttribute", &cu->FuncSetAttribute);
    library.find("cuLaunchKernel", &cu->LaunchKernel);
    library.find("cuMemAlloc_v2", &cu->MemAlloc);
    library.find("cuMemFree_v2", &cu->MemFree);
    library.find("cuMemcpyHtoDAsync_v2", &cu->MemcpyHtoDAsync);
    library.find("cuMemcpyDtoHAsync_v2", &cu->MemcpyDtoHAsync);
    library.find("cuGetErrorName", &cu->GetErrorName);
    if (library.missing() == nullptr) return kiln_ok;
    return fail(kiln_unsupported, "a newer CUDA driver is needed: libcuda.so.1 has no %s", library.missing());
}

// A status for what a function of the driver's returned.
int32_t check(const Functions &cu, Result code, const char *what) {
    if (code == 0) return kiln_ok;
    const char *name = nullptr;
    if (cu.GetErrorName(code, &name) != 0 || name == nullptr) name = "an unknown error";
    switch (code) {
        case no_device:
        case invalid_device:
        case no_binary:
        case invalid_ptx:
        case unsupported_ptx:
        case launch_resources:
            return fail(kiln_unsupported, "%s: %s (CUDA error %d)", what, name, code);
        default:
            return fail(kiln_failed, "%s: %s (CUDA error %d)", what, name, code);
    }
}

class Cuda final : public Driver {
  public:
    Cuda(const Functions &functions, Handle context, Handle stream, Device device, bool owns)
        : cu_(functions), context_(context), stream_(stream), device_(device), owns_(owns) {
        if (cu_.DeviceGetName(name_, sizeof name_, device_) != 0) name_[0] = '\0';
    }

    void close() override {
        if (owns_) {
            {
                const Current current(*this);
                cu_.StreamDestroy(stream_);
            }
            cu_.DevicePrimaryCtxRelease(device_);
        }
        this->~Cuda();
        std::free(this);
    }

    int32_t load(const char *source, int32_t bytes, void **program) override {
        const Current current(*this);
        if (current.code != 0) return check(cu_, current.code, "making the context current");
        if (strnlen(source, static_cast<size_t>(bytes)) == static_cast<size_t>(bytes))
            return fail(kiln_failed, "a kernel's source has no end");
        int major = 0, minor = 0;
        cu_.DeviceGetAttribute(&major, capability_major, device_);
        cu_.DeviceGetAttribute(&minor, capability_minor, device_);
        const Result code = cu_.ModuleLoadData(program, source);
        char what[200];
        std::snprintf(what, sizeof what, "loading a kernel on %s, compute capability %d.%d", name_, major, minor);
        return check(cu_, code, what);
    }

    void unload(void *program) override {
        const Current current(*this);
        cu_.ModuleUnload(program);
    }

    int32_t find(void *program, const Launch &launch, void **function) override {
        const Current current(*this);
        Handle found = nullptr;
        if (const Result code = cu_.ModuleGetFunction(&found, program, launch.entry))
            return check(cu_, code, launch.entry);
        int most_threads = 0, most_shared = 0;
        cu_.FuncGetAttribute(&most_threads, max_threads, found);
        cu_.DeviceGetAttribute(&most_shared, max_shared_optin, device_);
        if (most_threads < launch.threads.count())
            return fail(kiln_unsupported, "a kernel needs %lld threads a block: %s has %d for it",
                        static_cast<long long>(launch.threads.count()), name_, most_threads);
        if (most_shared < launch.shared_bytes)
            return fail(kiln_unsupported, "a kernel needs %d bytes of shared memory: %s has %d", launch.shared_bytes,
                        name_, most_shared);
        if (launch.shared_bytes > static_shared_limit) {
            if (const Result code = cu_.FuncSetAttribute(found, max_dynamic_shared, launch.shared_bytes))
                return check(cu_, code, "raising a kernel's shared memory");
        }
        *function = found;
        return kiln_ok;
    }

    void forget(void *) override {}

    int32_t launch(void *function, const Launch &launch) override {
        // Buffers are passed by the address of their pointer, as values are.
        constexpr int most = 32;
        void *addresses[most], *buffers[most];
        int count = 0;
        for (; launch.sizes[count] != 0; count++) {
            if (count == most) return fail(kiln_unsupported, "a kernel has more than %d arguments", most);
            buffers[count] = launch.arguments[count];
            addresses[count] = launch.is_buffer[count] ? &buffers[count] : launch.arguments[count];
        }
        const Current current(*this);
        if (current.code != 0) return check(cu_, current.code, "making the context current");
        const auto &b = launch.blocks, &t = launch.threads;
        const Result code =
            cu_.LaunchKernel(function, b.x, b.y, b.z, t.x, t.y, t.z, launch.shared_bytes, stream_, addresses, nullptr);
        return check(cu_, code, "launching a kernel");
    }

    int32_t allocate(size_t bytes, void **memory) override {
        const Current current(*this);
        Pointer pointer = 0;
        const Result code = cu_.MemAlloc(&pointer, bytes);
        if (code == out_of_memory)
            return fail(kiln_failed, "%zu bytes of device memory: the device has no such room (CUDA error %d)", bytes,
                        code);
        *memory = reinterpret_cast<void *>(pointer);
        return check(cu_, code, "allocating device memory");
    }
    int32_t share(void *, size_t, void **) override {
        return fail(kiln_unsupported, "the program's memory is not shared with a CUDA device");
    }
    void free(void *memory) override {
        const Current current(*this);
        cu_.MemFree(to_pointer(memory));
    }

    int32_t write(void *memory, const void *host, size_t bytes) override {
        const Current current(*this);
        const Result code = cu_.MemcpyHtoDAsync(to_pointer(memory), host, bytes, stream_);
        return code == 0 ? finish() : check(cu_, code, "copying to the device");
    }
    int32_t read(void *host, const void *memory, size_t bytes) override {
        const Current current(*this);
        const Result code = cu_.MemcpyDtoHAsync(host, to_pointer(memory), bytes, stream_);
        return code == 0 ? finish() : check(cu_, code, "copying from the device");
    }
    int32_t finish() override {
        const Current current(*this);
        return check(cu_, cu_.StreamSynchronize(stream_), "running kernels");
    }
    const char *name() const override { return name_; }

  private:
    // The context, made this thread's for a while.
    struct Current {
        explicit Current(const Cuda &cuda) : cuda(cuda), code(cuda.cu_.CtxPushCurrent(cuda.context_)) {}
        ~Current() {
            Handle popped = nullptr;
            if (code == 0) cuda.cu_.CtxPopCurrent(&popped);
        }
        Current(const Current &) = delete;
        Current &operator=(const Current &) = delete;
        const Cuda &cuda;
        const Result code;
    };

    static Pointer to_pointer(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }

    const Functions cu_;
    Handle context_, stream_;
    Device device_;
    bool owns_;
    char name_[128] = "";
};

int32_t make(const Functions &cu, Handle context, Handle stream, Device device, bool owns, Driver **driver) {
    void *memory = std::malloc(sizeof(Cuda));
    if (memory == nullptr) return fail(kiln_failed, "the program's memory is exhausted");
    *driver = new (memory) Cuda(cu, context, stream, device, owns);
    return kiln_ok;
}

}  // namespace

int32_t open_cuda(int32_t index, Driver **driver) {
    Functions cu;
    if (const int32_t code = load_functions(&cu); code != kiln_ok) return code;
    int count = 0;
    if (const Result code = cu.Init(0)) return check(cu, code, "starting CUDA");
    if (const Result code = cu.DeviceGetCount(&count)) return check(cu, code, "asking for CUDA's devices");
    if (index < 0 || index >= count)
        return fail(kiln_unsupported, "there is no CUDA device number %d: %d are here", index, count);
    Device device = 0;
    Handle context = nullptr, stream = nullptr, popped = nullptr;
    if (const Result code = cu.DeviceGet(&device, index)) return check(cu, code, "asking for a CUDA device");
    if (const Result code = cu.DevicePrimaryCtxRetain(&context, device))
        return check(cu, code, "making a CUDA context");
    Result code = cu.CtxPushCurrent(context);
    if (code == 0) {
        code = cu.StreamCreate(&stream, 0);
        cu.CtxPopCurrent(&popped);
    }
    if (code != 0) {
        cu.DevicePrimaryCtxRelease(device);
        return check(cu, code, "making a CUDA stream");
    }
    return make(cu, context, stream, device, true, driver);
}

int32_t wrap_cuda(void *context, void *stream, Driver **driver) {
    Functions cu;
    if (const int32_t code = load_functions(&cu); code != kiln_ok) return code;
    if (context == nullptr) return fail(kiln_invalid_argument, "context is null");
    Device device = 0;
    Handle popped = nullptr;
    if (const Result code = cu.CtxPushCurrent(context)) return check(cu, code, "making the context current");
    const Result code = cu.CtxGetDevice(&device);
    cu.CtxPopCurrent(&popped);
    if (code != 0) return check(cu, code, "asking for the context's device");
    return make(cu, context, stream, device, false, driver);
}

}  // namespace kiln::gpu
