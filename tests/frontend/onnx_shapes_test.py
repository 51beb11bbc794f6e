"""Tests of tools/onnx_import: shapes and constants that follow from what the model computes."""

import time
import unittest

import numpy as np
import onnxruntime
import onnxruntime.quantization
from onnx import TensorProto, helper
from onnx_importing import ImportTest
from onnx_models import integers, model_of, random_tensor, tensor, value

BYTE, INT, BOOL = TensorProto.UINT8, TensorProto.INT64, TensorProto.BOOL
MICROSOFT = "com.microsoft"


def node(op, inputs, outputs, *name, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), *name, **attributes)


class ShapesTest(ImportTest):
    def shapes(self, model, *arguments):
        """{layer: x} of a model without failures."""
        self.answer = self.read(model, *arguments)
        self.assertEqual(self.answer["failures"], [])
        return {layer["name"]: layer["x"] for layer in self.answer["layers"]}

    def check_by_running(self, model, names, *arguments):
        """That x of layers have the shapes that ONNX Runtime's values of these names have."""
        shapes = self.shapes(model, *arguments)
        inputs = {item.name: np.zeros([dim.dim_value for dim in item.type.tensor_type.shape.dim],
                                      helper.tensor_dtype_to_np_dtype(item.type.tensor_type.elem_type))
                  for item in model.graph.input}
        del model.graph.output[:]
        model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        expected = [list(result.shape) for result in session.run(None, inputs)]
        self.assertEqual(list(shapes.values()), expected)


