// The text of problems: print, parse, hash.
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "../parsed.h"
#include "kiln/problem.h"

namespace kiln {
namespace {

TEST(ProblemText, ReadsEveryToken) {
    const Problem p = parsed(
        "deformconv2d-f16-n2-c64-i56x57-m32-o28x28-k3x2-s2x2-d1x4-p1x~2,0x4-g2-og4-nxc,ncx-bias-mask-residual-"
        "leakyrelu:0.01-strict");
    EXPECT_EQ(p.op, Operator::deform_conv);
    EXPECT_EQ(p.rank, 2);
    EXPECT_EQ(p.x_type, DType::f16);
    EXPECT_EQ(p.w_type, DType::f16);
    EXPECT_EQ(p.y_type, DType::f16);
    EXPECT_EQ(p.bias_type, DType::f16);
    EXPECT_EQ(p.batch, 2);
    EXPECT_EQ(p.in_channels, 64);
    EXPECT_EQ(p.in, (Axes{56, 57}));
    EXPECT_EQ(p.out_channels, 32);
    EXPECT_EQ(p.out, (Axes{28, 28}));
    EXPECT_EQ(p.kernel, (Axes{3, 2}));
    EXPECT_EQ(p.stride, (Axes{2, 2}));
    EXPECT_EQ(p.dilation, (Axes{1, 4}));
    EXPECT_EQ(p.pad_begin, (Axes{1, -2}));
    EXPECT_EQ(p.pad_end, (Axes{0, 4}));
    EXPECT_EQ(p.groups, 2);
    EXPECT_EQ(p.offset_groups, 4);
    EXPECT_EQ(p.x_layout, Layout::nxc);
    EXPECT_EQ(p.y_layout, Layout::ncx);
    EXPECT_TRUE(p.bias && p.mask && p.residual);
    EXPECT_EQ(p.activation, Activation::leaky_relu);
    EXPECT_EQ(p.activation_params[0], 0.01f);
    EXPECT_EQ(p.accuracy, Accuracy::strict);
}

TEST(ProblemText, ReadsTheTokensOfQuantizedProblems) {
    const char *const sizes = "-n1-c8-i9-m8-o7-k3-s1-d1-p0,0-g1";
    const Problem sums = parsed(std::string("conv1d-u8.s8.s32") + sizes + "-xz128-ncx,ncx-wz");
    EXPECT_EQ(sums.x_type, DType::u8);
    EXPECT_EQ(sums.w_type, DType::s8);
    EXPECT_EQ(sums.y_type, DType::s32);
    EXPECT_EQ(sums.x_zero_point, 128);
    EXPECT_TRUE(sums.w_zero_points);

    const Problem rescaled = parsed(std::string("conv1d-s8.u8.s8") + sizes + "-xz~128-yz127-ncx,ncx-biasf32-relu");
    EXPECT_EQ(rescaled.x_zero_point, -128);
    EXPECT_EQ(rescaled.y_zero_point, 127);
    EXPECT_FALSE(rescaled.w_zero_points);
    EXPECT_TRUE(rescaled.bias);
    EXPECT_EQ(rescaled.bias_type, DType::f32);
    EXPECT_EQ(parsed(std::string("conv1d-s8") + sizes + "-xz0-yz0-ncx,ncx-bias").bias_type, DType::s32);

    const Problem any = parsed(std::string("conv1d-s8.s8.f32") + sizes + "-xz?-?,nxc-wz-epiloguef32?-strict");
    EXPECT_EQ(any.x_zero_point, open_size);
    EXPECT_EQ(any.x_layout, Layout::open);
    EXPECT_EQ(any.y_layout, Layout::nxc);
    EXPECT_TRUE(any.open_epilogue);
    EXPECT_FALSE(any.bias);
    EXPECT_EQ(any.bias_type, DType::f32);
    EXPECT_EQ(any.accuracy, Accuracy::strict);
    EXPECT_EQ(parsed(std::string("conv1d-s8.s8.f32") + sizes + "-xz?-?,?-epilogue?").bias_type, DType::s32);
}

const char *const good_texts[] = {
    "conv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias-relu",
    "conv1d-f64-n0-c3-i7-m6-o4-k3-s2-d1-p1,1-g3-ncx,nxc",
    "conv3d-bf16-n2-c4-i5x6x7-m8-o5x6x7-k1x1x1-s1x1x1-d1x1x1-p0x0x0,0x0x0-g4-ncx,ncx-residual-clip:0:6",
    "convtranspose2d-f16-n1-c512-i28x28-m256-o56x56-k2x2-s2x2-d1x1-p0x0,0x0-g1-nxc,nxc-bias-hardsigmoid:0.2:0.5",
    "convtranspose1d-f32-n1-c1-i3-m1-o10-k3-s3-d1-p0,~1-g1-ncx,ncx-strict",
    "conv2d-u8.s8.u8-n1-c8-i9x9-m8-o7x7-k3x3-s1x1-d1x1-p0x0,0x0-g1-xz128-yz3-nxc,nxc-bias-hardswish",
    "conv2d-s8-n1-c8-i9x9-m8-o7x7-k3x3-s1x1-d1x1-p0x0,0x0-g1-xz~128-yz127-ncx,ncx-wz-bias-relu-strict",
    "conv1d-u8-n1-c8-i9-m8-o7-k3-s1-d1-p0,0-g1-xz255-yz0-nxc,nxc-biasf32-clip:0:6",
    "convtranspose1d-u8.u8.f32-n1-c8-i9-m8-o11-k3-s1-d1-p0,0-g1-xz0-nxc,nxc-wz-biasf32",
    "convtranspose1d-s8.u8.s32-n1-c8-i9-m8-o11-k3-s1-d1-p0,0-g1-xz~7-nxc,nxc-wz",
    "conv1d-u8.s8.s8-n?-c?-i?-m?-o?-k?-s?-d?-p?,?-g?-xz?-yz?-?,?-wz-epilogue?",
    "conv1d-u8.s8.s8-n?-c?-i?-m?-o?-k?-s?-d?-p?,?-g?-xz?-yz?-?,nxc-epiloguef32?-strict",
    "deformconv3d-bf16-n?-c?-i?x?x?-m?-o?x?x?-k?x?x?-s?x?x?-d?x?x?-p?x?x?,?x?x?-g?-og?-ncx,?-epilogue?",
    "conv2d-f32-n1-c8-i9x9-m8-o7x7-k3x3-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc-leakyrelu:~0.25-strict",
    "conv2d-f32-n1-c8-i9x9-m8-o7x7-k3x3-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc-clip:~1e~20:1e+20",
    "conv2d-f32-n1-c8-i9x9-m8-o7x7-k3x3-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc-clip:~inf:inf",
    "conv2d-f32-n?-c64-i?x?-m64-o?x?-k3x3-s1x1-d1x1-p1x1,?x?-g1-nxc,nxc-tanh",
    "conv2d-f32-n?-c64-i?x56-m64-o?x56-k3x3-s1x1-d1x1-p1x1,?x1-g1-nxc,nxc-sigmoid",
    "conv2d-f32-n?-c?-i?x?-m?-o?x?-k?x?-s?x?-d?x?-p?x?,?x?-g?-nxc,nxc",
    "deformconv2d-f32-n?-c?-i?x?-m?-o?x?-k?x?-s?x?-d?x?-p?x?,?x?-g?-og?-ncx,ncx-mask",
    "convtranspose4d-f32-n1-c1-i2x2x2x2-m1-o2x2x2x2-k1x1x1x1-s1x1x1x1-d1x1x1x1-p0x0x0x0,0x0x0x0-g1-ncx,ncx",
};

TEST(ProblemText, ParsesWhatItPrints) {
    for (const std::string text : good_texts) {
        SCOPED_TRACE(text);
        const Problem problem = parsed(text);
        EXPECT_EQ(print(problem).c_str(), text);
        EXPECT_EQ(std::string(print(problem)), text);
    }
}

// Problems of every kind, valid and canonical.
class RandomProblems {
  public:
    explicit RandomProblems(uint32_t seed) : random_(seed) {}

