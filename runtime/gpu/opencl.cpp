// OpenCL 1.2, loaded when a device is opened.
#include <cstdlib>
#include <cstring>
#include <new>

#include "gpu/driver.h"

namespace kiln::gpu {
namespace {

// The part of CL/cl.h that is needed, so that building needs none.
using Handle = void *;
using Int = int32_t;
using UInt = uint32_t;
constexpr Int device_not_found = -1, memory_failure = -4, out_of_resources = -5, out_of_host_memory = -6,
              build_failure = -11, invalid_buffer_size = -61, no_platform = -1001;
constexpr uint64_t all_devices = 0xFFFFFFFF, read_write = 1 << 0, use_host_pointer = 1 << 3, out_of_order = 1 << 0;
constexpr UInt device_name = 0x102B, device_local_bytes = 0x1023, queue_properties = 0x1093, build_log = 0x1183,
               kernel_group_size = 0x11B0;

struct Functions {
    Int (*GetPlatformIDs)(UInt, Handle *, UInt *);
    Int (*GetDeviceIDs)(Handle, uint64_t, UInt, Handle *, UInt *);
    Int (*GetDeviceInfo)(Handle, UInt, size_t, void *, size_t *);
    Handle (*CreateContext)(const intptr_t *, UInt, const Handle *, void *, void *, Int *);
    Int (*ReleaseContext)(Handle);
    Handle (*CreateCommandQueue)(Handle, Handle, uint64_t, Int *);
    Int (*GetCommandQueueInfo)(Handle, UInt, size_t, void *, size_t *);
    Int (*ReleaseCommandQueue)(Handle);
    Handle (*CreateProgramWithSource)(Handle, UInt, const char **, const size_t *, Int *);
    Int (*BuildProgram)(Handle, UInt, const Handle *, const char *, void *, void *);
    Int (*GetProgramBuildInfo)(Handle, Handle, UInt, size_t, void *, size_t *);
    Int (*ReleaseProgram)(Handle);
    Handle (*CreateKernel)(Handle, const char *, Int *);
    Int (*GetKernelWorkGroupInfo)(Handle, Handle, UInt, size_t, void *, size_t *);
    Int (*SetKernelArg)(Handle, UInt, size_t, const void *);
    Int (*ReleaseKernel)(Handle);
    Int (*EnqueueNDRangeKernel)(Handle, Handle, UInt, const size_t *, const size_t *, const size_t *, UInt,
                                const Handle *, Handle *);
    Handle (*CreateBuffer)(Handle, uint64_t, size_t, void *, Int *);
    Int (*ReleaseMemObject)(Handle);
    Int (*EnqueueWriteBuffer)(Handle, Handle, UInt, size_t, size_t, const void *, UInt, const Handle *, Handle *);
    Int (*EnqueueReadBuffer)(Handle, Handle, UInt, size_t, size_t, void *, UInt, const Handle *, Handle *);
    Int (*Finish)(Handle);
};

int32_t load_functions(Functions *cl) {
    SharedLibrary library;
    if (!library.open("libOpenCL.so.1")) {
        return fail(kiln_unsupported, "no OpenCL here: libOpenCL.so.1 cannot be loaded");
    }
    library.find("clGetPlatformIDs", &cl->GetPlatformIDs);
    library.find("clGetDeviceIDs", &cl->GetDeviceIDs);
    library.find("clGetDeviceInfo", &cl->GetDeviceInfo);
    library.find("clCreateContext", &cl->CreateContext);
    library.find("clReleaseContext", &cl->ReleaseContext);
    library.find("clCreateCommandQueue", &cl->CreateCommandQueue);
    library.find("clGetCommandQueueInfo", &cl->GetCommandQueueInfo);
    library.find("clReleaseCommandQueue", &cl->ReleaseCommandQueue);
    library.find("clCreateProgramWithSource", &cl->CreateProgramWithSource);
    library.find("clBuildProgram", &cl->BuildProgram);
    library.find("clGetProgramBuildInfo", &cl->GetProgramBuildInfo);
    library.find("clReleaseProgram", &cl->ReleaseProgram);
    library.find("clCreateKernel", &cl->CreateKernel);
    library.find("clGetKernelWorkGroupInfo", &cl->GetKernelWorkGroupInfo);
    library.find("clSetKernelArg", &cl->SetKernelArg);
    library.find("clReleaseKernel", &cl->ReleaseKernel);
    library.find("clEnqueueNDRangeKernel", &cl->EnqueueNDRangeKernel);
    library.find("clCreateBuffer", &cl->CreateBuffer);
    library.find("clReleaseMemObject", &cl->ReleaseMemObject);
    library.find("clEnqueueWriteBuffer", &cl->EnqueueWriteBuffer);
    library.find("clEnqueueReadBuffer", &cl->EnqueueReadBuffer);
    library.find("clFinish", &cl->Finish);
    if (library.missing() == nullptr) return kiln_ok;
    return fail(kiln_unsupported, "OpenCL 1.2 is needed: libOpenCL.so.1 has no %s", library.missing());
}

// A status for what an OpenCL function returned.
int32_t check(Int code, const char *what) {
    switch (code) {
        case 0:
            return kiln_ok;
        case memory_failure:
        case out_of_resources:
        case out_of_host_memory:
            return fail(kiln_failed, "%s: the device's memory or another resource is exhausted (OpenCL error %d)", what,
                        code);
        default:
            return fail(kiln_failed, "%s: OpenCL error %d", what, code);
    }
}

class OpenCl final : public Driver {
  public:
    OpenCl(const Functions &functions, Handle context, Handle device, Handle queue, bool owns)
        : cl_(functions), context_(context), device_(device), queue_(queue), owns_(owns) {
        if (cl_.GetDeviceInfo(device_, device_name, sizeof name_, name_, nullptr) != 0) name_[0] = '\0';
        cl_.GetDeviceInfo(device_, device_local_bytes, sizeof local_bytes_, &local_bytes_, nullptr);
    }

