// A driver of CUDA that runs kernels without a GPU: a program, named by KILN_EMULATOR, interprets them
// (tests/kernels/ptx_threads.py). It reads a line for each launch and answers with one. Device memory is a file that
// both map.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>

namespace {

constexpr size_t arena_bytes = size_t{256} << 20, alignment = 256;
constexpr int failed = 999;

// Held where memory is given out or a kernel runs: a program may do either in several threads.
std::mutex one_at_a_time;

struct Program {
    std::string text;
};

struct Function {
    const Program *program;
    std::string entry;
};

std::string folder() {
    static std::string made;
    if (made.empty()) {
        made = std::filesystem::temp_directory_path() / "kiln_emulated_XXXXXX";
        if (mkdtemp(made.data()) == nullptr) {
            std::abort();
        }
    }
    return made;
}

struct Arena {
    char *begin = nullptr;
    size_t used = 0;
    Arena() {
        const int file = open((folder() + "/memory").c_str(), O_RDWR | O_CREAT, 0600);
        if (file < 0 || ftruncate(file, arena_bytes) != 0) {
            std::abort();
        }
        begin = static_cast<char *>(mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
        close(file);
    }
    ~Arena() {
        for (const char *name : {"/memory", "/kernel.ptx"}) {
            unlink((folder() + name).c_str());
        }
        rmdir(folder().c_str());
    }
};

Arena &arena() {
    static Arena one;
    return one;
}

// The program that interprets kernels, started at the first launch of this process, and again after one that ended it.
class Emulator {
  public:
    bool launch(const std::string &line) {
        if (process_ != getpid()) {
            start();
        }
        char answer[8] = "";
        const bool is_done = std::fprintf(to_, "%s\n", line.c_str()) > 0 && std::fflush(to_) == 0 &&
                             std::fgets(answer, sizeof answer, from_) != nullptr;
        if (!is_done) {
            std::fclose(to_);
            std::fclose(from_);
            process_ = -1;
        }
        return is_done && std::strcmp(answer, "done\n") == 0;
    }

  private:
    void start() {
        int lines[2], answers[2];
        if (pipe2(lines, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0) {
            std::abort();
        }
        if (fork() == 0) {
            dup2(lines[0], STDIN_FILENO);
            dup2(answers[1], STDOUT_FILENO);
            execl("/bin/sh", "sh", "-c", (std::string("exec ") + std::getenv("KILN_EMULATOR")).c_str(), nullptr);
            std::abort();
        }
        close(lines[0]);
        close(answers[1]);
        to_ = fdopen(lines[1], "w");
        from_ = fdopen(answers[0], "r");
        process_ = getpid();
    }

    FILE *to_ = nullptr, *from_ = nullptr;
    pid_t process_ = -1;
};

Emulator &emulator() {
    static Emulator one;
    return one;
}

// The bytes of an entry's parameters, in their order: from ".param .u64 .ptr .align 1 NAME" and the like.
std::string parameter_bytes(const std::string &text, const std::string &entry) {
    size_t at = text.find(".entry " + entry + "(");
    const size_t end = text.find(')', at);
    std::string bytes;
    for (at = text.find(".param .", at); at < end; at = text.find(".param .", at + 1)) {
        bytes += static_cast<char>(std::atoi(text.c_str() + at + 9) / 8);
    }
    return bytes;
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
    return 0;
}
int cuDeviceGet(int *device, int index) {
    *device = index;
    return 0;
}
int cuDeviceGetCount(int *count) {
    *count = 1;
    return 0;
}
int cuDeviceGetName(char *name, int size, int) {
    std::snprintf(name, size, "an emulated GPU");
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
    *value = attribute == 97 ? 160 << 10 : attribute == 75 ? 8 : 0;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int) {
    *context = &arena();
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) {
    return 0;
}
int cuCtxPushCurrent_v2(void *) {
    return 0;
}
int cuCtxPopCurrent_v2(void **) {
    return 0;
}
int cuCtxGetDevice(int *device) {
    *device = 0;
    return 0;
}
int cuStreamCreate(void **stream, unsigned) {
    *stream = &arena();
    return 0;
}
int cuStreamDestroy_v2(void *) {
    return 0;
}
int cuStreamSynchronize(void *) {
    return 0;
}
int cuModuleLoadData(void **module, const void *source) {
    *module = new Program{static_cast<const char *>(source)};
    return 0;
}
int cuModuleUnload(void *module) {
    delete static_cast<Program *>(module);
    return 0;
}
int cuModuleGetFunction(void **function, void *module, const char *entry) {
    *function = new Function{static_cast<Program *>(module), entry};
    return 0;
}
int cuFuncGetAttribute(int *value, int, void *) {
    *value = 1024;
    return 0;
}
int cuFuncSetAttribute(void *, int, int) {
    return 0;
}
int cuLaunchKernel(void *function, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
                   unsigned shared_bytes, void *, void **arguments, void **) {
    const std::lock_guard lock(one_at_a_time);
    const Function &called = *static_cast<Function *>(function);
    const std::string ptx = folder() + "/kernel.ptx";
    std::ofstream(ptx) << called.program->text;
    std::string line = folder() + "/memory " + ptx + " " + called.entry;
    for (const unsigned number : {bx, by, bz, tx, ty, tz, shared_bytes}) {
        line += " " + std::to_string(number);
    }
    const std::string bytes = parameter_bytes(called.program->text, called.entry);
    for (size_t i = 0; i < bytes.size(); i++) {
        unsigned long long value = 0;
        std::memcpy(&value, arguments[i], bytes[i]);
        // Addresses are counted from the beginning of the memory.
        const auto begin = reinterpret_cast<unsigned long long>(arena().begin);
        const bool is_address = bytes[i] == 8 && value >= begin && value < begin + arena_bytes;
        line += " " + std::to_string(is_address ? value - begin : value);
    }
    return emulator().launch(line) ? 0 : failed;
}
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
    const std::lock_guard lock(one_at_a_time);
    Arena &memory = arena();
    const size_t whole = (bytes + alignment - 1) / alignment * alignment;
    if (memory.used + whole > arena_bytes) {
        return 2;
    }
    *pointer = reinterpret_cast<unsigned long long>(memory.begin + memory.used);
    memory.used += whole;
    return 0;
}
int cuMemFree_v2(unsigned long long) {
    return 0;
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *) {
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *) {
    std::memcpy(to, reinterpret_cast<void *>(from), bytes);
    return 0;
}
int cuGetErrorName(int, const char **name) {
    *name = "CUDA_ERROR_OF_THE_EMULATOR";
    return 0;
}

}  // extern "C"
