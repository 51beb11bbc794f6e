// What is the same for every dialect: fused activations, layouts, how the filter lies in memory.
#include <gtest/gtest.h>

#include <vector>

#include "layer_builder.h"

namespace kiln::test {
namespace {

TEST(Layer, NamesActivations) {
    const LayerBuilder layer = conv({1, 1, 5}, {1, 1, 3});
    const std::string plain = problem_of(layer);
    const struct {
        const char *name;
        std::vector<double> params;
        const char *flag;
    } cases[] = {
        {"Relu", {}, "-relu"},
        {"LeakyRelu", {}, "-leakyrelu:0.01"},
        {"LeakyRelu", {0.25}, "-leakyrelu:0.25"},
        {"Tanh", {}, "-tanh"},
        {"Sigmoid", {}, "-sigmoid"},
        {"HardSigmoid", {}, "-hardsigmoid:0.2:0.5"},
        {"HardSigmoid", {0.25, 0.75}, "-hardsigmoid:0.25:0.75"},
        {"Clip", {0, 6}, "-clip:0:6"},
        {"Clip", {-0.0, std::numeric_limits<double>::infinity()}, "-clip:0:inf"},
        {"HardSwish", {}, "-hardswish"},
        {"Swish", {}, "-swish:1"},
        {"SiLU", {}, "-swish:1"},
        {"Swish", {1.5}, "-swish:1.5"},
        {"Gelu", {}, "-gelu"},
        {"GeluTanh", {}, "-gelutanh"},
        {"Mish", {}, "-mish"},
        {"Elu", {}, "-elu:1"},
        {"Elu", {0.5}, "-elu:0.5"},
        {"Softplus", {}, "-softplus"},
        {"PRelu", {}, "-prelu"},
        {"PRelu", {0.25}, "-prelu"},
        {"", {}, ""},
    };
    for (const auto &c : cases) {
        EXPECT_EQ(problem_of(layer.activation(c.name, c.params)), plain + c.flag);
    }
}

std::vector<int64_t> strides_of(const LayerBuilder &layer, const std::string &letters) {
    Resolution resolution;
    const Status status = layer.layouts(Layout::ncx, Layout::ncx, letters).resolve(&resolution);
    EXPECT_TRUE(status.ok()) << status.message();
    return {resolution.weight_strides, resolution.weight_strides + resolution.problem.rank + 2};
}

// [output channel, input channel of the group, taps...]
TEST(Layer, LaysOutConvFilters) {
    const LayerBuilder layer = conv({1, 10, 9, 9}, {6, 5, 3, 4}).integer("group", 2);
    using Strides = std::vector<int64_t>;
    EXPECT_EQ(strides_of(layer, ""), (Strides{60, 12, 4, 1}));
    EXPECT_EQ(strides_of(layer, "OIX"), (Strides{60, 12, 4, 1}));
    EXPECT_EQ(strides_of(layer, "OXI"), (Strides{60, 1, 20, 5}));
    EXPECT_EQ(strides_of(layer, "XIO"), (Strides{1, 6, 120, 30}));
    EXPECT_EQ(strides_of(layer, "XOI"), (Strides{5, 1, 120, 30}));
    EXPECT_EQ(strides_of(layer, "IOX"), (Strides{12, 72, 4, 1}));
    EXPECT_EQ(strides_of(layer, "IXO"), (Strides{1, 72, 24, 6}));
}

// [input channel, output channel of the group, taps...]
TEST(Layer, LaysOutTransposedFilters) {
    const LayerBuilder layer = conv_transpose({1, 10, 9, 9}, {10, 3, 2, 4}).integer("group", 2);
    using Strides = std::vector<int64_t>;
    EXPECT_EQ(strides_of(layer, ""), (Strides{24, 8, 4, 1}));
    EXPECT_EQ(strides_of(layer, "IOX"), (Strides{24, 8, 4, 1}));
    EXPECT_EQ(strides_of(layer, "OIX"), (Strides{8, 80, 4, 1}));
    EXPECT_EQ(strides_of(layer, "XIO"), (Strides{3, 1, 120, 30}));
    EXPECT_EQ(strides_of(layer, "XOI"), (Strides{1, 10, 120, 30}));
}

TEST(Layer, LayoutsDoNotChangeShapes) {
    Resolution ncx, nxc;
    const LayerBuilder layer = conv({1, 3, 5, 7}, {4, 3, 3, 3});
    ASSERT_TRUE(layer.resolve(&ncx).ok());
    ASSERT_TRUE(layer.layouts(Layout::nxc, Layout::ncx).resolve(&nxc).ok());
    EXPECT_EQ(ncx.y, nxc.y);
    EXPECT_EQ(nxc.problem.x_layout, Layout::nxc);
    EXPECT_EQ(nxc.problem.y_layout, Layout::ncx);
    nxc.problem.x_layout = Layout::ncx;
    EXPECT_EQ(ncx.problem, nxc.problem);
}

}  // namespace
}  // namespace kiln::test
