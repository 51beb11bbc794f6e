#include "layers/cases.h"

#include "layers/npy.h"
#include "testing.h"

namespace kiln::tools {
namespace {

using testing::HasSubstr;

class Cases : public testing::Test {
  protected:
    Cases() {
        npy("x.npy", "f4", {1, 2, 3, 3});
        npy("w.npy", "f4", {2, 4, 3, 3});
        npy("b.npy", "f4", {4});
        npy("d.npy", "f8", {4});
        npy("xb.npy", "u2", {1, 2, 3, 3});
        npy("wb.npy", "u2", {2, 4, 3, 3});
        npy("qx.npy", "u1", {1, 2, 3, 3});
        npy("qw.npy", "i1", {4, 2, 3, 3});
        npy("qb.npy", "i4", {4});
        values<float>("scale.npy", "f4", {}, {0.5f});
        values<float>("scales.npy", "f4", {4}, {1, 2, 3, 4});
        values<uint8_t>("u.npy", "u1", {}, {200});
        values<int8_t>("i.npy", "i1", {1}, {-3});
        values<int8_t>("none_i.npy", "i1", {0}, {});
        values<int8_t>("is.npy", "i1", {4}, {0, -1, 2, 3});
    }

    template <typename Value>
    void values(const std::string &name, const std::string &type, const std::vector<int64_t> &shape,
                const std::vector<Value> &data) {
        write_npy(files_.path(name), type, shape, data.data());
    }

    void npy(const std::string &name, const std::string &type, const std::vector<int64_t> &shape) {
        const std::vector<char> zeros(4096);
        write_npy(files_.path(name), type, shape, zeros.data());
    }

    CaseLine read(const std::string &line) { return read_case(line, 7, files_.folder()); }

    Files files_;
};

TEST_F(Cases, TheLineOfTheContract) {
    const CaseLine line =
        read(R"({"name":"up1","operator":"ConvTranspose","dialect":"onnx","opset":11,"dtype":"float32",
        "attributes":{"strides":[2,2]},"inputs":{"X":"x.npy","W":"w.npy","B":"b.npy"},"output":"y.npy"})");
    EXPECT_EQ(line.name, "up1");
    ASSERT_TRUE(line.value) << line.message;
    const Case &value = *line.value;
    EXPECT_EQ(value.layer.op, "ConvTranspose");
    EXPECT_EQ(value.layer.opset, 11);
    EXPECT_EQ(shown(value.layer.x), "[1, 2, 3, 3]");
    EXPECT_EQ(shown(value.layer.w), "[2, 4, 3, 3]");
    EXPECT_TRUE(value.layer.bias);
    EXPECT_EQ(shown(value.layer.bias_shape), "[4]");
    EXPECT_EQ(value.x, files_.path("x.npy"));
    EXPECT_EQ(value.bias, files_.path("b.npy"));
    EXPECT_EQ(value.mask, "");
    EXPECT_EQ(value.output, "y.npy");
    EXPECT_EQ(shown(resolve(value.layer).y), "[1, 4, 7, 7]");
}

TEST_F(Cases, AsALayerDoes) {
    const CaseLine line = read(R"({"name":"a","operator":"ConvTranspose","profile":"ort","dtype":"bfloat16",
        "layouts":{"x":"NXC"},"activation":"Clip","activation_params":[0,6],"accuracy":"strict",
        "inputs":{"X":"xb.npy","W":"wb.npy"}})");
    ASSERT_TRUE(line.value) << line.message;
    EXPECT_EQ(line.value->layer.dtype, DType::bf16);
    EXPECT_EQ(line.value->layer.profile, Profile::ort);
    EXPECT_EQ(line.value->layer.x_layout, Layout::nxc);
    EXPECT_EQ(line.value->layer.accuracy, Accuracy::strict);
    EXPECT_EQ(line.value->output, "");
}