class Arithmetic(ShapesTest):
    """Reshape to a shape that Shape, Gather and the like compute, as PyTorch exports view()."""

    NODES = [node("Shape", "x", "s"), node("Gather", "s zero", "n", axis=0), node("Gather", "s two", "h", axis=0),
             node("Mul", "h two", "h2"), node("Cast", "h2", "h2f", to=TensorProto.FLOAT), node("Floor", "h2f", "f"),
             node("Cast", "f", "i", to=INT), node("Unsqueeze", "n axis", "n1"), node("Unsqueeze", "i axis", "i1"),
             node("Concat", "n1 three i1 rest", "shape", axis=0), node("Reshape", "x shape", "r"),
             node("Conv", "r w", "y", "conv")]
    CONSTANTS = [integers("zero", 0), integers("two", 2), integers("three", [3]), integers("axis", [0]),
                 integers("rest", [-1]), random_tensor(np.random.default_rng(1), "w", 2, 3, 1, 1)]

    def model(self, shape):
        return model_of(self.NODES, [value("x", shape)], [value("y", None)], self.CONSTANTS)

    def test_known(self):
        self.check_by_running(self.model([2, 3, 4, 6]), ["r"])
        self.assertEqual(self.answer["layers"][0]["x"], [2, 3, 8, 3])

    def test_given(self):
        self.assertEqual(self.shapes(self.model(["n", 3, "h", "w"]), "--shape", "x=2x3x4x6"), {"conv": [2, 3, 8, 3]})

    def test_open(self):
        self.assertEqual(self.shapes(self.model(["n", 3, "h", "w"])), {"conv": ["?", 3, "?", "?"]})
        # What arithmetic on shapes keeps of a shape that is known in part.
        nodes = [node("Shape", "x", "s"), node("Slice", "s zero1 two1", "n"), node("Concat", "n tail", "shape", axis=0),
                 node("Reshape", "x shape", "r"), node("Conv", "r w", "y", "conv")]
        constants = [integers("zero1", [0]), integers("two1", [2]), integers("tail", [8, -1]), *self.CONSTANTS]
        model = model_of(nodes, [value("x", [5, 3, "h", "w"])], [value("y", None)], constants)
        self.assertEqual(self.shapes(model), {"conv": [5, 3, 8, "?"]})

    def test_resize_by_computed_sizes(self):
        nodes = [node("Shape", "x", "s"), node("Slice", "s two1 four1", "hw"), node("Mul", "hw two", "big"),
                 node("Slice", "s zero1 two1", "nc"), node("Concat", "nc big", "sizes", axis=0),
                 helper.make_node("Resize", ["x", "", "", "sizes"], ["r"]), node("Conv", "r w", "y", "conv")]
        constants = [integers("zero1", [0]), integers("two1", [2]), integers("four1", [4]), *self.CONSTANTS]
        self.check_by_running(model_of(nodes, [value("x", [1, 3, 4, 5])], [value("y", None)], constants), ["r"])

    def test_sums_of_open_sizes(self):
        """A residual where symbols say that both values have one shape; none where they do not."""
        nodes = [node("Conv", "x w", "c", "conv"), node("Add", "c r", "y")]
        for shape, fused in ((["n", 2, 4, 6], True), (["m", 2, 4, 6], False), ([None, 2, 4, 6], False)):
            model = model_of(nodes, [value("x", ["n", 3, 4, 6]), value("r", shape)], [value("y", None)], self.CONSTANTS)
            self.assertEqual(self.shapes(model), {"conv": ["?", 3, 4, 6]})
            self.assertEqual(self.answer["layers"][0].get("residual", False), fused)

    def test_pools_whose_sizes_are_rounded_up(self):
        """No window begins in the padding behind: onnx's inference has that since operator set 22."""
        for operator in ("MaxPool", "AveragePool"):
            for opset in (11, 17, 22):
                model = model_of([node(operator, "x", "p", kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1, pads=[1, 0, 1, 1]),
                                  node("Conv", "p w", "y", "conv")], [value("x", [1, 4, 7, 6])], [value("y", None)],
                                 [tensor("w", np.ones((1, 4, 1, 1)))], opset=opset)
                self.assertEqual(self.shapes(model), {"conv": [1, 4, 4, 3]})

    def test_operators_without_inference_of_their_own(self):
        nodes = [node("GroupNormalization", "x one one", "g", num_groups=1), node("Conv", "g w", "y", "conv")]
        model = model_of(nodes, [value("x", [1, 3, 4, 5])], [value("y", None)],
                         [tensor("one", np.ones(3)), *self.CONSTANTS], opset=21)
        self.assertEqual(self.shapes(model), {"conv": [1, 3, 4, 5]})

    def test_unknown_operators_leave_what_weights_say(self):
        nodes = [node("Fancy", "x", "f", domain="my.own"), node("Conv", "f w", "c", "conv", group=2),
                 node("Relu", "c", "r"), node("ConvTranspose", "r v", "t", "up", strides=[2, 2]),
                 node("Fancy", "t", "u", domain="my.own"), node("ConvTranspose", "u v", "y", "up2")]
        rng = np.random.default_rng(2)
        model = model_of(nodes, [value("x", [1, 6, 5, 5])], [value("y", None)],
                         [random_tensor(rng, "w", 4, 3, 1, 1), random_tensor(rng, "v", 4, 7, 2, 2)])
        model.opset_import.append(helper.make_opsetid("my.own", 1))
        self.assertEqual(self.shapes(model), {"conv": ["?", 6, "?", "?"], "up": ["?", 4, "?", "?"],
                                              "up2": ["?", 4, "?", "?"]})
        self.assertEqual({layer["dtype"] for layer in self.answer["layers"]}, {"float32"})


