// The GPU runtime on the first OpenCL device.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kiln/gpu.h"

namespace {

constexpr char doubles[] =
    "__kernel void twice(__global float *x, int count, __local int *shared) {\n"
    "    int i = get_global_id(0);\n    if (i < count) x[i] *= 2;\n}\n";

struct OpenCl : testing::Test {
    void SetUp() override { ASSERT_EQ(kiln_gpu_open(kiln_gpu_opencl, 0, &gpu), kiln_ok) << kiln_gpu_message(); }
    void TearDown() override { kiln_gpu_close(gpu); }

    // Runs `entry` of the program that `key` stands for on x.
    int32_t launch(const void *key, const char *entry, void *x, int32_t threads, int32_t shared_bytes) const {
        int32_t count = 5;
        const size_t sizes[] = {sizeof x, sizeof count, 0};
        void *arguments[] = {x, &count, nullptr};
        const uint8_t is_buffer[] = {1, 0, 0};
        return kiln_gpu_launch(gpu, key, entry, 1, 1, 1, threads, 1, 1, shared_bytes, sizes, arguments, is_buffer);
    }

    kiln_gpu *gpu = nullptr;
};

bool message_has(const std::string &part) {
    return std::string(kiln_gpu_message()).find(part) != std::string::npos;
}

TEST_F(OpenCl, runs_a_kernel_on_its_memory) {
    void *x = nullptr;
    const std::vector<float> before = {1, 2, 3, 4, 5, 6};
    std::vector<float> after(6);
    ASSERT_EQ(kiln_gpu_allocate(gpu, 24, &x), kiln_ok);
    ASSERT_EQ(kiln_gpu_write(gpu, x, before.data(), 24), kiln_ok);
    ASSERT_EQ(kiln_gpu_load(gpu, kiln_gpu_opencl, doubles, doubles, sizeof doubles), kiln_ok) << kiln_gpu_message();
    ASSERT_EQ(launch(doubles, "twice", x, 8, 0), kiln_ok) << kiln_gpu_message();
    ASSERT_EQ(kiln_gpu_read(gpu, after.data(), x, 24), kiln_ok);
    EXPECT_EQ(after, (std::vector<float>{2, 4, 6, 8, 10, 6}));
    EXPECT_EQ(kiln_gpu_finish(gpu), kiln_ok);
    EXPECT_STRNE(kiln_gpu_name(gpu), "");
    kiln_gpu_free(gpu, x);
}

TEST_F(OpenCl, says_what_the_device_lacks) {
    ASSERT_EQ(kiln_gpu_load(gpu, kiln_gpu_opencl, doubles, doubles, sizeof doubles), kiln_ok);
    EXPECT_EQ(launch(doubles, "twice", nullptr, 1 << 24, 0), kiln_unsupported);
    EXPECT_TRUE(message_has("needs 16777216 threads a block")) << kiln_gpu_message();
    EXPECT_EQ(launch(doubles, "twice", nullptr, 8, 1 << 30), kiln_unsupported);
    EXPECT_TRUE(message_has("1073741824 bytes of local memory")) << kiln_gpu_message();
    EXPECT_EQ(launch(doubles, "thrice", nullptr, 8, 0), kiln_failed);
    const char wrong[] = "__kernel void f() { no_such_function(); }";
    EXPECT_EQ(kiln_gpu_load(gpu, kiln_gpu_opencl, wrong, wrong, sizeof wrong), kiln_unsupported);
    EXPECT_TRUE(message_has("does not compile the kernel")) << kiln_gpu_message();
}

TEST_F(OpenCl, memory_that_is_not_there_is_a_status) {
    void *memory = gpu;
    EXPECT_EQ(kiln_gpu_allocate(gpu, size_t{1} << 50, &memory), kiln_failed);
    EXPECT_EQ(memory, nullptr);
    EXPECT_TRUE(message_has("1125899906842624 bytes of device memory")) << kiln_gpu_message();
}

TEST_F(OpenCl, wrong_arguments_are_named) {
    void *memory = nullptr;
    kiln_gpu *other = gpu;
    EXPECT_EQ(kiln_gpu_load(gpu, kiln_gpu_cuda, doubles, doubles, sizeof doubles), kiln_invalid_argument);
    EXPECT_TRUE(message_has("a kernel for CUDA is run with OpenCL")) << kiln_gpu_message();
    EXPECT_EQ(kiln_gpu_allocate(nullptr, 1, &memory), kiln_invalid_argument);
    EXPECT_EQ(kiln_gpu_wrap_opencl(nullptr, nullptr, nullptr, &other), kiln_invalid_argument);
    EXPECT_EQ(other, nullptr);
    EXPECT_EQ(kiln_gpu_open(7, 0, &other), kiln_invalid_argument);
    EXPECT_EQ(kiln_gpu_open(kiln_gpu_opencl, 1000, &other), kiln_unsupported);
    EXPECT_TRUE(message_has("there is no OpenCL device number 1000")) << kiln_gpu_message();
}

// Run where no platform and no driver is found.
TEST(Absent, DISABLED_gpus_are_a_status) {
    kiln_gpu *gpu = nullptr;
    EXPECT_EQ(kiln_gpu_open(kiln_gpu_opencl, 0, &gpu), kiln_unsupported);
    EXPECT_TRUE(message_has("OpenCL")) << kiln_gpu_message();
    EXPECT_EQ(gpu, nullptr);
    if (kiln_gpu_open(kiln_gpu_cuda, 0, &gpu) == kiln_ok) {
        kiln_gpu_close(gpu);
        GTEST_SKIP() << "this machine has a CUDA GPU";
    }
    EXPECT_TRUE(message_has("CUDA")) << kiln_gpu_message();
}

}  // namespace
