// Layers on a real device, of the interface that device.toml was compiled for.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "device_layers.h"

namespace {

const int32_t api = device_library()->kernels[0].gpu;

struct Device : testing::Test {
    void SetUp() override { ASSERT_EQ(kiln_gpu_open(api, 0, &gpu), kiln_ok) << kiln_gpu_message(); }
    void TearDown() override { kiln_gpu_close(gpu); }
    kiln_gpu *gpu = nullptr;
};

TEST_F(Device, has_a_name) {
    EXPECT_STRNE(kiln_gpu_name(gpu), "");
}

TEST_F(Device, runs_layers_in_a_row) {
    ASSERT_EQ(kiln_gpu_prepare(gpu, device_library()), kiln_ok) << kiln_gpu_message();
    const Layers layers(1);
    const OnDevice here(gpu, layers);
    ASSERT_EQ(here.run(), kiln_ok) << kiln_gpu_message();
    expect_near(here.read(), layers.expected(layers.x));
    EXPECT_EQ(kiln_gpu_finish(gpu), kiln_ok);
}

TEST_F(Device, first_runs_load_what_was_not_prepared) {
    const Layers layers(2);
    const OnDevice here(gpu, layers);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(here.run(), kiln_ok) << kiln_gpu_message();
    expect_near(here.read(), layers.expected(layers.x));
}

TEST_F(Device, two_are_opened_at_once) {
    kiln_gpu *other = nullptr;
    ASSERT_EQ(kiln_gpu_open(api, 0, &other), kiln_ok) << kiln_gpu_message();
    const Layers layers(3), more(4);
    {
        const OnDevice here(gpu, layers), there(other, more);
        for (int i = 0; i < 4; ++i) {
            ASSERT_EQ(here.run(), kiln_ok) << kiln_gpu_message();
            ASSERT_EQ(there.run(), kiln_ok) << kiln_gpu_message();
        }
        expect_near(here.read(), layers.expected(layers.x));
        expect_near(there.read(), more.expected(more.x));
    }
    kiln_gpu_close(other);
    const OnDevice still(gpu, more);
    ASSERT_EQ(still.run(), kiln_ok) << kiln_gpu_message();
    expect_near(still.read(), more.expected(more.x));
}

// Nothing is prepared: the first runs, too, are of all threads at once.
TEST_F(Device, many_threads_share_one) {
    constexpr int count = 8, runs = 25;
    std::vector<Layers> layers;
    for (int i = 0; i < count; ++i) layers.emplace_back(10 + i);
    std::vector<int> failures(count);
    std::vector<std::vector<float>> results(count);
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i)
        threads.emplace_back([&, i] {
            const OnDevice mine(gpu, layers[i]);
            for (int run = 0; run < runs; ++run) failures[i] += mine.run() != kiln_ok;
            results[i] = mine.read();
        });
    for (std::thread &thread : threads) thread.join();
    for (int i = 0; i < count; ++i) {
        SCOPED_TRACE(i);
        EXPECT_EQ(failures[i], 0);
        expect_near(results[i], layers[i].expected(layers[i].x));
    }
}

TEST_F(Device, memory_that_is_not_there_is_a_status) {
    void *memory = gpu;
    EXPECT_EQ(kiln_gpu_allocate(gpu, size_t{1} << 50, &memory), kiln_failed);
    EXPECT_EQ(memory, nullptr);
    EXPECT_TRUE(message_has("1125899906842624 bytes of device memory")) << kiln_gpu_message();
    // And the device is as before.
    const Layers layers(5);
    const OnDevice here(gpu, layers);
    ASSERT_EQ(here.run(), kiln_ok) << kiln_gpu_message();
    expect_near(here.read(), layers.expected(layers.x));
}

}  // namespace

// Where there is no such device the test is not run, and says why.
int main(int count, char **arguments) {
    testing::InitGoogleTest(&count, arguments);
    kiln_gpu *gpu = nullptr;
    if (const int32_t code = kiln_gpu_open(api, 0, &gpu); code != kiln_ok) {
        std::printf("not run: %s\n", kiln_gpu_message());
        return code == kiln_unsupported && gpu == nullptr ? 77 : 1;
    }
    std::printf("%s\n", kiln_gpu_name(gpu));
    kiln_gpu_close(gpu);
    return RUN_ALL_TESTS();
}
