// The CUDA side of the GPU runtime, with a driver that runs nothing: what it is called with, in which order, and what
// becomes of its errors.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "fake_cuda.h"
#include "kiln/gpu.h"

namespace {

constexpr char source[] = "// PTX\n.version 7.0\n";

struct Cuda : testing::Test {
    void SetUp() override {
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        ASSERT_NE(library, nullptr) << dlerror();
        auto *get = reinterpret_cast<FakeCuda *(*)()>(dlsym(library, "fake_cuda"));
        ASSERT_NE(get, nullptr) << "this is a real driver: LD_LIBRARY_PATH should name the folder of the fake one";
        fake = get();
        *fake = FakeCuda();
    }
    void TearDown() override {
        EXPECT_EQ(fake->depth, 0);
        EXPECT_EQ(fake->live, 0);
        EXPECT_FALSE(fake->stray);
    }

    int32_t launch(kiln_gpu *gpu, int32_t shared_bytes = 0, int32_t threads = 32) const {
        int32_t count = 5;
        const size_t sizes[] = {sizeof(void *), sizeof count, 0};
        void *arguments[] = {reinterpret_cast<void *>(0x1230), &count, nullptr};
        const uint8_t is_buffer[] = {1, 0, 0};
        return kiln_gpu_launch(gpu, source, "entry", 7, 2, 1, threads, 4, 1, shared_bytes, sizes, arguments, is_buffer);
    }

    int32_t load(kiln_gpu *gpu) const { return kiln_gpu_load(gpu, kiln_gpu_cuda, source, source, sizeof source); }

    void fail(const char *function, int code) const {
        fake->failing = function;
        fake->fails_with = code;
    }

    FakeCuda *fake = nullptr;
};

TEST_F(Cuda, launches_as_it_is_asked_to) {
    kiln_gpu *gpu = nullptr;
    ASSERT_EQ(kiln_gpu_open(kiln_gpu_cuda, 0, &gpu), kiln_ok) << kiln_gpu_message();
    EXPECT_STREQ(kiln_gpu_name(gpu), "a device");
    EXPECT_EQ(load(gpu), kiln_ok);
    EXPECT_EQ(load(gpu), kiln_ok);
    EXPECT_EQ(fake->source, source);
    EXPECT_EQ(launch(gpu, 50000), kiln_ok) << kiln_gpu_message();
    EXPECT_EQ(launch(gpu, 50000), kiln_ok);
    EXPECT_EQ(fake->shared_limit, 50000);
    ASSERT_EQ(fake->launches.size(), 2u);
    const FakeCuda::Launch &last = fake->launches[1];
    EXPECT_EQ(last.entry, "entry");
    EXPECT_EQ(last.blocks[0] * 100 + last.blocks[1] * 10 + last.blocks[2], 721u);
    EXPECT_EQ(last.threads[0] * 100 + last.threads[1] * 10 + last.threads[2], 3241u);
    EXPECT_EQ(last.shared_bytes, 50000u);
    EXPECT_EQ(last.first, 0x1230u);
    EXPECT_EQ(last.second, 5);
    EXPECT_NE(last.stream, nullptr);
    kiln_gpu_close(gpu);
}

TEST_F(Cuda, takes_a_programs_context_and_stream) {
    int context = 0, stream = 0;
    kiln_gpu *gpu = nullptr;
    ASSERT_EQ(kiln_gpu_wrap_cuda(&context, &stream, &gpu), kiln_ok) << kiln_gpu_message();
    EXPECT_EQ(load(gpu), kiln_ok);
    EXPECT_EQ(launch(gpu), kiln_ok);
    EXPECT_EQ(fake->launches.at(0).stream, &stream);
    kiln_gpu_close(gpu);
    EXPECT_EQ(kiln_gpu_wrap_cuda(nullptr, &stream, &gpu), kiln_invalid_argument);
}

TEST_F(Cuda, copies) {
    kiln_gpu *gpu = nullptr;
    void *memory = nullptr;
    int before = 42, after = 0;
    ASSERT_EQ(kiln_gpu_open(kiln_gpu_cuda, 0, &gpu), kiln_ok);
    ASSERT_EQ(kiln_gpu_allocate(gpu, sizeof before, &memory), kiln_ok);
    EXPECT_EQ(kiln_gpu_write(gpu, memory, &before, sizeof before), kiln_ok);
    EXPECT_EQ(kiln_gpu_read(gpu, &after, memory, sizeof after), kiln_ok);
    EXPECT_EQ(after, 42);
    kiln_gpu_free(gpu, memory);
    EXPECT_EQ(kiln_gpu_share(gpu, &after, sizeof after, &memory), kiln_unsupported);
    kiln_gpu_close(gpu);
}

// What a device or a driver cannot do is unsupported, what went wrong has failed; neither ends the program.
TEST_F(Cuda, errors_are_statuses) {
    const struct {
        const char *function;
        int code, status;
    } cases[] = {{"cuInit", 100, kiln_unsupported},
                 {"cuDeviceGetCount", 3, kiln_failed},
                 {"cuDevicePrimaryCtxRetain", 2, kiln_failed},
                 {"cuStreamCreate", 2, kiln_failed},
                 {"cuModuleLoadData", 209, kiln_unsupported},
                 {"cuModuleLoadData", 222, kiln_unsupported},
                 {"cuModuleGetFunction", 500, kiln_failed},
                 {"cuLaunchKernel", 701, kiln_unsupported},
                 {"cuLaunchKernel", 700, kiln_failed},
                 {"cuMemAlloc", 2, kiln_failed},
                 {"cuStreamSynchronize", 719, kiln_failed}};
    for (const auto &[function, code, status] : cases) {
        SCOPED_TRACE(function);
        *fake = FakeCuda();
        fail(function, code);
        kiln_gpu *gpu = nullptr;
        void *memory = nullptr;
        int32_t got = kiln_gpu_open(kiln_gpu_cuda, 0, &gpu);
        if (got == kiln_ok) got = load(gpu);
        if (got == kiln_ok) got = launch(gpu);
        if (got == kiln_ok) got = kiln_gpu_allocate(gpu, 8, &memory);
        if (got == kiln_ok) got = kiln_gpu_finish(gpu);
        EXPECT_EQ(got, status) << kiln_gpu_message();
        EXPECT_NE(std::string(kiln_gpu_message()).find("CUDA error " + std::to_string(code)), std::string::npos)
            << kiln_gpu_message();
        kiln_gpu_free(gpu, memory);
        kiln_gpu_close(gpu);
        EXPECT_EQ(fake->live, 0);
    }
}

TEST_F(Cuda, says_what_the_device_lacks) {
    kiln_gpu *gpu = nullptr;
    EXPECT_EQ(kiln_gpu_open(kiln_gpu_cuda, 1, &gpu), kiln_unsupported);
    ASSERT_EQ(kiln_gpu_open(kiln_gpu_cuda, 0, &gpu), kiln_ok);
    EXPECT_EQ(load(gpu), kiln_ok);
    EXPECT_EQ(launch(gpu, 200000), kiln_unsupported);
    EXPECT_EQ(launch(gpu, 0, 512), kiln_unsupported);
    EXPECT_TRUE(fake->launches.empty());
    kiln_gpu_close(gpu);
}

}  // namespace
