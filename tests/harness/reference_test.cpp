// The reference against results worked out by hand or printed in the operators' documents, and its error bound.
#include "reference/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/error_bound.h"
#include "reference/numbers.h"

namespace kiln {
namespace {

Problem problem_1d(Operator op, int64_t in, int64_t kernel, int64_t out) {
    Problem p;
    p.op = op;
    p.rank = 1;
    p.in[0] = in;
    p.kernel[0] = kernel;
    p.out[0] = out;
    p.stride[0] = p.dilation[0] = 1;
    return p;
}

template <class Real>
reference::Result compute(const Problem &p, const std::vector<Real> &x, const std::vector<Real> &w,
                          const std::vector<int64_t> &strides, const std::vector<Real> &bias = {},
                          const std::vector<Real> &residual = {}, int threads = 1) {
    reference::Result result;
    const Status status =
        reference::compute(p, {x.data(), w.data(), strides.data(), bias.data(), residual.data()}, &result, threads);
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
}

TEST(Reference, ConvWithStrideDilationAndPads) {
    // x 1 2 3 4 5 with a zero in front: taps at o * 2 + t * 2 - 1.
    Problem p = problem_1d(Operator::conv, 5, 2, 2);
    p.stride[0] = p.dilation[0] = 2;
    p.pad_begin[0] = 1;
    const auto result = compute<float>(p, {1, 2, 3, 4, 5}, {10, -1}, {2, 2, 1});
    EXPECT_EQ(result.y, (std::vector<double>{-2, 16}));  // 10 * 0 - 2, 10 * 2 - 4
    EXPECT_EQ(result.magnitude, (std::vector<double>{2, 24}));
}

TEST(Reference, NegativePadsCropTheInput) {
    Problem p = problem_1d(Operator::conv, 4, 1, 2);
    p.pad_begin[0] = -1;
    EXPECT_EQ(compute<float>(p, {1, 2, 3, 4}, {1}, {1, 1, 1}).y, (std::vector<double>{2, 3}));
}

TEST(Reference, ConvTransposeOf1dAsOnnxPrintsIt) {
    Problem p = problem_1d(Operator::conv_transpose, 3, 3, 5);
    p.out_channels = 2;
    const auto result = compute<float>(p, {0, 1, 2}, {1, 1, 1, 1, 1, 1}, {6, 3, 1});
    EXPECT_EQ(result.y, (std::vector<double>{0, 1, 3, 3, 2, 0, 1, 3, 3, 2}));
}

TEST(Reference, ConvTransposeStrideDilationPadsAndZeros) {
    // x[i] lands at 2i - 1 and 2i + 2; what nothing reaches is bias alone.
    Problem p = problem_1d(Operator::conv_transpose, 2, 2, 7);
    p.stride[0] = 2;
    p.dilation[0] = 3;
    p.pad_begin[0] = 1;
    p.bias = true;
    const auto result = compute<float>(p, {1, 2}, {10, 100}, {2, 2, 1}, {0.5f});
    EXPECT_EQ(result.y, (std::vector<double>{0.5, 20.5, 100.5, 0.5, 200.5, 0.5, 0.5}));
}

TEST(Reference, GroupsAndLayouts) {
    // Two groups of one channel in, two out; y = x[group] * w[m].
    Problem p = problem_1d(Operator::conv, 2, 1, 2);
    p.groups = p.in_channels = 2;
    p.out_channels = 4;
    p.x_layout = Layout::nxc;
    p.y_layout = Layout::nxc;
    const std::vector<double> expected = {1, 2, 30, 40, 3, 6, 60, 80};
    EXPECT_EQ(compute<float>(p, {1, 10, 3, 20}, {1, 2, 3, 4}, {1, 1, 1}).y, expected);
    p.x_layout = Layout::ncx;
    EXPECT_EQ(compute<float>(p, {1, 3, 10, 20}, {1, 2, 3, 4}, {1, 1, 1}).y, expected);
}

TEST(Reference, WeightStridesReachAnyFilterLayout) {
    Problem p = problem_1d(Operator::conv, 3, 2, 2);
    p.in_channels = 2;
    p.out_channels = 2;
    const std::vector<float> x = {1, 2, 3, 4, 5, 6};
    // w[m][c][t] = 1 to 8, and the same as [t][c][m].
    const auto plain = compute<float>(p, x, {1, 2, 3, 4, 5, 6, 7, 8}, {4, 2, 1});
    EXPECT_EQ(plain.y, (std::vector<double>{1 + 4 + 12 + 20, 2 + 6 + 15 + 24, 5 + 12 + 28 + 40, 10 + 18 + 35 + 48}));
    EXPECT_EQ(compute<float>(p, x, {1, 5, 3, 7, 2, 6, 4, 8}, {1, 2, 4}).y, plain.y);
}

TEST(Reference, BiasResidualAndActivation) {
    Problem p = problem_1d(Operator::conv, 2, 1, 2);
    p.bias = p.residual = true;
    p.activation = Activation::relu;
    const auto result = compute<float>(p, {1, -2}, {3}, {1, 1, 1}, {-1}, {2, 4});
    EXPECT_EQ(result.y, (std::vector<double>{4, 0}));
    EXPECT_EQ(result.magnitude, (std::vector<double>{6, 11}));
}

TEST(Reference, ThreadsShareTheWork) {
    Problem p = problem_1d(Operator::conv, 101, 3, 99);
    p.batch = 3;
    std::vector<float> x(303);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) - 8;
    const auto one = compute<float>(p, x, {1, 2, 3}, {3, 3, 1});
    EXPECT_EQ(compute<float>(p, x, {1, 2, 3}, {3, 3, 1}, {}, {}, 4).y, one.y);
}

TEST(Reference, EmptyTensors) {
    Problem p = problem_1d(Operator::conv_transpose, 0, 3, 2);
    p.bias = true;
    EXPECT_EQ(compute<float>(p, {}, {1, 1, 1}, {3, 3, 1}, {7}).y, (std::vector<double>{7, 7}));
    p.batch = 0;
    EXPECT_TRUE(compute<float>(p, {}, {1, 1, 1}, {3, 3, 1}, {7}).y.empty());
}

TEST(Reference, Float64SumsInMoreThanDouble) {
    Problem p = problem_1d(Operator::conv, 3, 3, 1);
    p.x_type = p.w_type = p.y_type = DType::f64;
    // In double, 1e16 + 1 - 1e16 is 0.
    EXPECT_EQ(compute<double>(p, {1e16, 1, -1e16}, {1, 1, 1}, {3, 3, 1}).y, (std::vector<double>{1}));
}

TEST(Reference, SaysWhatIsMissing) {
    reference::Result result;
    Problem p = problem_1d(Operator::conv, 3, 1, 3);
    const auto message = [&](const reference::Tensors &tensors) {
        const Status status = reference::compute(p, tensors, &result);
        EXPECT_EQ(status.code(), StatusCode::invalid_argument);
        return std::string(status.message());
    };
    const float data[3] = {};
    const int64_t strides[] = {1, 1, 1};
    EXPECT_EQ(message({}), "x is null");
    EXPECT_EQ(message({data, data}), "w's strides is null");
    p.bias = true;
    EXPECT_EQ(message({data, data, strides}), "bias is null");
    p.bias = false;
    p.op = Operator::deform_conv;
    EXPECT_EQ(message({data, data, strides}), "offset is null");
    p.op = Operator::conv;
    p.x_type = p.w_type = p.y_type = DType::s8;
    EXPECT_EQ(message({data, data, strides}), "scale is null");
    p.in[0] = open_size;
    EXPECT_THAT(message({}), testing::StartsWith("the reference needs every size"));
}

std::vector<char> encoded(DType type, const std::vector<double> &values) {
    std::vector<char> data(values.size() * size_of(type));
    for (size_t i = 0; i < values.size(); ++i) reference::store(type, data.data(), i, values[i]);
    return data;
}

TEST(Numbers, EveryTypeSurvives) {
    const double values[] = {0, 1, 3, 100, 127};
    for (const DType type : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::s8, DType::u8, DType::s32}) {
        const auto data = encoded(type, {std::begin(values), std::end(values)});
        for (size_t i = 0; i < std::size(values); ++i) EXPECT_EQ(reference::load(type, data.data(), i), values[i]);
    }
}

