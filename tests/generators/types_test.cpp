// Conversions that Halide's own do not do as needed.
#include "expressions/types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace kiln {
namespace {

float from_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// By the definition: the nearest of all numbers of float16, the even one of two.
uint16_t nearest(float value) {
    if (std::isnan(value)) return std::signbit(value) ? 0xfe00 : 0x7e00;
    const double magnitude = std::fabs(static_cast<double>(value));
    uint16_t bits = 0x7c00;
    if (magnitude < 65520) {
        int exponent = -100;
        if (magnitude > 0) {
            std::frexp(magnitude, &exponent);
        }
        const int last = std::max(exponent - 11, -24);  // what the last digit is worth, as a power of 2
        const double digits = std::nearbyint(std::ldexp(magnitude, -last));
        const bool subnormal = last == -24 && digits < 1024;
        bits = static_cast<uint16_t>(subnormal ? digits : (last + 24) * 1024 + digits);
    }
    return static_cast<uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
}

TEST(Float16Bits, RoundsToNearest) {
    std::vector<float> values = {0.0f,     -0.0f,      INFINITY,    -INFINITY, NAN,    from_bits(0xffc00001),
                                 65504.0f, 65519.9f,   65520.0f,    1e30f,     1e-30f, 0x1p-24f,
                                 0x1p-25f, 0x1.8p-24f, from_bits(1)};
    // Every number of float16, what lies in the middle between it and the next, and their neighbours.
    for (uint32_t half = 0; half < 0x7c00; half++) {
        const auto value = [](uint32_t h) {
            return h < 1024 ? std::ldexp(static_cast<float>(h), -24)
                            : std::ldexp(static_cast<float>(1024 + h % 1024), static_cast<int>(h / 1024) - 25);
        };
        const float middle = (value(half) + value(half + 1)) / 2;
        for (const float v : {value(half), middle}) {
            values.insert(values.end(), {v, std::nextafter(v, 0.0f), std::nextafter(v, INFINITY), -v});
        }
    }
    std::mt19937 random(1);
    for (int i = 0; i < 100000; i++) {
        values.push_back(from_bits(random()));
    }
    Halide::Buffer<float> input(values.data(), static_cast<int>(values.size()));
    const Halide::Var x("x");
    Halide::Func bits("bits");
    bits(x) = float16_bits(input(x));
    const Halide::Buffer<uint16_t> result = bits.realize({input.width()});
    for (int i = 0; i < input.width(); i++) {
        ASSERT_EQ(result(i), nearest(values[i])) << values[i];
    }
}

}  // namespace
}  // namespace kiln
