"""Tests of tools/onnx_import/networks/long_tail.py: what nodes without an operation become, their C compiled, run and compared with
onnxruntime."""

import ctypes
import os
import subprocess
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx_importing import SCRIPT, ImportTest
from onnx_models import integers, model_of, random_tensor, tensor, value

sys.path.insert(0, str(SCRIPT))

from networks import long_tail  # noqa: E402
from reading.folding import Folder  # noqa: E402
from reading.graph import Graph  # noqa: E402
from terms import NodeError  # noqa: E402

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL
RNG = np.random.default_rng(5)


def graph_of(model, folder="."):
    return Graph(Folder(model, folder, True), [])


def computed(graph):
    return [node for node in graph.nodes if not all(name in graph.constants for name in node.output)]


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), op.lower(), **attributes)


def recurrent(op, gates, direction, **attributes):
    ways = 2 if direction == "bidirectional" else 1
    weights = [random_tensor(RNG, "w", ways, gates * 5, 4), random_tensor(RNG, "r", ways, gates * 5, 5),
               random_tensor(RNG, "b", ways, gates * 10)]
    return model_of([node(op, "x w r b", "y yh", hidden_size=5, direction=direction, **attributes)], [value("x", [7, 2, 4])],
                    [value("y", [7, ways, 2, 5]), value("yh", [ways, 2, 5])], weights)


def choice():
    """An If whose condition is an input, with two results."""
    bodies = {f"{which}_branch": helper.make_graph(
        [node(op, "x", f"{which}1"), node("Abs", f"{which}1", f"{which}2")], which, [],
        [value(f"{which}1", [3, 4]), value(f"{which}2", [3, 4])]) for which, op in (("then", "Exp"), ("else", "Neg"))}
    return model_of([helper.make_node("If", ["c"], ["y", "z"], "if", **bodies)],
                    [value("c", [], BOOL), value("x", [3, 4])], [value("y", [3, 4]), value("z", [3, 4])])


def sequences():
    """Nodes that hand each other sequences, which no tensor of a network holds."""
    return model_of([node("SequenceConstruct", "x z", "s"), node("SequenceAt", "s one", "a"), node("Concat", "a x", "y", axis=0)],
                    [value("x", [2, 5]), value("z", [2, 5])], [value("y", [4, 5])], [integers("one", 1)], opset=13)


MODELS = {
    "LSTM": lambda: recurrent("LSTM", 4, "bidirectional"),
    "LSTM backwards": lambda: recurrent("LSTM", 4, "reverse"),
    "GRU": lambda: recurrent("GRU", 3, "forward"),
    "GRU backwards": lambda: recurrent("GRU", 3, "reverse", linear_before_reset=1),
    "GRU both ways": lambda: recurrent("GRU", 3, "bidirectional", activations=["Tanh", "Relu", "Sigmoid", "Tanh"]),
    "TopK": lambda: model_of([node("TopK", "x k", "v i", axis=1)], [value("x", [3, 300])],
                             [value("v", [3, 200]), value("i", [3, 200], INT64)], [integers("k", [200])]),
    "Einsum": lambda: model_of([node("Einsum", "x w", "y", equation="bij,bjk->bik")], [value("x", [2, 3, 40])],
                               [value("y", [2, 3, 6])], [random_tensor(RNG, "w", 2, 40, 6)]),
    "ScatterND": lambda: model_of([node("ScatterND", "x i u", "y")], [value("x", [6, 4]), value("u", [2, 4])],
                                  [value("y", [6, 4])], [integers("i", [[4], [1]])]),
    "CumSum, OneHot": lambda: model_of([node("CumSum", "x axis", "c"), node("ArgMax", "c", "m", axis=1, keepdims=0),
                                        node("OneHot", "m depth v", "y")], [value("x", [5, 6])], [value("y", [5, 6])],
                                       [integers("axis", 1), integers("depth", 6), tensor("v", [-1, 2])]),
    "GridSample": lambda: model_of([node("GridSample", "x g", "y")], [value("x", [1, 2, 5, 6]), value("g", [1, 4, 3, 2])],
                                   [value("y", [1, 2, 4, 3])]),
    "If": choice,
    "sequences": sequences,
}


