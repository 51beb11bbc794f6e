#include "layers/layers_file.h"

#include <algorithm>

#include "testing.h"

namespace kiln::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> names(const Spec &spec) {
    std::vector<std::string> result;
    for (const LayerSpec &layer : spec.layers) result.push_back(layer.name);
    return result;
}

const LayerSpec &find(const Spec &spec, const std::string &name) {
    return *std::find_if(spec.layers.begin(), spec.layers.end(), [&](const LayerSpec &l) { return l.name == name; });
}

constexpr const char *small = R"([library]
name = "segmenter"
targets = ["x86-64-avx2", "x86-64-avx512"]

[defaults]
operator = "Conv"
bias = true

[[layer]]
name = "a"
x = [1, 4, 8, 8]
w = [4, 4, 3, 3]
layouts = { x = "NXC", y = "NXC" }
[[layer]]
name = "b"
bias = false
x = [1, 4, "?", "?"]
w = [4, 4, 3, 3]

[[variant]]
dtype = "float16"
layers = ["b"]
[[variant]]
suffix = "strict"
accuracy = "strict"
)";

// Two layers, whose names are these.
std::string two_layers(const std::string &a, const std::string &b) {
    std::string text = "[defaults]\noperator = 'Conv'\nx = [1, 4, 8, 8]\nw = [4, 4, 3, 3]\n";
    for (const std::string &name : {a, b}) text += "[[layer]]\nname = '" + name + "'\n";
    return text;
}

TEST(LayersFile, LongNamesAreShortenedAndStayDifferent) {
    const std::string same(150, 's'), a = same + "a" + same, b = same + "b" + same;
    const Files files;
    Spec spec = load_spec(files.write("net.toml", two_layers(a, b)));
    ASSERT_EQ(spec.layers.size(), 2u);
    for (const LayerSpec &layer : spec.layers) EXPECT_EQ(layer.name.size(), max_name);
    EXPECT_NE(spec.layers[0].name, spec.layers[1].name);
    EXPECT_THAT(spec.notes, ElementsAre(testing::AllOf(StartsWith("shortened"), HasSubstr(a + " to "),
                                                       HasSubstr("and 1 more likewise"))));
    const std::string second = spec.layers[1].name;
    select_layers(&spec, {b});  // by the name that was written
    EXPECT_THAT(names(spec), ElementsAre(second));

    // One of the names has what the other becomes.
    spec = load_spec(files.write("net.toml", two_layers(a, shortened(a))));
    EXPECT_THAT(names(spec), ElementsAre(shortened(a).substr(0, max_name - 4) + "_2", shortened(a)));

    const std::string longest(max_name, 'l');
    spec = load_spec(files.write(std::string(200, 'n') + ".toml", two_layers(longest, "b")));
    EXPECT_THAT(names(spec), ElementsAre(longest, "b"));
    EXPECT_EQ(spec.name, shortened(std::string(200, 'n')));
    EXPECT_EQ(spec.notes.size(), 1u);
}

TEST(LayersFile, LibraryDefaultsAndVariants) {
    const Files files;
    const Spec spec = load_spec(files.write("net.toml", small));
    EXPECT_EQ(spec.name, "segmenter");
    EXPECT_THAT(spec.targets, ElementsAre("x86-64-avx2", "x86-64-avx512"));
    EXPECT_THAT(names(spec), ElementsAre("a", "b", "b_float16", "a_strict", "b_strict"));
    EXPECT_TRUE(spec.failures.empty());
    EXPECT_TRUE(find(spec, "a").bias);
    EXPECT_FALSE(find(spec, "b").bias);
    EXPECT_EQ(find(spec, "a_strict").x_layout, Layout::nxc);
    EXPECT_EQ(find(spec, "a_strict").accuracy, Accuracy::strict);
    EXPECT_EQ(find(spec, "b_float16").dtype, DType::f16);
    EXPECT_FALSE(find(spec, "b_float16").bias);
    EXPECT_EQ(shown(find(spec, "b_float16").x), "[1, 4, ?, ?]");
}

TEST(LayersFile, NamedAfterItsFileOtherwise) {
    const Files files;
    const std::string layer = "[[layer]]\nname = 'a'\noperator = 'Conv'\nx = [1, 1, 1]\nw = [1, 1, 1]\n";
    EXPECT_EQ(load_spec(files.write("my-net.toml", layer)).name, "my_net");
}

