// Elements of tensors as numbers, and back: every type of a problem, without help from the processor's own conversions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kiln/problem.h"

namespace kiln::reference {

// A binary floating-point format of 16 bits: IEEE 754's binary16, and bfloat16.
struct Format16 {
    int fraction_bits;
    int bias;  // of the exponent
};
inline constexpr Format16 f16_format = {10, 15}, bf16_format = {7, 127};

inline double decode(const Format16 &format, uint16_t bits) {
    const int exponent = (bits & 0x7fff) >> format.fraction_bits, largest = 0x7fff >> format.fraction_bits;
    const int fraction = bits & ((1 << format.fraction_bits) - 1);
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == largest) return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
    const int hidden = exponent == 0 ? 0 : 1 << format.fraction_bits;
    return sign * std::ldexp(hidden + fraction, std::max(exponent, 1) - format.bias - format.fraction_bits);
}

// Rounds to nearest, ties to even.
inline uint16_t encode(const Format16 &format, double value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const int infinity = (0x7fff >> format.fraction_bits) << format.fraction_bits;
    if (std::isnan(value)) return static_cast<uint16_t>(sign | infinity | 1 << (format.fraction_bits - 1));
    if (std::isinf(value)) return static_cast<uint16_t>(sign | infinity);
    if (value == 0) return sign;
    int exponent = 0;
    std::frexp(value, &exponent);  // value is in [0.5, 1) * 2^exponent
    exponent = std::max(exponent - 1, 1 - format.bias);
    const double units = std::nearbyint(std::ldexp(std::abs(value), format.fraction_bits - exponent));
    // A significand that was rounded up to the next power of two carries into the exponent, as the encoding has it.
    const double bits = units + std::ldexp(exponent + format.bias - 1, format.fraction_bits);
    return static_cast<uint16_t>(sign | static_cast<int>(std::min<double>(bits, infinity)));
}

template <class Element>
Element element_at(const void *data, int64_t index) {
    Element element;
    std::memcpy(&element, static_cast<const char *>(data) + index * static_cast<int64_t>(sizeof element),
                sizeof element);
    return element;
}

// Element `index` of a tensor; exact for every type.
template <class Real = double>
Real load(DType type, const void *data, int64_t index) {
    switch (type) {
        case DType::f64:
            return static_cast<Real>(element_at<double>(data, index));
        case DType::f32:
            return static_cast<Real>(element_at<float>(data, index));
        case DType::f16:
            return static_cast<Real>(decode(f16_format, element_at<uint16_t>(data, index)));
        case DType::bf16:
            return static_cast<Real>(decode(bf16_format, element_at<uint16_t>(data, index)));
        case DType::s8:
            return static_cast<Real>(element_at<int8_t>(data, index));
        case DType::u8:
            return static_cast<Real>(element_at<uint8_t>(data, index));
        case DType::s32:
            return static_cast<Real>(element_at<int32_t>(data, index));
    }
    return Real(0);
}

template <class Element>
void put(void *data, int64_t index, Element element) {
    std::memcpy(static_cast<char *>(data) + index * static_cast<int64_t>(sizeof element), &element, sizeof element);
}

// Sets element `index` to the nearest number of its type. Integers must be in range.
inline void store(DType type, void *data, int64_t index, double value) {
    switch (type) {
        case DType::f64:
            return put(data, index, value);
        case DType::f32:
            return put(data, index, static_cast<float>(value));
        case DType::f16:
            return put(data, index, encode(f16_format, value));
        case DType::bf16:
            return put(data, index, encode(bf16_format, value));
        case DType::s8:
            return put(data, index, static_cast<int8_t>(std::lrint(value)));
        case DType::u8:
            return put(data, index, static_cast<uint8_t>(std::lrint(value)));
        case DType::s32:
            return put(data, index, static_cast<int32_t>(std::lrint(value)));
    }
}

}  // namespace kiln::reference
