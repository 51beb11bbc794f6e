"""The node cases that the onnx package carries, of the operators that operations take, against their expected outputs."""

import collections
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np
import onnx
import operation_runs
from terms import ModelError, NodeError

sys.path.append(str(Path(__file__).resolve().parents[1] / "kernels"))
import parts  # noqa: E402

# Inputs that must be constants, which in the cases are data: by operator, their indices.
CONSTANTS = {"Slice": (1, 2, 3, 4), "Pad": (1, 2, 3), "Resize": (1, 2, 3), "Upsample": (1,), "Expand": (1,), "Tile": (1,),
             "Reshape": (1,), "Squeeze": (1,), "Unsqueeze": (1,), "Split": (1,), "Dropout": (1, 2),
             "QLinearMatMul": (1, 2, 4, 5, 6, 7), **{name: (1,) for name in operation_runs.operations.gathering.REDUCTIONS}}
# Nodes that compute what no kernel does, by words of the reason that is given.
REFUSED = ("training mode", "computed in the model", "of type", "by blocks", "mask of a Dropout", "are of rows",
           "of float64 has no kernel", "zero points have shape", "is read: only", "p=3", "shape of its", "is no tensor", "is for layers")


def collect():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # some overflow on purpose
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    known = {**operation_runs.operations.HANDLERS, **operation_runs.operations.elementwise.HANDLERS}
    return [case for case in cases if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type in known
            and case.model.graph.node[0].domain in ("", "ai.onnx")]


def array_of(value):
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def with_constants(case):
    """The case's model, inputs that say how it computes being constants in it, and the others."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    node, data = model.graph.node[0], [array_of(value) for value in case.data_sets[0][0]]
    values = dict(zip((value.name for value in model.graph.input), data))
    constant = {node.input[i] for i in CONSTANTS.get(node.op_type, ()) if i < len(node.input) and node.input[i]}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(values[name]), name) for name in constant
                                   if name in values)
    return model, {name: value for name, value in values.items() if name not in constant}


class OperationCases(unittest.TestCase):
    def test_cases(self):
        plans, refused = [], collections.Counter()
        cases = parts.part(collect())
        for case in cases:
            for is_last in (False, True):
                model, inputs = with_constants(case)
                orders = {name: operation_runs.channels_last(np.ndim(value)) for name, value in inputs.items()}
                try:
                    plans.append((case, inputs, operation_runs.Plan(model, orders if is_last else {})))
                except (NodeError, ModelError) as error:
                    refused[str(error)] += 1
                    with self.subTest(case.name):
                        self.assertTrue(any(words in str(error) for words in REFUSED), str(error))
        with tempfile.TemporaryDirectory() as folder:
            kernels = operation_runs.Kernels([text for plan in plans for text in plan[2].texts()], folder)
            computed = 0
            for case, inputs, plan in plans:
                with self.subTest(case.name, texts=plan.texts()):
                    self.check(case, plan.run(kernels, inputs))
                    computed += 1
        print(f"{computed} of {len(plans)} plans computed, {sum(refused.values())} refused, {len(kernels.facts)} kernels")
        self.assertGreater(computed, len(cases))

    def check(self, case, results):
        for result, expected in zip(results, case.data_sets[0][1]):
            expected = np.asarray(array_of(expected))
            self.assertEqual(list(result.shape), list(expected.shape))
            self.assertEqual(result.dtype, expected.dtype)
            if expected.dtype.kind in "iub":
                np.testing.assert_array_equal(result, expected)
            else:
                coarse = expected.dtype == np.float16
                np.testing.assert_allclose(result.astype(np.float64), expected.astype(np.float64),
                                           rtol=max(case.rtol, 2e-3 if coarse else 0), atol=max(case.atol, 1e-3 if coarse else 1e-6))


if __name__ == "__main__":
    unittest.main()
