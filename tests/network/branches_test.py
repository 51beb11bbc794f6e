"""An If of whose branches one does not fit the sizes of a network: it is left out, and its condition checked when the network
runs. And joined parts without elements, which exporters leave in such models. Seconds: the models are tiny."""

import pathlib
import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/frontend"), str(ROOT / "tests/kernels")]
from commands_test import kiln  # noqa: E402
from network_testing import NetworkTest, load_tests  # noqa: E402
from onnx_models import integers, model_of, random_tensor, value  # noqa: E402

node = helper.make_node
X, Y = value("x", [2, 4]), value("y", None)
W = random_tensor(np.random.default_rng(1), "w", 4, 4)
BIG = random_tensor(np.random.default_rng(2), "big", 8, 4)


def branch(name, *nodes):
    return helper.make_graph(list(nodes), name, [], [helper.make_empty_tensor_value_info(nodes[-1].output[0])])


FITTING = branch("fitting", node("MatMul", ["x", "w"], ["fitting/m"]), node("Relu", ["fitting/m"], ["fitting/y"]))
UNFIT = branch("unfit", node("MatMul", ["x", "big"], ["unfit/m"]), node("Relu", ["unfit/m"], ["unfit/y"]))


def choice(condition, output, then_branch, else_branch, name="choice"):
    return node("If", [condition], [output], name, then_branch=then_branch, else_branch=else_branch)


class Branches(NetworkTest):
    def inputs(self, **arrays):
        path = self.folder / "in.npz"
        np.savez(path, **arrays)
        return path

    def run_with(self, model, ok=(0,), **arrays):
        """What a run of a network says."""
        onnx.save(model, self.folder / "model.onnx")
        process = kiln("run", self.folder / "model.onnx", "--network", "--inputs", self.inputs(**arrays), "-o",
                       self.folder / "out", ok=ok)
        return process.stdout + process.stderr

    def test_a_condition_on_a_number(self):
        """The branch that fits is taken, and made as if it stood alone; another number is refused in words."""
        model = model_of([node("Equal", ["rate", "known"], ["c"]), choice("c", "y", FITTING, UNFIT)],
                         [X, value("rate", [], TensorProto.INT64)], [Y], [W, BIG, integers("known", 16000)])
        kinds, network = self.kinds(model)
        self.assertEqual(kinds, {"check": 1, "layer": 1, "operation": 1})
        self.assertEqual([step["check"] for step in network["steps"] if "check" in step],
                         ['"rate" must be 16000: the else branch of the If "choice" does not fit the sizes that the network is '
                          'made for'])
        self.verify(model)
        x = np.zeros([2, 4], np.float32)
        self.run_with(model, x=x, rate=np.int64(16000))
        self.assertIn('"rate" must be 16000', self.run_with(model, ok=(1,), x=x, rate=np.int64(8000)))
        process = kiln("compile", self.folder / "model.onnx", "--network", "-o", self.folder / "lib")
        self.assertIn('left out: the else branch of the If "choice": the MatMul', process.stdout)
        self.assertIn('where this does not hold: "rate" must be 16000', (self.folder / "lib/model.h").read_text())

    def test_a_condition_that_may_not_hold(self):
        """It takes the first branch, which is the one that does not fit: of an input, and of what the model computes."""
        given = model_of([choice("flag", "y", UNFIT, FITTING)], [X, value("flag", [1], TensorProto.BOOL)], [Y], [W, BIG])
        self.verify(given)
        x = np.ones([2, 4], np.float32)
        self.assertIn('"flag" must be false', self.run_with(given, ok=(1,), x=x, flag=np.array([True])))
        sum_of = node("ReduceSum", ["x"], ["sum"], keepdims=0)
        computed = model_of([sum_of, node("Greater", ["sum", "zero"], ["c"]), choice("c", "y", UNFIT, FITTING)], [X], [Y],
                            [W, BIG, numpy_helper.from_array(np.float32(0), "zero")])
        self.run_with(computed, x=-x)
        self.assertIn('"c" must be false', self.run_with(computed, ok=(1,), x=x))

    def test_a_condition_within_a_branch(self):
        """It is asked for where that branch is taken, and not else."""
        inner = branch("then", choice("flag", "inner", FITTING, UNFIT, "within"))
        outer = branch("else", node("Neg", ["x"], ["outer"]))
        model = model_of([node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Greater", ["sum", "zero"], ["c"]),
                          choice("c", "y", inner, outer)], [X, value("flag", [], TensorProto.BOOL)], [Y],
                         [W, BIG, numpy_helper.from_array(np.float32(0), "zero")])
        x = np.ones([2, 4], np.float32)
        for sign, flag in ((1, True), (-1, True), (-1, False)):
            self.verify(model, "--inputs", self.inputs(x=sign * x, flag=np.array(flag)))
        self.assertIn('the If "within"', self.run_with(model, ok=(1,), x=x, flag=np.array(False)))

    def test_conditions_that_do_not_matter(self):
        """What no output needs asks for nothing, and branches that both fit are both there."""
        idle = model_of([choice("flag", "idle", FITTING, UNFIT), node("Neg", ["x"], ["y"])],
                        [X, value("flag", [], TensorProto.BOOL)], [Y], [W, BIG])
        self.assertEqual(self.kinds(idle)[0], {"operation": 1})
        both = model_of([choice("flag", "y", FITTING, branch("else", node("Neg", ["x"], ["n"])))],
                        [X, value("flag", [], TensorProto.BOOL)], [Y], [W])
        self.assertNotIn("check", self.kinds(both)[0])
        for flag in (True, False):
            self.verify(both, "--inputs", self.inputs(x=np.ones([2, 4], np.float32), flag=np.array(flag)))

    def test_neither_branch_fits(self):
        model = model_of([choice("flag", "y", UNFIT, UNFIT)], [X, value("flag", [], TensorProto.BOOL)], [Y], [W, BIG])
        self.assertIn("is not known", self.refused(model, "--network", "--weights", self.folder / "w"))

    def test_parts_without_elements(self):
        """Constants and results: nobody joins them, and a Concat of one other part is none."""
        nothing = numpy_helper.from_array(np.zeros([2, 0], np.float32), "nothing")
        bounds = [integers(name, [number]) for name, number in (("from", 3), ("to", 3), ("axis", 1))]
        nodes = [node("Slice", ["x", "from", "to", "axis"], ["empty"]), node("Relu", ["x"], ["r"]),
                 node("Concat", ["nothing", "r", "empty"], ["one"], axis=1), node("Neg", ["one"], ["n"]),
                 node("Concat", ["n", "empty", "x"], ["y"], axis=1)]
        model = model_of(nodes, [X], [Y], [nothing, *bounds])
        operations = [step["operation"] for step in self.kinds(model)[1]["steps"]]
        self.assertEqual([text.split("-")[0] for text in operations], ["map", "concat"])
        self.assertNotIn("[2x0]", " ".join(operations))
        self.verify(model)


if __name__ == "__main__":
    unittest.main(verbosity=2)