class Tail(ImportTest):
    def steps_of(self, model, **options):
        """The steps of all that a model computes, and its graph."""
        graph = graph_of(model, str(self.folder))
        parts = long_tail.groups(computed(graph), graph)
        return [long_tail.step_of(part, graph, str(self.folder), **options) for part in parts], graph

    def compiled(self, *sources):
        """All these files as one, as the kiln command compiles them, whose warnings are errors."""
        self.built = getattr(self, "built", 0) + 1  # what is loaded must not be written over
        whole, library = self.folder / f"{self.built}.c", self.folder / f"{self.built}.so"
        whole.write_text("".join((self.folder / source).read_text() for source in dict.fromkeys(sources)))
        subprocess.run([os.environ.get("CC", "cc"), "-Wall", "-Werror", "-Wno-unused", "-Wno-unknown-pragmas", "-O1", "-shared",
                        "-fPIC", whole, "-o", library, "-lm"], check=True)
        return ctypes.CDLL(str(library))

    def run_steps(self, steps, graph, inputs):
        """Every value of the model: the steps' functions are called, on workspaces of just their bytes."""
        values, library = dict(inputs), self.compiled(*(step["c"]["source"] for step in steps))
        for step in steps:
            given = [np.ascontiguousarray(values[item] if isinstance(item, str) else item) for item in step["inputs"]]
            for name in step["outputs"]:
                values[name] = np.full(graph.shape(name), 113, long_tail.TYPES[graph.element_type(name)])
            # One number behind it, to see that it stays.
            room = np.full(step["c"]["scratch_bytes"] // 8 + 17, 0x55aa55aa55aa55aa, np.uint64)
            begin = -(-room.ctypes.data // 64) * 64
            arrays = [*given, *(values[name] for name in step["outputs"])]
            function = getattr(library, step["c"]["function"])
            status = function(*(ctypes.c_void_p(array.ctypes.data) for array in arrays), ctypes.c_void_p(begin), None)
            self.assertEqual(status, 0)
            behind = (begin - room.ctypes.data + step["c"]["scratch_bytes"]) // 8
            self.assertTrue((room[behind:] == 0x55aa55aa55aa55aa).all(), "it writes behind its workspace")
        return values

    def test_computes_what_the_model_computes(self):
        for name, make in MODELS.items():
            with self.subTest(name):
                model = make()
                steps, graph = self.steps_of(model)
                self.assertEqual([step.get("reason") for step in steps], [None] * len(steps))
                inputs = {item.name: np.asarray(RNG.standard_normal(graph.shape(item.name)) > 0)
                          if graph.element_type(item.name) == "BOOL"
                          else RNG.uniform(-1, 1, graph.shape(item.name)).astype(np.float32) for item in model.graph.input}
                session = onnxruntime.InferenceSession(model.SerializeToString())
                values = self.run_steps(steps, graph, inputs)
                for output, wanted in zip(model.graph.output, session.run(None, inputs)):
                    np.testing.assert_allclose(values[output.name], wanted, rtol=1e-5, atol=1e-6)

    def test_only_what_hands_on_sequences_is_one_part(self):
        steps, _ = self.steps_of(sequences())
        self.assertEqual([step["node"] for step in steps], ["sequenceconstruct, sequenceat", "concat"])
        self.assertEqual(steps[0]["outputs"], ["a"])

    def test_weights_are_given_and_small_constants_written(self):
        (step,), graph = self.steps_of(MODELS["LSTM"]())
        self.assertEqual([item if isinstance(item, str) else item.shape for item in step["inputs"]],
                         ["x", (2, 20, 4), (2, 20, 5), (2, 40)])
        (step,), graph = self.steps_of(MODELS["TopK"]())
        self.assertEqual(step["inputs"], ["x"])
        self.assertGreaterEqual(step["c"]["scratch_bytes"], 200 * 12)  # no large arrays on the stack

    def test_what_is_refused_becomes_a_callback(self):
        body = helper.make_graph(
            [node("Add", "a x", "b"), node("Identity", "c", "d")], "body",
            [value("i", [], INT64), value("c", [], BOOL), value("a", [3])], [value("d", [], BOOL), value("b", [3])])
        model = model_of([helper.make_node("Loop", ["n", "", "zero"], ["y"], "my loop", body=body)],
                         [value("n", [], INT64), value("x", [3])], [value("y", [3])], [tensor("zero", [0, 0, 0])])
        (step,), _ = self.steps_of(model)
        self.assertEqual((step["node"], step["operator"], step["callback"]), ("my loop", "Loop", "my_loop"))
        self.assertEqual((step["inputs"], step["outputs"]), (["n", "x"], ["y"]))
        self.assertRegex(step["reason"], "emx-onnx-cgen refuses it: .*Loop")

    def test_what_is_drawn_becomes_a_callback(self):
        """A Dropout in training mode would be C that copies; its mask in inference is C."""
        for training in (True, False):
            constants = [tensor("ratio", 0.5), onnx.numpy_helper.from_array(np.array(training), "training")]
            model = model_of([node("Dropout", "x ratio training", "y m")], [value("x", [3])],
                             [value("y", [3]), value("m", [3], BOOL)], constants, opset=17)
            (step,), _ = self.steps_of(model)
            self.assertEqual(("callback" in step, "c" in step), (training, not training))
        model = model_of([node("RandomNormalLike", "x", "y")], [value("x", [3])], [value("y", [3])], [])
        self.assertIn("callback", self.steps_of(model)[0][0])

    def test_shapes_that_are_known_when_it_runs(self):
        model = model_of([node("NonZero", "x", "y")], [value("x", [3, 4])], [value("y", [2, None], INT64)])
        with self.assertRaisesRegex(NodeError, '"nonzero" makes "y", whose shape is not known before it runs'):
            self.steps_of(model)

    def test_types_that_no_tensor_has(self):
        model = model_of([node("StringNormalizer", "x", "y")], [value("x", [3], TensorProto.STRING)],
                         [value("y", [3], TensorProto.STRING)])
        with self.assertRaisesRegex(NodeError, '"stringnormalizer" reads "x", whose type STRING'):
            self.steps_of(model)

    def test_without_emx_onnx_cgen(self):
        hidden = {name: module for name, module in sys.modules.items() if name.startswith("emx_onnx_cgen")}
        for name in hidden:
            del sys.modules[name]
        sys.modules["emx_onnx_cgen"] = None  # as Python marks what is not there
        long_tail.make_generator.cache_clear()
        try:
            with self.assertRaisesRegex(NodeError, "pip install emx-onnx-cgen"):
                self.steps_of(MODELS["TopK"]())
            (step,), _ = self.steps_of(MODELS["TopK"](), callbacks=True)
            self.assertEqual((step["callback"], step["inputs"]), ("topk", ["x"]))
            self.assertIn("pip install emx-onnx-cgen", step["reason"])
        finally:
            del sys.modules["emx_onnx_cgen"]
            sys.modules.update(hidden)

    def test_no_text_of_a_model_stands_in_its_code(self):
        model = MODELS["TopK"]()
        model.graph.node[0].name = model.graph.node[0].doc_string = model.doc_string = "*/\n#error\n/*"
        model.graph.node[0].output[0] = model.graph.output[0].name = "*/ #error"
        model.graph.name = model.graph.doc_string = model.producer_name = "*/\n#error"
        (step,), _ = self.steps_of(model)
        self.assertNotIn("#error", (self.folder / step["c"]["source"]).read_text())

    def test_parts_do_not_clash_and_show_one_name(self):
        steps, graph = self.steps_of(MODELS["CumSum, OneHot"]())
        again, _ = self.steps_of(MODELS["CumSum, OneHot"]())
        self.assertEqual([step["c"] for step in again], [step["c"] for step in steps])  # what is the same is there once
        others, _ = self.steps_of(MODELS["TopK"]())
        self.compiled(*(step["c"]["source"] for step in [*steps, *others]))
        table = subprocess.run(["nm", "-D", "--defined-only", self.folder / "1.so"], check=True,
                               capture_output=True, text=True).stdout
        shown = {line.split()[-1] for line in table.splitlines() if not line.split()[-1].startswith("_")}
        self.assertEqual(shown, {step["c"]["function"] for step in [*steps, *others]})
        symbols = subprocess.run(["nm", "-D", "--undefined-only", self.folder / "1.so"], check=True,
                                 capture_output=True, text=True).stdout
        self.assertNotRegex(symbols, r"\b(malloc|free|calloc)\b")


if __name__ == "__main__":
    unittest.main()