TEST(Numbers, SixteenBitsAsIeee754HasThem) {
    const struct {
        double value;
        uint16_t f16, bf16;
    } rows[] = {
        {1, 0x3c00, 0x3f80},
        {-2.5, 0xc100, 0xc020},
        {65504, 0x7bff, 0x4780},            // the largest float16
        {65520, 0x7c00, 0x4780},            // halfway beyond it: infinity
        {0x1p-24, 0x0001, 0x3380},          // the smallest float16
        {0x1p-25, 0x0000, 0x3300},          // half of it: a tie, to even
        {0x1.8p-24, 0x0002, 0x33c0},        // another, to even
        {0x1.ffcp-15, 0x03ff + 1, 0x3880},  // rounds up into the normal numbers
        {1 + 0x1p-11, 0x3c00, 0x3f80},      // ties to even
        {1 + 0x3p-11, 0x3c02, 0x3f80},
        {1 + 0x3p-8, 0x3c0c, 0x3f82},
        {INFINITY, 0x7c00, 0x7f80},
        {-1e39, 0xfc00, 0xff80},
        {-0.0, 0x8000, 0x8000},
    };
    for (const auto &row : rows) {
        EXPECT_EQ(reference::encode(reference::f16_format, row.value), row.f16) << row.value;
        EXPECT_EQ(reference::encode(reference::bf16_format, row.value), row.bf16) << row.value;
    }
    for (const auto &format : {reference::f16_format, reference::bf16_format})
        for (int bits = 0; bits < 0x10000; ++bits) {
            const double value = reference::decode(format, static_cast<uint16_t>(bits));
            ASSERT_TRUE(std::isnan(value) || reference::encode(format, value) == bits) << bits;
        }
    EXPECT_TRUE(std::isnan(reference::decode(reference::f16_format, reference::encode(reference::f16_format, NAN))));
}