TEST(LayersFile, TheSpeedSuite) {
    const Spec spec = load_spec(KILN_BENCH "suite.toml");
    EXPECT_TRUE(spec.failures.empty());
    ASSERT_EQ(spec.layers.size(), 36u);  // 11 Conv, 7 ConvTranspose, 2 DeformConv, and 16 of other types
    EXPECT_EQ(find(spec, "C1_uint8").dtype, DType::u8);
    EXPECT_EQ(find(spec, "D1_bfloat16").dtype, DType::bf16);
    EXPECT_TRUE(find(spec, "D2").mask);
    for (const LayerSpec &layer : spec.layers) EXPECT_TRUE(layer.bias) << layer.name;
    for (const LayerSpec &layer : spec.layers) EXPECT_NO_THROW(resolve(layer)) << layer.name;
}

TEST(LayersFile, OtherLayersThatAreTimed) {
    for (const char *path : {KILN_BENCH "networks.toml", KILN_BENCH "shapes.toml"}) {
        const Spec spec = load_spec(path);
        EXPECT_TRUE(spec.failures.empty()) << path;
        EXPECT_GE(spec.layers.size(), 30u) << path;
        for (const LayerSpec &layer : spec.layers) EXPECT_NO_THROW(resolve(layer)) << layer.name;
    }
}

TEST(LayersFile, OneBadLayerLeavesTheOthers) {
    const Files files;
    const std::string path = files.write("net.toml", R"([defaults]
operator = "Conv"
[[layer]]
name = "good"
x = [1, 4, 8, 8]
w = [4, 4, 3, 3]
[[layer]]
name = "bad"
x = [1, 4, 8, 8]
w = [4, 4, 3, 3]
stride = [1, 1]
[[layer]]
name = "worse"
x = [1, 4, 8, 8]
[[layer]]
name = "quantised"
x = [1, 4, 8, 8]
w = [4, 4, 3, 3]
quantization = { x_skale = 0.5 }
)");
    const Spec spec = load_spec(path);
    EXPECT_THAT(names(spec), ElementsAre("good"));
    ASSERT_EQ(spec.failures.size(), 3u);
    EXPECT_EQ(spec.failures[0].layer, "bad");
    EXPECT_EQ(spec.failures[0].code, StatusCode::invalid_argument);
    EXPECT_EQ(spec.failures[0].message, path + ":11: unknown key stride: did you mean strides?");
    EXPECT_EQ(spec.failures[1].message, path + ":12: w is missing: the shape of the weights");
    EXPECT_THAT(spec.failures[2].message, StartsWith(path + ":19: quantization has an unknown key"));
}

