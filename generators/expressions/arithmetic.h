// Small arithmetic that schedules share.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kiln {

// Rounds up; both are positive. Of Exprs too.
template <typename T>
T ceil_div(const T &a, const T &b) {
    return (a + b - 1) / b;
}

// Division and remainder that round towards minus infinity, as Halide's do, for a positive divisor.
inline int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0 ? 1 : 0);
}
inline int64_t floor_mod(int64_t a, int64_t b) {
    return a - floor_div(a, b) * b;
}

inline int round_up(int64_t value, int multiple) {
    return static_cast<int>(ceil_div<int64_t>(value, multiple) * multiple);
}

// The widest vector of 1, 2, 4, ... up to `most` lanes that fits into `extent`, or, if it must, divides it.
inline int lanes_within(int64_t extent, int most, bool divides = false) {
    int lanes = 1;
    while (lanes * 2 <= std::min<int64_t>(extent, most) && (!divides || extent % (lanes * 2) == 0)) {
        lanes *= 2;
    }
    return lanes;
}

// The narrowest of those vectors that holds `extent`, or the widest.
inline int lanes_around(int64_t extent, int most) {
    int lanes = 1;
    while (lanes < most && lanes < extent) {
        lanes *= 2;
    }
    return lanes;
}

// The largest divisor of n up to `most`.
inline int largest_divisor(int64_t n, int most) {
    int divisor = static_cast<int>(std::min<int64_t>(n, most));
    while (n % divisor != 0) {
        divisor--;
    }
    return divisor;
}

}  // namespace kiln
