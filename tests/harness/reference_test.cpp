// The reference against results worked out by hand or printed in the operators' documents, and its error bound.
#include "reference/reference.h"

#include <gtest/gtest.h>

#include "reference/error_bound.h"

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

TEST(Reference, SaysWhatItLacks) {
    reference::Result result;
    Problem p = problem_1d(Operator::deform_conv, 3, 1, 3);
    EXPECT_EQ(reference::compute(p, {}, &result).code(), StatusCode::unsupported);
    p.op = Operator::conv;
    EXPECT_EQ(reference::compute(p, {}, &result).code(), StatusCode::invalid_argument);
    p.x_type = DType::f16;
    EXPECT_EQ(reference::compute(p, {}, &result).code(), StatusCode::unsupported);
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
        return reference::ErrorBound(p, *reference::find_algorithm_error("direct")).at(0, 1);
    };
    EXPECT_NEAR(gamma(10), 10 * 0x1p-24, 1e-11);       // n u
    EXPECT_NEAR(gamma(6400), 8 * 80 * 0x1p-24, 1e-8);  // lambda sqrt(n) u
    EXPECT_EQ(reference::find_algorithm_error("unheard of"), nullptr);
}

}  // namespace
}  // namespace kiln
