"""What is put in the place of a network's nodes so that less is computed: which steps are left, and that they compute what
onnxruntime does. Half a minute on two idle cores."""

import unittest

import numpy as np
from network_testing import NetworkTest, integers, load_tests
from onnx import helper, numpy_helper
from onnx_models import model_of, random_tensor, value

node = helper.make_node


class Rewriting(NetworkTest):
    def test_what_stands_behind_views_of_a_layer(self):
        """A layer scale, a residual sum and an activation behind Reshapes and Transposes: the layer's own; a factor behind the
        sum is none."""
        rng = np.random.default_rng(1)
        nodes = [node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]), node("MatMul", ["t", "w"], ["m"]),
                 node("Add", ["b", "m"], ["n"]), node("Transpose", ["n"], ["u"], perm=[0, 3, 1, 2]), node("Mul", ["scale", "u"], ["v"]),
                 node("Add", ["x", "v"], ["s"]), node("Relu", ["s"], ["y"]), node("Mul", ["y", "scale"], ["z"])]
        constants = [random_tensor(rng, "w", 8, 8), random_tensor(rng, "b", 8), random_tensor(rng, "scale", 8, 1, 1)]
        model = model_of(nodes, [value("x", [2, 8, 5, 6])], [value("z", None)], constants)
        # x is turned to channels last once, and what is computed back.
        self.assertEqual(self.texts(self.kinds(model)[1]), ["copy", "layer", "map", "copy"])
        self.verify(model)

    def test_outputs_and_inputs_that_are_left_out(self):
        """They have no name, and are no value that could be another's."""
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("MaxPool", ["c"], ["m", ""], kernel_shape=[2, 2]),
                 helper.make_node("Resize", ["m", "", "scales"], ["r"], mode="nearest"), helper.make_node("Dropout", ["r"], ["y", ""])]
        constants = [random_tensor(np.random.default_rng(1), "w", 4, 3, 1, 1),
                     numpy_helper.from_array(np.float32([1, 1, 2, 2]), "scales")]
        model = model_of(nodes, [value("x", [1, 3, 5, 6])], [value("y", [1, 4, 8, 10])], constants, opset=17)
        self.assertEqual(set(self.kinds(model)[0]), {"layer", "operation"})
        self.verify(model)

    def test_what_nobody_reads(self):
        """It keeps nothing from being fused: neither what asks for a shape that is known, nor what no output needs."""
        nodes = [node("Conv", ["x", "k"], ["c"], pads=[1, 1]), node("Shape", ["c"], ["shape"]), node("Relu", ["c"], ["r"]),
                 node("Conv", ["r", "k"], ["d"], pads=[1, 1]), node("Tanh", ["d"], ["unread"]),
                 node("Conv", ["unread", "k"], ["e"]), node("NonZero", ["d"], ["places"]), node("Relu", ["d"], ["s"]),
                 node("Slice", ["shape", "zero", "two"], ["front"]),
                 node("Concat", ["front", "rest"], ["sizes"], axis=0), node("Reshape", ["s", "sizes"], ["y"])]
        constants = [random_tensor(np.random.default_rng(1), "k", 4, 4, 3),
                     *(integers(name, number) for name, number in (("zero", 0), ("two", 2), ("rest", -1)))]
        model = model_of(nodes, [value("x", [1, 4, 6])], [value("y", None)], constants)
        self.assertEqual(self.kinds(model)[0], {"layer": 2})
        self.verify(model)

    def test_what_is_computed_again(self):
        """What exporters write twice is computed once, so that a layer has it as its activation; but not what chains of
        elementwise nodes compute each for itself, nor an output of the model."""
        nodes = [node("Conv", ["x", "k"], ["c"], pads=[1, 1]), node("Clip", ["c", "low", "high"], ["a"]),
                 node("Conv", ["a", "k"], ["d"]), node("Clip", ["c", "low2", "high"], ["b"]),
                 node("GlobalMaxPool", ["b"], ["m"]), node("Clip", ["c", "low", "high"], ["e"]), node("Mul", ["e", "m"], ["y"])]
        constants = [random_tensor(np.random.default_rng(1), "k", 4, 4, 3),
                     *(numpy_helper.from_array(np.float32(number), name)
                       for name, number in (("low", 0), ("low2", 0), ("high", 6)))]
        outputs = [value("d", None), value("y", None)]
        model = model_of(nodes, [value("x", [1, 4, 6])], outputs, constants)
        self.assertEqual(self.texts(self.kinds(model)[1]), ["layer", "layer", "reduce", "map", "copy"])
        self.verify(model)
        model = model_of(nodes, [value("x", [1, 4, 6])], [*outputs, value("b", None), value("e", None)], constants)
        self.assertEqual(self.texts(self.kinds(model)[1]), ["layer", "map", "layer", "map", "reduce", "map", "map"])
        self.verify(model)
        nodes = [node("Softmax", ["x"], ["c"]), node("Sigmoid", ["c"], ["a"]), node("Mul", ["a", "k"], ["y"]),
                 node("Sigmoid", ["c"], ["b"]), node("Add", ["b", "k"], ["z"])]
        model = model_of(nodes, [value("x", [2, 5])], [value("y", None), value("z", None)],
                         [random_tensor(np.random.default_rng(1), "k", 5)])
        self.assertEqual(self.texts(self.kinds(model)[1]), ["softmax", "map", "map"])
        self.verify(model)

    def test_a_negation_behind_a_layer(self):
        """A factor of it, behind views too; in an activation it stays that."""
        rng = np.random.default_rng(1)
        nodes = [node("Conv", ["x", "k"], ["c"]), node("Neg", ["c"], ["n"]), node("Conv", ["n", "k"], ["d"]),
                 node("Transpose", ["d"], ["t"], perm=[0, 2, 3, 1]), node("Neg", ["t"], ["y"]),
                 node("Conv", ["x", "k2"], ["e"]), node("Neg", ["e"], ["f"]), node("Exp", ["f"], ["g"]),
                 node("Add", ["one", "g"], ["h"]), node("Div", ["one", "h"], ["z"])]
        model = model_of(nodes, [value("x", [1, 4, 5, 6])], [value("y", None), value("z", None)],
                         [random_tensor(rng, "k", 4, 4, 1, 1), random_tensor(rng, "k2", 4, 4, 1, 1),
                          numpy_helper.from_array(np.float32(1), "one")])
        self.assertEqual(self.texts(self.kinds(model)[1]).count("layer"), 3)
        self.assertNotIn("map", self.texts(self.kinds(model)[1]))
        self.verify(model)

    def test_concatenations_of_concatenations(self):
        """Along one axis, where nobody else reads what is between: one, as long as it does not have too many parts."""
        parts = [f"p{place}" for place in range(20)]
        nodes = [node("Relu", ["x"], ["r"]), *(node("Mul", ["r", f"f{place}"], [name]) for place, name in enumerate(parts)),
                 node("Concat", parts[:2], ["a"], axis=1), node("Concat", ["a", parts[2]], ["b"], axis=-2),
                 node("Concat", [parts[3], "b", parts[4]], ["c"], axis=1), node("Concat", ["c", "c"], ["d"], axis=1),
                 node("Concat", ["d", "d"], ["other"], axis=2), node("Concat", parts[5:19], ["many"], axis=1),
                 node("Concat", ["many", *parts[17:20], "d"], ["y"], axis=1)]
        constants = [numpy_helper.from_array(np.float32(place + 1), f"f{place}") for place in range(20)]
        model = model_of(nodes, [value("x", [2, 3, 4])], [value("y", None), value("other", None)], constants)
        found = [step["operation"] for step in self.kinds(model)[1]["steps"] if step["operation"].startswith("concat")]
        self.assertEqual(sorted(text.count("f32") - 1 for text in found), [2, 2, 5, 5, 14])
        self.verify(model)

    def test_what_is_spread_in_vain(self):
        """As PyTorch writes a vector that is divided by its norm; not where both sides are spread, or others read the result."""
        constants = [integers("whole", 2, 3, 4), integers("rows", 2, 3, 1), integers("columns", 2, 1, 4)]
        wide = lambda source, shape, name: node("Expand", [source, shape], [name])
        norm = node("ReduceL2", ["x"], ["n"], axes=[2])
        cases = [([norm, wide("n", "whole", "e"), node("Div", ["x", "e"], ["y"])], ["reduce", "map"]),
                 ([norm, wide("n", "whole", "e"), wide("n", "whole", "f"), node("Greater", ["x", "e"], ["g"]),
                   node("Where", ["g", "x", "f"], ["y"])], ["reduce", "map"]),
                 ([norm, wide("n", "whole", "e"), node("Div", ["x", "e"], ["d"]), node("Softmax", ["e"], ["s"]),
                   node("Add", ["d", "s"], ["y"])], ["reduce", "copy", "softmax", "map"]),
                 ([node("ReduceMean", ["x"], ["m"], axes=[1]), node("ReduceMean", ["x"], ["n"], axes=[2]),
                   wide("m", "whole", "e"), wide("n", "whole", "f"), node("Add", ["e", "f"], ["y"])], ["reduce", "reduce", "map"]),
                 ([norm, wide("n", "whole", "e"), node("Mul", ["e", "e"], ["y"])], ["reduce", "copy", "map"])]
        joined, outputs = [], []
        for place, (nodes, wanted) in enumerate(cases):
            model = model_of(nodes, [value("x", [2, 3, 4])], [value("y", None)], constants)
            self.assertEqual(sorted(self.texts(self.kinds(model)[1])), sorted(wanted), nodes)
            for one in nodes:
                read, made = ([name if name in ("x", "whole") else f"{name}{place}" for name in names]
                              for names in (one.input, one.output))
                joined.append(node(one.op_type, read, made))
                joined[-1].attribute.extend(one.attribute)
            outputs.append(value(f"y{place}", None))
        self.verify(model_of(joined, [value("x", [2, 3, 4])], outputs, constants))

    def test_parts_side_by_side_again(self):
        """All of a tensor's are that tensor, neighbours that nobody else reads one part; in another order, or along another
        axis, they stay."""
        split = node("Split", ["x", "sizes"], ["a", "b", "c"], axis=1)
        cut = [node("Slice", ["x", first, last, "axis"], [name])
               for name, first, last in (("a", "zero", "two"), ("b", "two", "all"))]
        joined = lambda *parts, axis=1: node("Concat", parts, ["y"], axis=axis)
        relu = lambda name: node("Relu", [name], [f"{name}2"])
        cases = [([split, relu("c"), joined("a", "b", "c", "c2")], ["copy", "map", "concat"], 2),
                 ([split, relu("b"), joined("b", "c", "b2")], ["copy", "copy", "map", "concat"], 3),
                 ([split, relu("c"), joined("a", "b", "c2")], ["copy", "map", "copy", "concat"], 2),
                 ([split, joined("b", "c")], ["copy"], 0),
                 ([split, joined("b", "a", "c")], ["copy", "copy", "copy", "concat"], 3),
                 ([split, joined("a", "b", "c", axis=2)], ["copy", "copy", "copy", "concat"], 3),
                 ([*cut, relu("x"), node("Add", ["x", "x2"], ["z"]), joined("z", "a", "b")], ["map", "concat"], 2),
                 ([*cut, joined("a", "b")], ["map"], 0)]
        constants = [integers(name, *numbers) for name, numbers in
                     (("sizes", [2, 2, 2]), ("zero", [0]), ("two", [2]), ("all", [99]), ("axis", [1]))]
        for nodes, wanted, parts in cases:
            model = model_of(nodes, [value("x", [2, 6, 2])], [value("y", None)], constants)
            network = self.kinds(model)[1]
            self.assertEqual(sorted(self.texts(network)), sorted(wanted), nodes)
            found = [step["operation"].partition("-a")[0].count("f32") - 1 for step in network["steps"]
                     if step["operation"].startswith("concat")]
            self.assertEqual(sum(found), parts)
        self.verify(model_of(cases[2][0], [value("x", [2, 6, 2])], [value("y", None)], constants))

    def test_sums_behind_views_of_two_layers(self):
        """The later one's, where a constant of the whole shape is a residual too; not one that is broadcast to it, nor a factor of
        an axis that is not the channels'."""
        rng = np.random.default_rng(1)
        nodes = [node("Conv", ["x", "k"], ["c"], strides=[2, 2]), node("Reshape", ["c", "flat"], ["f"]),
                 node("Transpose", ["f"], ["t"], perm=[0, 2, 1]), node("Add", ["t", "places"], ["a"]),
                 node("MatMul", ["a", "w"], ["m"]), node("MatMul", ["a", "w2"], ["n"]), node("Add", ["n", "m"], ["s"]),
                 node("BatchNormalization", ["s", "one", "one", "one", "one"], ["o"]), node("Add", ["o", "row"], ["y"])]
        constants = [random_tensor(rng, "k", 6, 3, 2, 2), random_tensor(rng, "places", 1, 9, 6), random_tensor(rng, "w", 6, 4),
                     random_tensor(rng, "w2", 6, 4), random_tensor(rng, "row", 9, 1), integers("flat", 1, 6, -1),
                     numpy_helper.from_array(np.linspace(1, 2, 9, dtype=np.float32), "one")]
        model = model_of(nodes, [value("x", [1, 3, 6, 6])], [value("y", None)], constants)
        self.assertEqual(self.texts(self.kinds(model)[1]), ["layer", "layer", "layer", "map"])
        self.verify(model)

    def test_group_normalization_between_reshapes(self):
        """One kernel with the factors and sums behind it, in whatever order its input lies; a factor of another axis stays."""
        rng = np.random.default_rng(1)
        constants = [random_tensor(rng, "k", 16, 3, 1, 1), random_tensor(rng, "two", 2), random_tensor(rng, "more", 2),
                     random_tensor(rng, "scale", 16, 1, 1), random_tensor(rng, "shift", 1, 16, 1, 1), random_tensor(rng, "row", 7),
                     integers("groups", 0, 2, -1), integers("whole", 2, 16, 5, 7), random_tensor(rng, "last", 4, 16, 1, 1)]
        nodes = [node("Conv", ["x", "k"], ["c"]), node("Reshape", ["c", "groups"], ["r"]),
                 node("InstanceNormalization", ["r", "two", "more"], ["n"], epsilon=1e-3), node("Reshape", ["n", "whole"], ["b"])]
        model = model_of([*nodes, node("Mul", ["scale", "b"], ["m"]), node("Add", ["m", "shift"], ["a"]),
                          node("Conv", ["a", "last"], ["y"])], [value("x", [2, 3, 5, 7])], [value("y", None)], constants)
        self.assertEqual(self.texts(self.kinds(model)[1]), ["layer", "normalize", "layer"])
        self.verify(model)
        model = model_of([*nodes, node("Mul", ["b", "row"], ["y"])], [value("x", [2, 3, 5, 7])], [value("y", None)], constants)
        self.assertEqual(self.texts(self.kinds(model)[1])[:3], ["layer", "normalize", "map"])
        self.verify(model)

    def test_attention(self):
        """Numbers by which sides of a product are multiplied are the product's own, and so is one behind it; parts of a layer's
        result are moved once each."""
        rng = np.random.default_rng(1)
        nodes = [node("MatMul", ["x", "w"], ["m"]), node("Reshape", ["m", "parts"], ["r"]),
                 node("Split", ["r"], ["q", "k", "v"], axis=2), node("Squeeze", ["q", "two"], ["q1"]), node("Squeeze", ["k", "two"], ["k1"]),
                 node("Squeeze", ["v", "two"], ["v1"]), node("Mul", ["q1", "scale"], ["q2"]), node("Div", ["k1", "scale"], ["k2"]),
                 node("Transpose", ["q2"], ["q3"], perm=[0, 2, 1, 3]), node("Transpose", ["k2"], ["k3"], perm=[0, 2, 3, 1]),
                 node("Transpose", ["v1"], ["v3"], perm=[0, 2, 1, 3]), node("MatMul", ["q3", "k3"], ["s"]),
                 node("Mul", ["scale", "s"], ["s1"]), node("Softmax", ["s1"], ["p"], axis=-1), node("MatMul", ["p", "v3"], ["o"]),
                 node("Transpose", ["o"], ["o1"], perm=[0, 2, 1, 3]), node("Reshape", ["o1", "whole"], ["y"])]
        constants = [random_tensor(rng, "w", 24, 72), integers("parts", 2, 7, 3, 2, 12), integers("two", 2),
                     integers("whole", 2, 7, 24), numpy_helper.from_array(np.float32(0.4), "scale")]
        model = model_of(nodes, [value("x", [2, 7, 24])], [value("y", None)], constants)
        network = self.kinds(model)[1]
        self.assertEqual(self.texts(network), ["layer", *["copy"] * 2, "matmul", "softmax", "copy", "matmul", "copy"])
        self.assertIn("-alpha0.4-", next(step["operation"] for step in network["steps"] if "alpha" in step.get("operation", "")))
        self.verify(model)

    def test_pads_in_front_of_what_pads(self):
        """Of a convolution, behind a Transpose too, and of pools; not by other numbers, nor where a window has pads alone."""
        constants = [integers("edge", 0, 0, 1, 0, 0, 0, 0, 2), integers("last", 0, 2, 1, 0, 0, 0, 1, 0), integers("wide", *[0, 0, 4, 0] * 2),
                     *(random_tensor(np.random.default_rng(seed), name, 4, 3, 3, 3) for seed, name in enumerate("wv")),
                     numpy_helper.from_array(np.float32(-np.inf), "low"),
                     numpy_helper.from_array(np.float32(1), "one")]
        pool = {"kernel_shape": [3, 3], "strides": [2, 2]}
        whole = [[node("Pad", ["x", "edge"], ["p"]), node("Conv", ["p", "w"], ["y"], pads=[0, 1, 1, 0])],
                 [node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]), node("Pad", ["t", "last"], ["p"]),
                  node("Transpose", ["p"], ["q"], perm=[0, 3, 1, 2]), node("Conv", ["q", "w"], ["y"], auto_pad="VALID")],
                 [node("Pad", ["x", "edge", "low"], ["p"]), node("MaxPool", ["p"], ["y"], **pool)],
                 [node("Pad", ["x", "edge"], ["p"]), node("AveragePool", ["p"], ["y"], **pool)],
                 [node("Relu", ["x"], ["r"]), node("Transpose", ["r"], ["t"], perm=[0, 2, 3, 1]),
                  node("Pad", ["t", "last"], ["p"]), node("Transpose", ["p"], ["q"], perm=[0, 3, 1, 2]), node("MaxPool", ["q"], ["m"], **pool),
                  node("Conv", ["q", "w"], ["c"]), node("Conv", ["q", "v"], ["d"]), node("Mul", ["c", "d"], ["e"]),
                  node("ReduceMax", ["m"], ["n"]), node("Mul", ["e", "n"], ["y"])]]
        stay = [[node("Pad", ["x", "edge", "one"], ["p"]), node("Conv", ["p", "w"], ["y"])],
                [node("Pad", ["x", "edge"], ["p"]), node("MaxPool", ["p"], ["y"], **pool)],
                [node("Pad", ["x", "wide"], ["p"]), node("AveragePool", ["p"], ["y"], **pool)],
                [node("Pad", ["x", "edge"], ["p"]), node("AveragePool", ["p"], ["y"], ceil_mode=1, **pool)]]
        for nodes in [*whole, *stay]:
            model = model_of(nodes, [value("x", [1, 3, 8, 9])], [value("y", None)], constants)
            network = self.kinds(model)[1]
            pads = [step for step in network["steps"] if "-v" in step.get("operation", "")]
            self.assertEqual(len(pads), 0 if nodes in whole else 1, network["steps"])
        joined, outputs = [], []
        for place, nodes in enumerate([*whole, *stay]):
            made = {name for one in nodes for name in one.output}
            for one in nodes:
                one.input[:] = [f"{name}{place}" if name in made else name for name in one.input]
                one.output[:] = [f"{name}{place}" for name in one.output]
            joined += nodes
            outputs.append(value(f"y{place}", None))
        self.verify(model_of(joined, [value("x", [1, 3, 8, 9])], outputs, constants))

    def test_ends_that_are_cut_off(self):
        """Of a convolution's result: its pads are less, a transposed one's more; not of what others read, nor where more is cut
        off than pads made, by steps, or from the channels."""
        rng = np.random.default_rng(1)
        constants = [random_tensor(rng, "w", 4, 4, 3, 3), random_tensor(rng, "b", 4), random_tensor(rng, "v", 4, 4, 5, 4),
                     *(integers(name, *numbers) for name, numbers in (
                         ("both", [2, 3]), ("row", [2]), ("column", [-1]), ("channel", [1]), ("none", [0, 0]), ("one", [0, 1]),
                         ("zero", [0]), ("ends", [-1, -2]), ("less", [-2]), ("many", [99]), ("step", [2])))]
        crop = lambda *names: node("Slice", ["c", *names], ["s"])
        plain = lambda **more: node("Conv", ["x", "w", "b"], ["c"], **more)
        turned = lambda **more: node("ConvTranspose", ["x", "v"], ["c"], **more)
        relu = lambda: node("Relu", ["s"], ["y"])
        whole = [[plain(pads=[2, 2, 1, 2]), crop("none", "ends", "both"), relu()],
                 [plain(pads=[4, 1, 0, 1], dilations=[2, 1], strides=[2, 2]), crop("step", "many", "row"), relu()],
                 [plain(pads=[1, 1, 4, 3], strides=[2, 3]), crop("zero", "less", "row"), relu()],
                 [turned(strides=[2, 2], pads=[0, 1, 1, 0]), crop("one", "ends", "both"), relu()],
                 [turned(strides=[2, 2], output_padding=[1, 1]), crop("one", "ends", "both"),
                  node("Slice", ["s", "zero", "less", "column"], ["t"]), node("Relu", ["t"], ["y"])]]
        stay = [[plain(pads=[0, 1, 0, 1]), crop("zero", "less", "row"), relu()],
                [plain(pads=[2] * 4), crop("zero", "less", "channel"), relu()],
                [plain(pads=[2] * 4), crop("zero", "many", "row", "step"), relu()],
                [plain(pads=[2] * 4), crop("zero", "less", "row"), relu(), node("ReduceSum", ["c"], ["z"])],
                [turned(strides=[6, 6]), crop("zero", "less", "row"), node("Slice", ["s", "zero", "ends2", "row"], ["t"]),
                 node("Relu", ["t"], ["y"])]]
        constants.append(integers("ends2", -5))
        joined, outputs = [], []
        for place, nodes in enumerate([*whole, *stay]):
            made = {name for one in nodes for name in one.output}
            ends = [name for name in ("y", "z") if name in made]
            model = model_of(nodes, [value("x", [1, 4, 8, 9])], [value(name, None) for name in ends], constants)
            self.assertEqual(self.kinds(model)[0] == {"layer": 1}, nodes in whole, nodes)
            for one in nodes:
                one.input[:] = [f"{name}{place}" if name in made else name for name in one.input]
                one.output[:] = [f"{name}{place}" for name in one.output]
            joined += nodes
            outputs += [value(f"{name}{place}", None) for name in ends]
        self.verify(model_of(joined, [value("x", [1, 4, 8, 9])], outputs, constants))

    def test_convolutions_by_weights_that_the_model_computes(self):
        """Products of matrices, none of it left to C."""
        nodes, inputs, outputs = [], [], []

        def add(operator, x, w, bias=0, **attributes):
            names = [f"{name}{len(nodes)}" for name in ("x", "w", "b")[:3 if bias else 2]]
            inputs.extend(value(name, shape) for name, shape in zip(names, (x, w, [bias])))
            nodes.append(node(operator, names, [f"y{len(nodes)}"], **attributes))
            outputs.append(value(nodes[-1].output[0], None))

        add("Conv", [1, 8, 9, 11], [6, 4, 3, 3], 6, group=2, pads=[1, 0, 2, 1], strides=[2, 1], dilations=[1, 2])
        add("Conv", [2, 4, 16], [5, 4, 3], strides=[2], auto_pad="SAME_LOWER")
        add("Conv", [1, 6, 5, 5], [6, 1, 5, 5], 6, group=6, pads=[2] * 4)
        add("Conv", [2, 3, 4, 5, 6], [4, 3, 2, 2, 2], strides=[2, 1, 2])
        add("ConvTranspose", [2, 8, 5, 6], [8, 3, 4, 4], 6, strides=[2, 2], pads=[1] * 4, group=2)
        add("ConvTranspose", [1, 4, 7], [4, 5, 3], strides=[3], dilations=[2], output_padding=[1], pads=[0, 2])
        model = model_of(nodes, inputs, outputs)
        self.assertEqual(set(self.kinds(model)[0]), {"operation"})
        self.verify(model)

    def test_what_stands_behind_products(self):
        """A residual, a row, numbers and an activation behind the product of computed matrices are the product's own, whatever
        side they stand on; what others read too, what is broadcast to more, and vectors' are not."""
        rng = np.random.default_rng(1)
        nodes = [node("MatMul", ["a", "b"], ["p"]), node("Add", ["r", "p"], ["s"]), node("Mul", ["s", "row"], ["t"]),
                 node("Sigmoid", ["t"], ["g"]), node("Mul", ["t", "g"], ["y"]),
                 node("MatMul", ["y", "c"], ["q"]), node("Relu", ["q"], ["z"]), node("Softmax", ["q"], ["o"]),
                 node("Gemm", ["m", "n"], ["u"], alpha=0.5, transB=1), node("Sub", ["column", "u"], ["v"]),
                 node("MatMul", ["m", "e"], ["k"]), node("Relu", ["k"], ["l"])]
        inputs = {"a": [2, 3, 5, 7], "b": [3, 7, 17], "r": [3, 1, 17], "c": [17, 6], "m": [9, 33], "n": [20, 33], "e": [33]}
        constants = [random_tensor(rng, "row", 17), random_tensor(rng, "column", 9, 1)]
        model = model_of(nodes, [value(*item) for item in inputs.items()],
                         [value(name, None) for name in ("z", "o", "v", "l")], constants)
        network = self.kinds(model)[1]
        self.assertEqual(sorted(self.texts(network)), ["map", "map", *["matmul"] * 4, "softmax"])
        behind = [step["operation"].partition("-then")[2] for step in network["steps"] if "-then" in step["operation"]]
        self.assertEqual(behind, ["2-mul(add(b,a),c):mul(t0,sigmoid(t0))", "1-sub(b,a)"])
        self.verify(model)

    def test_what_stands_behind_normalizations(self):
        """Activations and residuals; of groups nothing that is broadcast. Rows that are so large that they are taken in blocks,
        far from 0, channels last and not."""
        rng = np.random.default_rng(1)
        nodes, constants, outputs = [], [], []

        def add(operator, x, channels, *behind, residual="", **attributes):
            name, place = f"n{len(outputs)}", len(nodes)
            names = [f"{name}/scale", f"{name}/shift"]
            constants.extend(random_tensor(rng, each, channels) for each in names)
            nodes.append(node(operator, [x, *names], [f"{name}/0"], name, **attributes))
            for step, kind in enumerate(behind):
                more = [residual] if kind in ("Add", "Mul") else []
                nodes.append(node(kind, [f"{name}/{step}", *more], [f"{name}/{step + 1}"]))
            outputs.append(nodes[-1].output[0])
            self.assertGreater(len(nodes), place)

        add("InstanceNormalization", "large", 4, "Relu")
        add("InstanceNormalization", "far", 40, "Add", "Relu", residual="far")
        add("GroupNormalization", "far", 40, "HardSwish", num_groups=5)
        add("GroupNormalization", "far", 40, "Add", num_groups=5, residual="far")
        add("GroupNormalization", "far", 40, "Mul", num_groups=5, residual="row")
        add("LayerNormalization", "rows", 24, "Add", "Tanh", residual="row24")
        nodes += [node("Add", ["far", "offset"], ["far_off"]), node("Conv", ["far_off", "w"], ["conv"])]
        constants.extend([numpy_helper.from_array(np.float32([300]), "offset"), random_tensor(rng, "w", 40, 40, 1, 1),
                          random_tensor(rng, "row", 54), random_tensor(rng, "row24", 24)])
        add("InstanceNormalization", "conv", 40, "LeakyRelu")
        inputs = {"large": [1, 4, 300, 400], "far": [2, 40, 46, 54], "rows": [3, 7, 24]}
        model = model_of(nodes, [value(*item) for item in inputs.items()], [value(name, None) for name in outputs], constants,
                         opset=21)
        texts = self.texts(self.kinds(model)[1])
        self.assertEqual((texts.count("normalize"), texts.count("map")), (7, 2))  # the one that is broadcast, the offset
        self.verify(model)

    # ---- Quantised tensors

    def test_constants_of_few_channels(self):
        """Where channels that lie last are fewer than lanes, constants of them are repeated along a row, with which they are
        one loop; but none where a tensor that the model computes stands on channels alone."""
        rng = np.random.default_rng(1)
        nodes = [node("Sub", ["x", "mean"], ["s"]), node("Mul", ["s", "factor"], ["m"]), node("Mul", ["m", "columns"], ["y"]),
                 node("ReduceMax", ["x"], ["largest"], axes=[1, 2]), node("Sub", ["x", "largest"], ["d"]),
                 node("Mul", ["d", "factor"], ["z"]), node("Transpose", ["x"], ["planes"], perm=[0, 3, 1, 2]),
                 node("PRelu", ["planes", "slopes"], ["p"]), node("Transpose", ["p"], ["turned"], perm=[0, 2, 3, 1])]
        constants = [random_tensor(rng, "mean", 3), random_tensor(rng, "factor", 1, 1, 1, 3),
                     random_tensor(rng, "columns", 7, 1),
                     random_tensor(rng, "slopes", 3, 1, 1)]
        model = model_of(nodes, [value("x", [1, 5, 7, 3])], [value(name, None) for name in ("y", "z", "turned")], constants)
        texts = [step["operation"] for step in self.kinds(model)[1]["steps"]]
        self.assertEqual(texts, ["map-f32[5x7x3],f32[7x3],f32[7x3],f32[7x3]-f32[1x5x7x3]-mul(mul(sub(a,b),c),d)",
                                 "reduce-max-f32[1x5x7x3]-f32[1x1x1x3]-a1,2",
                                 "map-f32[5x7x3],f32[3],f32[3]-f32[1x5x7x3]-mul(sub(a,b),c)",
                                 "map-f32[5x7x3],f32[7x3]-f32[1x5x7x3]-leaky_relu(a,b)"])
        self.verify(model)


if __name__ == "__main__":
    unittest.main(verbosity=2)
