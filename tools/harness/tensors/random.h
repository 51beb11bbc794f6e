// Seeded random numbers, the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln::harness {

// SplitMix64: G. L. Steele, D. Lea, C. H. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t bits() {
        uint64_t z = state_ += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        return z ^ (z >> 31);
    }
    // Uniform in [-1, 1).
    double real() { return static_cast<double>(bits() >> 11) * 0x1p-52 - 1; }
    // Uniform from `low` to `high`, both included.
    int64_t integer(int64_t low, int64_t high) {
        return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
    }
    bool coin() { return (bits() & 1) != 0; }

    template <class Value, size_t count>
    Value pick(const Value (&values)[count]) {
        return values[bits() % count];
    }

  private:
    uint64_t state_;
};

}  // namespace kiln::harness