class Branches(ShapesTest):
    """If, whose branches have values of the same names and read from outside."""

    @staticmethod
    def branch(name, *steps, factor):
        return helper.make_graph([*steps, node("Conv", "m w", "c", name), node("Relu", "c", "result")], name, [],
                                 [value("result", None)], [tensor("k", factor)])

    def model(self, condition, inputs=(), constants=()):
        self.branches = {"then_branch": self.branch("small", node("Mul", "x k", "m"), factor=2),
                         "else_branch": self.branch("large", node("Concat", "x x", "d", axis=2), node("Mul", "d k", "m"),
                                                    factor=3)}
        nodes = [*condition, helper.make_node("If", ["p"], ["b"], "if", **self.branches),
                 node("Conv", "b w", "y", "behind")]
        return model_of(nodes, [value("x", ["n", 1, 4, 4]), *inputs], [value("y", None)],
                        [tensor("w", [[[[2]]]]), *constants])

    def test_constant_condition(self):
        size = [node("Shape", "x", "s"), node("Gather", "s at", "g"), node("Equal", "g one", "p")]
        constants = [integers("at", 0), integers("one", 1)]
        self.assertEqual(self.shapes(self.model(size, (), constants), "--shape", "x=1x1x4x4"),
                         {"small": [1, 1, 4, 4], "behind": [1, 1, 4, 4]})
        self.assertEqual(self.answer["layers"][0]["activation"], "Relu")
        self.assertIn("replaced by the branch that is taken, as the condition is constant: If x1", self.answer["notes"])
        self.assertEqual(self.shapes(self.model(size, (), constants), "--shape", "x=2x1x4x4"),
                         {"large": [2, 1, 8, 4], "behind": [2, 1, 8, 4]})

    def test_open_condition(self):
        model = self.model([], [value("p", [], BOOL)])
        self.assertEqual(self.shapes(model, "--shape", "x=1x1x4x4", "--weights", self.folder),
                         {"small": [1, 1, 4, 4], "large": [1, 1, 8, 4], "behind": [1, 1, "?", 4]})
        self.assertEqual([layer.get("activation") for layer in self.answer["layers"]], ["Relu", "Relu", None])
        self.assertIn("decided when the model runs, so that the layers of both branches are here: If x1",
                      self.answer["notes"])

    def test_values_of_one_name_stay_apart(self):
        """The constants k of the two branches, which are folded into their convolutions."""
        bodies = [helper.make_graph([node("Conv", "x w", "c", name), node("Mul", "c k", "result")], name, [],
                                    [value("result", None)], [tensor("k", factor)])
                  for name, factor in (("first", 2), ("second", 3))]
        model = model_of([helper.make_node("If", ["p"], ["y"], then_branch=bodies[0], else_branch=bodies[1])],
                         [value("x", [1, 1, 4]), value("p", [], BOOL)], [value("y", None)], [tensor("w", [[[1]]])])
        self.shapes(model, "--weights", self.folder)
        self.assertEqual([np.load(layer["weights"]).item() for layer in self.answer["layers"]], [2, 3])

    def test_what_does_not_fit_in_a_branch_that_may_not_be_taken(self):
        body = helper.make_graph([node("Add", "x r", "result")], "b", [], [value("result", None)])
        other = helper.make_graph([node("Conv", "x w", "result", "conv")], "c", [], [value("result", None)])
        model = model_of([helper.make_node("If", ["p"], ["y"], then_branch=body, else_branch=other)],
                         [value("x", ["n", 1, 4]), value("r", [1, 1, 3]), value("p", [], BOOL)], [value("y", None)],
                         [tensor("w", [[[1]]])])
        self.assertEqual(self.shapes(model, "--shape", "x=1x1x4"), {"conv": [1, 1, 4]})

    def test_branches_without_results(self):
        body = helper.make_graph([node("Conv", "x w", "c")], "b", [], [])
        model = model_of([helper.make_node("If", ["p"], ["y"], "odd", then_branch=body, else_branch=body)],
                         [value("x", [1, 1, 4]), value("p", [], BOOL)], [value("y", None)], [tensor("w", [[[1]]])])
        self.assertIn('the If "odd" has no two branches with its 1 results', self.refused(model))


