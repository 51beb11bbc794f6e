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
        {conv2d.activation("Selu"),
         "It may be Relu, LeakyRelu, Tanh, Sigmoid, HardSigmoid, Clip, HardSwish, Swish, Gelu, GeluTanh, Mish, Elu"},
        {conv2d.activation("Relu", {1}), "activation_params has 1 values: Relu takes 0"},
        {conv2d.activation("LeakyRelu", {1, 2}), "activation_params has 2 values: LeakyRelu takes 1"},
        {conv2d.activation("Clip"), "activation_params has 0 values: Clip takes 2 (min, max)"},
        {conv2d.activation("Clip", {0}), "activation_params has 1 values: Clip takes 2 (min, max)"},
        {conv2d.activation("Clip", {0, std::numeric_limits<double>::quiet_NaN()}), "activation_params[1] is nan"},
        {conv2d.activation("LeakyRelu", {1e300}), "activation_params[0] is 1e+300"},
        {conv2d.activation("LeakyRelu", {std::numeric_limits<double>::infinity()}),
         "activation_params[0] is inf: alpha of LeakyRelu must be from -3.40282e+38 to 3.40282e+38"},
        {conv2d.activation("PRelu", {1, 2, 3, 4, 5, 6, 7}),
         "activation_params has 7 values: PRelu takes a slope for each of"},
        {conv({1, 1, 5}, {2, 1, 3}).activation("PRelu", {0, 1e300}), "activation_params[1] is 1e+300"},
        {conv({1, 1, 5}, {1, 1, 3}).activation("PRelu", {std::numeric_limits<double>::quiet_NaN()}),
         "activation_params[0] is nan"},
        {conv2d.activation("", {1}), "activation_params is given, but activation is not"},
    };
    for (const InvalidCase &c : cases) {
        expect_fails(c, StatusCode::invalid_argument);
    }
}

TEST(InvalidLayer, MsNhwc) {
    const LayerBuilder nhwc = ms_nhwc({1, 5, 5, 4}, {4, 6, 3, 3});
    const InvalidCase cases[] = {
        {nhwc.list("stride", {1, 1}), "ConvTranspose has no attribute stride: did you mean strides?"},
        {nhwc.text("activations", "Relu"), "did you mean activation?"},
        {nhwc.dtype(DType::bf16), "dtype is bfloat16: ms-nhwc ConvTranspose takes float64, float32, float16"},
        {nhwc.dtype(DType::bf16), "(bfloat16 is taken by onnx from opset 22 on, onednn-graph, tensorrt)"},
        {nhwc.quantized(DType::s8, DType::s8, DType::s8), "dtype is int8: ms-nhwc ConvTranspose takes"},
        {ms_nhwc({1, 4, 5, 5}, {4, 6, 3, 3}), "x[3] is 5, but w[0] is 4: both are the input channels"},
        {ms_nhwc({1, 5, 5, 0}, {4, 6, 3, 3}), "x[3] is 0: it must be positive"},
        {nhwc.integer("group", 3), "group is 3: it does not divide x[3], which is 4"},
        {nhwc.list("strides", {0, 1}), "strides[0] is 0: strides must be positive"},
        {nhwc.list("output_shape", {1, 7, 7, 6}), "output_shape has 4 values: 2 are needed"},
        {nhwc.list("kernel_shape", {3, 4}), "kernel_shape[1] is 4, but w[3] is 3"},
        {nhwc.auto_pad("VALID").list("pads", {0, 0, 0, 0}), "auto_pad is VALID: pads cannot be given with it"},
        {nhwc.list("output_padding", {1, 0}).ort(), "output_padding[0] is 1: it must be below strides, 1"},
        {ms_nhwc({1, 3, 1}, {1, 1, 3}).list("pads", {3, 2}), "axis 0 would be 0: x[1] is 3, w[2] 3"},
        {ms_nhwc({1, huge, 1}, {1, 1, 3}).list("strides", {2}), "64 bits: x[1] is 9223372036854775807, w[2] 3"},
        {nhwc.text("activation", "Rely"), "activation is Rely: did you mean Relu?"},
        {nhwc.text("activation", "Clip"), "activation_params has 0 values: Clip takes 2 (min, max)"},
        {nhwc.text("activation", "Clip").floats("activation_params", {0}), "activation_params has 1 values"},
        {nhwc.text("activation", "Clip").floats("activation_params", {0, 1, 2}), "activation_params has 3 values"},
        {nhwc.text("activation", "Relu").floats("activation_params", {1}), "Relu takes 0"},
        {nhwc.text("activation", "LeakyRelu").real("activation_params", 1), "activation_params is a float: it must be"},
        {nhwc.text("activation", "LeakyRelu").text("activation_params", "1"), "activation_params is a text"},
        {nhwc.integer("activation", 1), "activation is an integer: it must be a text"},
        {nhwc.floats("activation_params", {1}), "activation_params is given, but activation is not"},
        {nhwc.text("activation", "Relu").activation("Relu"), "activation is given twice"},
        {nhwc.floats("activation_params", {1}).activation("LeakyRelu"), "activation_params is given twice"},
        {nhwc.mask(), "mask is given: only DeformConv has one"},
    };
    for (const InvalidCase &c : cases) {
        expect_fails(c, StatusCode::invalid_argument);
    }
}

