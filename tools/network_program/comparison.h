// How far two tensors are apart, of any type that networks have.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "reference/numbers.h"

namespace kiln::network_program {

struct Comparison {
    double difference = 0;  // the largest of any element; infinite where infinities or NaNs are not the same
    double largest = 0;     // of the expected elements' magnitudes, of those that are finite

    bool is_within(double tolerance) const { return difference <= tolerance * std::max(largest, 1e-30); }
};

// The element of a tensor of NumPy's type `dtype`.
inline double element(const std::string &dtype, const char *data, int64_t index) {
    if (dtype == "float32") return reference::element_at<float>(data, index);
    if (dtype == "float64") return reference::element_at<double>(data, index);
    if (dtype == "float16")
        return reference::decode(reference::f16_format, reference::element_at<uint16_t>(data, index));
    if (dtype == "bfloat16")
        return reference::decode(reference::bf16_format, reference::element_at<uint16_t>(data, index));
    if (dtype == "int8") return reference::element_at<int8_t>(data, index);
    if (dtype == "uint8" || dtype == "bool") return reference::element_at<uint8_t>(data, index);
    if (dtype == "int16") return reference::element_at<int16_t>(data, index);
    if (dtype == "uint16") return reference::element_at<uint16_t>(data, index);
    if (dtype == "int32") return reference::element_at<int32_t>(data, index);
    if (dtype == "uint32") return reference::element_at<uint32_t>(data, index);
    if (dtype == "int64") return static_cast<double>(reference::element_at<int64_t>(data, index));
    if (dtype == "uint64") return static_cast<double>(reference::element_at<uint64_t>(data, index));
    throw std::runtime_error("a tensor of type " + dtype);
}

inline Comparison compare(const std::string &dtype, int64_t count, const char *ours, const char *expected) {
    Comparison result;
    for (int64_t i = 0; i < count; i++) {
        const double mine = element(dtype, ours, i), wanted = element(dtype, expected, i);
        if (std::isfinite(wanted)) result.largest = std::max(result.largest, std::fabs(wanted));
        const bool same = mine == wanted || (std::isnan(mine) && std::isnan(wanted));
        const double apart = std::fabs(mine - wanted);
        if (same) continue;
        result.difference =
            std::isfinite(apart) ? std::max(result.difference, apart) : std::numeric_limits<double>::infinity();
    }
    return result;
}

}  // namespace kiln::network_program