class Misfits(ShapesTest):
    """A wrong --shape is told where it shows."""

    NODES = [node("MaxPool", "x", "a", kernel_shape=[2, 2], strides=[2, 2]),
             node("Resize", "a", "b"), node("Concat", "x b", "c", "cat", axis=1), node("Conv", "c w", "y", "conv")]

    def model(self):
        nodes = list(self.NODES)
        nodes[1] = helper.make_node("Resize", ["a", "", "scales"], ["b"])
        return model_of(nodes, [value("x", ["n", 3, "h", "w"])], [value("y", None)],
                        [tensor("w", np.ones((2, 6, 1, 1))), tensor("scales", [1, 1, 2, 2])])

    def test_concatenation(self):
        self.assertEqual(self.shapes(self.model(), "--shape", "x=1x3x8x6"), {"conv": [1, 6, 8, 6]})
        message = self.refused(self.model(), "--shape", "x=1x3x7x6")
        self.assertIn('with --shape x=1x3x7x6: the Concat "cat" does not fit its inputs: "x" is [1, 3, 7, 6], "b" is '
                      "[1, 3, 6, 6]", message)

    def test_reshape(self):
        model = model_of([node("Reshape", "x to", "r", "flat"), node("Conv", "r w", "y", "conv")],
                         [value("x", ["n", 4, 4])], [value("y", None)],
                         [integers("to", [1, 2, 8]), tensor("w", np.ones((1, 2, 1)))])
        self.assertEqual(self.shapes(model, "--shape", "x=1x4x4"), {"conv": [1, 2, 8]})
        self.assertIn('the Reshape "flat" does not fit its inputs: "x" is [2, 4, 4], "to" is [3] '
                      "(its result would be [1, 2, 8])", self.refused(model, "--shape", "x=2x4x4"))

    def test_window(self):
        weights = tensor("w", np.ones((2, 1, 5)))
        for first, given in ((node("MaxPool", "x", "p", "pool", kernel_shape=[3], dilations=[2]), 4),
                             (node("Conv", "x w", "p", "first", pads=[1, 0]), 3)):  # fmt: skip
            channels = 2 if first.op_type == "Conv" else 1
            model = model_of([first, node("Conv", "p v", "y", "conv")], [value("x", ["n", 1, "l"])], [value("y", None)],
                             [weights, tensor("v", np.ones((1, channels, 1)))])
            self.assertEqual(self.shapes(model, "--shape", "x=1x1x5")["conv"][:2], [1, channels])
            self.assertRegex(self.refused(model, "--shape", f"x=1x1x{given}"),
                             rf'the {first.op_type} "\w+" does not fit .*its window of 5 is larger than axis 2, which is {given} with')

    def test_without_a_given_shape_it_is_a_note(self):
        model = model_of([node("Add", "x r", "s", "sum"), node("Conv", "s w", "y", "conv")],
                         [value("x", [1, 2, 4]), value("r", [1, 2, 3])], [value("y", None)], [tensor("w", np.ones((1, 2, 1)))])
        self.assertEqual(self.shapes(model), {"conv": ["?", 2, "?"]})
        self.assertIn('the Add "sum" does not fit its inputs: "x" is [1, 2, 4], "r" is [1, 2, 3]',
                      "\n".join(self.answer["notes"]))


