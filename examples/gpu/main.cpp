// Three layers in a row on a GPU: the image goes there once, the result comes back once, and nothing is allocated
// between.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "block.h"
#include "kiln/gpu.h"

namespace {

void check(int code) {
    if (code == kiln_ok) return;
    std::fprintf(stderr, "%s\n", kiln_gpu_message());
    std::exit(1);
}

kiln_gpu *gpu = nullptr;

void *on_device(const void *host, size_t bytes) {
    void *memory = nullptr;
    check(kiln_gpu_allocate(gpu, bytes, &memory));
    if (host != nullptr) check(kiln_gpu_write(gpu, memory, host, bytes));
    return memory;
}

std::vector<float> numbers(size_t count, int step) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(static_cast<int>(i * step % 7) - 3);
    return values;
}

// Weights are packed by the processor.
template <typename Pack>
void *packed(Pack pack, const std::vector<float> &w, size_t bytes) {
    std::vector<char> room(bytes + KILN_ALIGNMENT);
    auto address = (reinterpret_cast<uintptr_t>(room.data()) + KILN_ALIGNMENT - 1) / KILN_ALIGNMENT * KILN_ALIGNMENT;
    if (pack(w.data(), reinterpret_cast<void *>(address)) != kiln_ok) std::exit(1);
    return on_device(reinterpret_cast<void *>(address), bytes);
}

}  // namespace

int main() {
    // A program that has a context and a stream or queue wraps them: kiln_gpu_wrap_cuda, kiln_gpu_wrap_opencl.
    const kiln_library *library = block_library();
    check(kiln_gpu_open(library->kernels[0].gpu, 0, &gpu));
    check(kiln_gpu_prepare(gpu, library));  // compiles the kernels for this device

    const std::vector<float> image = numbers(3 * 32 * 32, 5), bias = numbers(16, 1);
    void *const device_bias = on_device(bias.data(), sizeof(float) * 16);
    const size_t workspace_bytes =
        std::max({BLOCK_DOWN_WORKSPACE_BYTES, BLOCK_MIX_WORKSPACE_BYTES, BLOCK_UP_WORKSPACE_BYTES, 1});
    void *const workspace = on_device(nullptr, workspace_bytes);
    void *const first = on_device(nullptr, sizeof(float) * 16 * 16 * 16);
    void *const second = on_device(nullptr, sizeof(float) * 16 * 16 * 16);
    std::vector<float> y(3 * 32 * 32);

    block_down_args down = {};
    down.x = on_device(image.data(), sizeof(float) * image.size());
    down.bias = device_bias;
    down.packed_weights = packed(block_down_pack, numbers(16 * 3 * 9, 3), BLOCK_DOWN_PACKED_BYTES);
    down.y = first;
    down.workspace = workspace;
    down.gpu = gpu;

    block_mix_args mix = {};
    mix.x = first;
    mix.bias = device_bias;
    mix.packed_weights = packed(block_mix_pack, numbers(16 * 16 * 9, 2), BLOCK_MIX_PACKED_BYTES);
    mix.y = second;
    mix.workspace = workspace;
    mix.gpu = gpu;

    block_up_args up = {};
    up.x = second;
    up.bias = device_bias;
    up.packed_weights = packed(block_up_pack, numbers(16 * 3 * 4, 4), BLOCK_UP_PACKED_BYTES);
    up.y = on_device(nullptr, sizeof(float) * y.size());
    up.workspace = workspace;
    up.gpu = gpu;

    // Each call queues its kernels and returns: the queue keeps their order.
    check(block_down(&down));
    check(block_mix(&mix));
    check(block_up(&up));
    check(kiln_gpu_read(gpu, y.data(), up.y, sizeof(float) * y.size()));

    double sum = 0;
    for (const float value : y) sum += value;
    std::printf("%s\nchecksum: %.0f\n", kiln_gpu_name(gpu), sum);
    kiln_gpu_close(gpu);
}
