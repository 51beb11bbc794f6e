// Problems: canonical form, validity, matching, sizes.
#include "kiln/problem.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "../parsed.h"

namespace kiln {
namespace {

// A plain Conv on one axis.
Problem conv1d(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1, int64_t dilation = 1, int64_t begin = 0) {
    Problem p;
    p.rank = 1;
    p.in[0] = in;
    p.out[0] = out;
    p.kernel[0] = kernel;
    p.stride[0] = stride;
    p.dilation[0] = dilation;
    p.pad_begin[0] = begin;
    return p;
}

Problem transposed1d(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1, int64_t dilation = 1,
                     int64_t begin = 0) {
    Problem p = conv1d(in, out, kernel, stride, dilation, begin);
    p.op = Operator::conv_transpose;
    return p;
}

std::string text_of(const Problem &problem) {
    return print(problem).c_str();
}

// The table is read by an operator's number, and its letters say which channels w has first.
TEST(Problem, TraitsStandInTheOrderOfTheirOperators) {
    for (size_t i = 0; i < operator_count; i++) {
        const OperatorTraits &traits = operator_traits[i];
        EXPECT_EQ(static_cast<size_t>(traits.op), i) << traits.name;
        EXPECT_EQ(find_operator(traits.name), &traits);
        Problem p = conv1d(5, 5, 3);
        p.op = traits.op;
        p.in_channels = 6;
        p.out_channels = 4;
        p.groups = 2;
        const std::array<int64_t, 2> out_first = {4, 3}, in_first = {6, 2};
        EXPECT_EQ(p.w_channels(), traits.weight_layout == "IOX" ? in_first : out_first) << traits.name;
        p.groups = open_size;
        EXPECT_EQ(p.w_channels()[1], open_size) << traits.name;
        EXPECT_EQ(text_of(p).substr(0, traits.text.size()), traits.text);
    }
    EXPECT_EQ(find_operator("Convolution"), nullptr);
}

TEST(Problem, CanonicalEndPadFollows) {
    EXPECT_EQ(canonicalize(conv1d(5, 5, 3, 1, 1, 1)).pad_end[0], 1);
    EXPECT_EQ(canonicalize(conv1d(6, 3, 3, 2, 1, 1)).pad_end[0], 0);   // the last input is read, not padded
    EXPECT_EQ(canonicalize(conv1d(9, 2, 2, 3)).pad_end[0], -4);        // four inputs are never read
    EXPECT_EQ(canonicalize(conv1d(5, 5, 3, 1, 2, 2)).pad_end[0], 2);   // k_eff is 5
    EXPECT_EQ(canonicalize(transposed1d(3, 7, 3, 2)).pad_end[0], 0);   // (3 - 1) * 2 + 3
    EXPECT_EQ(canonicalize(transposed1d(3, 8, 3, 2)).pad_end[0], -1);  // one more row of zeros
    EXPECT_EQ(canonicalize(transposed1d(3, 5, 3, 2, 1, 1)).pad_end[0], 1);
    EXPECT_EQ(canonicalize(transposed1d(open_size, 5, 3, 2, 1, 1)).pad_end[0], open_size);
    EXPECT_EQ(canonicalize(conv1d(5, open_size, 3, 2, 1, 1)).pad_end[0], open_size);
    EXPECT_EQ(canonicalize(conv1d(5, 5, 3, 1, 1, open_size)).pad_end[0], open_size);
}

// Equal computations have equal keys.
TEST(Problem, CanonicalFormDropsWhatCannotMatter) {
    EXPECT_EQ(text_of(conv1d(5, 5, 1, 1, 3)), text_of(conv1d(5, 5, 1)));
    EXPECT_EQ(text_of(conv1d(3, 1, 3, 7)), text_of(conv1d(3, 1, 3)));
    EXPECT_EQ(text_of(transposed1d(1, 3, 3, 7)), text_of(transposed1d(1, 3, 3)));
    EXPECT_EQ(text_of(transposed1d(0, 3, 3, 7)), text_of(transposed1d(0, 3, 3)));
    EXPECT_NE(text_of(transposed1d(2, 1, 3, 7)), text_of(transposed1d(2, 1, 3)));
    EXPECT_NE(text_of(conv1d(1, 2, 3, 7)), text_of(conv1d(1, 2, 3)));
    EXPECT_NE(text_of(conv1d(5, open_size, 1, 2)), text_of(conv1d(5, open_size, 1)));
    EXPECT_NE(text_of(conv1d(5, 5, open_size, 1, 3)), text_of(conv1d(5, 5, open_size)));

    Problem rest = conv1d(5, 5, 3, 1, 1, 1);
    rest.in[1] = rest.kernel[5] = rest.pad_end[2] = 9;  // past the rank
    rest.activation_params = {1, 2};                    // of no activation
    EXPECT_EQ(canonicalize(rest), canonicalize(conv1d(5, 5, 3, 1, 1, 1)));

    Problem zero = conv1d(5, 5, 3, 1, 1, 1), negative_zero = zero;
    zero.activation = negative_zero.activation = Activation::clip;
    zero.activation_params = {0.0f, 6.0f};
    negative_zero.activation_params = {-0.0f, 6.0f};
    EXPECT_EQ(text_of(zero), text_of(negative_zero));
    EXPECT_EQ(hash(zero), hash(negative_zero));
}

TEST(Problem, CanonicalFormIsItsOwn) {
    for (const Problem &p : {conv1d(9, 2, 2, 3), transposed1d(1, 3, 3, 7), conv1d(5, open_size, 3, 2)}) {
        EXPECT_EQ(canonicalize(canonicalize(p)), canonicalize(p)) << text_of(p);
    }
}

TEST(Problem, EveryMemberCounts) {
    const Problem base = canonicalize(conv1d(5, 5, 3, 1, 1, 1));
    std::vector<Problem> others(20, base);
    size_t i = 0;
    others[i++].op = Operator::conv_transpose;
    others[i++].x_type = DType::f16;
    others[i++].w_type = DType::f16;
    others[i++].y_type = DType::f16;
    others[i++].x_layout = Layout::nxc;
    others[i++].y_layout = Layout::nxc;
    others[i++].batch = 2;
    others[i++].in_channels = 2;
    others[i++].out_channels = 2;
    others[i++].in[0] = 6;
    others[i++].out[0] = 6;
    others[i++].kernel[0] = 5;
    others[i++].stride[0] = 2;
    others[i++].dilation[0] = 2;
    others[i++].pad_begin[0] = 2;
    others[i++].bias = true;
    others[i++].residual = true;
    others[i++].activation = Activation::relu;
    others[i++].accuracy = Accuracy::strict;
    others[i++].groups = 2;
    ASSERT_EQ(i, others.size());
    for (const Problem &other : others) {
        EXPECT_NE(other, base) << text_of(other);
        EXPECT_NE(text_of(other), text_of(base));
        EXPECT_NE(hash(other), hash(base)) << text_of(other);
    }
}

TEST(Problem, CountsSizes) {
    const Problem p = parsed("conv2d-f32-n2-c6-i5x7-m9-o5x7-k3x1-s1x1-d1x1-p1x0,1x0-g3-ncx,ncx");
    EXPECT_EQ(p.taps(), 3);
    EXPECT_EQ(p.in_points(), 35);
    EXPECT_EQ(p.x_elements(), 2 * 6 * 35);
    EXPECT_EQ(p.y_elements(), 2 * 9 * 35);
    EXPECT_EQ(p.w_elements(), 9 * 2 * 3);
    EXPECT_EQ(p.flops(), 2.0 * 2 * 9 * 35 * 2 * 3);
    EXPECT_EQ(p.effective_kernel(0), 3);

    const Problem t = parsed("convtranspose2d-f32-n2-c6-i5x7-m9-o10x14-k2x2-s2x2-d1x1-p0x0,0x0-g3-ncx,ncx");
    EXPECT_EQ(t.w_elements(), 6 * 3 * 4);
    EXPECT_EQ(t.flops(), 2.0 * 2 * 6 * 35 * 3 * 4);  // each input meets each tap once
}

TEST(Problem, TypesHaveSizes) {
    EXPECT_EQ(size_of(DType::f64), 8);
    EXPECT_EQ(size_of(DType::f32), 4);
    EXPECT_EQ(size_of(DType::s32), 4);
    EXPECT_EQ(size_of(DType::f16), 2);
    EXPECT_EQ(size_of(DType::bf16), 2);
    EXPECT_EQ(size_of(DType::s8), 1);
    EXPECT_EQ(size_of(DType::u8), 1);
}

TEST(Problem, ValidatesWhatWasMadeByHand) {
    const Problem good = conv1d(5, 5, 3, 1, 1, 1);
    EXPECT_TRUE(validate(good).ok());
    const auto expect_invalid = [&](auto change, const char *part) {
        Problem bad = good;
        change(bad);
        const Status status = validate(bad);
        EXPECT_EQ(status.code(), StatusCode::invalid_argument) << text_of(bad);
        EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << status.message();
    };
    expect_invalid([](Problem &p) { p.rank = 0; }, "rank is 0");
    expect_invalid([](Problem &p) { p.rank = 9; }, "rank is 9");
    expect_invalid([](Problem &p) { p.batch = -1; }, "batch is -1: it must be at least 0");
    expect_invalid([](Problem &p) { p.in_channels = 0; }, "in_channels is 0");
    expect_invalid([](Problem &p) { p.in[0] = -2; }, "in[0] is -2: it must be at least 0");
    expect_invalid([](Problem &p) { p.kernel[0] = 0; }, "kernel[0] is 0");
    expect_invalid([](Problem &p) { p.stride[0] = 0; }, "stride[0] is 0");
    expect_invalid([](Problem &p) { p.groups = 0; }, "groups is 0");
    expect_invalid([](Problem &p) { p.groups = 2; }, "g2 does not divide c1");
    expect_invalid([](Problem &p) { p.mask = true; }, "mask");
    expect_invalid([](Problem &p) { p.offset_groups = 2; }, "og2");
    expect_invalid([](Problem &p) { p.dilation[0] = std::numeric_limits<int64_t>::max(); }, "64 bits");
    expect_invalid([](Problem &p) { p.pad_begin[0] = -std::numeric_limits<int64_t>::max(); }, "64 bits");
    expect_invalid(
        [](Problem &p) {
            p.activation = Activation::leaky_relu;
            p.activation_params[0] = std::numeric_limits<float>::quiet_NaN();
        },
        "not a number");
}

TEST(Problem, AcceptsEmptyTensors) {
    Problem p = conv1d(0, 2, 3, 1, 1, 2);
    EXPECT_TRUE(validate(canonicalize(p)).ok());
    p.batch = 0;
    EXPECT_TRUE(validate(canonicalize(p)).ok());
    EXPECT_EQ(p.y_elements(), 0);
}

struct MatchCase {
    const char *pattern;
    const char *problem;
    bool matches;
};

#define SIZES "-k3x3-s1x1-d1x1-p1x1,1x1-g1-ncx,ncx"
#define OPEN_SIZES "-k3x3-s1x1-d1x1-p1x1,?x?-g1-ncx,ncx"
const char base_text[] = "conv2d-f32-n1-c8-i9x9-m8-o9x9" SIZES;
const MatchCase match_cases[] = {
    {base_text, base_text, true},
    {"conv2d-f32-n?-c8-i9x9-m8-o9x9" SIZES, base_text, true},
    {"conv2d-f32-n1-c8-i?x?-m8-o?x?" OPEN_SIZES, base_text, true},
    {"conv2d-f32-n?-c?-i?x?-m?-o?x?-k?x?-s?x?-d?x?-p?x?,?x?-g?-ncx,ncx", base_text, true},
    {"conv2d-f32-n?-c4-i9x9-m8-o9x9" SIZES, base_text, false},
    {"conv2d-f32-n?-c8-i9x9-m8-o9x9" SIZES "-bias", base_text, false},
    {"conv2d-f32-n?-c8-i9x9-m8-o9x9" SIZES "-relu", base_text, false},
    {"conv2d-f16-n?-c8-i9x9-m8-o9x9" SIZES, base_text, false},
    {"conv2d-f32-n1-c8-i9x?-m8-o9x?-k3x3-s1x1-d1x1-p1x0,1x?-g1-ncx,ncx", base_text, false},
    // strict kernels serve normal problems; not the other way round
    {"conv2d-f32-n?-c8-i9x9-m8-o9x9" SIZES "-strict", base_text, true},
    {"conv2d-f32-n?-c8-i9x9-m8-o9x9" SIZES, "conv2d-f32-n1-c8-i9x9-m8-o9x9" SIZES "-strict", false},
    {"conv2d-f32-n1-c8-i9x9-m8-o9x9" SIZES "-leakyrelu:0.1", "conv2d-f32-n1-c8-i9x9-m8-o9x9" SIZES "-leakyrelu:0.2",
     false},
    // both serve fast ones
    {"conv2d-f16-n?-c8-i9x9-m8-o9x9" SIZES, "conv2d-f16-n1-c8-i9x9-m8-o9x9" SIZES "-fast", true},
    {"conv2d-f16-n?-c8-i9x9-m8-o9x9" SIZES "-strict", "conv2d-f16-n1-c8-i9x9-m8-o9x9" SIZES "-fast", true},
    {"conv2d-f16-n?-c8-i9x9-m8-o9x9" SIZES "-fast", "conv2d-f16-n1-c8-i9x9-m8-o9x9" SIZES, false},
    {"conv2d-f16-n?-c8-i9x9-m8-o9x9" SIZES "-fast", "conv2d-f16-n1-c8-i9x9-m8-o9x9" SIZES "-strict", false},
    // a stride or dilation that does not matter in the problem may be anything in the kernel
    {"conv1d-f32-n1-c1-i?-m1-o?-k3-s2-d1-p0,?-g1-ncx,ncx", "conv1d-f32-n1-c1-i3-m1-o1-k3-s1-d1-p0,0-g1-ncx,ncx", true},
    {"conv1d-f32-n1-c1-i?-m1-o?-k3-s2-d1-p0,?-g1-ncx,ncx", "conv1d-f32-n1-c1-i4-m1-o2-k3-s1-d1-p0,0-g1-ncx,ncx", false},
    {"convtranspose1d-f32-n1-c1-i?-m1-o?-k3-s2-d1-p0,?-g1-ncx,ncx",
     "convtranspose1d-f32-n1-c1-i1-m1-o3-k3-s1-d1-p0,0-g1-ncx,ncx", true},
    {"convtranspose1d-f32-n1-c1-i?-m1-o?-k3-s2-d1-p0,?-g1-ncx,ncx",
     "convtranspose1d-f32-n1-c1-i2-m1-o4-k3-s1-d1-p0,0-g1-ncx,ncx", false},
    {"conv1d-f32-n1-c1-i?-m1-o?-k?-s1-d2-p0,?-g1-ncx,ncx", "conv1d-f32-n1-c1-i3-m1-o3-k1-s1-d1-p0,0-g1-ncx,ncx", true},
    {"conv1d-f32-n1-c1-i?-m1-o?-k?-s1-d2-p0,?-g1-ncx,ncx", "conv1d-f32-n1-c1-i3-m1-o2-k2-s1-d1-p0,0-g1-ncx,ncx", false},
};
#undef SIZES
#undef OPEN_SIZES

TEST(Problem, Matches) {
    for (const MatchCase &c : match_cases) {
        EXPECT_EQ(matches(parsed(c.pattern), parsed(c.problem)), c.matches) << c.pattern << "\n" << c.problem;
    }
}

TEST(Problem, OpenSizesComeInTheOrderOfTheText) {
    const Problem pattern = parsed("conv2d-f32-n?-c?-i?x?-m?-o?x?-k?x?-s?x?-d?x?-p?x?,?x?-g?-ncx,ncx");
    const Problem problem = parsed("conv2d-f32-n2-c6-i15x17-m9-o7x11-k3x4-s2x1-d1x2-p1x0,~1x0-g3-ncx,ncx");
    int64_t values[max_open_sizes];
    const int count = open_size_values(pattern, problem, values);
    EXPECT_EQ(count, open_sizes(pattern));
    EXPECT_EQ(std::vector<int64_t>(values, values + count),
              (std::vector<int64_t>{2, 6, 15, 17, 9, 7, 11, 3, 4, 2, 1, 1, 2, 1, 0, 3}));
    EXPECT_EQ(open_size_values(problem, problem, values), 0);
    EXPECT_FALSE(problem.has_open_sizes());
    EXPECT_TRUE(pattern.has_open_sizes());
    // An open end pad follows from the open sizes: it does not count.
    EXPECT_EQ(open_sizes(parsed("conv1d-f32-n1-c1-i?-m1-o?-k3-s1-d1-p1,?-g1-ncx,ncx")), 2);
}

}  // namespace
}  // namespace kiln