class Microsoft(ShapesTest):
    """ONNX Runtime's own operators, which its quantiser and its optimiser write."""

    SCALES = [tensor("s", 0.5), integers("z", 3, np.uint8), integers("w", np.ones((2, 2, 1, 1)), np.uint8)]
    FIRST = node("QLinearConv", "x s z w s z s z", "a", "first", pads=[1, 0, 0, 0])

    def check(self, *nodes, shape=(1, 2, 5, 6), last="b", constants=()):
        """That what these make of a has the shape that ONNX Runtime's has."""
        nodes = [self.FIRST, *nodes, node("QLinearConv", f"{last} s z w s z s z", "y", "last")]
        model = model_of(nodes, [value("x", list(shape), BYTE)], [value("y", None, BYTE)], [*self.SCALES, *constants])
        model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
        self.check_by_running(model, ["x", last])

    def own(self, op, inputs, **attributes):
        return node(op, inputs, "b", domain=MICROSOFT, **attributes)

    def test_elementwise(self):
        self.check(self.own("QLinearAdd", "a s z a s z s z"))
        self.check(self.own("QLinearMul", "a s z p s z s z"), constants=[integers("p", np.ones((3, 1, 1, 1)), np.uint8)])
        self.check(self.own("QLinearSigmoid", "a s z s z"))
        self.check(self.own("QLinearLeakyRelu", "a s z s z", alpha=0.5))
        self.check(self.own("QLinearSoftmax", "a s z s z", axis=1, opset=13))
        self.check(self.own("QLinearConcat", "s z a s z a s z", axis=2))
        self.check(self.own("QLinearWhere", "c a s z a s z s z"), constants=[integers("c", True, bool)])

    def test_pools_and_reductions(self):
        self.check(self.own("QLinearAveragePool", "a s z s z", kernel_shape=[2, 3], strides=[2, 1], ceil_mode=1))
        self.check(self.own("QLinearGlobalAveragePool", "a s z s z"))
        # With channels last: 2 x 6 x 6 x 1 of 1 x 2 x 6 x 6.
        turned = [node("Transpose", "a", "t", perm=[0, 2, 3, 1]),
                  node("QLinearAveragePool", "t s z s z", "u", domain=MICROSOFT, kernel_shape=[2, 3], channels_last=1),
                  node("Transpose", "u", "b", perm=[0, 3, 1, 2])]
        self.check(*turned)
        turned[1] = node("NhwcMaxPool", "t", "u", domain=MICROSOFT, kernel_shape=[3, 2], strides=[2, 2])
        self.check(*turned)
        turned[1] = node("QLinearGlobalAveragePool", "t s z s z", "u", domain=MICROSOFT, channels_last=1)
        self.check(*turned)

    def test_what_onnxruntime_has_no_kernel_for(self):
        nodes = [self.FIRST, self.own("QLinearReduceMean", "a s z s z", axes=[3], keepdims=1),
                 node("QLinearConv", "b s z w s z s z", "y", "last")]
        model = model_of(nodes, [value("x", [1, 2, 5, 6], BYTE)], [value("y", None, BYTE)], self.SCALES)
        model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
        self.assertEqual(self.shapes(model), {"first": [1, 2, 5, 6], "last": [1, 2, 6, 1]})

    def optimised(self, activation, residual, **attributes):
        nodes = [node("FusedConv", "x w b r" if residual else "x w b", "y", "fused", domain=MICROSOFT, pads=[1, 1],
                      activation=activation, **attributes)]
        rng = np.random.default_rng(4)
        model = model_of(nodes, [value("x", [1, 2, 9]), value("r", [1, 4, 9])], [value("y", None)],
                         [random_tensor(rng, "w", 4, 2, 3), random_tensor(rng, "b", 4)])
        model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
        self.assertEqual(self.shapes(model), {"fused": [1, 2, 9]})
        layer, = self.answer["layers"]
        self.assertEqual((layer["operator"], layer["pads"], layer["bias"], layer.get("residual", False)),
                         ("Conv", [1, 1], True, residual))
        return layer["activation"], layer.get("activation_params", [])

    def test_what_its_optimiser_fused(self):
        self.assertEqual(self.optimised("Relu", True), ("Relu", []))
        self.assertEqual(self.optimised("LeakyRelu", False, activation_params=[0.25]), ("LeakyRelu", [0.25]))
        self.assertEqual(self.optimised("Clip", False, activation_params=[-1.0, 6.0]), ("Clip", [-1, 6]))
        self.assertEqual(self.optimised("HardSigmoid", True, activation_params=[0.25, 0.5]), ("HardSigmoid", [0.25, 0.5]))

    def test_an_activation_that_there_is_not(self):
        model = model_of([node("FusedConv", "x w", "y", "fused", domain=MICROSOFT, activation="Fancy")],
                         [value("x", [1, 2, 9])], [value("y", None)], [tensor("w", np.ones((4, 2, 3)))])
        self.assertEqual(self.shapes(model), {"fused": [1, 2, 9]})
        self.assertIn("skipped: Fancy x1", self.answer["notes"])

    def test_between_integers_and_floats(self):
        self.check(node("DequantizeLinear", "a s z", "f", domain=MICROSOFT), node("Gelu", "f", "g", domain=MICROSOFT),
                   self.own("QuantizeLinear", "g s z"))

    def test_products(self):
        self.check(node("Flatten", "a", "f"), node("QGemm", "f s z m s z z4 s z", "g", domain=MICROSOFT),
                   node("Reshape", "g to", "b"),
                   constants=[integers("m", np.ones((72, 12)), np.uint8), integers("z4", np.zeros(12), np.int32),
                              integers("to", [1, 2, 2, 3])])

    def test_models_of_the_quantiser(self):
        """A residual network with squeeze-and-excite, concatenation and pools, as the quantiser writes it."""
        rng = np.random.default_rng(12)
        nodes = [node("Conv", "x w1", "a", "stem", pads=[1, 1, 1, 1]), node("Relu", "a", "b"),
                 node("MaxPool", "b", "c", kernel_shape=[2, 2], strides=[2, 2]),
                 node("Conv", "c w2", "d", "left", pads=[1, 1, 1, 1]), node("Add", "c d", "e"),
                 node("GlobalAveragePool", "e", "f"), node("Conv", "f w3", "g", "gate"), node("Sigmoid", "g", "h"),
                 node("Mul", "e h", "i"), node("Concat", "i c", "j", axis=1),
                 node("AveragePool", "j", "k", kernel_shape=[2, 2]), node("Conv", "k w4", "y", "last")]
        path = self.save(model_of(nodes, [value("x", [1, 3, 12, 12])], [value("y", None)], [
            random_tensor(rng, "w1", 8, 3, 3, 3), random_tensor(rng, "w2", 8, 8, 3, 3), random_tensor(rng, "w3", 8, 8, 1, 1),
            random_tensor(rng, "w4", 4, 16, 1, 1)]))

        class Data(onnxruntime.quantization.CalibrationDataReader):
            left = 3

            def get_next(self):
                self.left -= 1
                return {"x": rng.standard_normal([1, 3, 12, 12], np.float32)} if self.left > 0 else None

        expected = {"stem": [1, 3, 12, 12], "left": [1, 8, 6, 6], "gate": [1, 8, 1, 1], "last": [1, 16, 5, 5]}
        for form in (onnxruntime.quantization.QuantFormat.QOperator, onnxruntime.quantization.QuantFormat.QDQ):
            target = self.folder / f"{form.name}.onnx"
            onnxruntime.quantization.quantize_static(path, target, Data(), form)
            shapes = self.shapes(target)
            self.assertEqual([shapes[name] for name in shapes], list(expected.values()), form)


