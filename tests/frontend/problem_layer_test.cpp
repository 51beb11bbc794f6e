// Layers that are a problem's text, and the problems of the generic engine.
#include <map>

#include "fmt/format.h"
#include "library/generic.h"
#include "testing.h"

namespace kiln::tools {
namespace {

using testing::HasSubstr;

LayerSpec layer(const std::string &problem, const std::string &more = "") {
    return layer_from_json(nlohmann::json::parse(R"({"problem": ")" + problem + "\"" + more + "}"), "/");
}

TEST(ProblemLayer, MeansItsText) {
    const Resolution r = resolve(layer("conv2d-f32-n2-c4-i8x9-m6-o8x9-k3x3-s1x1-d1x1-p1x1,1x1-g2-nxc,ncx-bias-relu"));
    EXPECT_EQ(r.problem.activation, Activation::relu);
    EXPECT_EQ(shown(r.y), "[2, 6, 8, 9]");
    EXPECT_EQ(r.pads_begin[1], 1);
    EXPECT_EQ(std::vector(r.weight_strides, r.weight_strides + 4), (std::vector<int64_t>{18, 9, 3, 1}));
}

TEST(ProblemLayer, MayLeaveEverythingOpen) {
    const Resolution r = resolve(layer("conv1d-f32-n?-c?-i?-m?-o?-k?-s?-d?-p?,?-g?-?,?-epilogue?-strict"));
    EXPECT_TRUE(r.problem.open_epilogue);
    EXPECT_EQ(shown(r.y), "[?, ?, ?]");
}

TEST(ProblemLayer, SaysWhatIsWrong) {
    EXPECT_THAT(error_of([] { resolve(layer("conv2d-f32-n1")); }), HasSubstr("conv2d-f32-n1"));
    EXPECT_EQ(error_of([] { layer("conv1d-f32-n1-c1-i5-m1-o3-k3-s1-d1-p0,0-g1-ncx,ncx", R"(, "bias": true)"); }),
              "bias is given beside problem, which says all but name, weights, bias_values, quantization, optimize, "
              "sizes");
}

TEST(GenericPattern, IsOpenAndMatches) {
    const struct {
        const char *problem, *pattern;
    } rows[] = {
        {"conv2d-f32-n2-c4-i8x9-m6-o8x9-k3x3-s1x1-d1x1-p1x1,1x1-g2-nxc,ncx-bias-residual-relu-strict",
         "conv2d-f32-n?-c?-i?x?-m?-o?x?-k?x?-s?x?-d?x?-p?x?,?x?-g?-?,?-epilogue?-strict"},
        {"convtranspose1d-f16-n2-c4-i8-m6-o10-k3-s1-d1-p0,0-g2-nxc,ncx",
         "convtranspose1d-f16-n?-c?-i?-m?-o?-k?-s?-d?-p?,?-g?-?,?-epilogue?-strict"},
        {"deformconv1d-f64-n1-c4-i8-m6-o8-k3-s1-d1-p1,1-g2-og1-ncx,ncx-mask",
         "deformconv1d-f64-n?-c?-i?-m?-o?-k?-s?-d?-p?,?-g?-og?-?,?-epilogue?-strict"},
        {"conv1d-u8.s8.u8-n1-c4-i8-m6-o8-k3-s1-d1-p1,1-g2-xz128-yz3-ncx,ncx-biasf32-relu",
         "conv1d-u8.s8.u8-n?-c?-i?-m?-o?-k?-s?-d?-p?,?-g?-xz?-yz?-?,?-wz-epiloguef32?-strict"},
        {"conv1d-u8.s8.s32-n1-c4-i8-m6-o8-k3-s1-d1-p1,1-g2-xz128-ncx,ncx-wz",
         "conv1d-u8.s8.s32-n?-c?-i?-m?-o?-k?-s?-d?-p?,?-g?-xz?-?,?-wz-epilogue?-strict"},
    };
    for (const auto &row : rows) {
        Problem problem;
        ASSERT_TRUE(parse(row.problem, &problem).ok()) << row.problem;
        const Problem pattern = generic_pattern(problem);
        EXPECT_STREQ(print(pattern).c_str(), row.pattern);
        EXPECT_TRUE(matches(pattern, problem)) << row.problem;
        EXPECT_TRUE(validate(pattern).ok());
    }
}

// tools/generic.toml lists what generic_pattern makes, for each operator and rank in all types of a document.
TEST(GenericPattern, ShippedRowsAreThePatterns) {
    const Spec spec = load_spec(KILN_GENERIC_LAYERS);
    EXPECT_TRUE(spec.failures.empty());
    std::map<std::string, int> rows;
    for (const LayerSpec &row : spec.layers) {
        const Problem problem = resolve(row).problem;
        EXPECT_EQ(row.problem, print(generic_pattern(problem)).c_str());
        ++rows[fmt::format("{}{}d", to_string(problem.op), problem.rank)];
    }
    EXPECT_EQ(rows, (std::map<std::string, int>{{"conv1d", 11},
                                                {"conv2d", 11},
                                                {"conv3d", 11},
                                                {"convtranspose1d", 6},
                                                {"convtranspose2d", 6},
                                                {"convtranspose3d", 6},
                                                {"deformconv1d", 4},
                                                {"deformconv2d", 4},
                                                {"deformconv3d", 4}}));
}

}  // namespace
}  // namespace kiln::tools