TEST(InvalidLayer, OneDnnGraph) {
    const LayerBuilder graph = onednn({1, 5, 5, 4}, {3, 3, 4, 6});
    const LayerBuilder bare = conv_transpose({1, 5, 5, 4}, {3, 3, 4, 6}).dialect(Dialect::onednn_graph);
    const LayerBuilder strides = bare.list("strides", {1, 1}), begins = strides.list("pads_begin", {0, 0});
    const InvalidCase cases[] = {
        // what is required, whatever auto_pad says
        {bare, "strides is missing: onednn-graph ConvTranspose requires it"},
        {strides, "pads_begin is missing"},
        {begins, "pads_end is missing"},
        {begins.list("pads_end", {0, 0}), "dilations is missing"},
        {strides.list("dilations", {1, 1}).auto_pad("SAME_UPPER"), "pads_begin is missing"},
        // names and words
        {graph.integer("group", 1), "no attribute group: did you mean groups?"},
        {graph.list("pads", {0, 0, 0, 0}), "ConvTranspose has no attribute pads"},
        {graph.list("kernel_shape", {3, 3}), "ConvTranspose has no attribute kernel_shape"},
        {graph.auto_pad("same"), "auto_pad is same: it may be none, same_upper, same_lower, valid"},
        {graph.auto_pad("NOTSET"), "auto_pad is NOTSET"},
        {graph.text("data_format", "NHWC"), "data_format is NHWC: it may be NXC, NCX"},
        {graph.text("data_format", "ncx"), "data_format is ncx"},
        {graph.text("filter_format", "IXO"), "filter_format is IXO: it may be XIO, OIX, XOI, IOX"},
        {graph.integer("filter_format", 1), "filter_format is an integer: it must be a text"},
        {graph.list("groups", {1}), "groups is a list of integers: it must be an integer"},
        // values
        {onednn({1, 5, 5, 4}, {3, 3, 4, 6}, {1, 0}), "strides[1] is 0: strides must be positive"},
        {onednn({1, 5, 5, 4}, {3, 3, 4, 6}, {1}), "strides has 1 values: 2 are needed"},
        {onednn({1, 5, 5, 4}, {3, 3, 4, 6}, {}, {-1, 0}), "pads_begin[0] is -1: pads_begin must be 0 or more"},
        {onednn({1, 5, 5, 4}, {3, 3, 4, 6}, {}, {}, {0, -2}), "pads_end[1] is -2: pads_end must be 0 or more"},
        {onednn({1, 5, 5, 4}, {3, 3, 4, 6}, {}, {0, -1}).auto_pad("valid"), "pads_begin[1] is -1"},
        {onednn({1, 5, 5, 4}, {3, 3, 4, 6}, {}, {}, {}, {0, 1}), "dilations[0] is 0: dilations must be positive"},
        {graph.list("output_padding", {-1, 0}), "output_padding[0] is -1: output_padding must be 0 or more"},
        {graph.list("output_shape", {7}), "output_shape has 1 values: 2 are needed"},
        {graph.list("output_shape", {0, 7}), "axis 0 would be 0: x[1] is 5, w[0] 3"},
        {graph.integer("groups", 0), "groups is 0: it must be positive"},
        {graph.integer("groups", 3), "groups is 3: it does not divide x[3], which is 4"},
        {graph.text("filter_format", "OIX"), "x[3] is 4, but w[1] is 3: both are the input channels"},
        {graph.text("data_format", "NCX"), "x[1] is 5, but w[2] is 4"},
        {onednn({1, 3, 1}, {3, 1, 1}, {}, {3}, {3}), "axis 0 would be -1: x[1] is 3, w[0] 3"},
        {onednn({1, 3, 1}, {3, 1, 1}, {huge}), "does not fit 64 bits"},
        {onednn({1, 3, 1}, {3, 1, 1}, {}, {}, {}, {huge}).list("output_shape", {5}), "does not fit 64 bits"},
        {graph.dtype(DType::f64),
         "dtype is float64: onednn-graph ConvTranspose takes float32, float16, bfloat16 (float64"},
        {graph.dtype(DType::f64), "(float64 is taken by onnx, ms-nhwc)"},
        {graph.quantized(DType::s8, DType::s8, DType::s8), "dtype is int8"},
    };
    for (const InvalidCase &c : cases) {
        expect_fails(c, StatusCode::invalid_argument);
    }
}

