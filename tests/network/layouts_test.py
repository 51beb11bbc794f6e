"""How a model is laid out as a network: orders of dimensions, views, chains, and the steps that are left. A few seconds."""

import itertools
import pathlib
import sys
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/frontend"), str(ROOT / "tools/onnx_import")]
from networks import copies, layouts  # noqa: E402
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


class Copies(unittest.TestCase):
    """Copies of copies, read as their texts say."""

    def drawn(self, rng, count):
        """A copy of some loops through so many elements: turned, a part, repeated or backwards."""
        sizes = [int(rng.choice([1, 2, 3, 4])) for _ in range(rng.integers(1, 5))]
        while np.prod(sizes) > count:
            sizes[-1:] = [1] if len(sizes) == 1 else []
        strides = [int(np.prod(sizes[place + 1:])) for place in range(len(sizes))]
        loops = [(size, stride) for size, stride in zip(sizes, strides)]
        first = int(rng.integers(count - int(np.prod(sizes)) + 1))
        for place, (size, stride) in enumerate(loops):
            kind = rng.integers(8)
            if kind == 0 and size > 2:
                loops[place] = (size // 2, 2 * stride)
            elif kind == 1:
                loops[place] = (size, 0)
            elif kind == 2 and size > 1:
                loops[place] = (size - 1, stride)
                first += stride * int(rng.integers(2))
            elif kind == 3:
                loops[place], first = (size, -stride), first + stride * (size - 1)
            elif kind == 4 and size == 4:
                loops[place:place + 1] = [(2, 2 * stride), (2, stride)]
        rng.shuffle(loops)
        result = int(np.prod([size for size, _ in loops]))
        return copies.Plain(f"f32[{count}]", f"f32[{result}]", first, [(int(size), int(stride)) for size, stride in loops]), result

    def run_one(self, text, x):
        copy = copies.Plain.of(text)
        places = np.int64(copy.first)
        for extent, stride in copy.loops:
            places = places[..., None] + np.arange(extent) * stride
        self.assertTrue(places.min() >= 0 and places.max() < x.size, text)
        return x[places.reshape(-1)]

    def test_a_copy_of_a_copy(self):
        rng, found, tried = np.random.default_rng(1), 0, 0
        for _ in range(4000):
            count = int(rng.choice([4, 12, 24, 96, 144]))
            first, between = self.drawn(rng, count)
            offset = int(rng.integers(between)) if rng.random() < 0.3 else 0
            second, _ = self.drawn(rng, between - offset)
            both = second.behind(first, offset)
            tried += 1
            if both is not None:
                found += 1
                x = np.arange(count)
                np.testing.assert_array_equal(self.run_one(both.text(), x),
                                              self.run_one(second.text(), self.run_one(first.text(), x)[offset:]),
                                              f"{first.text()} {second.text()} from {offset}")
        self.assertGreater(found, tried // 4)

    def test_what_a_copy_of_a_copy_is(self):
        part = "copy-f32[2x7x3x4x5]-f32[2x7x1x4x5]-n2x7x1x4x5-i20,420x60x20x5x1"
        turned = "copy-f32[2x7x4x5]-f32[2x4x5x7]-n2x4x5x7-i0,140x5x1x20"
        self.assertEqual(copies.Plain.of(turned).behind(copies.Plain.of(part), 0).text(),
                         "copy-f32[2x7x3x4x5]-f32[2x4x5x7]-n2x4x5x7-i20,420x5x1x60")
        whole = "copy-f32[2x7x4x5]-f32[280]-n280-i0,1"
        self.assertEqual(copies.Plain.of(whole).behind(copies.Plain.of(part), 0).text(),
                         "copy-f32[2x7x3x4x5]-f32[280]-n2x7x4x5-i20,420x60x5x1")
        for text in ("copy-f32[4]-f32[6]-n6-i-1,1-v1,5-f0", "copy-f32[4],s32[2]-f32[2]-n2-i0,1-t0:4", "map-f32[2]-f32[2]-neg(a)"):
            self.assertIsNone(copies.Plain.of(text))


class Steps(ImportTest):
    def network(self, nodes, inputs, outputs, constants, *arguments):
        answer = self.read(model_of(nodes, inputs, outputs, constants), "--network", "--weights", self.folder / "w", *arguments)
        return answer, answer["networks"][0]

    def test_copies_that_only_copies_read(self):
        """A part that is turned is moved once; one that something else reads too stays, and so does one that is an output."""
        nodes = [node("Split", ["x"], ["a", "b"], axis=3, num_outputs=2), node("Transpose", ["a"], ["c"], perm=[0, 2, 1, 3]),
                 node("MatMul", ["c", "z"], ["d"]), node("Transpose", ["b"], ["e"], perm=[0, 2, 1, 3]),
                 node("MatMul", ["e", "z"], ["f"]), node("Softmax", ["b"], ["g"])]
        for outputs, copied in ((["d"], 1), (["d", "f", "g"], 3), (["a", "d"], 2)):
            inputs = [value("x", [2, 3, 4, 10]), value("z", [5, 6])]
            model = model_of(nodes, inputs, [value(name, None) for name in outputs], opset=18)
            network = self.read(model, "--network", "--weights", self.folder / "w")["networks"][0]
            texts = [step["operation"] for step in network["steps"]]
            self.assertEqual(sum(text.startswith("copy") for text in texts), copied, texts)

    def test_matrices_that_lie_turned(self):
        """A product reads them so."""
        nodes = [node("Transpose", ["x"], ["a"], perm=[0, 2, 1]), node("MatMul", ["x", "a"], ["b"]),
                 node("Transpose", ["b"], ["c"], perm=[0, 2, 1]), node("MatMul", ["c", "x"], ["y"])]
        network = self.network(nodes, [value("x", [2, 3, 4])], [value("y", None)], [])[1]
        self.assertEqual([step["operation"] for step in network["steps"]],
                         ["matmul-f32[2x3x4],f32[2x3x4]-f32[2x3x3]-nt", "matmul-f32[2x3x3],f32[2x3x4]-f32[2x3x4]-tn"])

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
                 node("Conv", ["a", "w3"], ["c"], "c3"),
                 node("Add", ["b", "c"], ["s"]), node("Relu", ["s"], ["y"])]
        weights = [random_tensor(rng, "w1", 8, 3, 1, 1), *(random_tensor(rng, name, 8, 8, 1, 1) for name in ("w2", "w3"))]
        answer, network = self.network(nodes, [value("x", [1, 3, 8, 8])], [value("y", None)], weights)
        self.assertEqual([layer["layouts"]["y"] for layer in answer["layers"]], ["NXC", "NCX", "NCX"])
        self.assertEqual(([step["layer"] for step in network["steps"]], network["copies"]), (["c1", "c2", "c3"], []))
        nodes[2:4] = [node("Add", ["b", "a"], ["s"])]
        _, network = self.network(nodes, [value("x", [1, 3, 8, 8])], [value("y", None)], weights)
        self.assertEqual([copy["value"] for copy in network["copies"]], ["a"])

    def test_what_follows_channels_last_and_what_does_not(self):
        """A Pad by what is there follows, along several axes too; the largest of a place's channels is looked for where these
        do not lie side by side, in the model's order or in another, of rows that are many and not long."""
        rng = np.random.default_rng(1)
        nodes = [node("Conv", ["x", "w"], ["a"], "c1"), node("Pad", ["a", "pads"], ["p"], mode="reflect"),
                 node("Conv", ["p", "w2"], ["b"], "c2"), node("Resize", ["b", "", "scales"], ["r"], mode="linear"),
                 node("ArgMax", ["r"], ["y"], axis=1)]
        constants = [random_tensor(rng, "w", 8, 3, 1, 1), random_tensor(rng, "w2", 4, 8, 3, 3),
                     integers("pads", [0, 0, 1, 1, 0, 0, 1, 1]),
                     numpy_helper.from_array(np.float32([1, 1, 2, 2]), "scales")]
        answer, network = self.network(nodes, [value("x", [1, 3, 8, 8])], [value("y", None, TensorProto.INT64)], constants)
        self.assertEqual([layer["layouts"] for layer in answer["layers"]], [{"x": "NCX", "y": "NXC"}, {"x": "NXC", "y": "NCX"}])
        self.assertEqual(network["copies"], [])
        self.assertEqual(network["steps"][-1]["operation"], "reduce-argmax-f32[1x4x16x16]-s64[1x1x16x16]-a1")
        for shape, steps in (([2, 3, 8], ["reduce-argmax-f32[2x3x8]-s64[2x3x1]-a2"]),
                             ([2, 30, 8], ["copy-f32[2x30x8]-f32[8x2x30]-n8x2x30-i0,1x240x8", "reduce-argmax-f32[8x2x30]-s64[1x2x30]-a0"]),
                             ([2, 30, 9999], ["reduce-argmax-f32[2x30x9999]-s64[2x30x1]-a2"])):
            _, network = self.network([node("ArgMax", ["x"], ["y"], axis=-1)], [value("x", shape)],
                                      [value("y", None, TensorProto.INT64)], [])
            self.assertEqual([step["operation"] for step in network["steps"]], steps)

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
        """Its values can be outputs in place of the model's own, as the message says, and which numbers those are."""
        nodes = [node("Neg", ["x"], ["a"]), node("Exp", ["a"], ["b"]), node("NonZero", ["b"], ["n"]),
                 node("GatherND", ["a", "n"], ["y"])]
        model = model_of(nodes, [value("x", [4])], [helper.make_empty_tensor_value_info("y")], [])
        options = "--network", "--weights", self.folder / "w"
        self.assertIn("what is before can be one: --output-name b --output-name a", self.refused(model, *options))
        _, network = self.network(nodes, [value("x", [4])], [helper.make_empty_tensor_value_info("y")], [], "--output-name", "b",
                                  "--output-name", "a")
        self.assertEqual(([port["name"] for port in network["outputs"]], len(network["steps"])), (["b", "a"], 2))
        self.assertIn('the GatherND "y" is not known: the numbers in "b" and "a" decide it', self.refused(model, *options))
        chosen = model_of([node("TopK", ["x", "k"], ["y", "i"])], [value("x", [9]), value("k", [1], TensorProto.INT64)],
                          [helper.make_empty_tensor_value_info("y")], [])
        self.assertIn('the TopK "y" is [?]: the numbers in "k" decide it', self.refused(chosen, *options))
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
        (step,) = answer["networks"][0]["steps"]
        self.assertEqual((step["layer"], answer["networks"][0]["tensors"][step["x"]]["dtype"]), ("conv", "uint8"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
