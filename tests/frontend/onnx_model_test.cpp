#include "layers/onnx_model.h"

#include <filesystem>

#include "testing.h"

namespace kiln::tools {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

// Stands in for Python: a script that is called as `python onnx_import MODEL ANSWER ...`.
class OnnxModel : public testing::Test {
  protected:
    void python(const std::string &body) {
        const std::string path = files_.write("python", "#!/bin/sh\n" + body + "\n");
        std::filesystem::permissions(path, std::filesystem::perms::owner_all);
        setenv("KILN_PYTHON", path.c_str(), 1);
    }
    void TearDown() override { unsetenv("KILN_PYTHON"); }

    std::string error(const SpecOptions &options = {}) {
        return error_of([&] { load_spec("net.onnx", options); });
    }

    Files files_;
};

TEST_F(OnnxModel, AnswerBecomesLayers) {
    python(R"(cat > "$3" <<'END'
{"name": "net", "notes": ["skipped: MaxPool x1"], "convolutions": 4,
 "failures": [{"layer": "c3", "node": "c/3", "code": "unsupported", "message": "no shape"}],
 "layers": [{"name": "c1", "operator": "Conv", "opset": 9, "x": [1, 3, 8, 8], "w": [4, 3, 3, 3], "residual": true,
             "source": {"node": "c/1", "operator": "Conv", "inputs": {"x": "data", "residual": "r"}, "output": "y"}},
            {"name": "c2", "operator": "Conv", "x": [1, 3, 8, 8], "w": [4, 3, 3, 3], "opset": -1,
             "source": {"node": "c/2", "operator": "Conv", "inputs": {"x": "y"}, "output": "z"}}]}
END)");
    const Spec spec = load_spec("net.onnx");
    EXPECT_EQ(spec.name, "net");
    EXPECT_THAT(spec.notes, ElementsAre("skipped: MaxPool x1"));
    ASSERT_EQ(spec.layers.size(), 1u);
    EXPECT_TRUE(spec.layers[0].residual);
    EXPECT_EQ(spec.convolutions, 4);
    EXPECT_EQ(spec.layers[0].source.node, "c/1");
    EXPECT_EQ(spec.layers[0].source.output, "y");
    EXPECT_THAT(spec.layers[0].source.inputs,
                testing::UnorderedElementsAre(testing::Pair("x", "data"), testing::Pair("residual", "r")));
    ASSERT_EQ(spec.failures.size(), 2u);
    EXPECT_EQ(spec.failures[0].code, StatusCode::unsupported);
    EXPECT_EQ(spec.failures[1].layer, "c2");
    EXPECT_EQ(spec.failures[1].node, "c/2");
    EXPECT_THAT(spec.failures[1].message, HasSubstr("opset is -1"));
}

TEST_F(OnnxModel, ArgumentsArePassedOn) {
    python(R"(echo "$1" "$2" "$4" "$5" "$6" "$7"; exit 1)");
    SpecOptions options;
    options.weights_folder = "weights of it";
    options.shapes = {{"data=in", {1, 3, open_size, 224}}};
    EXPECT_THAT(error(options), EndsWith("onnx_import net.onnx --weights weights of it --shape data=in=1x3x?x224"));
}

TEST_F(OnnxModel, TheImportersOwnMessage) {
    python("echo 'net.onnx is cut short' >&2; exit 1");
    EXPECT_EQ(error(), "net.onnx is cut short");
}

TEST_F(OnnxModel, PythonWithoutOnnx) {
    python("echo \"No module named 'onnx'\" >&2; exit 3");
    EXPECT_THAT(error(), HasSubstr("pip install onnx"));
}

TEST_F(OnnxModel, NoPython) {
    setenv("KILN_PYTHON", "/nowhere/python3", 1);
    EXPECT_THAT(error(), HasSubstr("/nowhere/python3 cannot be started"));
    EXPECT_THAT(error(), HasSubstr("KILN_PYTHON"));
}

TEST_F(OnnxModel, ImporterThatBreaksDown) {
    python("echo Traceback >&2; exit 7");
    EXPECT_EQ(error(), "net.onnx: the importer ended with status 7:\nTraceback");
    python("echo not json > \"$3\"");
    EXPECT_THAT(error(), HasSubstr("the importer's answer makes no sense"));
}

}  // namespace
}  // namespace kiln::tools