TEST(InvalidLayer, TensorRt) {
    const LayerBuilder layer = convolution({1, 4, 5, 5}, {6, 4, 3, 3});
    const LayerBuilder int8 = layer.quantized(DType::s8, DType::s8, DType::s8);
    const LayerBuilder flat = convolution({1, 4, 5, 5}, {216}).integer("num_output_maps", 6);
    const InvalidCase cases[] = {
        {layer.list("strides", {1, 1}), "Convolution has no attribute strides: did you mean stride_nd?"},
        {layer.list("padding", {1, 1}), "did you mean padding_nd?"},
        {layer.text("padding_mode", "SAME"), "padding_mode is SAME: it may be EXPLICIT_ROUND_DOWN, EXPLICIT_ROUND_UP"},
        {layer.text("padding_mode", "same_upper"), "padding_mode is same_upper"},
        {layer.integer("padding_mode", 1), "padding_mode is an integer: it must be a text"},
        {layer.list("stride_nd", {1, 0}), "stride_nd[1] is 0: stride_nd must be positive"},
        {layer.list("stride_nd", {1}), "stride_nd has 1 values: 2 are needed"},
        {layer.list("dilation_nd", {-1, 1}), "dilation_nd[0] is -1: dilation_nd must be positive"},
        {layer.list("pre_padding", {0, -1}), "pre_padding[1] is -1: pre_padding must be 0 or more"},
        {layer.list("post_padding", {-1, 0}), "post_padding[0] is -1: post_padding must be 0 or more"},
        {layer.list("padding_nd", {1}), "padding_nd has 1 values: 2 are needed"},
        {layer.list("padding_nd", {-1, 0}).text("padding_mode", "SAME_UPPER"), "padding_nd[0] is -1"},
        {layer.integer("num_groups", 0), "num_groups is 0: it must be positive"},
        {layer.integer("num_groups", 2), "x[1] is 4: w[1] and num_groups, 4 and 2, ask for 8 channels"},
        {convolution({1, 4, 5, 5}, {6, 1, 3, 3}).integer("num_groups", 4), "num_groups is 4: it does not divide w[0]"},
        {layer.integer("num_output_maps", 5), "num_output_maps is 5, but w[0] is 6"},
        {layer.list("num_output_maps", {6}), "num_output_maps is a list of integers: it must be an integer"},
        {layer.list("kernel_size_nd", {3, 4}), "kernel_size_nd[1] is 4, but w[3] is 3"},
        {layer.list("kernel_size_nd", {3}), "kernel_size_nd has 1 values: 2 are needed"},
        {flat, "w has 1 dimensions, but x has 4: they must be equal"},
        {flat.list("kernel_size_nd", {3, 2}), "w has 216 elements: num_output_maps, x[1], num_groups and"},
        {flat.list("kernel_size_nd", {huge, huge}), "w has 216 elements"},
        {convolution({1, 1, 2, 9}, {1, 1, 3, 3}), "x[2] with its padding is 2: the dilated kernel, 3 (w[2] 3, dila"},
        {convolution({1, 1, 4}, {1, 1, 3}).list("dilation_nd", {2}),
         "the dilated kernel, 5 (w[2] 3, dilation_nd[0] 2)"},
        {convolution({1, 1, 2}, {1, 1, 3}).list("stride_nd", {2}).text("padding_mode", "EXPLICIT_ROUND_UP"),
         "x[2] with its padding is 2"},
        {convolution({1, 1, 0}, {1, 1, 3}).text("padding_mode", "SAME_UPPER"), "x[2] with its padding is 2"},
        {convolution({1, 1, huge}, {1, 1, 3}).list("padding_nd", {1}),
         "does not fit 64 bits: x[2] is 92233720368547758"},
        {convolution({1, 1, 5}, {1, 1, 3}).list("dilation_nd", {huge}), "dilation_nd[0] 9223372036854775807"},
        {layer.dtype(DType::f64), "dtype is float64: tensorrt Convolution takes float32, float16, bfloat16, int8"},
        {layer.quantized(DType::u8, DType::s8, DType::s8), "dtype is uint8: tensorrt Convolution takes"},
        {layer.dtype(DType::s8), "y_dtype is int32: of tensorrt Convolution it may be int8, float32"},
        {int8.quantized(DType::s8, DType::u8, DType::s8), "w_dtype is uint8: of tensorrt Convolution it may be int8"},
        {int8.quantized(DType::s8, DType::s8, DType::u8),
         "y_dtype is uint8: of tensorrt Convolution it may be int8, f"},
        {int8.zero_points(1, {}, 0), "x_zero_point is 1: tensorrt Convolution has no zero points"},
        {int8.zero_points(0, {0, 2}, 0), "w_zero_point is 2: tensorrt Convolution has no zero points"},
        {int8.zero_points(0, {}, -1), "y_zero_point is -1: tensorrt Convolution has no zero points"},
        {layer.mask(), "mask is given: only DeformConv has one"},
    };
    for (const InvalidCase &c : cases) {
        expect_fails(c, StatusCode::invalid_argument);
    }
}