TEST_F(Cases, OtherDialectsInputNames) {
    const CaseLine trt = read(R"({"name":"t","operator":"Convolution","dialect":"tensorrt",
        "attributes":{"num_output_maps":2,"stride_nd":[1,1]},"inputs":{"input":"x.npy","kernel":"w.npy"}})");
    ASSERT_TRUE(trt.value) << trt.message;
    EXPECT_EQ(trt.value->layer.attributes.size(), 2u);
    EXPECT_EQ(trt.value->w, files_.path("w.npy"));
    const CaseLine onednn = read(R"({"name":"o","operator":"ConvTranspose","dialect":"onednn-graph",
        "attributes":{"data_format":"NCX"},"inputs":{"input":"x.npy","filter":"w.npy"}})");
    ASSERT_TRUE(onednn.value) << onednn.message;
    EXPECT_EQ(onednn.value->layer.x_layout, Layout::ncx);
    EXPECT_EQ(onednn.value->layer.attributes.size(), 1u);
}

TEST_F(Cases, QLinearConvTakesNumbersAsInputs) {
    const CaseLine line = read(R"({"name":"q","operator":"QLinearConv","opset":10,"inputs":{"x":"qx.npy",
        "x_scale":"scale.npy","x_zero_point":"u.npy","w":"qw.npy","w_scale":"scales.npy","w_zero_point":"is.npy",
        "y_scale":"scale.npy","y_zero_point":"i.npy","B":"qb.npy"}})");
    ASSERT_TRUE(line.value) << line.message;
    const LayerSpec &layer = line.value->layer;
    EXPECT_EQ(layer.quantization.x_scale, 0.5);
    EXPECT_EQ(layer.quantization.x_zero_point, 200);
    EXPECT_EQ(layer.quantization.w_scale, (std::vector<double>{1, 2, 3, 4}));
    EXPECT_EQ(layer.quantization.w_zero_point, (std::vector<int64_t>{0, -1, 2, 3}));
    EXPECT_EQ(layer.quantization.y_zero_point, -3);
    EXPECT_EQ(line.value->bias, files_.path("qb.npy"));
    EXPECT_EQ(std::string(print(resolve(layer).problem)),
              "conv2d-u8.s8.s8-n1-c2-i3x3-m4-o1x1-k3x3-s1x1-d1x1-p0x0,0x0-g1-xz200-yz~3-ncx,ncx-wz-bias");
}

TEST_F(Cases, ConvIntegersZeroPointsAreOptional) {
    const CaseLine bare = read(R"({"name":"i","operator":"ConvInteger","inputs":{"x":"qx.npy","w":"qw.npy"}})");
    ASSERT_TRUE(bare.value) << bare.message;
    EXPECT_EQ(resolve(bare.value->layer).problem.x_zero_point, 0);
    const CaseLine line = read(R"({"name":"i","operator":"ConvInteger","dtype":"uint8","inputs":{"x":"qx.npy",
        "w":"qw.npy","x_zero_point":"u.npy","w_zero_point":"i.npy"}})");
    ASSERT_TRUE(line.value) << line.message;
    const Problem problem = resolve(line.value->layer).problem;
    EXPECT_EQ(problem.x_zero_point, 200);
    EXPECT_TRUE(problem.w_zero_points);
    EXPECT_EQ(problem.y_type, DType::s32);
}

TEST_F(Cases, Int8IsSaidByAQuantization) {
    const CaseLine conv = read(R"({"name":"c","operator":"Conv","dtype":"uint8","quantization":{"x_scale":0.5,
        "y_dtype":"int8"},"inputs":{"X":"qx.npy","W":"qw.npy","B":"qb.npy"}})");
    ASSERT_TRUE(conv.value) << conv.message;
    EXPECT_THAT(std::string(print(resolve(conv.value->layer).problem)), HasSubstr("conv2d-u8.s8.s8-"));
    const CaseLine plain =
        read(R"({"name":"c","operator":"Conv","dtype":"uint8","inputs":{"X":"qx.npy","W":"qw.npy"}})");
    ASSERT_TRUE(plain.value) << plain.message;
    EXPECT_THAT(error_of([&] { resolve(plain.value->layer); }), HasSubstr("dtype is uint8: Conv-22 takes"));
    npy("sx.npy", "i1", {1, 2, 3, 3});
    const CaseLine trt = read(R"({"name":"t","operator":"Convolution","dialect":"tensorrt","dtype":"int8",
        "quantization":{"x_scale":0.5,"w_scale":[1,2,3,4],"y_scale":2,"y_dtype":"float32"},
        "inputs":{"input":"sx.npy","kernel":"qw.npy","bias":"b.npy"}})");
    ASSERT_TRUE(trt.value) << trt.message;
    EXPECT_THAT(std::string(print(resolve(trt.value->layer).problem)), HasSubstr("conv2d-s8.s8.f32-"));
}

