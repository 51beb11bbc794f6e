"""What is put in the place of a network's nodes of bytes, float16 and bfloat16, and of floats between them, so that less is computed: which steps are
left, and that they compute what onnxruntime does. Half a minute on two idle cores."""

import unittest

import numpy as np
from network_testing import NetworkTest, integers, load_tests
from onnx import TensorProto, helper, numpy_helper
from onnx_models import model_of, random_tensor, value

node = helper.make_node


class RewritingOfBytes(NetworkTest):
    # Scales and zero points by name; "axis" has one for each of four channels.
    SCHEMES = {"a": (0.05, 3), "b": (0.11, -7), "axis": ([0.02, 0.03, 0.04, 0.05], [1, 2, 3, 4])}

    def test_nodes_of_floats_between_halves(self):
        """What converters to float16 or bfloat16 leave in float32, between Casts, reads and makes those: a layer has its
        activation, and normalizations are found; constants stay as they are, of which none is a layer's residual."""
        for half, text in ((TensorProto.FLOAT16, "f16"), (TensorProto.BFLOAT16, "bf16")):
            with self.subTest(text):
                self.check_halves(half, text)

    def check_halves(self, type_of_halves, text):
        rng = np.random.default_rng(1)
        cast = lambda source, to, name: node("Cast", [source], [name], to=to)
        wide = lambda source: cast(source, TensorProto.FLOAT, f"{source}_wide")
        half = lambda source, name: cast(source, type_of_halves, name)
        norm = [f"n{place}" for place in range(4)]
        nodes = [cast("x", type_of_halves, "h"), node("Conv", ["h", "k"], ["c"]), wide("c"),
                 node("BatchNormalization", ["c_wide", *norm], ["b"]), node("Sigmoid", ["b"], ["s"]),
                 node("Mul", ["b", "s"], ["a"]),
                 half("a", "d"), node("Conv", ["d", "k"], ["e"]), wide("e"), node("Pad", ["e_wide", "pads", "two"], ["p"]),
                 half("p", "q"), wide("q"), node("LayerNormalization", ["q_wide", "scale", "scale"], ["l"]), half("l", "m"),
                 node("Conv", ["m", "k"], ["f"]), wide("f"), node("Mul", ["f_wide", "scale"], ["g"]),
                 node("Clip", ["g", "", "two"], ["u"]), half("u", "v"), node("Tanh", ["v"], ["w"]), wide("w"),
                 node("Mul", ["w_wide", "w_wide"], ["sq"]), node("ReduceMean", ["sq", "last"], ["sm"]),
                 node("Add", ["sm", "tiny"], ["se"]), node("Sqrt", ["se"], ["sr"]), node("Div", ["w_wide", "sr"], ["sd"]),
                 node("Mul", ["sd", "scale"], ["sy"]), half("sy", "y"), half("sy", "same"), node("Relu", ["same"], ["z"]),
                 cast("f", TensorProto.FLOAT, "wide"), node("Conv", ["h", "k"], ["o"], auto_pad="VALID"), wide("o"),
                 node("Add", ["o_wide", "places"], ["r"]), half("r", "residual")]
        constants = [numpy_helper.from_array(rng.standard_normal((4, 4, 1, 1)).astype(helper.tensor_dtype_to_np_dtype(type_of_halves)), "k"),
                     *(numpy_helper.from_array(rng.uniform(0.5, 1.5, 4).astype(np.float32), name) for name in norm),
                     random_tensor(rng, "scale", 8), random_tensor(rng, "places", 2, 4, 5, 6),
                     numpy_helper.from_array(np.float32(2), "two"),
                     numpy_helper.from_array(np.float32(1e-5), "tiny"), integers("pads", 0, 0, 1, 1, 0, 0, 1, 1), integers("last", -1)]
        outputs = [value(name, None, type_of_halves) for name in ("y", "z", "residual")] + [value("wide", None)]
        model = model_of(nodes, [value("x", [2, 4, 5, 6])], outputs, constants, opset=22)
        steps = self.kinds(model)[1]["steps"]
        self.assertEqual(sum("layer" in step for step in steps), 4)
        self.assertEqual([step["operation"] for step in steps if "operation" in step],
                         [f"map-f32[2x4x5x6]-{text}[2x4x5x6]-cast_{text}(a)",
                          f"copy-{text}[2x5x6x4]-{text}[2x7x8x4]-n2x7x8x4-i-28,120x24x4x1-v0x1x1x0,2x6x7x4-f2",
                          f"normalize-{text}[2x7x8x4],f32[8x1],f32[8x1]-{text}[2x7x8x4]-a2-e1e-05",
                          f"map-{text}[2x4x7x8],f32[8]-{text}[2x4x7x8]-tanh(min(mul(a,b),2))",
                          f"normalize-rms-{text}[2x4x7x8],f32[8]-{text}[2x4x7x8]-a3-e1e-05", f"map-{text}[2x4x7x8]-{text}[2x4x7x8]-relu(a)",
                          f"map-{text}[2x4x7x8]-f32[2x4x7x8]-cast_f32(a)",
                          f"map-{text}[2x4x5x6],f32[2x4x5x6]-{text}[2x4x5x6]-cast_{text}(add(cast_f32(a),b))"])
        self.verify(model)

    def pair(self, operator, scheme, x, y, **attributes):
        return node(f"{operator}Linear", [x, scheme, f"{scheme}0"], [y], f"{operator}{y}", **attributes)

    def quantised(self, nodes, inputs, outputs, constants=()):
        """A model with the schemes' constants; `inputs` are (name, shape). What has a name that begins with q is int8."""
        made = [part for name, (scale, zero_point) in self.SCHEMES.items() for part in
                (numpy_helper.from_array(np.float32(scale), name), numpy_helper.from_array(np.int8(zero_point), f"{name}0"))]
        types = {True: TensorProto.INT8, False: TensorProto.FLOAT}
        typed = [[value(name, shape, types[name.startswith("q")]) for name, shape in some]
                 for some in (inputs, [(name, None) for name in outputs])]
        return model_of(nodes, *typed, [*made, *constants], opset=17)

    def test_bytes_are_moved_as_they_are(self):
        """What only moves elements between two nodes of one scheme, one behind another too; a layer before them makes bytes."""
        constants = [integers("whole", 1, 4, 24), integers("first", 1), integers("last", 5), integers("three", 3),
                     integers("places", 2, 0), integers("twice", 1, 1, 2, 1), integers("spread", 3, 4, 4, 6),
                     numpy_helper.from_array(np.float32([1, 1, 2, 2]), "scales"),
                     numpy_helper.from_array(np.random.default_rng(1).integers(-9, 9, [4, 4, 1, 1], np.int8), "qf")]
        moves = [("Reshape", ["whole"], {}), ("Transpose", [], {"perm": [0, 2, 3, 1]}),
                 ("Slice", ["first", "last", "three"], {}), ("Gather", ["places"], {"axis": 1}), ("Tile", ["twice"], {}),
                 ("Expand", ["spread"], {}), ("DepthToSpace", [], {"blocksize": 2}), ("SpaceToDepth", [], {"blocksize": 2}),
                 ("Resize", ["", "scales"], {"mode": "nearest"}),
                 ("MaxPool", [], {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [2, 2]})]
        nodes = [self.pair("Dequantize", "a", "qx", "x")]
        for place, (operator, more, attributes) in enumerate(moves):
            nodes += [node(operator, ["x", *more], [f"m{place}"], **attributes),
                      self.pair("Quantize", "a", f"m{place}", f"q{place}")]
        nodes += [node("Split", ["x"], ["s", "t"], axis=1), node("Concat", ["t", "s", "x"], ["c"], axis=1),
                  node("Identity", ["c"], ["i"]), self.pair("Quantize", "a", "i", "qc")]
        outputs = ["qc", *(f"q{place}" for place in range(len(moves)))]
        model = self.quantised(nodes, [("qx", [1, 4, 4, 6])], outputs, constants)
        for text in self.operations(model):
            self.assertNotIn("f32", text)
            self.assertFalse(text.startswith("map"), text)
        self.verify(model)
        nodes = [self.pair("Dequantize", "a", "qx", "x"), self.pair("Dequantize", "b", "qf", "f8"),
                 node("Conv", ["x", "f8"], ["y"], "layer"), node("Relu", ["y"], ["r"]), node("Reshape", ["r", "whole"], ["v"]),
                 node("Transpose", ["v"], ["u"], perm=[0, 2, 1]), self.pair("Quantize", "b", "u", "q")]
        model = self.quantised(nodes, [("qx", [1, 4, 4, 6])], ["q"], constants)
        self.assertEqual(self.kinds(model)[0], {"layer": 1})

    def test_bytes_are_joined_under_one_scheme(self):
        """Each part of a concatenation gets its result's at once: one that has it stays as it is, and a constant is known."""
        constants = [random_tensor(np.random.default_rng(1), "known", 2, 2, 5)]
        nodes = [self.pair("Dequantize", "a", "qx", "x"), self.pair("Dequantize", "b", "qy", "y"),
                 node("Sigmoid", ["z"], ["s"]), node("Concat", ["x", "y", "s", "known"], ["c"], axis=1),
                 self.pair("Quantize", "a", "c", "qc")]
        inputs = [("qx", [2, 2, 5]), ("qy", [2, 3, 5]), ("z", [2, 4, 5])]
        model = self.quantised(nodes, inputs, ["qc"], constants)
        self.assertEqual(sorted(self.operations(model)),
                         ["concat-s8[2x2x5],s8[2x3x5],s8[2x4x5],s8[2x2x5]-s8[2x11x5]", "map-f32[2x4x5]-s8[2x4x5]",
                          "map-s8[2x3x5]-s8[2x3x5]"])
        self.verify(model)
        # Without a QuantizeLinear behind, parts of one scheme are joined as bytes, others as floats.
        nodes = [self.pair("Dequantize", "a", "qx", "x"), self.pair("Dequantize", "a", "qw", "w"),
                 self.pair("Dequantize", "b", "qy", "y"), node("Concat", ["x", "w"], ["c"], axis=1),
                 node("Concat", ["x", "y"], ["d"], axis=1)]
        model = self.quantised(nodes, [*inputs[:2], ("qw", [2, 1, 5])], ["c", "d"])
        self.assertEqual([text for text in sorted(self.operations(model)) if text.startswith("concat")],
                         ["concat-f32[2x2x5],f32[2x3x5]-f32[2x5x5]", "concat-s8[2x2x5],s8[2x1x5]-s8[2x3x5]"])
        self.verify(model)

    def products_of_bytes(self, product, *behind, **weights):
        """A model of int8, whose weights and biases have the values and scales of `weights`: (value, scale, axis)."""
        made, nodes = [], [self.pair("Dequantize", "a", "qx", "x")]
        for name, (number, scale, axis) in weights.items():
            made += [numpy_helper.from_array(number, f"{name}8"), numpy_helper.from_array(np.float32(scale), f"{name}s")]
            nodes.append(node("DequantizeLinear", [f"{name}8", f"{name}s"], [name], axis=axis))
        return self.quantised([*nodes, product, *behind], [("qx", [3, 8])], [([product, *behind][-1]).output[0]], made)

    def test_products_of_bytes(self):
        """Products with matrices of bytes are layers of bytes, of a scale for each column where the matrix has them."""
        rng = np.random.default_rng(4)
        matrix, bias = rng.integers(-127, 128, [8, 4], np.int8), rng.integers(-999, 999, [4], np.int32)
        scales = np.float32([.01, .02, .03, .015])
        quantize, turned = self.pair("Quantize", "b", "y", "q"), np.ascontiguousarray(matrix.T)
        cases = [(node("MatMul", ["x", "w"], ["y"]), [quantize], {"w": (matrix, .02, 0)}),
                 (node("MatMul", ["x", "w"], ["y"]), [quantize], {"w": (matrix, scales, 1)}),
                 (node("Gemm", ["x", "w", "c"], ["y"], transB=1),
                  [node("Relu", ["y"], ["r"]), self.pair("Quantize", "b", "r", "q")],
                  {"w": (turned, scales, 0), "c": (bias, np.float32(.05) * scales, 0)}),
                 (node("Gemm", ["x", "w"], ["y"], transB=1, alpha=.5), [quantize], {"w": (turned, .02, 0)}),
                 (node("Gemm", ["x", "w", "c"], ["y"]), [], {"w": (matrix, .02, 1), "c": (bias, .001, 0)})]
        for product, behind, weights in cases:
            model = self.products_of_bytes(product, *behind, **weights)
            self.assertEqual(self.kinds(model)[0], {"layer": 1})
            layer, = self.read(model, "--network", "--weights", self.folder / "w")["layers"]
            numbers = layer["quantization"]
            self.assertEqual((layer["dtype"], numbers["w_dtype"], numbers["y_dtype"]),
                             ("int8", "int8", "int8" if behind else "float32"))
            self.assertEqual(len(numbers["w_scale"]), np.size(weights["w"][1]))
            if "c" in weights:
                self.assertTrue(np.array_equal(np.load(layer["bias_values"]), bias))
            self.verify(model)

    def test_limits_between_bytes(self):
        """A Relu or Clip behind bytes that a layer makes is the layer's, where no limit is between bytes, and nothing else is
        the layer's activation already; an operator of bytes has it too."""
        rng, nodes, constants, outputs = np.random.default_rng(1), [self.pair("Dequantize", "a", "qx", "x")], [], []
        limits = {"low": 0, "high": 8 * self.SCHEMES["b"][0], "above": 1e3, "between": 8.4 * self.SCHEMES["b"][0]}
        constants += [numpy_helper.from_array(np.float32(number), name) for name, number in limits.items()]
        constants += [numpy_helper.from_array(rng.integers(-9, 9, [4, 4, 1, 1], np.int8), "qw"),
                      numpy_helper.from_array(rng.integers(-99, 99, 4, np.int32), "bias")]

        def add(name, *limit, behind=(), schemes="bb"):
            constants.append(numpy_helper.from_array(rng.integers(-9, 9, [4, 4, 1, 1], np.int8), f"{name}w8"))
            floats = [self.pair("Dequantize", "b", f"{name}w8", f"{name}w"),
                      node("Conv", ["x", f"{name}w"], [f"{name}0"], name)]
            floats += [node(operator, [f"{name}{place}"], [f"{name}{place + 1}"]) for place, operator in enumerate(behind)]
            nodes.extend([*floats, self.pair("Quantize", schemes[0], f"{name}{len(behind)}", f"{name}8"),
                          self.pair("Dequantize", schemes[0], f"{name}8", f"{name}9"),
                          node(limit[0], [f"{name}9", *limit[1:]], [f"{name}r"]),
                          self.pair("Quantize", schemes[1], f"{name}r", f"q{name}")])
            outputs.append(f"q{name}")

        add("relu", "Relu")
        add("clip", "Clip", "low", "high")
        add("open", "Clip", "", "above")
        add("other", "Relu", schemes="ba")
        nodes += [node("QLinearConv", ["qx", "a", "a0", "qw", "b", "b0", "b", "b0", "bias"], ["linear8"], "linear"),
                  self.pair("Dequantize", "b", "linear8", "linear9"), node("Relu", ["linear9"], ["linear"]),
                  self.pair("Quantize", "b", "linear", "qlinear")]
        model = self.quantised(nodes, [("qx", [1, 4, 5, 6])], [*outputs, "qlinear"], constants)
        self.assertEqual(self.texts(self.kinds(model)[1]), ["layer"] * 4 + ["map"] + ["layer"])
        self.verify(model)
        del outputs[:], nodes[1:]
        add("tanh", "Relu", behind=["Tanh"])
        add("inside", "Clip", "low", "between")
        model = self.quantised(nodes, [("qx", [1, 4, 5, 6])], outputs, constants)
        self.assertEqual(self.texts(self.kinds(model)[1]), ["layer", "map"] * 2)
        self.verify(model)

    def test_pads_of_bytes(self):
        """They are the layer's that reads them, or of bytes, if their number is one; a MaxPool's where it is the least."""
        rng = np.random.default_rng(1)
        zero = self.SCHEMES["a"][1]
        least = (-128 - zero) * self.SCHEMES["a"][0]
        constants = [integers("pads", 0, 0, 1, 0, 0, 0, 1, 2),
                     numpy_helper.from_array(rng.integers(-9, 9, [4, 4, 2, 2], np.int8), "qw"),
                     *(numpy_helper.from_array(np.float32(number), name)
                       for name, number in (("zero", 0), ("least", least), ("third", self.SCHEMES["a"][0] / 3)))]
        pad = lambda name, *more, **attributes: [node("Pad", ["x", "pads", *more], [f"{name}p"], **attributes),
                                                 self.pair("Quantize", "a", f"{name}p", f"{name}q"),
                                                 self.pair("Dequantize", "a", f"{name}q", f"{name}d")]
        layer = lambda name: [node("Conv", [f"{name}d", "w"], [f"{name}c"], name),
                              self.pair("Quantize", "b", f"{name}c", f"q{name}")]
        nodes = [self.pair("Dequantize", "a", "qx", "x"), self.pair("Dequantize", "b", "qw", "w"), *pad("one"), *layer("one"),
                 *pad("two", "zero"), *layer("two"), *pad("turned", mode="reflect"), *layer("turned"),
                 *pad("more", "third"), *layer("more"),
                 *pad("pool", "least"), node("MaxPool", ["poold"], ["poolm"], kernel_shape=[3, 3]),
                 self.pair("Quantize", "a", "poolm", "qpool")]
        model = self.quantised(nodes, [("qx", [1, 4, 5, 6])], ["qone", "qtwo", "qturned", "qmore", "qpool"], constants)
        network = self.kinds(model)[1]
        self.assertEqual(self.texts(network), ["layer", "layer", "copy", "layer", "layer", "pool"])
        self.verify(model)
        # By NaN, which no byte stands for, floats are padded.
        nodes = [self.pair("Dequantize", "a", "qx", "x"), *pad("nan", "nan")[:1], node("Clip", ["nanp", "nan"], ["y"])]
        constants = [constants[0], numpy_helper.from_array(np.float32(np.nan), "nan")]
        model = self.quantised(nodes, [("qx", [1, 4, 5, 6])], ["y"], constants)
        self.assertEqual(self.texts(self.kinds(model)[1]), ["map", "copy", "map"])

    def test_bytes_that_are_cast(self):
        """They are turned and cut as bytes, and become floats in the kernel that reads them; each kernel's own."""
        nodes = [node("Cast", ["image"], ["floats"], to=TensorProto.FLOAT),
                 node("Transpose", ["floats"], ["planes"], perm=[0, 3, 1, 2]),
                 node("Div", ["planes", "whole"], ["x"]), node("Conv", ["x", "w"], ["y"]),
                 node("Slice", ["floats", "one", "two"], ["s"]),
                 node("Mul", ["s", "s"], ["squares"]), node("Cast", ["image"], ["halves"], to=TensorProto.FLOAT16),
                 node("Reshape", ["halves", "flat"], ["h"]), node("Relu", ["h"], ["z"])]
        constants = [random_tensor(np.random.default_rng(1), "w", 4, 3, 3, 3),
                     numpy_helper.from_array(np.float32(255), "whole"),
                     integers("one", 1), integers("two", 2), integers("flat", -1)]
        model = model_of(nodes, [value("image", [2, 8, 9, 3], TensorProto.UINT8)],
                         [value("y", None), value("squares", None), value("z", None, TensorProto.FLOAT16)], constants)
        texts = [step.get("operation", "layer") for step in self.kinds(model)[1]["steps"]]
        self.assertEqual(texts, ["map-u8[2x8x9x3]-f32[2x8x9x3]-div(cast_f32(a),255)", "layer",
                                 "map-u8[8x9x3]-f32[1x8x9x3]-cast_f32(a):mul(t0,t0)", "map-u8[432]-f16[432]-relu(cast_f16(a))"])
        self.verify(model)

    def test_weights_of_bytes_without_zero_points(self):
        """Weights whose differences from their zero points fit are int8, whatever reads them; others stay as they are."""
        rng, constants, nodes = np.random.default_rng(1), [], [self.pair("Dequantize", "a", "qx", "x")]

        def weights(name, low, high, points, shape):
            values = {name: rng.integers(low, high, shape).astype(np.uint8), f"{name}_points": np.uint8(points),
                      f"{name}_scales": np.full(np.shape(points), 0.02, np.float32)}
            constants.extend(numpy_helper.from_array(value, key) for key, value in values.items())
            return [name, f"{name}_scales", f"{name}_points"]

        def layer(operator, name, *more, axis, **attributes):
            nodes.extend([node("DequantizeLinear", weights(name, *more), [f"{name}_wide"], axis=axis),
                          node(operator, ["x", f"{name}_wide"], [f"{name}_y"], name, **attributes)])

        layer("Conv", "one", 0, 256, 128, [4, 2, 3, 3], axis=0, group=2)
        layer("Conv", "many", 100, 200, [120, 130, 140, 90], [4, 4, 1, 1], axis=0)
        layer("ConvTranspose", "turned", 100, 200, [120, 130, 140], [4, 3, 2, 2], axis=1)
        layer("Conv", "wide", 0, 2, 130, [4, 4, 1, 1], axis=0)
        constants.append(helper.make_tensor("four", TensorProto.INT4, [6, 3], rng.integers(-8, 8, 18)))
        nodes += [node("DequantizeLinear", ["four", "a"], ["four_wide"]),
                  node("MatMul", ["x", "four_wide"], ["four_y"], "four")]
        model = self.quantised(nodes, [("qx", [1, 4, 5, 6])], ["one_y", "many_y", "turned_y", "wide_y", "four_y"], constants)
        model.opset_import[0].version = 21
        self.assertEqual(self.weight_kinds(model),
                         {"one": "int8", "many": "int8", "turned": "int8", "wide": "uint8", "four": "int8"})
        constants = [numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(np.uint8(120), "z")]
        w = weights("w", 10, 250, 128, [4, 4, 3, 3])
        nodes = [node("QLinearConv", ["x", "s", "z", *w, "s", "z"], ["y"], "linear"),
                 node("ConvInteger", ["x", "w", "z", "w_points"], ["sums"], "whole"),
                 node("MatMulInteger", ["x", weights("m", 10, 120, [3, 2, 1], [6, 3])[0], "z", "m_points"], ["product"],
                      "matrix")]
        outputs = [value("y", None, TensorProto.UINT8), *(value(name, None, TensorProto.INT32) for name in ("sums", "product"))]
        model = model_of(nodes, [value("x", [1, 4, 5, 6], TensorProto.UINT8)], outputs, constants)
        self.assertEqual(self.weight_kinds(model), dict.fromkeys(("linear", "whole", "matrix"), "int8"))

    def weight_kinds(self, model):
        """The types of weights that a network's layers have, by their names. The network is verified."""
        self.verify(model)
        tables = self.read(model, "--network", "--weights", self.folder / "w")["layers"]
        return {table["name"]: table["quantization"]["w_dtype"] for table in tables}

    def test_matrices_of_bytes_that_stay_floats(self):
        """Scales of rows do not come out of a product's sums; a transposed matrix's columns do."""
        rng = np.random.default_rng(4)
        matrix, scales = rng.integers(-127, 128, [4, 8], np.int8), np.float32([.01, .02, .03, .015])
        turn, product = node("Transpose", ["w"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"])
        for axis, number, dtype in ((0, scales, "int8"), (1, np.tile(scales, 2), "float32")):
            model = self.products_of_bytes(turn, product, self.pair("Quantize", "b", "y", "q"), w=(matrix, number, axis))
            layer, = self.read(model, "--network", "--weights", self.folder / "w")["layers"]
            self.assertEqual(layer["dtype"], dtype)
            self.verify(model)

    def test_operators_of_bytes_by_constant_matrices(self):
        rng = np.random.default_rng(4)
        bias = numpy_helper.from_array(rng.integers(-999, 999, [4], np.int32), "bias")
        matrix = numpy_helper.from_array(rng.integers(-127, 128, [8, 4], np.int8), "w")
        for scales in (np.float32(.02), np.float32([.01, .02, .03, .015])):
            numbers = [numpy_helper.from_array(scales, "ws"), numpy_helper.from_array(np.zeros_like(scales, np.int8), "wz")]
            for product in (node("QGemm", ["qx", "a", "a0", "w", "ws", "wz", "bias", "b", "b0"], ["q"], domain="com.microsoft"),
                            node("QLinearMatMul", ["qx", "a", "a0", "w", "ws", "wz", "b", "b0"], ["q"])):
                model = self.quantised([product], [("qx", [3, 8])], ["q"], [bias, matrix, *numbers])
                model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
                self.assertEqual(self.kinds(model)[0], {"layer": 1})
                layer, = self.read(model, "--network", "--weights", self.folder / "w")["layers"]
                self.assertEqual((layer["dtype"], len(layer["quantization"]["w_scale"])), ("int8", scales.size))
                self.verify(model)

    def test_sums_behind_layers_of_bytes(self):
        """They are added to its floats by the chain that makes bytes again, and do not make it a layer of floats."""
        rng = np.random.default_rng(4)
        whole, filters = integers("whole", 1, 4, 24), rng.integers(-9, 9, [4, 4, 1, 1], np.int8)
        constants = [whole, numpy_helper.from_array(filters, "qf")]
        ends = {"same": ([node("Add", ["y", "z"], ["s"])], [1, 4, 4, 6]),
                "behind views": ([node("Reshape", ["y", "whole"], ["v"]), node("Add", ["v", "z"], ["s"])], [1, 4, 24])}
        for name, (behind, shape) in ends.items():
            nodes = [self.pair("Dequantize", "a", "qx", "x"), self.pair("Dequantize", "b", "qf", "f8"),
                     node("Conv", ["x", "f8"], ["y"], "layer"), *behind, node("Relu", ["s"], ["r"]),
                     self.pair("Quantize", "b", "r", "q")]
            model = self.quantised(nodes, [("qx", [1, 4, 4, 6]), ("z", shape)], ["q"], constants)
            kinds, network = self.kinds(model)
            layer, = self.read(model, "--network", "--weights", self.folder / "w")["layers"]
            self.assertEqual((layer["dtype"], layer["quantization"]["y_dtype"]), ("int8", "float32"), name)
            self.assertEqual(self.texts(network).count("map"), 1, name)
            self.verify(model)

    def test_products_of_dynamic_quantisation(self):
        """By constant matrices they are layers of bytes whose zero point is 0; what that makes wrong is taken off behind."""
        rng = np.random.default_rng(4)
        matrix = numpy_helper.from_array(rng.integers(-127, 128, [8, 4], np.int8), "w")
        point = node("DynamicQuantizeLinear", ["x"], ["u", "us", "uz"])
        for below, points in ((None, ["u", "w", "uz"]), (np.int8(3), ["u", "w", "uz", "wz"]),
                              (np.int8([0, 1, -2, 3]), ["u", "w", "uz", "wz"]), (np.int8([1, 0, 2, 0]), ["u", "w", "", "wz"])):
            constants = [matrix, *([] if below is None else [numpy_helper.from_array(below, "wz")])]
            nodes = [point, node("MatMulInteger", points, ["y"], "product")]
            model = model_of(nodes, [value("x", [2, 3, 8])], [value("y", None, TensorProto.INT32)], constants, opset=17)
            answer = self.read(model, "--network", "--weights", self.folder / "w")
            layer, = answer["layers"]
            self.assertEqual((layer["operator"], layer["dtype"], layer["quantization"]["y_dtype"]),
                             ("ConvInteger", "uint8", "int32"))
            self.assertNotIn("matmul", self.texts(answer["networks"][0]))
            self.assertEqual(self.verify(model)[0]["difference"], 0)

    def test_bytes_that_several_read(self):
        """Each chain makes floats of them itself; a QuantizeLinear that several would do alike is one."""
        nodes = [self.pair("Dequantize", "a", "qx", "x"), node("Sigmoid", ["x"], ["s"]), node("Mul", ["x", "s"], ["m"]),
                 self.pair("Quantize", "b", "m", "qm"), node("Neg", ["x"], ["n"]), self.pair("Quantize", "b", "n", "qn"),
                 self.pair("Quantize", "b", "n", "qo"), node("Transpose", ["x"], ["t"], perm=[1, 0]),
                 self.pair("Quantize", "b", "t", "qt"), node("Softmax", ["x"], ["y"], axis=1),
                 self.pair("Dequantize", "b", "qo", "o"), node("Relu", ["o"], ["z"])]
        model = self.quantised(nodes, [("qx", [6, 7])], ["qm", "qn", "qt", "y", "z"])
        self.assertEqual(sorted(self.operations(model)),
                         ["copy-s8[6x7]-s8[7x6]", *["map-s8[6x7]-f32[6x7]"] * 2, *["map-s8[6x7]-s8[6x7]"] * 3,
                          "softmax-f32[6x7]-f32[6x7]"])
        self.verify(model)

    def test_floats_that_stay(self):
        """By a scale for each channel; with an output of the model between; where readers quantise in two ways, or more
        elements would be quantised; by what computes, and of windows of padding alone."""
        constants = [numpy_helper.from_array(np.float32([1, 1, 2]), "scales"), integers("first", 0), integers("last", 2),
                     integers("one", 1), integers("places", 5, 2, 0, 1, 3, 4)]
        pick = node("Gather", ["s", "places"], ["t"], axis=2)
        cases = [([self.pair("Dequantize", "axis", "qx", "s", axis=1), pick, self.pair("Quantize", "axis", "t", "q", axis=1)],
                  ["q"], 1),
                 ([node("Sigmoid", ["x"], ["s"]), pick, self.pair("Quantize", "a", "t", "q")], ["q", "t"], 1),
                 ([node("Sigmoid", ["x"], ["s"]), pick, self.pair("Quantize", "a", "t", "qa"),
                   self.pair("Quantize", "b", "t", "qb")], ["qa", "qb"], 1),
                 ([node("Sigmoid", ["x"], ["s"]), pick, self.pair("Quantize", "a", "t", "q")], ["q"], 0),
                 ([node("Sigmoid", ["x"], ["s"]), node("Split", ["s"], ["t", "u"], axis=2),
                   self.pair("Quantize", "a", "t", "qa"), self.pair("Quantize", "b", "u", "qb")], ["qa", "qb"], 2),
                 ([node("Sigmoid", ["x"], ["s"]), node("Slice", ["s", "first", "last", "one", "last"], ["t"]),
                   node("Neg", ["s"], ["y"]), self.pair("Quantize", "a", "t", "q")], ["q", "y"], 1),
                 ([self.pair("Dequantize", "a", "qx", "s"), node("Resize", ["s", "", "scales"], ["t"], mode="linear"),
                   self.pair("Quantize", "a", "t", "q")], ["q"], 1),
                 ([self.pair("Dequantize", "a", "qx", "s"), node("MaxPool", ["s"], ["t"], kernel_shape=[1], pads=[1, 0]),
                   self.pair("Quantize", "a", "t", "q")], ["q"], 1)]
        for nodes, outputs, moved in cases:
            inputs = [("x", [1, 4, 6])] if any("x" in part.input for part in nodes) else [("qx", [1, 4, 6])]
            texts = self.operations(self.quantised(nodes, inputs, outputs, constants))
            self.assertEqual(len([text for text in texts if "f32" in text and not text.startswith("map")]), moved, texts)

    def test_series_of_bytes(self):
        """What a byte alone becomes by a series is a kernel of its own, which looks it up; not of few elements."""
        nodes = [self.pair("Dequantize", "a", "qx", "x"), node("Mul", ["x", "f"], ["m"]), self.pair("Quantize", "b", "m", "qm"),
                 self.pair("Dequantize", "b", "qm", "v"), node("Sigmoid", ["v"], ["s"]), self.pair("Quantize", "a", "s", "qs"),
                 self.pair("Dequantize", "a", "qs", "t"), node("Mul", ["v", "t"], ["u"]), self.pair("Quantize", "a", "u", "qu"),
                 self.pair("Dequantize", "a", "qu", "w"), self.pair("Dequantize", "b", "qz", "z"),
                 node("Add", ["w", "z"], ["y"]), self.pair("Quantize", "b", "y", "qy")]
        constants = [random_tensor(np.random.default_rng(1), "f", 4, 1)]
        cases = [(200, ["map-s8[4x200],f32[4x1]-s8[4x200]", "map-s8[4x200]-s8[4x200]", "map-s8[4x200],s8[4x200]-s8[4x200]"]),
                 (50, ["map-s8[4x50],f32[4x1],s8[4x50]-s8[4x50]"])]
        for size, kernels in cases:
            model = self.quantised(nodes, [("qx", [4, size]), ("qz", [4, size])], ["qy"], constants)
            self.assertEqual(self.operations(model), kernels)
            self.verify(model)

    def test_numbers_are_no_tensors_of_a_chain(self):
        """However many a chain reads, it is one kernel."""
        nodes, last = [], "qx"
        for step in range(7):
            nodes += [self.pair("Dequantize", "ab"[step % 2], last, f"x{step}"),
                      node("Mul", [f"x{step}", f"f{step}"], [f"y{step}"]),
                      self.pair("Quantize", "ba"[step % 2], f"y{step}", f"q{step}")]
            last = f"q{step}"
        constants = [numpy_helper.from_array(np.float32(1 + step / 7), f"f{step}") for step in range(7)]
        model = self.quantised(nodes, [("qx", [3, 5])], [last], constants)
        self.assertEqual(self.operations(model), ["map-s8[3x5]-s8[3x5]"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