TEST(InvalidLayer, OnnxDeformConv) {
    const LayerBuilder layer = deform_conv({1, 4, 5, 5}, {6, 4, 3, 3});
    const InvalidCase cases[] = {
        {layer.opset(18), "opset is 18: DeformConv exists from opset 19 on"},
        {layer.auto_pad("SAME_UPPER"), "DeformConv has no attribute auto_pad"},
        {layer.integer("offset_groups", 2), "did you mean offset_group?"},
        {layer.integer("offset_group", 0), "offset_group is 0: it must be positive"},
        {layer.integer("offset_group", 3), "offset_group is 3: it does not divide x[1], which is 4"},
        {layer.list("offset_group", {2}), "offset_group is a list of integers: it must be an integer"},
        {layer.integer("group", 2), "x[1] is 4: w[1] and group, 4 and 2, ask for 8 channels"},
        {layer.list("pads", {0, 0, 0, -1}), "pads[3] is -1: pads must be 0 or more"},
        {layer.list("pads", {1, 1}), "pads has 2 values: 4 are needed"},
        {layer.list("strides", {2, 0}), "strides[1] is 0"},
        {layer.list("kernel_shape", {2, 3}), "kernel_shape[0] is 2, but w[2] is 3"},
        {layer.list("dilations", {3, 1}), "the output size of spatial axis 0 would be -1"},
        {layer.opset(19).dtype(DType::bf16),
         "dtype is bfloat16: DeformConv-19 takes float64, float32, float16 (bfloat16"},
        {layer.quantized(DType::s8, DType::s8, DType::s8), "dtype is int8: DeformConv-22 takes"},
        {layer.quantized(DType::u8, DType::u8, DType::u8), "dtype is uint8: DeformConv-22 takes"},
    };
    for (const InvalidCase &c : cases) {
        expect_fails(c, StatusCode::invalid_argument);
    }
}

