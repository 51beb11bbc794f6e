"""How a model is laid out as a network: orders of dimensions, views, chains, and the steps that are left. A few seconds."""

import itertools
import pathlib
import sys
import unittest

import numpy as np
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/frontend"), str(ROOT / "tools/onnx_import")]
from networks import layouts  # noqa: E402
from onnx_importing import ImportTest  # noqa: E402
from onnx_models import integers, model_of, random_tensor, value  # noqa: E402

node = helper.make_node


def lying(array, order):
    """What is in memory."""
    return array.transpose(order).reshape(-1) if order else array.reshape(-1)


class Layouts(unittest.TestCase):
    def test_a_reshape_that_moves_nothing(self):
        """Wherever an order comes back, the same memory holds the reshaped array in it."""
        rng = np.random.default_rng(1)
        found = 0
        shapes = [([2, 3, 4], [6, 4]), ([2, 3, 4], [2, 12]), ([1, 8, 2, 3], [1, 8, 6]), ([1, 8, 2, 3], [8, 2, 3]),
                  ([1, 8, 2, 3], [1, 2, 4, 2, 3]), ([4, 1, 1], [4]), ([6], [1, 2, 3, 1]), ([1, 8, 1, 1], [8]), ([], [1, 1])]
        for before, after in shapes:
            for order in itertools.permutations(range(len(before))):
                array = rng.standard_normal(before)
                new = layouts.reshaped(before, after, order)
                if new is None:
                    continue
                found += 1
                self.assertEqual(sorted(new), list(range(len(after))))
                np.testing.assert_array_equal(lying(array, order), lying(array.reshape(after), new), f"{before} {after} {order}")
        self.assertGreater(found, 40)
        self.assertEqual(layouts.reshaped([1, 8, 2, 3], [1, 48], (0, 2, 3, 1)), None)

    def test_a_transposition_moves_nothing(self):
        array = np.random.default_rng(2).standard_normal([2, 3, 4])
        for order, permutation in itertools.product(itertools.permutations(range(3)), repeat=2):
            new = layouts.transposed(order, list(permutation))
            np.testing.assert_array_equal(lying(array, order), lying(array.transpose(permutation), new))
            self.assertEqual(layouts.before_transposition(new, list(permutation)), order)