// Defaults are for layers in a dialect's words: a problem says everything itself.
TEST(LayersFile, AGenericLibraryIsAListOfProblems) {
    const Files files;
    const Spec spec = load_spec(files.write("any.toml", R"([defaults]
bias = true
opset = 11
[[layer]]
name = "any"
problem = "conv1d-f32-n?-c?-i?-m?-o?-k?-s?-d?-p?,?-g?-?,?-epilogue?"
[[layer]]
name = "sized"
operator = "Conv"
x = [1, 4, "?"]
w = [4, 4, 3]
)"));
    ASSERT_THAT(names(spec), ElementsAre("any", "sized"));
    EXPECT_TRUE(spec.failures.empty());
    EXPECT_EQ(std::string(print(resolve(spec.layers[0]).problem)),
              "conv1d-f32-n?-c?-i?-m?-o?-k?-s?-d?-p?,?-g?-?,?-epilogue?");
    EXPECT_EQ(std::string(print(resolve(spec.layers[1]).problem)),
              "conv1d-f32-n1-c4-i?-m4-o?-k3-s1-d1-p0,?-g1-ncx,ncx-bias");
}

TEST(LayersFile, LinesOfDefaultsAndVariants) {
    const Files files;
    const std::string path = files.write("net.toml", R"([[layer]]
name = "a"
operator = "Conv"
x = [1, 4, 8, 8]
w = [4, 4, 3, 3]
[defaults]
opset = 0
[[variant]]
dtype = "int7"
layers = ["a"]
)");
    const Spec spec = load_spec(path);
    ASSERT_EQ(spec.failures.size(), 2u);
    EXPECT_THAT(spec.failures[0].message, StartsWith(path + ":7: opset is 0"));
    EXPECT_EQ(spec.failures[1].layer, "a_int7");
    EXPECT_THAT(spec.failures[1].message, StartsWith(path + ":9: dtype is \"int7\""));
}

struct BadFile {
    const char *text;
    const char *message;
};

const BadFile bad_files[] = {
    {"[[layer]\n", ":1: "},
    {"x = [1,\n", ":1: Error while parsing array"},
    {"", " has no [[layer]]"},
    {"[[layers]]\nname = 'a'\n", ":1: unknown key layers: did you mean layer?"},
    {"\n[layer]\nname = 'a'\n", ":2: layer is a list of tables: write [[layer]]"},
    {"[[library]]\n[[layer]]\n", ":1: library is a table: write [library]"},
    {"[library]\nnames = 'a'\n[[layer]]\n", ":2: unknown key names in [library]: did you mean name?"},
    {"[library]\nname = 'a b'\n[[layer]]\n", ":2: name is \"a b\": a C identifier is needed"},
    {"[library]\ntargets = 'host'\n[[layer]]\n", ":2: targets is \"host\": a list of texts is needed"},
    {"[[layer]]\nx = [1]\n", ":1: a [[layer]] without name"},
    {"[[layer]]\nname = 'a-b'\n", ":2: name is \"a-b\": a C identifier is needed"},
    {"[[layer]]\nname = 'a'\n[[layer]]\nname = 'a'\n", ":3: two layers are named a; the other stands in line 1"},
    {"[[layer]]\nname = 'a'\nx = 1979-05-27\n", ":3: x is a date or time"},
    {"[defaults]\nname = 'a'\n[[layer]]\nname = 'b'\n", ":2: name in [defaults]"},
    {"[defaults]\nstride = [1]\n[[layer]]\nname = 'b'\n", ":2: unknown key stride: did you mean strides?"},
    {"[[layer]]\nname = 'conv1'\n[[variant]]\ndtype = 'int8'\nlayers = ['conf1']\n",
     ":5: there is no layer conf1: did you mean conv1?"},
    {"[[layer]]\nname = 'a'\n[[variant]]\nlayers = ['a']\n", ":3: a [[variant]] that sets no dtype needs a suffix"},
    {"[[layer]]\nname = 'a'\n[[variant]]\nsuffix = 'a b'\n", ":4: suffix is \"a b\""},
    {"[[layer]]\nname = 'a'\n[[variant]]\nname = 'b'\n", ":4: name in [[variant]]"},
    {"[[layer]]\nname = 'a'\n[[variant]]\ndtypes = 'int8'\n", ":4: unknown key dtypes: did you mean dtype?"},
    {"[[layer]]\nname = 'a'\n[[variant]]\ndtype = 'int8'\nlayers = 'a'\n", ":5: layers is \"a\": a list of texts"},
};

TEST(LayersFile, BadFiles) {
    const Files files;
    for (const BadFile &bad : bad_files) {
        const std::string path = files.write("bad.toml", bad.text);
        EXPECT_THAT(error_of([&] { load_spec(path); }), StartsWith(path + bad.message)) << bad.text;
    }
}

TEST(LayersFile, DottedKeys) {
    const std::string layer = "[[layer]]\nname = 'a'\noperator = 'Conv'\nx = [1, 1, 1]\nw = [1, 1, 1]\n";
    std::string key = "a";
    for (int i = 0; i < 100'000; i++) key += ".a";
    const auto parse = [](const std::string &text) { return parse_layers_file(text, "net.toml"); };
    for (const std::string &text : {key + " = 1\n", "[[" + key + "]]\n", "x = { " + key + " = 1 }\n"})
        EXPECT_EQ(error_of([&] { parse("\n" + text); }), "net.toml:2: a key of 100 parts or more");
    std::string scales = "output_scale = [1.5";
    for (int i = 0; i < 1000; i++) scales += ",1.5";
    const Spec spec = parse("# " + std::string(200, '.') + "\n" + layer + scales + "]\n");
    EXPECT_EQ(spec.layers.size() + spec.failures.size(), 1u);
}

TEST(LayersFile, NamesThatMeetInTheHeader) {
    const Files files;
    const std::string layer = "operator = 'Conv'\nx = [1, 1, 1]\nw = [1, 1, 1]\n";
    const std::string path =
        files.write("bad.toml", "[[layer]]\nname = 'c1'\n" + layer + "[[layer]]\nname = 'C1'\n" + layer);
    EXPECT_THAT(error_of([&] { load_spec(path); }), HasSubstr("differ only in case"));
}

TEST(LayersFile, BadPaths) {
    const Files files;
    EXPECT_THAT(error_of([&] { load_spec(files.path("none.toml")); }), HasSubstr("cannot be read: No such file"));
    EXPECT_THAT(error_of([&] { load_spec(files.path("net.json")); }), HasSubstr("neither a layers file (.toml) nor"));
    SpecOptions options;
    options.shapes = {{"data", {1, 3, 224, 224}}};
    EXPECT_THAT(error_of([&] { load_spec(files.write("net.toml", small), options); }),
                HasSubstr("--shape data is for ONNX"));
}

}  // namespace
}  // namespace kiln::tools
