// Rounding to bytes by instructions gives what its formula does, whatever is rounded.
#include "lowering/instructions/quantization.h"

#include <Halide.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace kiln {
namespace {

using Halide::Buffer;
using Halide::Expr;
using Halide::Func;
using Halide::Target;
using Halide::Var;

class LowerQuantizations : public Halide::Internal::IRMutator {
  public:
    explicit LowerQuantizations(Target target) : target_(std::move(target)) {}
    Halide::Internal::Stmt mutate(const Halide::Internal::Stmt &s) override { return lower_quantizations(s, target_); }

  private:
    const Target target_;
};

// This machine's, and the same with vectors of half the length at the most.
std::vector<Target> targets() {
    const Target host = Halide::get_host_target();
    Target narrow = host;
    for (const Target::Feature feature : {Target::AVX512, Target::AVX512_Skylake, Target::AVX512_Cannonlake,
                                          Target::AVX512_Zen4, Target::AVX512_Zen5, Target::AVX512_SapphireRapids}) {
        narrow = narrow.without_feature(feature);
    }
    return {host, narrow};
}

// Ties, limits and their neighbours, and what no int32 is.
Buffer<float> numbers(bool above, int size) {
    std::vector<float> values = {0, .5F, 1.5F, 2.5F, 126.5F, 127.5F, 254.5F, 255.5F, 300, 70000, 3e9F, 1e30F};
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (int zero_point = -128; zero_point <= 255; zero_point++) {
        for (const int limit : {-128, 0, 127, 255}) {
            const auto edge = static_cast<float>(limit - zero_point);
            for (const float beyond : {-.5F, 0.F, .5F}) {
                values.push_back(edge + beyond);
                values.push_back(std::nextafter(edge + beyond, infinity));
            }
        }
    }
    values.push_back(0x1p31F);
    values.push_back(infinity);
    Buffer<float> result(size);
    for (int i = 0; i < size; i++) {
        const float value = values[static_cast<size_t>(i) % values.size()];
        const bool negative = (i / values.size()) % 2 == 1;
        result(i) = above ? std::abs(value) : negative ? -value : value;
    }
    return result;
}

// `vectors` of so many lanes are stored one after the other, `apart` in rows of their own.
Buffer<> quantized(const Quantization &quantization, const Buffer<float> &v, int lanes, int vectors, bool apart,
                   const Target &target) {
    const Var i("i"), lane("lane"), vector("vector"), tile("tile");
    const int size = v.dim(0).extent();
    Func y("y");
    std::vector<int> sizes = {size};
    if (apart) {
        sizes = {lanes, size / (lanes * vectors), vectors};
        y(lane, tile, vector) = quantization.by_instructions(v(vector * sizes[1] * lanes + tile * lanes + lane));
        y.bound(lane, 0, lanes).bound(vector, 0, vectors).reorder(lane, vector, tile);
        y.vectorize(lane).unroll(vector);
    } else {
        y(i) = quantization.by_instructions(v(i));
        y.split(i, tile, i, lanes * vectors, Halide::TailStrategy::RoundUp);
        y.split(i, vector, i, lanes).vectorize(i).unroll(vector);
    }
    Halide::Pipeline pipeline(y);
    LowerQuantizations lower(target);
    pipeline.add_custom_lowering_pass(&lower, nullptr);
    return Buffer<>(pipeline.realize(sizes, target)[0]);
}

void expect_right(const Quantization &quantization, int zero_point, int lanes, int vectors, bool apart,
                  const Target &target) {
    const Buffer<float> v = numbers(quantization.above, lanes * vectors * (12000 / (lanes * vectors)));
    const Buffer<> got = quantized(quantization, v, lanes, vectors, apart, target);
    const bool is_unsigned = quantization.type.is_uint();
    const double least = is_unsigned ? 0 : -128, most = least + 255;
    for (int i = 0; i < v.dim(0).extent(); i++) {
        const double want = std::clamp(std::nearbyint(static_cast<double>(v(i))) + zero_point, least, most);
        const int as_unsigned = static_cast<const uint8_t *>(got.data())[i];
        const int result = is_unsigned ? as_unsigned : static_cast<int8_t>(as_unsigned);
        ASSERT_EQ(result, want) << v(i) << ", " << lanes << " lanes, " << vectors << " vectors, zero point "
                                << zero_point << ", " << target.to_string();
    }
}

TEST(Quantization, by_instructions_is_as_its_formula) {
    for (const Target &target : targets()) {
        if (!has_quantizing_instructions(target)) {
            GTEST_SKIP() << "by arithmetic alone on " << target.to_string();
        }
        for (const Halide::Type &type : {Halide::UInt(8), Halide::Int(8)}) {
            const std::vector<int> points =
                type.is_uint() ? std::vector<int>{0, 3, 128, 255} : std::vector<int>{-128, -3, 0, 127};
            for (const int zero_point : points) {
                for (const bool above : {false, true}) {
                    for (const int vectors : {1, 3, 7}) {
                        expect_right({type, zero_point, above}, zero_point, 16, vectors, false, target);
                    }
                    expect_right({type, zero_point, above}, zero_point, 8, 6, true, target);
                }
            }
            for (const int lanes : {1, 2, 4, 16, 64}) {
                expect_right({type, 5, false}, 5, lanes, 3, false, target);
            }
        }
    }
}

// What has a zero point that is known when it runs.
TEST(Quantization, takes_zero_points_of_parameters) {
    Halide::Param<int> zero_point("zero_point");
    for (const int value : {0, 9, 255}) {
        zero_point.set(value);
        for (const Target &target : targets()) {
            if (has_quantizing_instructions(target)) {
                expect_right({Halide::UInt(8), Expr(zero_point), false}, value, 16, 4, false, target);
                expect_right({Halide::UInt(8), Expr(zero_point), false}, value, 8, 1, false, target);
            }
        }
    }
}

}  // namespace
}  // namespace kiln