class Steps(ImportTest):
    def network(self, nodes, inputs, outputs, constants, *arguments):
        answer = self.read(model_of(nodes, inputs, outputs, constants), "--network", "--weights", self.folder / "w", *arguments)
        return answer, answer["network"]

    def test_channels_last_between_convolutions(self):
        rng = np.random.default_rng(1)
        nodes = [node("Conv", ["x", "w1"], ["a"], "c1", pads=[1, 1, 1, 1]), node("Relu", ["a"], ["b"]),
                 node("Conv", ["b", "w2"], ["y"], "c2")]
        answer, network = self.network(nodes, [value("x", [1, 3, 8, 8])], [value("y", None)],
                                       [random_tensor(rng, "w1", 8, 3, 3, 3), random_tensor(rng, "w2", 4, 8, 1, 1)])
        self.assertEqual([layer["layouts"] for layer in answer["layers"]],
                         [{"x": "NCX", "y": "NXC"}, {"x": "NXC", "y": "NCX"}])
        self.assertEqual([step["layer"] for step in network["steps"]], ["c1", "c2"])
        self.assertEqual(network["copies"], [])
        self.assertEqual(network["tensors"][network["steps"][0]["y"]]["shape"], [1, 8, 8, 8])

    def test_a_residual_is_made_as_the_result_lies(self):
        """At the end of a model both have its order, and nothing is copied; what a layer reads too is copied for the sum."""
        rng = np.random.default_rng(1)
        nodes = [node("Conv", ["x", "w1"], ["a"], "c1"), node("Conv", ["a", "w2"], ["b"], "c2"),
                 node("Conv", ["a", "w2"], ["c"], "c3"),
                 node("Add", ["b", "c"], ["s"]), node("Relu", ["s"], ["y"])]
        weights = [random_tensor(rng, "w1", 8, 3, 1, 1), random_tensor(rng, "w2", 8, 8, 1, 1)]
        answer, network = self.network(nodes, [value("x", [1, 3, 8, 8])], [value("y", None)], weights)
        self.assertEqual([layer["layouts"]["y"] for layer in answer["layers"]], ["NXC", "NCX", "NCX"])
        self.assertEqual(([step["layer"] for step in network["steps"]], network["copies"]), (["c1", "c2", "c3"], []))
        nodes[2:4] = [node("Add", ["b", "a"], ["s"])]
        _, network = self.network(nodes, [value("x", [1, 3, 8, 8])], [value("y", None)], weights)
        self.assertEqual([copy["value"] for copy in network["copies"]], ["a"])

    def test_matrices_are_convolutions_with_what_is_behind_them(self):
        rng = np.random.default_rng(2)
        nodes = [node("MatMul", ["x", "w"], ["p"], "m"), node("Add", ["b", "p"], ["s"]), node("Relu", ["s"], ["r"]),
                 node("Gemm", ["r", "g", "c"], ["y"], "g", transB=1)]
        answer, network = self.network(nodes, [value("x", [5, 8])], [value("y", None)],
                                       [random_tensor(rng, "w", 8, 6), random_tensor(rng, "b", 6), random_tensor(rng, "g", 3, 6),
                                        random_tensor(rng, "c", 3)])
        self.assertEqual([(layer["w"], layer.get("activation"), layer.get("bias")) for layer in answer["layers"]],
                         [([6, 8, 1], "Relu", True), ([3, 6, 1], None, True)])
        self.assertEqual([step["layer"] for step in network["steps"]], ["m", "g"])
        np.testing.assert_array_equal(np.load(answer["layers"][0]["weights"]).shape, [6, 8, 1])

    def test_a_chain_is_one_step(self):
        nodes = [node("Exp", ["x"], ["a"]), node("Mul", ["a", "x"], ["b"]), node("Sigmoid", ["b"], ["c"]),
                 node("Add", ["c", "b"], ["y"])]
        _, network = self.network(nodes, [value("x", [1, 3, 4, 4])], [value("y", None)], [])
        (step,) = network["steps"]
        self.assertTrue(step["operation"].startswith("map-"), step)
        self.assertEqual(len(step["nodes"]), 4)

    def test_what_two_read_ends_a_chain(self):
        nodes = [node("Exp", ["x"], ["a"]), node("Neg", ["a"], ["y1"]), node("Sqrt", ["a"], ["y2"])]
        _, network = self.network(nodes, [value("x", [4])], [value("y1", None), value("y2", None)], [])
        self.assertEqual(len(network["steps"]), 3)

    def test_what_no_output_needs_is_left_out(self):
        nodes = [node("Exp", ["x"], ["y"]), node("Neg", ["x"], ["nobody"])]
        _, network = self.network(nodes, [value("x", [4])], [value("y", None)], [])
        self.assertEqual(len(network["steps"]), 1)

    def test_parts_of_memory_are_views(self):
        """Split along what lies slowest, and Concat of what was made for it alone."""
        nodes = [node("Exp", ["x"], ["e"]), node("Split", ["e", "sizes"], ["a", "b"], axis=1), node("Neg", ["a"], ["c"]),
                 node("Sqrt", ["b"], ["d"]), node("Concat", ["c", "d"], ["y"], axis=1)]
        _, network = self.network(nodes, [value("x", [1, 6, 5])], [value("y", None)], [integers("sizes", [2, 4])])
        self.assertEqual(["map"] * 3, [step["operation"].split("-")[0] for step in network["steps"]])
        views = [tensor["view"]["offset"] for tensor in network["tensors"] if tensor["view"]]
        self.assertEqual(views, [0, 2 * 5 * 4, 0, 2 * 5 * 4])

    def test_outputs_are_tensors_of_their_own(self):
        """An input that is an output, a value that is two, and a part of one."""
        nodes = [node("Identity", ["x"], ["y1"]), node("Exp", ["x"], ["e"]), node("Identity", ["e"], ["y2"]),
                 node("Reshape", ["e", "flat"], ["y3"]), node("Slice", ["e", "0", "1", "0"], ["y4"])]
        _, network = self.network(nodes, [value("x", [2, 3])], [value(f"y{i}", None) for i in (1, 2, 3, 4)],
                                  [integers("flat", [6]), integers("0", [0]), integers("1", [1])])
        tensors = [port["tensor"] for port in network["outputs"]]
        self.assertEqual(len(set(tensors)), 4)
        self.assertNotIn(network["inputs"][0]["tensor"], tensors)
        self.assertTrue(all(network["tensors"][tensor]["view"] is None for tensor in tensors))

    def test_a_shape_that_is_not_known(self):
        nodes = [node("Relu", ["x"], ["y"])]
        model = model_of(nodes, [value("x", [1, "n"])], [value("y", None)], [])
        self.assertIn('give it one, for example --shape x=1x3', self.refused(model, "--network", "--weights", self.folder / "w"))
        self.read(model, "--network", "--weights", self.folder / "w", "--shape", "x=1x7")

    def test_what_is_before_a_shape_that_depends_on_numbers(self):
        """Its values can be outputs in place of the model's own, as the message says."""
        nodes = [node("Neg", ["x"], ["a"]), node("Exp", ["a"], ["b"]), node("NonZero", ["b"], ["n"]),
                 node("GatherND", ["a", "n"], ["y"])]
        model = model_of(nodes, [value("x", [4])], [helper.make_empty_tensor_value_info("y")], [])
        options = "--network", "--weights", self.folder / "w"
        self.assertIn("what is before can be one: --output-name b --output-name a", self.refused(model, *options))
        _, network = self.network(nodes, [value("x", [4])], [helper.make_empty_tensor_value_info("y")], [], "--output-name", "b",
                                  "--output-name", "a")
        self.assertEqual(([port["name"] for port in network["outputs"]], len(network["steps"])), (["b", "a"], 2))
        self.assertIn('has no value "c" to be an output: the nearest that it has are',
                      self.refused(model, *options, "--output-name", "c"))

    def test_types_that_do_not_fit_are_told(self):
        nodes = [node("Relu", ["x"], ["r"]), node("Add", ["r", "n"], ["s"], "sum"), node("Neg", ["s"], ["y"])]
        model = model_of(nodes, [value("x", [2]), helper.make_tensor_value_info("n", TensorProto.INT64, [2])],
                         [helper.make_empty_tensor_value_info("y")], [])
        self.assertRegex(self.refused(model, "--network", "--weights", self.folder / "w"),
                         r'the Add "sum" does not fit its inputs: "r" is \[2\], "n" is \[2\] \(.*tensor\(int64\)')

    def test_fields_are_identifiers(self):
        nodes = [node("Add", ["int", "a/b"], ["args"]), node("Neg", ["args"], ["a b"])]
        _, network = self.network(nodes, [value("int", [2]), value("a/b", [2])], [value("args", None), value("a b", None)], [])
        self.assertEqual([port["field"] for port in [*network["inputs"], *network["outputs"]]],
                         ["int_2", "a_b", "args_2", "a_b_2"])

    def test_quantised_layers_take_integers(self):
        from onnx_models import qdq_model

        answer = self.read(qdq_model(pads=[1, 1, 1, 1]), "--network", "--weights", self.folder / "w")
        (step,) = answer["network"]["steps"]
        self.assertEqual((step["layer"], answer["network"]["tensors"][step["x"]]["dtype"]), ("conv", "uint8"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
