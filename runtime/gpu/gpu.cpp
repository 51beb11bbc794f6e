// GPUs: programs and their entries are kept for each, so that a run finds them loaded.
#include "kiln/gpu.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gpu/driver.h"

namespace kiln::gpu {
namespace {

thread_local char last_message[512];

// A vector of plain data that tells when memory is exhausted.
template <typename T>
struct List {
    T *data = nullptr;
    int count = 0, room = 0;

    bool add(const T &value) {
        if (count == room) {
            const int more = room == 0 ? 16 : room * 2;
            auto *moved = static_cast<T *>(std::realloc(data, sizeof(T) * static_cast<size_t>(more)));
            if (moved == nullptr) return false;
            data = moved;
            room = more;
        }
        data[count++] = value;
        return true;
    }
};

struct Program {
    const void *key;
    void *program;
};

struct Entry {
    const void *key;
    const char *name;
    void *function;
};

struct State {
    Driver *driver;
    pthread_mutex_t mutex;  // of the lists, and of arguments being set
    List<Program> programs;
    List<Entry> entries;
};

struct Lock {
    explicit Lock(State *state) : state_(state) { pthread_mutex_lock(&state_->mutex); }
    ~Lock() { pthread_mutex_unlock(&state_->mutex); }
    Lock(const Lock &) = delete;
    Lock &operator=(const Lock &) = delete;

  private:
    State *state_;
};

struct Handle : kiln_gpu {
    State *state;
    bool only_loads;  // launches load and check, and run nothing
};

const Handle *handle(const kiln_gpu *gpu) {
    return static_cast<const Handle *>(gpu);
}

const char *api_name(int32_t api) {
    return api == kiln_gpu_cuda ? "CUDA" : api == kiln_gpu_opencl ? "OpenCL" : "no GPU interface";
}

int32_t out_of_memory() {
    return fail(kiln_failed, "the program's memory is exhausted");
}

// Takes the driver over.
int32_t make(int32_t api, Driver *driver, kiln_gpu **gpu) {
    auto *made = static_cast<Handle *>(std::calloc(1, sizeof(Handle)));
    auto *state = static_cast<State *>(std::calloc(1, sizeof(State)));
    if (made == nullptr || state == nullptr) {
        std::free(made);
        std::free(state);
        driver->close();
        return out_of_memory();
    }
    pthread_mutex_init(&state->mutex, nullptr);
    state->driver = driver;
    made->api = api;
    made->message = kiln_gpu_message;
    made->state = state;
    *gpu = made;
    return kiln_ok;
}

void *find_program(const State &state, const void *key) {
    for (int i = 0; i < state.programs.count; i++) {
        if (state.programs.data[i].key == key) return state.programs.data[i].program;
    }
    return nullptr;
}

int32_t find_entry(State &state, const void *key, const Launch &launch, void **function) {
    for (int i = 0; i < state.entries.count; i++) {
        const Entry &entry = state.entries.data[i];
        if (entry.key == key && std::strcmp(entry.name, launch.entry) == 0) {
            *function = entry.function;
            return kiln_ok;
        }
    }
    void *program = find_program(state, key);
    if (program == nullptr) return fail(kiln_failed, "the kernel %s was not loaded", launch.entry);
    if (const int32_t code = state.driver->find(program, launch, function); code != kiln_ok) return code;
    return state.entries.add({key, launch.entry, *function}) ? kiln_ok : out_of_memory();
}

int32_t check_gpu(const kiln_gpu *gpu) {
    return gpu == nullptr ? fail(kiln_invalid_argument, "gpu is null") : static_cast<int32_t>(kiln_ok);
}

}  // namespace

int32_t fail(int32_t code, const char *format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(last_message, sizeof last_message, format, arguments);
    va_end(arguments);
    return code;
}

bool SharedLibrary::open(const char *file) {
    handle_ = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    return handle_ != nullptr;
}

void *SharedLibrary::symbol(const char *name) {
    return dlsym(handle_, name);
}

}  // namespace kiln::gpu

using namespace kiln::gpu;

int32_t kiln_gpu_open(int32_t api, int32_t index, kiln_gpu **gpu) {
    *gpu = nullptr;
    Driver *driver = nullptr;
    const int32_t code = api == kiln_gpu_cuda     ? open_cuda(index, &driver)
                         : api == kiln_gpu_opencl ? open_opencl(index, &driver)
                                                  : fail(kiln_invalid_argument, "api is %d: it must be 1 or 2", api);
    return code == kiln_ok ? make(api, driver, gpu) : code;
}

int32_t kiln_gpu_wrap_cuda(void *context, void *stream, kiln_gpu **gpu) {
    *gpu = nullptr;
    Driver *driver = nullptr;
    const int32_t code = wrap_cuda(context, stream, &driver);
    return code == kiln_ok ? make(kiln_gpu_cuda, driver, gpu) : code;
}

