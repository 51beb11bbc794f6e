#include "cases.h"

#include "npy.h"
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
    {R"({"name":"a","operator":"Conv","inputs":{"B":"d.npy"}})", "a", "inputs.B is f8 in"},
    {R"({"name":"a","operator":"Conv","dtype":"bfloat16","inputs":{"X":"x.npy"}})", "a", "dtype bfloat16 needs u2"},
    {R"({"name":"a","operator":"Conv","dtype":"f32"})", "a", "dtype is \"f32\": it may be"},
    {R"({"name":"a","operator":"Conv","attributes":{"strides":{}}})", "a", "strides is {}: a number, a list"},
    {R"({"name":"a","operator":"DeformConv","inputs":{"X":"x.npy","W":"w.npy"}})", "a", "inputs.offset is missing"},
    {R"({"name":"a","operator":"Conv","inputs":{"X":"x.npy","W":"w.npy","offset":"x.npy"}})", "a", "only DeformConv"},
    {R"({"name":"a","operator":"QLinearConv","inputs":{"x":"x.npy"}})", "a",
     "operator is QLinearConv: it is not supported"},
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