    Problem next() {
        Problem p;
        p.op = static_cast<Operator>(number(0, 2));
        p.rank = static_cast<int>(number(1, max_spatial_rank));
        choose_kind(&p);
        p.groups = number(1, 4);
        p.in_channels = p.groups * number(1, 9);
        p.out_channels = p.groups * number(1, 9);
        p.offset_groups = p.op == Operator::deform_conv && p.in_channels % 2 == 0 ? 2 : 1;
        p.batch = number(0, 3);
        for (int axis = 0; axis < p.rank; axis++) {
            choose_axis(&p, axis);
        }
        leave_open(&p.batch);
        leave_open(&p.in_channels);
        leave_open(&p.groups);
        return canonicalize(p);
    }

  private:
    int64_t number(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
    bool one_in(int n) { return number(1, n) == 1; }
    void leave_open(int64_t *size) {
        if (one_in(6)) *size = open_size;
    }

    void choose_kind(Problem *p) {
        p->x_layout = static_cast<Layout>(number(0, 2));
        p->y_layout = static_cast<Layout>(number(0, 2));
        p->open_epilogue = one_in(4);
        if (!p->open_epilogue) {
            p->bias = one_in(2);
            p->residual = one_in(2);
            p->mask = p->op == Operator::deform_conv && one_in(2);
            p->activation = static_cast<Activation>(number(0, 7));
        }
        p->x_type = p->w_type = p->y_type = static_cast<DType>(number(0, 3));
        if (p->op != Operator::deform_conv && one_in(2)) quantize(p);
        for (float &parameter : p->activation_params) {
            parameter = std::ldexp(static_cast<float>(number(-999999, 999999)), static_cast<int>(number(-140, 100)));
        }
        p->accuracy = static_cast<Accuracy>(number(0, 2));
    }

    DType one_of(std::initializer_list<DType> types) {
        return types.begin()[number(0, static_cast<int64_t>(types.size()) - 1)];
    }

    int64_t zero_point(DType type) {
        const int64_t least = type == DType::s8 ? -128 : 0;
        return number(least, least + 255);
    }

    void quantize(Problem *p) {
        p->x_type = one_of({DType::s8, DType::u8});
        p->w_type = one_of({DType::s8, DType::u8});
        p->y_type = one_of({DType::s8, DType::u8, DType::s32, DType::f32});
        p->x_zero_point = zero_point(p->x_type);
        p->y_zero_point = zero_point(p->y_type);
        leave_open(&p->x_zero_point);
        leave_open(&p->y_zero_point);
        p->w_zero_points = one_in(2);
        p->bias_type = p->y_type == DType::s32 ? DType::s32 : one_of({DType::s32, DType::f32});
        p->residual = false;
        if (p->y_type == DType::s32) p->activation = Activation::none;
    }

    void choose_axis(Problem *p, int axis) {
        const int64_t most = one_in(9) ? 30 : 5;
        p->in[axis] = number(0, most);
        p->out[axis] = number(0, most);
        p->kernel[axis] = number(1, 7);
        p->stride[axis] = one_in(20) ? number(1, int64_t{1} << 40) : number(1, 4);
        p->dilation[axis] = number(1, 3);
        p->pad_begin[axis] = number(-3, 5);
        for (Axes *axes : {&p->in, &p->out, &p->kernel, &p->stride, &p->dilation, &p->pad_begin}) {
            leave_open(&(*axes)[axis]);
        }
    }

    std::mt19937 random_;
};

TEST(ProblemText, RoundTripsRandomProblems) {
    const uint32_t seed = std::random_device()();
    RandomProblems problems(seed);
    for (int i = 0; i < 20000; i++) {
        const Problem problem = problems.next();
        const ProblemText text = print(problem);
        SCOPED_TRACE("seed " + std::to_string(seed) + ", problem " + std::to_string(i) + ": " + text.c_str());
        ASSERT_TRUE(validate(problem).ok()) << validate(problem).message();
        ASSERT_EQ(std::string_view(text).find_first_of(" =;$"), std::string_view::npos);
        Problem again;
        const Status status = parse(text, &again);
        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_EQ(again, problem);
        ASSERT_EQ(hash(again), hash(problem));
        ASSERT_STREQ(print(again).c_str(), text.c_str());
    }
}

TEST(ProblemText, FitsItsRoomWhateverTheNumbers) {
    Problem p;
    p.op = Operator::deform_conv;
    p.rank = max_spatial_rank;
    p.w_type = DType::bf16;
    const int64_t long_number = -std::numeric_limits<int64_t>::max();
    p.batch = p.in_channels = p.out_channels = p.groups = p.offset_groups = long_number;
    for (Axes *axes : {&p.in, &p.out, &p.kernel, &p.stride, &p.dilation, &p.pad_begin}) {
        axes->fill(long_number);
    }
    p.activation = Activation::hard_sigmoid;
    p.activation_params = {-1.17549435e-38f, -1.17549435e-38f};
    p.bias = p.mask = p.residual = true;
    p.accuracy = Accuracy::strict;
    const ProblemText text = print(p);
    EXPECT_LT(text.size, max_problem_text);
    EXPECT_GT(text.size, 1000u);
    EXPECT_EQ(text.data[text.size], '\0');
}

struct BadText {
    const char *text;
    const char *token;  // the message holds it
};

#define TAIL "-g1-nxc,nxc"
const BadText bad_texts[] = {
    {"", "token ''"},
    {"conv2d", "the text ends"},
    {"conv-f32", "token 'conv'"},
    {"conv0d-f32", "token 'conv0d'"},
    {"conv9d-f32", "token 'conv9d'"},
    {"conv12d-f32", "token 'conv12d'"},
    {"Conv2d-f32", "token 'Conv2d'"},
    {"pool2d-f32", "token 'pool2d'"},
    {"conv1d-f31-n1", "token 'f31'"},
    {"conv1d-f32.f32.f32-n1", "token 'f32.f32.f32'"},
    {"conv1d-f32.f32-n1", "token 'f32.f32'"},
    {"conv1d-u8.s8.u8.-n1", "token 'u8.s8.u8.'"},
    {"conv1d-f32.-n1", "token 'f32.'"},
    {"conv1d-f32-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL, "token 'c1'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-d1-p0,0" TAIL, "token 'd1'"},
    {"conv1d-f32-n1-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL, "token 'n1'"},
    {"conv1d-f32-n-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL, "token 'n'"},
    {"conv1d-f32-n01-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL, "token 'n01'"},
    {"conv1d-f32-n+1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL, "token 'n+1'"},
    {"conv1d-f32-n1 -c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL, "token 'n1 '"},
    {"conv1d-f32-n~1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL, "token 'n~1'"},
    {"conv1d-f32-n?\?-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL, "token 'n?\?'"},
    {"conv1d-f32-n1-c0-i4-m1-o4-k1-s1-d1-p0,0" TAIL, "token 'c0'"},
    {"conv1d-f32-n1-c1-i4x4-m1-o4-k1-s1-d1-p0,0" TAIL, "token 'i4x4'"},
    {"conv2d-f32-n1-c1-i4-m1-o4x4-k1x1-s1x1-d1x1-p0x0,0x0" TAIL, "token 'i4'"},
    {"conv2d-f32-n1-c1-i4x-m1-o4x4-k1x1-s1x1-d1x1-p0x0,0x0" TAIL, "token 'i4x'"},
    {"conv2d-f32-n1-c1-i4x4x4-m1-o4x4-k1x1-s1x1-d1x1-p0x0,0x0" TAIL, "token 'i4x4x4'"},
    {"conv1d-f32-n1-c1-i9223372036854775808-m1-o4-k1-s1-d1-p0,0" TAIL, "token 'i9223372036854775808'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k0-s1-d1-p0,0" TAIL, "token 'k0'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s0-d1-p0,0" TAIL, "token 's0'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d0-p0,0" TAIL, "token 'd0'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0" TAIL, "token 'p0'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0,0" TAIL, "token 'p0,0,0'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p~0,0" TAIL, "token 'p~0,0'"},
    // 8-bit types, and what only they have
    {"conv1d-s8.s8.s8-n1", "equal types are written once"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-xz0-nxc,nxc", "token 'xz0'"},
    {"conv1d-s8-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-nxc,nxc", "xz (x_zero_point) is needed"},
    {"conv1d-s8-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-xz0-nxc,nxc", "yz (y_zero_point) is needed"},
    {"conv1d-s8-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-yz0-xz0-nxc,nxc", "token 'yz0'"},
    {"conv1d-s8.s8.s32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-xz0-yz0-nxc,nxc", "token 'yz0'"},
    {"conv1d-s8-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-xz128-yz0-nxc,nxc", "xz is 128: a zero point of type s8"},
    {"conv1d-u8-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-xz~1-yz0-nxc,nxc", "xz is -1: a zero point of type u8"},
    {"conv1d-u8.s8.s8-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-xz0-yz~129-nxc,nxc", "yz is -129: a zero point of type s8"},
    {"conv1d-s8.f32.s8-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-xz0-yz0-nxc,nxc", "w is f32: x is 8-bit, so w is too"},
    {"conv1d-s8.s8.f16-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-xz0-nxc,nxc", "y is f16: with 8-bit x it is"},
    {"conv1d-f32.s8.f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL, "x is f32, w s8, y f32"},
    {"conv1d-f32.f32.f16-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL, "x is f32, w f32, y f16"},
    {"conv1d-s32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL, "x is s32"},
    {"deformconv1d-s8-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-og1-xz0-yz0-nxc,nxc", "deformconv has no 8-bit types"},
    {"conv1d-s8-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-xz0-yz0-nxc,nxc-residual", "residual: a problem with 8-bit x has none"},
    {"conv1d-s8.s8.s32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-xz0-nxc,nxc-relu", "an activation behind s32 sums"},
    {"conv1d-s8.s8.s32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-xz0-nxc,nxc-biasf32", "the bias is f32"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-biasf32", "token 'biasf32'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-epiloguef32?", "token 'epiloguef32?'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-wz", "token 'wz': it says nothing here"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-epilogue?-relu", "token 'relu'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-fast", "token 'fast'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-bias-epilogue?", "token 'epilogue?'"},
    {"conv1d-s8-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-xz0-yz0-nxc,nxc-bias-wz", "token 'wz'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-?", "token '?'"},
    // what follows from the rest, or cannot matter
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,1" TAIL, "token 'p0,1'"},
    {"conv1d-f32-n1-c1-i?-m1-o?-k1-s1-d1-p0,0" TAIL, "token 'p0,0'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d2-p0,0" TAIL, "token 'd2'"},
    {"conv1d-f32-n1-c1-i4-m1-o1-k4-s2-d1-p0,0" TAIL, "token 's2'"},
    {"convtranspose1d-f32-n1-c1-i1-m1-o4-k4-s2-d1-p0,0" TAIL, "token 's2'"},
    {"conv1d-f32-n1-c3-i4-m3-o4-k1-s1-d1-p0,0-g2-nxc,nxc", "g2"},
    {"conv1d-f32-n1-c4-i4-m3-o4-k1-s1-d1-p0,0-g4-nxc,nxc", "m3"},
    {"conv1d-f32-n1-c3-i4-m3-o4-k1-s1-d1-p0,0-g1-og1-nxc,nxc", "token 'og1'"},
    {"deformconv1d-f32-n1-c3-i4-m3-o4-k1-s1-d1-p0,0-g1-nxc,nxc", "token 'nxc,nxc'"},
    {"deformconv1d-f32-n1-c3-i4-m3-o4-k1-s1-d1-p0,0-g1-og2-nxc,nxc", "og2"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1", "the layouts"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-nxc", "token 'nxc'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-nxc,cnx", "token 'nxc,cnx'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0-g1-nxc,nxc,nxc", "token 'nxc,nxc,nxc'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-", "token ''"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-bias-bias", "token 'bias'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-relu-bias", "token 'bias'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-relu-relu", "token 'relu'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-strict-relu", "token 'relu'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-elu", "token 'elu'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-mask", "mask"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-none", "token 'none'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-relu:1", "token 'relu:1'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-relu:", "token 'relu:'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-leakyrelu", "token 'leakyrelu'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-leakyrelu:0.010", "token 'leakyrelu:0.010'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-leakyrelu:1e-2", "token 'leakyrelu:1e'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-leakyrelu:0.1:0.2", "token 'leakyrelu:0.1:0.2'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-leakyrelu:1e99", "token 'leakyrelu:1e99'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-leakyrelu:nan", "not a number"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-leakyrelu:inf", "alpha of leakyrelu is inf: it must be from"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-mish:1", "this activation has no parameters"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-clip:0", "token 'clip:0'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-clip:0:", "token 'clip:0:'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-clip:0:6:7", "token 'clip:0:6:7'"},
    {"conv1d-f32-n1-c1-i4-m1-o4-k1-s1-d1-p0,0" TAIL "-clip:~0:6", "token 'clip:~0:6'"},
    // 64 bits
    {"conv1d-f32-n1-c1-i4-m1-o4-k9223372036854775807-s1-d2-p0,0" TAIL, "k9223372036854775807"},
    {"conv1d-f32-n1-c4611686018427387904-i4-m1-o4-k1-s1-d1-p0,0" TAIL, "x is too large"},
    {"conv1d-f32-n1-c1-i4-m4611686018427387904-o4-k1-s1-d1-p0,0" TAIL, "y is too large"},
    {"conv1d-f32-n1-c3037000500-i4-m3037000500-o4-k1-s1-d1-p0,0" TAIL, "w is too large"},
};
#undef TAIL

TEST(ProblemText, RefusesWhatItWouldNotPrint) {
    for (const BadText &bad : bad_texts) {
        SCOPED_TRACE(bad.text);
        Problem problem;
        problem.batch = 77;
        const Status status = parse(bad.text, &problem);
        EXPECT_EQ(status.code(), StatusCode::invalid_argument);
        EXPECT_NE(std::string(status.message()).find(bad.token), std::string::npos) << status.message();
        EXPECT_EQ(problem.batch, 77) << "a failed parse changed the problem";
    }
}

// Whatever a text is cut or changed to, parsing it either fails or reads a text that prints as it stands.
TEST(ProblemText, NeverAcceptsAnotherSpelling) {
    const uint32_t seed = std::random_device()();
    std::mt19937 random(seed);
    const std::string alphabet = "-x,.:?~0123456789acdgiklmnoprsuftwyz ";
    for (int i = 0; i < 50000; i++) {
        std::string text = good_texts[random() % std::size(good_texts)];
        for (uint32_t edits = 1 + random() % 2; edits > 0; edits--) {
            const size_t at = random() % text.size();
            const char letter = alphabet[random() % alphabet.size()];
            if (random() % 3 == 0)
                text.erase(at, 1);
            else if (random() % 2 == 0)
                text.insert(at, 1, letter);
            else
                text[at] = letter;
        }
        Problem problem;
        if (!parse(text, &problem).ok()) continue;
        ASSERT_EQ(std::string(print(problem)), text) << "seed " << seed;
    }
}

// FNV-1a over the text, computed by hand: tuned decisions and caches are kept under it.
TEST(ProblemText, HashIsStable) {
    const Problem a = parsed("conv2d-f32-n1-c64-i56x56-m64-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias-relu");
    uint64_t expected = 14695981039346656037u;
    for (const unsigned char c : std::string(print(a))) {
        expected = (expected ^ c) * 1099511628211u;
    }
    EXPECT_EQ(hash(a), expected);
    EXPECT_EQ(hash(a), 0x93b0cc6bd77f5f16u);
    Problem b = a;
    b.bias = false;
    EXPECT_NE(hash(a), hash(b));
}

}  // namespace
}  // namespace kiln