TEST(InvalidLayer, Quantized) {
    const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    const LayerBuilder sums = conv_integer({1, 4, 5, 5}, {6, 4, 3, 3}),
                       rescaled = qlinear_conv({1, 4, 5, 5}, {6, 4, 3, 3});
    const LayerBuilder int8 = conv2d.quantized(DType::s8, DType::s8, DType::s8);
    const InvalidCase cases[] = {
        // types
        {sums.opset(9), "opset is 9: ConvInteger exists from opset 10 on"},
        {rescaled.opset(1), "opset is 1: QLinearConv exists from opset 10 on"},
        {sums.dtype(DType::f32),
         "dtype is float32: ConvInteger-10 takes int8, uint8 (float32 is taken by every dialect)"},
        {rescaled.dtype(DType::f16), "dtype is float16: QLinearConv-10 takes int8, uint8"},
        {sums.quantized(DType::u8, DType::f32, DType::s32),
         "w_dtype is float32: of ConvInteger-10 it may be int8, uint8"},
        {sums.quantized(DType::u8, DType::s8, DType::u8), "y_dtype is uint8: of ConvInteger-10 it may be int32"},
        {rescaled.quantized(DType::u8, DType::s8, DType::s32),
         "y_dtype is int32: of QLinearConv-10 it may be int8, uint8"},
        {rescaled.quantized(DType::u8, DType::s8, DType::f32), "y_dtype is float32: of QLinearConv-10 it may be int8"},
        {int8.quantized(DType::s8, DType::s8, DType::f16),
         "y_dtype is float16: of Conv-22 it may be int8, uint8, float32"},
        {int8.quantized(DType::s8, DType::f32, DType::s8), "w_dtype is float32: of Conv-22 it may be int8, uint8"},
        {conv2d.dtype(DType::s8), "onnx Conv and ConvTranspose with a quantization)"},
        {transposed2d.dtype(DType::u8), "dtype is uint8: ConvTranspose-22 takes"},
        // zero points
        {rescaled.zero_points(256, {}, 0), "x_zero_point is 256: a zero point of type uint8 is 0 to 255"},
        {rescaled.zero_points(0, {}, -1), "y_zero_point is -1: a zero point of type uint8 is 0 to 255"},
        {rescaled.zero_points(0, {0, 0, 128, 0, 0, 0}, 0),
         "w_zero_point is 128: a zero point of type int8 is -128 to 127"},
        {rescaled.zero_points(0, {1, 2}, 0), "w_zero_point has 2 values: one, or one for each of 6 output channels"},
        {int8.zero_points(-129, {}, 0), "x_zero_point is -129: a zero point of type int8 is -128 to 127"},
        {sums.zero_points(-1, {}, 0), "x_zero_point is -1"},
        {sums.zero_points(0, {}, 1), "y_zero_point is 1: int32 has no zero point"},
        {int8.quantized(DType::s8, DType::s8, DType::f32).zero_points(0, {}, 4),
         "y_zero_point is 4: float32 has no zero"},
        // scales
        {rescaled.scales(0, {}, 1), "x_scale is 0: a scale is a positive float32 number"},
        {rescaled.scales(-1, {}, 1), "x_scale is -1"},
        {rescaled.scales(1, {}, nan), "y_scale is nan"},
        {rescaled.scales(1, {}, infinity), "y_scale is inf"},
        {rescaled.scales(1e300, {}, 1), "x_scale is 1e+300"},
        {rescaled.scales(1e-300, {}, 1), "x_scale is 1e-300"},
        {rescaled.scales(1, {1, 1, 0, 1, 1, 1}, 1), "w_scale[2] is 0: a scale is a positive float32 number"},
        {rescaled.scales(1, {1, 1, 1}, 1),
         "w_scale has 3 values: one, or one for each of 6 output channels, is needed"},
        {int8.scales(1, {1, 2, 3, 4, 5, 6, 7}, 1), "w_scale has 7 values"},
        {transposed2d.quantized(DType::s8, DType::s8, DType::s8).scales(1, {1, 2, 3, 4}, 1),
         "each of 6 output channels"},
        // what the operators have not
        {sums.bias(), "bias is given: ConvInteger has none"},
        {sums.integer("offset_group", 1), "ConvInteger has no attribute offset_group"},
        {rescaled.list("output_padding", {0, 0}), "QLinearConv has no attribute output_padding"},
        {rescaled.list("strides", {0, 1}), "strides[0] is 0"},
        {rescaled.mask(), "mask is given"},
        {rescaled.activation("Selu"), "activation is Selu"},
    };
    for (const InvalidCase &c : cases) {
        expect_fails(c, StatusCode::invalid_argument);
    }
    const InvalidCase unsupported[] = {
        {rescaled.residual(), "residual is given: Kiln adds none to 8-bit layers"},
        {int8.residual(), "residual is given"},
        {sums.activation("Relu"), "activation is Relu: Kiln computes none on int32 sums"},
    };
    for (const InvalidCase &c : unsupported) {
        expect_fails(c, StatusCode::unsupported);
    }
}

TEST(InvalidLayer, Unsupported) {
    const std::vector<int64_t> rank_11(11, 1);
    const InvalidCase cases[] = {
        {conv(rank_11, rank_11), "x has 11 dimensions: at most 10"},
        {conv({1, 4, 5, 5}, {6, 4, open, 3}), "w[2] is open"},
        {deform_conv(rank_11, rank_11), "x has 11 dimensions: at most 10"},
        {ms_nhwc(rank_11, rank_11), "x has 11 dimensions: at most 10"},
        {onednn(rank_11, rank_11), "x has 11 dimensions: at most 10"},
        {convolution({1, 1, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1}), "x has 6 dimensions: tensorrt Convolution has at most 3"},
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