class Order(ShapesTest):
    W = tensor("w", [[[1]]])

    def test_nodes_out_of_order(self):
        nodes = [node("Conv", "a w", "y", "second"), node("MaxPool", "b", "a", kernel_shape=[2]),
                 node("Conv", "x w", "b", "first")]
        model = model_of(nodes, [value("x", [1, 1, 4])], [value("y", None)], [self.W])
        self.assertEqual(self.shapes(model), {"first": [1, 1, 4], "second": [1, 1, 3]})

    def test_a_value_of_two_nodes(self):
        nodes = [node("Conv", "x w", "y", "one"), node("Relu", "x", "y", "two")]
        self.assertIn('"y" is made by two nodes, "one" and "two"',
                      self.refused(model_of(nodes, [value("x", [1, 1, 4])], [value("y", None)], [self.W])))

    def test_many_nodes(self):
        """Ten thousand, a quarter of them arithmetic on shapes: some seconds, and not some for each."""
        nodes, last = [], "x"
        for i in range(1250):
            nodes += [node("Shape", last, f"s{i}"), node("Gather", f"s{i} one", f"g{i}"), node("Concat", f"rest g{i}", f"t{i}", axis=0),
                      node("Reshape", f"{last} t{i}", f"r{i}"), node("Conv", f"r{i} w", f"c{i}"),
                      node("Mul", f"c{i} k", f"m{i}"), node("Relu", f"m{i}", f"a{i}"), node("Identity", f"a{i}", f"i{i}")]
            last = f"i{i}"
        model = model_of(nodes, [value("x", ["n", 2, "w"])], [value(last, None)],
                         [integers("one", [2]), integers("rest", [-1, 2]), tensor("w", np.ones((2, 2, 1))), tensor("k", 0.5)])
        start = time.process_time()
        before = self.children()
        self.assertEqual(len(self.shapes(model, "--shape", "x=1x2x8")), 1250)
        self.assertLess(self.children() - before + time.process_time() - start, 30)
        self.assertFalse([layer for layer in self.answer["layers"] if layer["x"] != [1, 2, 8]])

    @staticmethod
    def children():
        """Seconds of processors that finished processes took."""
        import resource

        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    unittest.main()
