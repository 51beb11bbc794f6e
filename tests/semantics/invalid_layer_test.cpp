// Layers that do not resolve: the code, and what the message names.
#include <gtest/gtest.h>

#include <limits>

#include "layer_builder.h"

namespace kiln::test {
namespace {

struct InvalidCase {
    LayerBuilder layer;
    const char *message;  // a part of it
};

void expect_fails(const InvalidCase &expected, StatusCode code) {
    Resolution resolution;
    resolution.problem.batch = 77;
    const Status status = expected.layer.resolve(&resolution);
    SCOPED_TRACE(expected.message);
    EXPECT_EQ(status.code(), code) << to_string(status.code()) << ": " << status.message() << "\n"
                                   << print(resolution.problem).c_str();
    EXPECT_NE(std::string(status.message()).find(expected.message), std::string::npos) << status.message();
    EXPECT_EQ(resolution.problem.batch, 77) << "a failure changed the resolution";
}

const LayerBuilder conv2d = conv({1, 4, 5, 5}, {6, 4, 3, 3});
const LayerBuilder transposed2d = conv_transpose({1, 4, 5, 5}, {4, 6, 3, 3});
const int64_t huge = std::numeric_limits<int64_t>::max();

TEST(InvalidLayer, Attributes) {
    const InvalidCase cases[] = {
        // names
        {conv2d.list("stride", {1, 1}), "no attribute stride: did you mean strides?"},
        {conv2d.list("Strides", {1, 1}), "no attribute Strides: did you mean strides?"},
        {conv2d.list("dilation", {1, 1}), "did you mean dilations?"},
        {conv2d.list("padding", {1, 1}), "did you mean pads?"},
        {conv2d.integer("groups", 1), "did you mean group?"},
        {conv2d.list("output_padding", {0, 0}), "Conv has no attribute output_padding"},
        {conv2d.list("output_shape", {5, 5}), "It has auto_pad, dilations, group, kernel_shape, pads, strides"},
        {conv2d.list("", {5, 5}), "Conv has no attribute"},
        {transposed2d.list("output_pading", {0, 0}), "did you mean output_padding?"},
        {transposed2d.list("outputshape", {0, 0}), "did you mean output_shape?"},
        {conv2d.list("strides", {1, 1}).list("strides", {1, 1}), "strides is given twice"},
        // kinds
        {conv2d.integer("strides", 2), "strides is an integer: it must be a list of integers"},
        {conv2d.floats("strides", {1.5, 1.5}), "strides is a list of floats: it must be a list of integers"},
        {conv2d.text("strides", "2"), "strides is a text: it must be a list of integers"},
        {conv2d.list("group", {1}), "group is a list of integers: it must be an integer"},
        {conv2d.real("group", 1), "group is a float: it must be an integer"},
        {conv2d.integer("auto_pad", 1), "auto_pad is an integer: it must be a text"},
        {conv2d.integer("pads", 1), "pads is an integer: it must be a list of integers"},
        {conv2d.integer("kernel_shape", 3), "kernel_shape is an integer"},
        {transposed2d.integer("output_padding", 1), "output_padding is an integer"},
        {transposed2d.integer("output_shape", 1), "output_shape is an integer"},
        {conv2d.real("dilations", 1), "dilations is a float"},
        // lengths
        {conv2d.list("strides", {1}), "strides has 1 values: 2 are needed"},
        {conv2d.list("strides", {1, 1, 1}), "strides has 3 values: 2 are needed"},
        {conv2d.list("strides", {}), "strides has 0 values: 2 are needed"},
        {conv2d.list("dilations", {1}), "dilations has 1 values: 2 are needed"},
        {conv2d.list("pads", {1, 1}), "pads has 2 values: 4 are needed"},
        {conv2d.list("kernel_shape", {3}), "kernel_shape has 1 values: 2 are needed"},
        {transposed2d.list("output_padding", {0}), "output_padding has 1 values: 2 are needed"},
        {transposed2d.list("output_shape", {7}), "output_shape has 1 values: 2 are needed"},
        {transposed2d.list("output_shape", {1, 6, 7, 7}), "output_shape has 4 values: 2 are needed"},
        {transposed2d.list("output_shape", {1, 6, 7, 7}).ort(), "output_shape has 4 values: 2 are needed"},
        // signs
        {conv2d.list("strides", {-1, 1}), "strides[0] is -1: strides must be positive"},
        {conv2d.list("strides", {1, 0}), "strides[1] is 0: strides must be positive"},
        {conv2d.list("dilations", {0, 1}), "dilations[0] is 0: dilations must be positive"},
        {conv2d.list("pads", {0, 0, -1, 0}), "pads[2] is -1: pads must be 0 or more"},
        {conv2d.list("kernel_shape", {0, 3}), "kernel_shape[0] is 0: kernel_shape must be positive"},
        {conv2d.integer("group", 0), "group is 0: it must be positive"},
        {conv2d.integer("group", -2), "group is -2: it must be positive"},
        {transposed2d.list("output_padding", {0, -1}), "output_padding[1] is -1: output_padding must be 0 or more"},
        {transposed2d.list("output_shape", {-7, 7}), "output_shape[0] is -7"},
        {transposed2d.list("pads", {0, -1, 0, 0}).list("output_shape", {7, 7}), "pads[1] is -1"},
        {conv2d.list("pads", {open, 0, 0, 0}), "pads[0] is -9223372036854775808"},
        // values against each other
        {conv2d.list("kernel_shape", {3, 4}), "kernel_shape[1] is 4, but w[3] is 3"},
        {conv2d.auto_pad("SAME"), "auto_pad is SAME: it may be NOTSET, SAME_UPPER, SAME_LOWER, VALID"},
        {conv2d.auto_pad("same_upper"), "auto_pad is same_upper"},
        {conv2d.auto_pad(""), "auto_pad is : it may be"},
        {conv2d.auto_pad("VALID").list("pads", {0, 0, 0, 0}), "auto_pad is VALID: pads cannot be given with it"},
        {conv2d.auto_pad("SAME_UPPER").list("pads", {1, 1, 1, 1}).ort(), "auto_pad is SAME_UPPER: pads cannot"},
        {transposed2d.auto_pad("SAME_LOWER").list("pads", {1, 1, 1, 1}), "auto_pad is SAME_LOWER: pads cannot"},
        {transposed2d.list("output_padding", {1, 0}), "output_padding[0] is 1: it must be below the larger of strides"},
        {transposed2d.list("output_padding", {0, 3}).list("dilations", {1, 3}), "output_padding[1] is 3"},
        {transposed2d.list("output_padding", {2, 0}).list("strides", {2, 2}).opset(11), "output_padding[0] is 2"},
        {transposed2d.list("output_padding", {1, 0}).list("dilations", {2, 2}).ort(), "it must be below strides, 1"},
        {transposed2d.list("output_padding", {1, 0}).opset(1).ort(), "output_padding[0] is 1"},
        {conv_transpose({1, 1, 0}, {1, 1, 3}).list("strides", {2}).list("output_padding", {1}).ort(),
         "output_padding[0] is 1: ONNX Runtime takes none where x[2] is 0"},
    };
    for (const InvalidCase &c : cases) {
        expect_fails(c, StatusCode::invalid_argument);
    }
}

TEST(InvalidLayer, ShapesAndTypes) {
    const InvalidCase cases[] = {
        // ranks
        {conv({1, 4}, {6, 4}), "x has 2 dimensions"},
        {conv({}, {}), "x has 0 dimensions"},
        {conv({1, 4, 5, 5}, {6, 4, 3}), "w has 3 dimensions, but x has 4"},
        // sizes
        {conv({1, 4, -5, 5}, {6, 4, 3, 3}), "x[2] is -5: it must be 0 or more"},
        {conv({-1, 4, 5, 5}, {6, 4, 3, 3}), "x[0] is -1: it must be 0 or more"},
        {conv({1, 0, 5, 5}, {6, 4, 3, 3}), "x[1] is 0: it must be positive"},
        {conv({1, 4, 5, 5}, {6, 4, 0, 3}), "w[2] is 0: it must be positive"},
        {conv({1, 4, 5, 5}, {0, 4, 3, 3}), "w[0] is 0: it must be positive"},
        {conv({1, 4, 5, 5}, {6, -4, 3, 3}), "w[1] is -4: it must be positive"},
        // channels
        {conv({1, 3, 5, 5}, {6, 4, 3, 3}), "x[1] is 3: w[1] and group, 4 and 1, ask for 4 channels"},
        {conv2d.integer("group", 2), "x[1] is 4: w[1] and group, 4 and 2, ask for 8 channels"},
        {conv({1, 4, 5, 5}, {6, 1, 3, 3}).integer("group", 4), "group is 4: it does not divide w[0], which is 6"},
        {conv_transpose({1, 3, 5, 5}, {4, 6, 3, 3}), "x[1] is 3, but w[0] is 4"},
        {transposed2d.integer("group", 3), "group is 3: it does not divide x[1], which is 4"},
        // outputs that do not exist
        {conv({1, 1, 2}, {1, 1, 3}), "the output size of spatial axis 0 would be 0"},
        {conv({1, 1, 2}, {1, 1, 4}).list("strides", {2}), "axis 0 would be 0: x[2] is 2, w[2] 4, strides[0] 2"},
        {conv({1, 1, 9, 1}, {1, 1, 1, 3}).list("pads", {0, 0, 0, 1}), "axis 1 would be 0: x[3] is 1, w[3] 3"},
        {conv({1, 1, 5}, {1, 1, 3}).list("dilations", {3}), "dilations[0] 3"},
        {conv({1, 1, 0}, {1, 1, 3}), "would be -2"},
        {conv({1, 1, 0}, {1, 1, 3}).auto_pad("SAME_UPPER").ort(), "would be 0"},
        {conv_transpose({1, 1, 3}, {1, 1, 3}).list("pads", {3, 2}), "would be 0: x[2] is 3"},
        {conv_transpose({1, 1, 3}, {1, 1, 3}).list("pads", {4, 4}), "would be -3"},
        {conv_transpose({1, 1, 3}, {1, 1, 3}).list("output_shape", {0}), "would be 0"},
        {conv_transpose({1, 1, 0}, {1, 1, 1}).list("strides", {3}), "would be -2"},
        {conv_transpose({1, 1, 0}, {1, 1, 3}).list("strides", {3}).ort(), "would be 0"},
        // what ONNX Runtime refuses
        {conv({1, 1, 5}, {1, 1, 3}).auto_pad("SAME_UPPER").list("dilations", {2}).ort(), "dilations[0] is 2"},
        {conv_transpose({1, 1, 3}, {1, 1, 3}).list("strides", {2}).list("output_shape", {9}).ort(),
         "output_shape[0] is 9"},
        {conv_transpose({1, 1, 3}, {1, 1, 3})
             .list("output_shape", {9})
             .list("strides", {2})
             .list("output_padding", {1})
             .ort(),
         "output_shape[0] is 9"},
        {conv_transpose({1, 1, 0}, {1, 1, 3}).list("output_shape", {2}).ort(), "x[2] is 0"},
        // 64 bits
        {conv({1, 1, huge}, {1, 1, 3}).list("pads", {1, 1}), "does not fit 64 bits: x[2] is 9223372036854775807"},
        {conv({1, 1, 5}, {1, 1, 3}).list("dilations", {huge}), "does not fit 64 bits"},
        {conv({1, 1, 5}, {1, 1, huge}).list("dilations", {2}).auto_pad("SAME_UPPER"), "does not fit 64 bits"},
        {conv_transpose({1, 1, 3}, {1, 1, 3}).list("strides", {huge}), "strides[0] 9223372036854775807"},
        {conv_transpose({1, 1, 3}, {1, 1, 3}).list("strides", {huge}).auto_pad("SAME_UPPER"), "does not fit 64 bits"},
        {conv_transpose({1, 1, 3}, {1, 1, 3}).list("strides", {huge}).list("output_shape", {5}), "64 bits"},
        {conv_transpose({1, 1, 3}, {1, 1, 3}).list("strides", {huge}).list("output_shape", {5}).ort(), "64 bits"},
        {conv({1, 1, 5}, {1, huge, 3}).integer("group", 2), "group is 2: times w[1]"},
        {conv_transpose({1, 2, 5}, {2, huge, 3}).integer("group", 2), "group is 2: times w[1]"},
        {conv({huge, 4, 5, 5}, {6, 4, 3, 3}), "x is too large"},
        {conv({1, 4, 5, 5}, {huge, 4, 3, 3}), "too large"},
        {conv_transpose({1, 1, 3}, {1, 1, 3}).list("output_shape", {huge}), "too large"},
        // opsets and types
        {conv2d.opset(0), "opset is 0: Conv exists from opset 1 on"},
        {transposed2d.opset(-3), "opset is -3"},
        {transposed2d.opset(11).dtype(DType::bf16),
         "dtype is bfloat16: ConvTranspose-11 takes float64, float32, float16 (bfloat16 is taken by onnx from opset "
         "22"},
        {conv2d.opset(21).dtype(DType::bf16), "Conv-11 takes float64, float32, float16"},
        {conv2d.opset(10).dtype(DType::bf16), "Conv-1 takes"},
        {conv2d.dtype(DType::s8), "dtype is int8: Conv-22 takes float64, float32, float16, bfloat16 (int8 is taken by"},
        {conv2d.dtype(DType::u8), "dtype is uint8"},
        {conv2d.dtype(DType::s32), "dtype is int32"},
        {conv2d.mask(), "mask is given: only DeformConv has one"},
        // layouts and epilogues
        {conv2d.layouts(Layout::ncx, Layout::ncx, "OI"), "filter's layout is OI"},
        {conv2d.layouts(Layout::ncx, Layout::ncx, "OIO"), "filter's layout is OIO"},
        {conv2d.layouts(Layout::ncx, Layout::ncx, "oix"), "filter's layout is oix"},
        {conv2d.activation("Rely"), "activation is Rely: did you mean Relu?"},
        {conv2d.activation("relu"), "did you mean Relu?"},
        {conv2d.activation("Gelu"), "It may be Relu, LeakyRelu, Tanh, Sigmoid, HardSigmoid, Clip, HardSwish"},
        {conv2d.activation("Relu", {1}), "activation_params has 1 values: Relu takes 0"},
        {conv2d.activation("LeakyRelu", {1, 2}), "activation_params has 2 values: LeakyRelu takes 1"},
        {conv2d.activation("Clip"), "activation_params has 0 values: Clip takes 2 (min, max)"},
        {conv2d.activation("Clip", {0}), "activation_params has 1 values: Clip takes 2 (min, max)"},
        {conv2d.activation("Clip", {0, std::numeric_limits<double>::quiet_NaN()}), "activation_params[1] is nan"},
        {conv2d.activation("LeakyRelu", {1e300}), "activation_params[0] is 1e+300"},
        {conv2d.activation("", {1}), "activation_params is given, but activation is not"},
    };
    for (const InvalidCase &c : cases) {
        expect_fails(c, StatusCode::invalid_argument);
    }
}

TEST(InvalidLayer, Unsupported) {
    const std::vector<int64_t> rank_11(11, 1);
    const InvalidCase cases[] = {
        {conv(rank_11, rank_11), "x has 11 dimensions: at most 10"},
        {conv({1, 4, 5, 5}, {6, 4, open, 3}), "w[2] is open"},
        {LayerBuilder("Relu", {1, 4, 5, 5}, {6, 4, 3, 3}), "operator Relu of the dialect onnx is not supported"},
        {LayerBuilder("Relu", {1, 4, 5, 5}, {6, 4, 3, 3}), "supported are onnx Conv, onnx ConvTranspose, onnx Deform"},
        {LayerBuilder("", {1, 4, 5, 5}, {6, 4, 3, 3}), "of the dialect onnx"},
        {conv2d.dialect(Dialect::tensorrt), "operator Conv of the dialect tensorrt"},
        {transposed2d.dialect(Dialect::tensorrt), "operator ConvTranspose of the dialect tensorrt"},
        {conv2d.dialect(Dialect::ms_nhwc), "operator Conv of the dialect ms-nhwc"},
        {conv2d.dialect(Dialect::onednn_graph), "operator Conv of the dialect onednn-graph"},
        {LayerBuilder("Convolution", {1, 4, 5, 5}, {6, 4, 3, 3}), "operator Convolution of the dialect onnx"},
    };
    for (const InvalidCase &c : cases) {
        expect_fails(c, StatusCode::unsupported);
    }
}

}  // namespace
}  // namespace kiln::test