    void close() override {
        if (owns_) {
            cl_.ReleaseCommandQueue(queue_);
            cl_.ReleaseContext(context_);
        }
        this->~OpenCl();
        std::free(this);
    }

    int32_t load(const char *source, int32_t bytes, void **program) override {
        const size_t size = strnlen(source, static_cast<size_t>(bytes));
        Int code = 0;
        const Handle made = cl_.CreateProgramWithSource(context_, 1, &source, &size, &code);
        if (code != 0) return check(code, "creating a program");
        code = cl_.BuildProgram(made, 1, &device_, "", nullptr, nullptr);
        if (code == 0) {
            *program = made;
            return kiln_ok;
        }
        // The log's start, where the first error stands.
        char log[400] = "";
        size_t length = 0;
        cl_.GetProgramBuildInfo(made, device_, build_log, 0, nullptr, &length);
        auto *text = static_cast<char *>(std::calloc(length + 1, 1));
        if (text != nullptr && cl_.GetProgramBuildInfo(made, device_, build_log, length, text, nullptr) == 0) {
            std::strncpy(log, text, sizeof log - 1);
        }
        std::free(text);
        cl_.ReleaseProgram(made);
        return code == build_failure ? fail(kiln_unsupported, "%s does not compile the kernel: %s", name_, log)
                                     : check(code, "compiling a kernel");
    }

    void unload(void *program) override { cl_.ReleaseProgram(program); }

    int32_t find(void *program, const Launch &launch, void **function) override {
        Int code = 0;
        const Handle kernel = cl_.CreateKernel(program, launch.entry, &code);
        if (code != 0) return check(code, launch.entry);
        size_t most = 0;
        code = cl_.GetKernelWorkGroupInfo(kernel, device_, kernel_group_size, sizeof most, &most, nullptr);
        int32_t status = check(code, launch.entry);
        if (code == 0 && static_cast<int64_t>(most) < launch.threads.count()) {
            status = fail(kiln_unsupported, "a kernel needs %lld threads a block: %s has %zu",
                          static_cast<long long>(launch.threads.count()), name_, most);
        } else if (static_cast<int64_t>(local_bytes_) < launch.shared_bytes) {
            status = fail(kiln_unsupported, "a kernel needs %d bytes of local memory: %s has %llu", launch.shared_bytes,
                          name_, static_cast<unsigned long long>(local_bytes_));
        }
        if (status == kiln_ok) {
            *function = kernel;
        } else {
            cl_.ReleaseKernel(kernel);
        }
        return status;
    }

    void forget(void *function) override { cl_.ReleaseKernel(function); }

    int32_t launch(void *function, const Launch &launch) override {
        UInt i = 0;
        Int code = 0;
        for (; launch.sizes[i] != 0 && code == 0; i++) {
            const void *memory = launch.arguments[i];
            code = launch.is_buffer[i] ? cl_.SetKernelArg(function, i, sizeof memory, &memory)
                                       : cl_.SetKernelArg(function, i, launch.sizes[i], launch.arguments[i]);
        }
        // The last one is the block's local memory, of which a kernel without any takes a byte.
        const size_t local = launch.shared_bytes > 0 ? static_cast<size_t>(launch.shared_bytes) : 1;
        code = code != 0 ? code : cl_.SetKernelArg(function, i, local, nullptr);
        if (code != 0) return check(code, "passing a kernel's arguments");
        const auto &b = launch.blocks, &t = launch.threads;
        const size_t threads[] = {static_cast<size_t>(t.x), static_cast<size_t>(t.y), static_cast<size_t>(t.z)};
        const size_t all[] = {threads[0] * b.x, threads[1] * b.y, threads[2] * b.z};
        code = cl_.EnqueueNDRangeKernel(queue_, function, 3, nullptr, all, threads, 0, nullptr, nullptr);
        return check(code, "launching a kernel");
    }

