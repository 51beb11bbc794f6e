#include "harness/data.h"

#include <cmath>
#include <cstring>

namespace kiln::harness {
namespace {

// SplitMix64: G. L. Steele, D. Lea, C. H. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}

    // Uniform in [-1, 1).
    double next() {
        uint64_t z = state_ += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
        return static_cast<double>(z >> 11) * 0x1p-52 - 1;
    }

  private:
    uint64_t state_;
};

template <class Real>
void fill(std::vector<char> &data, Random &random, double scale) {
    for (size_t at = 0; at + sizeof(Real) <= data.size(); at += sizeof(Real)) {
        const Real value = static_cast<Real>(scale * random.next());
        std::memcpy(&data[at], &value, sizeof value);
    }
}

std::vector<char> random_tensor(DType type, size_t bytes, uint64_t seed, double scale) {
    std::vector<char> data(bytes);
    Random random(seed);
    if (type == DType::f64)
        fill<double>(data, random, scale);
    else
        fill<float>(data, random, scale);
    return data;
}

}  // namespace

size_t x_bytes(const Problem &p) {
    return static_cast<size_t>(p.x_elements() * size_of(p.x_type));
}
size_t w_bytes(const Problem &p) {
    return static_cast<size_t>(p.w_elements() * size_of(p.w_type));
}
size_t y_bytes(const Problem &p) {
    return static_cast<size_t>(p.y_elements() * size_of(p.y_type));
}
size_t bias_bytes(const Problem &p) {
    return static_cast<size_t>(p.out_channels * size_of(p.y_type));
}

Tensors random_tensors(const Problem &p, uint64_t seed) {
    const double fan_in = static_cast<double>(p.in_channels / p.groups * p.taps());
    const uint64_t key = hash(p) ^ seed * UINT64_C(0x9e3779b97f4a7c15);
    Tensors tensors;
    tensors.x = random_tensor(p.x_type, x_bytes(p), key + 1, 1);
    tensors.w = random_tensor(p.w_type, w_bytes(p), key + 2, std::sqrt(3 / fan_in));
    if (p.bias) tensors.bias = random_tensor(p.y_type, bias_bytes(p), key + 3, 1);
    if (p.residual) tensors.residual = random_tensor(p.y_type, y_bytes(p), key + 4, 1);
    return tensors;
}

double load(DType type, const void *data, int64_t index) {
    if (type == DType::f64) return static_cast<const double *>(data)[index];
    return static_cast<const float *>(data)[index];
}

}  // namespace kiln::harness