// The document's activation and activation_params.
TEST_F(Cases, MsNhwcActivation) {
    npy("xl.npy", "f4", {1, 3, 3, 2});
    const CaseLine line = read(R"({"name":"m","operator":"ConvTranspose","dialect":"ms-nhwc",
        "attributes":{"activation":"Clip","activation_params":[0,6]},"inputs":{"X":"xl.npy","W":"w.npy"}})");
    ASSERT_TRUE(line.value) << line.message;
    EXPECT_THAT(std::string(print(resolve(line.value->layer).problem)), HasSubstr("nxc,nxc-clip:0:6"));
}

// Attributes are the dialect's affair: Kiln's own keys are none, and unknown ones are left to resolve().
TEST_F(Cases, AttributesAreNotLayerKeys) {
    const CaseLine line = read(R"({"name":"a","operator":"ConvTranspose","attributes":{"bias":1},
        "inputs":{"X":"x.npy","W":"w.npy"}})");
    ASSERT_TRUE(line.value) << line.message;
    EXPECT_FALSE(line.value->layer.bias);
    EXPECT_THAT(error_of([&] { resolve(line.value->layer); }), HasSubstr("bias"));
}

struct BadCase {
    const char *line;
    const char *name;
    const char *message;
};

const BadCase bad_cases[] = {
    {"{\"name\":", "line 7", "line 7 is not JSON"},
    {"{\"opset\":1e999}", "line 7", "line 7 holds a number that is too large"},
    {"[1]", "line 7", "line 7 is [1]: an object is needed"},
    {R"({"name":3})", "line 7", "name is 3: a text is needed"},
    {R"({"name":"a"})", "a", "operator is missing"},
    {R"({"name":"a","operater":"Conv"})", "a", "unknown key operater: did you mean operator?"},
    {R"({"name":"a","operator":"Conv","inputs":{"X":"x.npy"}})", "a", "inputs.W is missing"},
    {R"({"name":"a","operator":"Conv","inputs":{"W":"w.npy"}})", "a", "inputs.X is missing"},
    {R"({"name":"a","operator":"Conv","inputs":[1]})", "a", "inputs is [1]: an object is needed"},
    {R"({"name":"a","operator":"Conv","inputs":{"X":1,"W":"w.npy"}})", "a", "inputs.X is 1: a path is needed"},
    {R"({"name":"a","operator":"Conv","inputs":{"bias":"b.npy"}})", "a", "inputs.bias is unknown in dialect onnx"},
    {R"({"name":"a","operator":"Conv","inputs":{"X":"none.npy"}})", "a", "none.npy: cannot be read"},
    {R"({"name":"a","operator":"Conv","inputs":{"X":"x.npy","W":"w.npy","B":"d.npy"}})", "a", "inputs.B is f8 in"},
    {R"({"name":"a","operator":"Conv","dtype":"uint8","quantization":{},
        "inputs":{"X":"qx.npy","W":"qw.npy","B":"b.npy"}})",
     "a", "inputs.B is f4 in"},
    {R"({"name":"a","operator":"Convolution","dialect":"tensorrt","dtype":"int8",
        "inputs":{"input":"qx.npy","kernel":"qw.npy"}})",
     "a", "quantization is missing: dtype int8 needs x_scale, w_scale and y_scale"},
    {R"({"name":"a","operator":"Conv","dtype":"uint8","quantization":{"w_dtype":"uint8"},
        "inputs":{"X":"qx.npy","W":"qw.npy"}})",
     "a", "inputs.W is i1 in"},
    {R"({"name":"a","operator":"ConvInteger","inputs":{"x":"qx.npy","w":"qw.npy","B":"qb.npy"}})", "a",
     "inputs.B is unknown in dialect onnx, operator ConvInteger"},
    {R"({"name":"a","operator":"ConvInteger","inputs":{"x":"qx.npy","w":"qw.npy","x_zero_point":"i.npy"}})", "a",
     "inputs.x_zero_point is i1: it must be u1, as its tensor"},
    {R"({"name":"a","operator":"ConvInteger","quantization":{},"inputs":{"x":"qx.npy","w":"qw.npy"}})", "a",
     "quantization is given, but ConvInteger takes scales and zero points as inputs"},
    {R"({"name":"a","operator":"Conv","quantization":{},"inputs":{"X":"x.npy","W":"w.npy"}})", "a",
     "quantization is given, but dtype is float32: int8 and uint8 have one"},
    {R"({"name":"a","operator":"QLinearConv","inputs":{"x":"qx.npy","w":"qw.npy"}})", "a", "inputs.x_scale is missing"},
    {R"({"name":"a","operator":"ConvInteger","inputs":{"x":"qx.npy","w":"qw.npy","w_zero_point":"none_i.npy"}})", "a",
     "inputs.w_zero_point has no values in"},
    {R"({"name":"a","operator":"QLinearConv","inputs":{"x":"qx.npy","w":"qw.npy","x_scale":"u.npy"}})", "a",
     "inputs.x_scale is u1: a scale is f4"},
    {R"({"name":"a","operator":"QLinearConv","inputs":{"x":"qx.npy","w":"qw.npy","x_scale":"scales.npy"}})", "a",
     "inputs.x_scale has 4 values: one is needed"},
    {R"({"name":"a","operator":"QLinearConv","dtype":"int8","inputs":{"x":"qx.npy","w":"qw.npy"}})", "a",
     "inputs.x is u1 in"},
    {R"({"name":"a","operator":"Conv","dtype":"bfloat16","inputs":{"X":"x.npy"}})", "a", "dtype bfloat16 needs u2"},
    {R"({"name":"a","operator":"Conv","dtype":"f32"})", "a", "dtype is \"f32\": it may be"},
    {R"({"name":"a","operator":"Conv","attributes":{"strides":{}}})", "a", "strides is {}: a number, a list"},
    {R"({"name":"a","operator":"DeformConv","inputs":{"X":"x.npy","W":"w.npy"}})", "a", "inputs.offset is missing"},
    {R"({"name":"a","operator":"Conv","inputs":{"X":"x.npy","W":"w.npy","offset":"x.npy"}})", "a", "only DeformConv"},
    {R"({"name":"a","operator":"QLinearConv","inputs":{"x":"x.npy"}})", "a", "inputs.x is f4 in"},
    {R"({"name":"a","operator":"QLinearConv","inputs":{"X":"qx.npy"}})", "a", "did you mean x?"},
    {R"({"name":"a","operator":"Conv","inputs":{"X":"x.npy","W":"w.npy"},"output":7})", "a", "output is 7"},
};

