// What differs between CUDA and OpenCL, as a table of functions over one device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kiln/gpu.h"

namespace kiln::gpu {

// Keeps a message for kiln_gpu_message() and returns `code`.
[[gnu::format(printf, 2, 3)]] int32_t fail(int32_t code, const char *format, ...);

struct Size {
    int32_t x, y, z;
    int64_t count() const { return int64_t{x} * y * z; }
};

struct Launch {
    const char *entry;
    Size blocks, threads;
    int32_t shared_bytes;
    const size_t *sizes;  // of the arguments, up to a 0
    void **arguments;
    const uint8_t *is_buffer;
};

// A device with its queue. Every function but close() returns a kiln_status_code.
class Driver {
  public:
    virtual void close() = 0;  // and frees itself
    virtual int32_t load(const char *source, int32_t bytes, void **program) = 0;
    virtual void unload(void *program) = 0;
    // Finds an entry, and checks that the device can run it as `launch` says.
    virtual int32_t find(void *program, const Launch &launch, void **function) = 0;
    virtual void forget(void *function) = 0;
    virtual int32_t launch(void *function, const Launch &launch) = 0;
    virtual int32_t allocate(size_t bytes, void **memory) = 0;
    virtual int32_t share(void *host, size_t bytes, void **memory) = 0;
    virtual void free(void *memory) = 0;
    virtual int32_t write(void *memory, const void *host, size_t bytes) = 0;
    virtual int32_t read(void *host, const void *memory, size_t bytes) = 0;
    virtual int32_t finish() = 0;
    virtual const char *name() const = 0;

  protected:
    ~Driver() = default;
};

// Each opens device `index`, or wraps what the program has.
int32_t open_cuda(int32_t index, Driver **driver);
int32_t wrap_cuda(void *context, void *stream, Driver **driver);
int32_t open_opencl(int32_t index, Driver **driver);
int32_t wrap_opencl(void *context, void *device, void *queue, Driver **driver);

// A shared library's functions. The library stays loaded.
class SharedLibrary {
  public:
    bool open(const char *file);
    // Sets a pointer to a function; remembers the first that is missing.
    template <typename Function>
    void find(const char *name, Function *function) {
        *function = reinterpret_cast<Function>(symbol(name));
        if (*function == nullptr && missing_ == nullptr) missing_ = name;
    }
    const char *missing() const { return missing_; }

  private:
    void *symbol(const char *name);

    void *handle_ = nullptr;
    const char *missing_ = nullptr;
};

}  // namespace kiln::gpu