TEST(Reference, HalfPrecisionInputsAreExact) {
    for (const DType type : {DType::f16, DType::bf16}) {
        Problem p = problem_1d(Operator::conv, 3, 2, 2);
        p.x_type = p.w_type = p.y_type = type;
        p.bias = true;
        reference::Result result;
        const auto x = encoded(type, {1.5, -2, 0.25}), w = encoded(type, {3, 1}), bias = encoded(type, {0.125});
        const int64_t strides[] = {2, 2, 1};
        ASSERT_TRUE(reference::compute(p, {x.data(), w.data(), strides, bias.data()}, &result).ok());
        EXPECT_EQ(result.y, (std::vector<double>{2.625, -5.625}));
    }
}

// A quantised Conv of two products: x 200 and 100 with zero point 128, w 3 and -5 with zero point 1.
struct Quantised {
    Problem p;
    std::vector<int32_t> bias = {7};
    std::vector<float> scale = {0.5f, 1}, real_bias = {0.25f};

    Quantised(DType y_type, int64_t y_zero_point) {
        p = problem_1d(Operator::conv, 2, 2, 1);
        p.x_type = DType::u8;
        p.w_type = DType::s8;
        p.y_type = y_type;
        p.x_zero_point = 128;
        p.y_zero_point = y_zero_point;
        p.w_zero_points = true;
        p.bias = true;
        p.bias_type = DType::s32;
    }

    // Of y[0].
    double compute() const {
        const uint8_t x[] = {200, 100};
        const int8_t w[] = {3, -5};
        const int64_t strides[] = {2, 2, 1};
        const int32_t zero_points[] = {1};
        reference::Tensors tensors;
        tensors.x = x;
        tensors.w = w;
        tensors.weight_strides = strides;
        tensors.bias = p.bias_type == DType::s32 ? static_cast<const void *>(bias.data()) : real_bias.data();
        tensors.scale = scale.data();
        tensors.zero_points = zero_points;
        reference::Result result;
        EXPECT_TRUE(reference::compute(p, tensors, &result).ok());
        return result.y.at(0);
    }
};

TEST(Reference, QuantisedSumsAreExact) {
    // 72 * 2 + -28 * -6 + 7
    EXPECT_EQ(Quantised(DType::s32, 0).compute(), 319);
    Quantised padded(DType::s32, 0);
    padded.p.pad_begin[0] = 1;  // padding is the zero point: only 72 * -6 is left
    padded.p.out[0] = 1;
    EXPECT_EQ(padded.compute(), -432 + 7);
}