    int32_t allocate(size_t bytes, void **memory) override { return create(read_write, nullptr, bytes, memory); }
    int32_t share(void *host, size_t bytes, void **memory) override {
        return create(read_write | use_host_pointer, host, bytes, memory);
    }
    void free(void *memory) override { cl_.ReleaseMemObject(memory); }

    int32_t write(void *memory, const void *host, size_t bytes) override {
        return check(cl_.EnqueueWriteBuffer(queue_, memory, 1, 0, bytes, host, 0, nullptr, nullptr),
                     "copying to the device");
    }
    int32_t read(void *host, const void *memory, size_t bytes) override {
        return check(cl_.EnqueueReadBuffer(queue_, const_cast<void *>(memory), 1, 0, bytes, host, 0, nullptr, nullptr),
                     "copying from the device");
    }
    int32_t finish() override { return check(cl_.Finish(queue_), "running kernels"); }
    const char *name() const override { return name_; }

  private:
    int32_t create(uint64_t flags, void *host, size_t bytes, void **memory) {
        Int code = 0;
        *memory = cl_.CreateBuffer(context_, flags, bytes, host, &code);
        if (code == 0) return kiln_ok;
        *memory = nullptr;
        const bool exhausted = code == memory_failure || code == out_of_resources || code == out_of_host_memory ||
                               code == invalid_buffer_size;
        return fail(kiln_failed, "%zu bytes of device memory: %s (OpenCL error %d)", bytes,
                    exhausted ? "the device has no such room" : "they cannot be had", code);
    }

    const Functions cl_;
    Handle context_, device_, queue_;
    bool owns_;
    char name_[128] = "";
    uint64_t local_bytes_ = 0;
};

int32_t make(const Functions &cl, Handle context, Handle device, Handle queue, bool owns, Driver **driver) {
    void *memory = std::malloc(sizeof(OpenCl));
    if (memory == nullptr) return fail(kiln_failed, "the program's memory is exhausted");
    *driver = new (memory) OpenCl(cl, context, device, queue, owns);
    return kiln_ok;
}

// Device number `index` among those of all platforms.
int32_t find_device(const Functions &cl, int32_t index, Handle *device) {
    Handle platforms[16], devices[64];
    UInt platform_count = 0;
    const Int code = cl.GetPlatformIDs(16, platforms, &platform_count);
    if (code != 0 && code != no_platform) return check(code, "asking for OpenCL's platforms");
    UInt found = 0;
    for (UInt i = 0; code == 0 && i < platform_count && i < 16; i++) {
        UInt count = 0;
        const Int answer = cl.GetDeviceIDs(platforms[i], all_devices, 64, devices, &count);
        if (answer != 0 && answer != device_not_found) return check(answer, "asking for OpenCL's devices");
        if (answer == 0 && index >= 0 && static_cast<UInt>(index) < found + count) {
            *device = devices[static_cast<UInt>(index) - found];
            return kiln_ok;
        }
        found += answer == 0 ? count : 0;
    }
    return fail(kiln_unsupported, "there is no OpenCL device number %d: %u are here", index, found);
}

}  // namespace

int32_t open_opencl(int32_t index, Driver **driver) {
    Functions cl;
    if (const int32_t code = load_functions(&cl); code != kiln_ok) return code;
    Handle device = nullptr;
    if (const int32_t code = find_device(cl, index, &device); code != kiln_ok) return code;
    Int code = 0;
    const Handle context = cl.CreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    if (code != 0) return check(code, "making an OpenCL context");
    const Handle queue = cl.CreateCommandQueue(context, device, 0, &code);
    if (code != 0) {
        cl.ReleaseContext(context);
        return check(code, "making an OpenCL queue");
    }
    return make(cl, context, device, queue, true, driver);
}

int32_t wrap_opencl(void *context, void *device, void *queue, Driver **driver) {
    Functions cl;
    if (const int32_t code = load_functions(&cl); code != kiln_ok) return code;
    if (context == nullptr || device == nullptr || queue == nullptr) {
        return fail(kiln_invalid_argument, "context, device or queue is null");
    }
    uint64_t properties = 0;
    if (const Int code = cl.GetCommandQueueInfo(queue, queue_properties, sizeof properties, &properties, nullptr))
        return check(code, "asking for the queue's properties");
    if ((properties & out_of_order) != 0) {
        return fail(kiln_invalid_argument, "queue is out of order: kernels need one that keeps their order");
    }
    return make(cl, context, device, queue, false, driver);
}

}  // namespace kiln::gpu
