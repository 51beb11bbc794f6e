// The layers of device.toml on a GPU, and what they come to by loops on the processor.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "device.h"
#include "kiln/gpu.h"

constexpr int size = 20, taps = 9;

inline bool message_has(const std::string &part) {
    return std::string(kiln_gpu_message()).find(part) != std::string::npos;
}

inline std::vector<float> numbers(size_t count, int seed) {
    std::vector<float> values(count);
    uint32_t state = static_cast<uint32_t>(seed) * 2654435761u + 12345u;
    for (float &value : values) {
        state = state * 1664525u + 1013904223u;
        value = static_cast<float>(state >> 16) / 32768.0f - 1;
    }
    return values;
}

// All data of the three layers, of numbers that `seed` stands for.
struct Layers {
    explicit Layers(int seed)
        : x(numbers(16 * size * size, seed)),
          w{numbers(24 * 16 * taps, seed + 1), numbers(8 * 24, seed + 2), numbers(12 * 8 * taps, seed + 3)},
          bias(numbers(24, seed + 4)),
          offset(2 * taps * size * size),
          mask(numbers(taps * size * size, seed + 5)) {
        for (size_t i = 0; i < offset.size(); ++i) offset[i] = static_cast<float>(static_cast<int>(i * 7 % 5) - 2);
    }

    // What the layers compute of an x. Offsets are whole numbers, so that a sample is an element or 0.
    std::vector<float> expected(const std::vector<float> &of) const {
        const auto none = [](int, int, int) { return 0; };
        std::vector<float> first = convolve(of, w[0], 16, 24, 3, none, none, nullptr);
        for (float &value : first) value = std::max(value, 0.0f);
        const std::vector<float> second = convolve(first, w[1], 24, 8, 1, none, none, nullptr);
        const auto at = [&](int axis) {
            return [this, axis](int tap, int oy, int ox) {
                return static_cast<int>(offset[((tap * 2 + axis) * size + oy) * size + ox]);
            };
        };
        return convolve(second, w[2], 8, 12, 3, at(0), at(1), mask.data());
    }

    std::vector<float> x, w[3], bias, offset, mask;

  private:
    template <typename Down, typename Right>
    std::vector<float> convolve(const std::vector<float> &in, const std::vector<float> &weights, int channels, int out,
                                int kernel, const Down &down, const Right &right, const float *factors) const {
        std::vector<float> y(static_cast<size_t>(out) * size * size);
        for (int m = 0; m < out; ++m)
            for (int oy = 0; oy < size; ++oy)
                for (int ox = 0; ox < size; ++ox) {
                    double sum = bias[m];
                    for (int tap = 0; tap < kernel * kernel; ++tap) {
                        const int iy = oy + tap / kernel - kernel / 2 + down(tap, oy, ox);
                        const int ix = ox + tap % kernel - kernel / 2 + right(tap, oy, ox);
                        if (iy < 0 || iy >= size || ix < 0 || ix >= size) continue;
                        const double factor = factors == nullptr ? 1 : factors[(tap * size + oy) * size + ox];
                        for (int c = 0; c < channels; ++c)
                            sum += factor * in[(c * size + iy) * size + ix] *
                                   weights[(m * channels + c) * kernel * kernel + tap];
                    }
                    y[(m * size + oy) * size + ox] = static_cast<float>(sum);
                }
        return y;
    }
};

inline void expect_near(const std::vector<float> &got, const std::vector<float> &expected) {
    ASSERT_EQ(got.size(), expected.size());
    float largest = 0, worst = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        largest = std::max(largest, std::abs(expected[i]));
        // A NaN is no difference that is small enough.
        worst = std::abs(got[i] - expected[i]) <= worst ? worst : std::abs(got[i] - expected[i]);
    }
    EXPECT_LE(worst, 1e-5f * largest);
}

// The layers with all of their memory on a device, in which `run` queues them.
class OnDevice {
  public:
    OnDevice(kiln_gpu *gpu, const Layers &layers) : gpu_(gpu) {
        x = place(layers.x.data(), layers.x.size() * 4);
        y = place(nullptr, y_bytes);
        bias_ = place(layers.bias.data(), layers.bias.size() * 4);
        offset_ = place(layers.offset.data(), layers.offset.size() * 4);
        mask_ = place(layers.mask.data(), layers.mask.size() * 4);
        between_[0] = place(nullptr, 24 * size * size * 4);
        between_[1] = place(nullptr, 8 * size * size * 4);
        workspace_ = place(nullptr, DEVICE_WORKSPACE_BYTES);
        pack(device_first_pack, layers.w[0], DEVICE_FIRST_PACKED_BYTES, 0);
        pack(device_second_pack, layers.w[1], DEVICE_SECOND_PACKED_BYTES, 1);
        pack(device_third_pack, layers.w[2], DEVICE_THIRD_PACKED_BYTES, 2);
    }
    ~OnDevice() {
        for (void *memory : memories_) kiln_gpu_free(gpu_, memory);
    }
    OnDevice(const OnDevice &) = delete;
    OnDevice &operator=(const OnDevice &) = delete;

    // Queues the layers on a GPU of the same context.
    int32_t run(const kiln_gpu *gpu) const {
        device_first_args first = {};
        first.x = x;
        first.bias = bias_;
        first.packed_weights = packed_[0];
        first.y = between_[0];
        first.workspace = workspace_;
        first.gpu = gpu;
        device_second_args second = {};
        second.x = between_[0];
        second.bias = bias_;
        second.packed_weights = packed_[1];
        second.y = between_[1];
        second.workspace = workspace_;
        second.gpu = gpu;
        device_third_args third = {};
        third.x = between_[1];
        third.bias = bias_;
        third.offset = offset_;
        third.mask = mask_;
        third.packed_weights = packed_[2];
        third.y = y;
        third.workspace = workspace_;
        third.gpu = gpu;
        if (const int code = device_first(&first); code != kiln_ok) return code;
        if (const int code = device_second(&second); code != kiln_ok) return code;
        return device_third(&third);
    }
    int32_t run() const { return run(gpu_); }

    std::vector<float> read() const {
        std::vector<float> values(y_bytes / 4);
        EXPECT_EQ(kiln_gpu_read(gpu_, values.data(), y, y_bytes), kiln_ok) << kiln_gpu_message();
        return values;
    }

    static constexpr size_t x_bytes = 16 * size * size * 4, y_bytes = 12 * size * size * 4;
    void *x, *y;  // which may be replaced by others

  private:
    void *place(const void *host, size_t bytes) {
        void *memory = nullptr;
        EXPECT_EQ(kiln_gpu_allocate(gpu_, bytes, &memory), kiln_ok) << kiln_gpu_message();
        memories_.push_back(memory);
        if (host != nullptr) {
            EXPECT_EQ(kiln_gpu_write(gpu_, memory, host, bytes), kiln_ok) << kiln_gpu_message();
        }
        return memory;
    }

    template <typename Pack>
    void pack(Pack function, const std::vector<float> &w, size_t bytes, int layer) {
        std::vector<char> room(bytes + KILN_ALIGNMENT);
        const auto address = (reinterpret_cast<uintptr_t>(room.data()) + KILN_ALIGNMENT - 1) / KILN_ALIGNMENT;
        void *packed = reinterpret_cast<void *>(address * KILN_ALIGNMENT);
        EXPECT_EQ(function(w.data(), packed), kiln_ok);
        packed_[layer] = place(packed, bytes);
    }

    kiln_gpu *gpu_;
    std::vector<void *> memories_;
    void *bias_, *offset_, *mask_, *between_[2], *workspace_, *packed_[3] = {};
};