TEST(Reference, RequantisesOperationByOperation) {
    Quantised q(DType::u8, 3);
    EXPECT_EQ(q.compute(), 160 + 3);  // 159.5 to even
    q.scale[0] = 1;
    EXPECT_EQ(q.compute(), 255);
    q.bias[0] = -1000;
    EXPECT_EQ(q.compute(), 0);
    q.p.activation = Activation::relu;
    EXPECT_EQ(q.compute(), 3);
    q.p.y_type = DType::s8;
    q.p.activation = Activation::none;
    EXPECT_EQ(q.compute(), -128);
}

TEST(Reference, RequantisesWithAFloatBias) {
    Quantised q(DType::f32, 0);
    q.p.bias_type = DType::f32;
    EXPECT_EQ(q.compute(), 156.25);  // 312 * 0.5 + 0.25
    q.p.activation = Activation::leaky_relu;
    q.p.activation_params[0] = 0.1f;
    q.real_bias[0] = -157;
    EXPECT_EQ(q.compute(), 0.1f * -1.0f);
    q.p.y_type = DType::s8;
    q.scale[1] = 0.01f;  // y's
    EXPECT_EQ(q.compute(), -10);
}

TEST(Reference, RequantisingRoundsToFloatEachTime) {
    Quantised q(DType::f32, 0);
    q.p.bias_type = DType::f32;
    q.scale[0] = 0.1f;
    q.real_bias[0] = -31.2f;
    const volatile float product = 312 * 0.1f;  // a fused multiply-add would keep its last bits
    EXPECT_EQ(q.compute(), product - 31.2f);
}

// A DeformConv of one tap of weight 1, so that y is what was sampled.
struct Deformed {
    Problem p;
    std::vector<float> x, w = {1}, offset, mask;

    Deformed(std::vector<int64_t> in, std::vector<float> data) : x(std::move(data)) {
        p.op = Operator::deform_conv;
        p.rank = static_cast<int>(in.size());
        for (int axis = 0; axis < p.rank; ++axis) {
            p.in[axis] = in[axis];
            p.kernel[axis] = p.stride[axis] = p.dilation[axis] = p.out[axis] = 1;
        }
    }

    std::vector<double> compute() const {
        const std::vector<int64_t> strides(p.rank + 2, 1);
        reference::Tensors tensors{x.data(), w.data(), strides.data()};
        tensors.offset = offset.data();
        tensors.mask = mask.data();
        reference::Result result;
        const Status status = reference::compute(p, tensors, &result);
        EXPECT_TRUE(status.ok()) << status.message();
        return result.y;
    }
    double at(const std::vector<float> &position) {
        offset = position;
        return compute().at(0);
    }
};