int32_t kiln_gpu_wrap_opencl(void *context, void *device, void *queue, kiln_gpu **gpu) {
    *gpu = nullptr;
    Driver *driver = nullptr;
    const int32_t code = wrap_opencl(context, device, queue, &driver);
    return code == kiln_ok ? make(kiln_gpu_opencl, driver, gpu) : code;
}

void kiln_gpu_close(kiln_gpu *gpu) {
    if (gpu == nullptr) return;
    auto *closed = static_cast<Handle *>(gpu);
    State *state = closed->state;
    for (int i = 0; i < state->entries.count; i++) state->driver->forget(state->entries.data[i].function);
    for (int i = 0; i < state->programs.count; i++) state->driver->unload(state->programs.data[i].program);
    state->driver->close();
    pthread_mutex_destroy(&state->mutex);
    std::free(state->entries.data);
    std::free(state->programs.data);
    std::free(state);
    std::free(closed);
}

int32_t kiln_gpu_prepare(kiln_gpu *gpu, const kiln_library *library) {
    if (const int32_t code = check_gpu(gpu); code != kiln_ok) return code;
    Handle loader = *handle(gpu);
    loader.only_loads = true;
    for (int32_t i = 0; i < library->kernel_count; i++) {
        const kiln_kernel &kernel = library->kernels[i];
        if (kernel.gpu != gpu->api) continue;
        // A GPU kernel reads nothing on the processor: it only loads and launches.
        const int32_t code =
            kernel.run(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                       reinterpret_cast<const kiln_threads *>(static_cast<kiln_gpu *>(&loader)));
        if (code != kiln_ok) return code;
    }
    return kiln_ok;
}

int32_t kiln_gpu_allocate(kiln_gpu *gpu, size_t bytes, void **memory) {
    *memory = nullptr;
    const int32_t code = check_gpu(gpu);
    return code == kiln_ok ? handle(gpu)->state->driver->allocate(bytes > 0 ? bytes : 1, memory) : code;
}

int32_t kiln_gpu_share(kiln_gpu *gpu, void *host, size_t bytes, void **memory) {
    *memory = nullptr;
    const int32_t code = check_gpu(gpu);
    return code == kiln_ok ? handle(gpu)->state->driver->share(host, bytes, memory) : code;
}

void kiln_gpu_free(kiln_gpu *gpu, void *memory) {
    if (gpu != nullptr && memory != nullptr) handle(gpu)->state->driver->free(memory);
}

int32_t kiln_gpu_write(kiln_gpu *gpu, void *memory, const void *host, size_t bytes) {
    const int32_t code = check_gpu(gpu);
    return code != kiln_ok || bytes == 0 ? code : handle(gpu)->state->driver->write(memory, host, bytes);
}

int32_t kiln_gpu_read(kiln_gpu *gpu, void *host, const void *memory, size_t bytes) {
    const int32_t code = check_gpu(gpu);
    return code != kiln_ok || bytes == 0 ? code : handle(gpu)->state->driver->read(host, memory, bytes);
}

int32_t kiln_gpu_finish(kiln_gpu *gpu) {
    const int32_t code = check_gpu(gpu);
    return code == kiln_ok ? handle(gpu)->state->driver->finish() : code;
}

const char *kiln_gpu_name(const kiln_gpu *gpu) {
    return handle(gpu)->state->driver->name();
}

const char *kiln_gpu_message(void) {
    return last_message;
}

int32_t kiln_gpu_load(const kiln_gpu *gpu, int32_t api, const void *key, const char *source, int32_t bytes) {
    if (const int32_t code = check_gpu(gpu); code != kiln_ok) return code;
    if (gpu->api != api)
        return fail(kiln_invalid_argument, "a kernel for %s is run with %s", api_name(api), api_name(gpu->api));
    State &state = *handle(gpu)->state;
    const Lock lock(&state);
    if (find_program(state, key) != nullptr) return kiln_ok;
    void *program = nullptr;
    if (const int32_t code = state.driver->load(source, bytes, &program); code != kiln_ok) return code;
    return state.programs.add({key, program}) ? kiln_ok : out_of_memory();
}

int32_t kiln_gpu_launch(const kiln_gpu *gpu, const void *key, const char *entry, int32_t blocks_x, int32_t blocks_y,
                        int32_t blocks_z, int32_t threads_x, int32_t threads_y, int32_t threads_z, int32_t shared_bytes,
                        const size_t *sizes, void **arguments, const uint8_t *is_buffer) {
    const Launch launch = {
        entry,    {blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z}, shared_bytes, sizes, arguments,
        is_buffer};
    State &state = *handle(gpu)->state;
    const Lock lock(&state);
    void *function = nullptr;
    if (const int32_t code = find_entry(state, key, launch, &function); code != kiln_ok) return code;
    return handle(gpu)->only_loads ? static_cast<int32_t>(kiln_ok) : state.driver->launch(function, launch);
}