TEST_F(Cases, BadLines) {
    for (const BadCase &bad : bad_cases) {
        const CaseLine line = read(bad.line);
        EXPECT_FALSE(line.value) << bad.line;
        EXPECT_NE(line.code, StatusCode::ok) << bad.line;
        EXPECT_EQ(line.name, bad.name) << bad.line;
        EXPECT_THAT(line.message, HasSubstr(bad.message)) << bad.line;
    }
}

TEST_F(Cases, ALineThatNestsDeep) {
    const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
    EXPECT_EQ(read("{\"name\":" + deep + "}").message, "line 7 nests deeper than 32 levels");
}

TEST_F(Cases, OneBadLineLeavesTheOthers) {
    const std::string good = R"("operator":"Conv","inputs":{"X":"x.npy","W":"w.npy"}})";
    const std::string path =
        files_.write("cases.jsonl", R"({"name":"a",)" + good + "\n\n{oops\n" + R"({"name":"b",)" + good);
    const std::vector<CaseLine> lines = read_cases(path);
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_TRUE(lines[0].value);
    EXPECT_EQ(lines[1].name, "line 3");
    EXPECT_TRUE(lines[2].value);
    EXPECT_EQ(lines[2].name, "b");
}

TEST_F(Cases, BadPaths) {
    EXPECT_THAT(error_of([&] { read_cases(files_.path("none.jsonl")); }), HasSubstr("No such file"));
    EXPECT_THAT(error_of([&] { read_cases(files_.folder()); }), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace kiln::tools