TEST(Reference, DeformConvInterpolatesOnEveryAxis) {
    Deformed line({3}, {10, 20, 40});
    EXPECT_EQ(line.at({1.25f}), 25);
    EXPECT_EQ(line.at({2}), 40);
    EXPECT_EQ(line.at({2.5f}), 20);  // fades to zero outside
    EXPECT_EQ(line.at({-0.75f}), 2.5);
    Deformed square({2, 2}, {1, 2, 3, 4});
    EXPECT_EQ(square.at({0.5f, 0.25f}), 2.25);
    Deformed cube({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
    EXPECT_EQ(cube.at({0.5f, 0.5f, 0.5f}), 4.5);
    EXPECT_EQ(cube.at({1, 0, 0.5f}), 5.5);
}

TEST(Reference, DeformConvReadsNothingOutside) {
    Deformed line({3}, {10, 20, 40});
    for (const float position : {-1.0f, 3.0f, NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 3e9f, -3e9f})
        EXPECT_EQ(line.at({position}), 0) << position;
}

TEST(Reference, DeformConvStrideDilationPadsMaskAndGroups) {
    // Two taps and two channels with an offset group each, stored channels last; y = x[first] + 10 x[second].
    Deformed d({5}, {0, 100, 1, 200, 2, 300, 3, 400, 4, 500});
    d.p.in_channels = 2;
    d.p.groups = d.p.out_channels = d.p.offset_groups = 2;
    d.p.kernel[0] = d.p.stride[0] = d.p.dilation[0] = d.p.out[0] = 2;
    d.p.pad_begin[0] = -1;
    d.p.x_layout = d.p.y_layout = Layout::nxc;
    d.p.mask = true;
    d.w = {1, 10, 1, 10};
    // Positions without offsets: 1 and 3 of the first point, 3 and 5 of the second.
    d.offset = {0, 0.5f, 0, 0, 0, 0, 1, -1};
    d.mask = {1, 1, 1, 0.5f, 1, 1, 2, 1};
    const int64_t strides[] = {2, 2, 1};
    reference::Tensors tensors{d.x.data(), d.w.data(), strides};
    tensors.offset = d.offset.data();
    tensors.mask = d.mask.data();
    reference::Result result;
    ASSERT_TRUE(reference::compute(d.p, tensors, &result).ok());
    // Channel 0: x[1] + 10 x[3.5]; channel 1: x[1] + 10 * x[3] / 2. Then x[3] + 10 x[5] = 3; 2 x[4] + 10 x[4].
    EXPECT_EQ(result.y, (std::vector<double>{1 + 35, 200 + 2000, 3, 1000 + 5000}));
}

TEST(ErrorBound, QuantisedProblemsAreExact) {
    Quantised q(DType::u8, 0);
    const auto bound = [&] {
        reference::Result result;
        result.y = {100};
        result.magnitude = {1000};
        return reference::ErrorBound(q.p, *reference::find_algorithm_error("direct")).at(result, 0);
    };
    EXPECT_EQ(bound(), 0);
    q.p.activation = Activation::leaky_relu;
    EXPECT_EQ(bound(), 0);
    q.p.activation = Activation::tanh;
    EXPECT_EQ(bound(), 1);
    q.p.y_type = DType::f32;
    EXPECT_NEAR(bound(), 4 * 1001 * 0x1p-24, 1e-9);
    q.p.activation = Activation::none;
    EXPECT_EQ(bound(), 0);
}

TEST(ErrorBound, HalfPrecisionRoundsOnce) {
    Problem p = problem_1d(Operator::conv, 1, 1, 1);
    p.x_type = p.w_type = p.y_type = DType::bf16;
    reference::Result result;
    result.y = {1};
    result.magnitude = {1};
    const reference::ErrorBound bound(p, *reference::find_algorithm_error("direct"));
    EXPECT_NEAR(bound.at(result, 0), 0x1p-8, 1e-6);
}

TEST(ErrorBound, DeformConvAddsItsInterpolation) {
    Deformed d({3}, {1, -4, 2});
    d.offset = {1.5f};
    const int64_t strides[] = {1, 1, 1};
    reference::Tensors tensors{d.x.data(), d.w.data(), strides};
    tensors.offset = d.offset.data();
    reference::Result result;
    ASSERT_TRUE(reference::compute(d.p, tensors, &result).ok());
    EXPECT_EQ(result.interpolation, (std::vector<double>{4 * (2 * 1.5 + 4)}));
    d.offset[0] = 1e30f;  // zero however it is rounded
    ASSERT_TRUE(reference::compute(d.p, tensors, &result).ok());
    EXPECT_EQ(result.interpolation, (std::vector<double>{0}));
}

TEST(ErrorBound, CountsTheTermsOfAnElement) {
    Problem p = problem_1d(Operator::conv, 8, 4, 8);
    p.in_channels = 6;
    p.groups = 2;
    EXPECT_EQ(reference::terms(p), 12);
    p.bias = p.residual = true;
    EXPECT_EQ(reference::terms(p), 14);
    p.op = Operator::conv_transpose;
    p.stride[0] = 3;  // phases of 2, 1 and 1 taps
    EXPECT_EQ(reference::terms(p), 8);
    p.dilation[0] = 3;  // every tap in the same phase
    EXPECT_EQ(reference::terms(p), 14);
}

TEST(ErrorBound, IsTheSmallerOfTheTwo) {
    const auto gamma = [](int64_t channels) {
        Problem p = problem_1d(Operator::conv, 1, 1, 1);
        p.in_channels = channels;
        reference::Result result;
        result.y = {0};
        result.magnitude = {1};
        return reference::ErrorBound(p, *reference::find_algorithm_error("direct")).at(result, 0);
    };
    EXPECT_NEAR(gamma(10), 10 * 0x1p-24, 1e-11);       // n u
    EXPECT_NEAR(gamma(6400), 8 * 80 * 0x1p-24, 1e-8);  // lambda sqrt(n) u
    EXPECT_EQ(reference::find_algorithm_error("unheard of"), nullptr);
}

}  // namespace
}  // namespace kiln
