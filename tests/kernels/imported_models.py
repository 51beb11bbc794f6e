"""Layers that the ONNX importer makes of small models, computed by kiln run with their own weights: what the model is."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import kiln_run
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/frontend"))
from onnx_models import integers, model_of, qdq_model, random_tensor, tensor, value  # noqa: E402

OWN_KEYS = {"name", "operator", "dialect", "opset", "dtype", "layouts", "activation", "activation_params", "quantization"}
INPUTS = {"weights": "W", "bias_values": "B"}
NHWC = "com.ms.internal.nhwc"


def normalization(rng, channels, source, target):
    """A BatchNormalization with its constants."""
    constants = [random_tensor(rng, "scale", channels), random_tensor(rng, "shift", channels),
                 random_tensor(rng, "mean", channels), tensor("variance", rng.uniform(0.5, 2, channels))]
    return helper.make_node("BatchNormalization", [source, *(item.name for item in constants)], [target]), constants


def conv_block():
    rng = np.random.default_rng(1)
    norm, constants = normalization(rng, 6, "c", "n")
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv_block", group=2, pads=[1, 1, 1, 1]), norm,
             helper.make_node("Add", ["r", "n"], ["s"]), helper.make_node("LeakyRelu", ["s"], ["y"], alpha=0.25)]
    return model_of(nodes, [value("x", [2, 4, 5, 5]), value("r", [2, 6, 5, 5])], [value("y", None)],
                    [*constants, random_tensor(rng, "w", 6, 2, 3, 3), random_tensor(rng, "b", 6)])


def scaled_transpose():
    rng = np.random.default_rng(2)
    nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["c"], "scaled_transpose", group=2, strides=[2, 2]),
             helper.make_node("Mul", ["c", "k"], ["m"]), helper.make_node("Sub", ["one", "m"], ["a"]),
             helper.make_node("HardSwish", ["a"], ["y"])]
    return model_of(nodes, [value("x", [1, 4, 5, 4])], [value("y", None)],
                    [random_tensor(rng, "w", 4, 3, 3, 3), random_tensor(rng, "k", 6, 1, 1), tensor("one", 1)])


def several_nodes():
    """HardSwish as exporters write it, behind a constant If and an Identity, on a shape that the model computes."""
    rng = np.random.default_rng(9)
    branches = [helper.make_graph([helper.make_node("Add", ["i", name], ["added"])], name, [], [value("added", None)])
                for name in ("three", "six")]
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "at"], ["n"]),
             helper.make_node("Equal", ["n", "two"], ["is_two"]), helper.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
             helper.make_node("Concat", ["n1", "rest"], ["t"], axis=0), helper.make_node("Reshape", ["x", "t"], ["r"]),
             helper.make_node("Conv", ["r", "w", "b"], ["c"], "several_nodes"), helper.make_node("Identity", ["c"], ["i"]),
             helper.make_node("If", ["is_two"], ["a"], then_branch=branches[0], else_branch=branches[1]),
             helper.make_node("Clip", ["a", "zero", "six"], ["h"]), helper.make_node("Mul", ["i", "h"], ["m"]),
             helper.make_node("Div", ["m", "six"], ["y"])]
    return model_of(nodes, [value("x", [2, 4, 24])], [value("y", None)],
                    [random_tensor(rng, "w", 6, 4, 3, 3), random_tensor(rng, "b", 6), tensor("zero", 0), tensor("three", 3),
                     tensor("six", 6), integers("at", 0), integers("two", 2), integers("axis", [0]),
                     integers("rest", [4, 4, 6])])


def slopes(op, name, shape, **attributes):
    """A convolution to 6 channels with a PRelu that has a slope for each of them."""
    rng = np.random.default_rng(12)
    w = random_tensor(rng, "w", *([4, 3, 3, 3] if op == "ConvTranspose" else [6, 4, 3, 3]))
    nodes = [helper.make_node(op, ["x", "w", *(["o"] if op == "DeformConv" else [])], ["c"], name, **attributes),
             helper.make_node("PRelu", ["c", "k"], ["y"])]
    inputs = [value("x", [2, 4, 5, 5])] + ([value("o", [2, 18, 5, 5])] if op == "DeformConv" else [])
    return model_of(nodes, inputs, [value("y", None)],
                    [w, tensor("k", np.reshape([0.25, -0.5, 1.5, 3, 0, 1], shape))], opset=19)


def deformable():
    rng = np.random.default_rng(3)
    norm, constants = normalization(rng, 4, "c", "n")
    nodes = [helper.make_node("DeformConv", ["x", "w", "o", "", "m"], ["c"], "deformable", pads=[1, 1, 1, 1]), norm,
             helper.make_node("Tanh", ["n"], ["y"])]
    return model_of(nodes, [value("x", [1, 3, 6, 6]), value("o", [1, 18, 6, 6]), value("m", [1, 9, 6, 6])],
                    [value("y", None)], [*constants, random_tensor(rng, "w", 4, 3, 3, 3)], opset=19)


def named(name, model):
    """qdq_model()'s layers have one name."""
    next(node for node in model.graph.node if node.name == "conv").name = name
    return model


def qlinear():
    # Two products of these weights fit in 16 bits: where a processor has no instructions for products of bytes, ONNX Runtime
    # saturates their sum.
    rng = np.random.default_rng(4)
    constants = {"xs": np.float32(0.02), "xz": np.uint8(121), "ws": rng.uniform(0.01, 0.03, 5).astype(np.float32),
                 "wz": np.int8([0, 3, -5, 1, 0]), "ys": np.float32(0.05), "yz": np.uint8(100),
                 "w": rng.integers(-64, 65, (5, 3, 3, 3)).astype(np.int8), "b": rng.integers(-999, 999, 5, np.int32)}
    node = helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"], "qlinear")
    return model_of([node], [value("x", [1, 3, 7, 7], TensorProto.UINT8)], [value("y", None, TensorProto.UINT8)],
                    [numpy_helper.from_array(np.asarray(item), name) for name, item in constants.items()])


def integer():
    rng = np.random.default_rng(5)
    constants = {"xz": np.uint8(121), "wz": np.uint8(7), "w": rng.integers(0, 256, (4, 3, 3, 3)).astype(np.uint8)}
    node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], "integer", strides=[2, 2])
    return model_of([node], [value("x", [1, 3, 7, 7], TensorProto.UINT8)], [value("y", None, TensorProto.INT32)],
                    [numpy_helper.from_array(np.asarray(item), name) for name, item in constants.items()])


def quantiser(name, form, per_channel, folder):
    """A convolution as onnxruntime's own tool quantises it, and what it is between x's and y's integers."""
    from onnxruntime import quantization

    rng = np.random.default_rng(6)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], name, pads=[1, 1, 1, 1])
    model = model_of([node], [value("x", [1, 4, 8, 8])], [value("y", [1, 8, 8, 8])],
                     [random_tensor(rng, "w", 8, 4, 3, 3), random_tensor(rng, "b", 8)])
    onnx.save(model, folder / "float.onnx")

    class Data(quantization.CalibrationDataReader):
        left = 3

        def get_next(self):
            self.left -= 1
            return {"x": rng.standard_normal([1, 4, 8, 8], np.float32)} if self.left >= 0 else None

    path = folder / f"{name}.onnx"
    quantization.quantize_static(folder / "float.onnx", path, Data(), form, per_channel=per_channel)
    quantised = onnx.load(path)
    return between_integers(quantised)


def between_integers(model):
    """The model without the QuantizeLinear of its input and the DequantizeLinear of its output."""
    nodes = list(model.graph.node)
    first = next(node for node in nodes if "x" in node.input)
    last = next(node for node in nodes if "y" in node.output)
    assert (first.op_type, last.op_type) == ("QuantizeLinear", "DequantizeLinear")
    types = {item.name: item.data_type for item in model.graph.initializer}
    inner = model_of([node for node in nodes if node is not first and node is not last],
                     [value(first.output[0], [1, 4, 8, 8], types[first.input[2]])],
                     [value(last.input[0], None, types[last.input[2]])], model.graph.initializer)
    del inner.opset_import[:]
    inner.opset_import.extend(model.opset_import)
    return inner


def channels_last(name, op, plain_attributes, w_shape, **more):
    """(the model with ONNX Runtime's own node, the same in ONNX's terms)."""
    rng = np.random.default_rng(7)
    w = random_tensor(rng, "w", *w_shape)
    own = helper.make_node(op, ["x", "w"], ["y"], name, domain=NHWC, **plain_attributes, **more)
    plain = helper.make_node(op, ["xt", "w"], ["c"], **plain_attributes)
    nodes = [helper.make_node("Transpose", ["x"], ["xt"], perm=[0, 3, 1, 2]), plain,
             helper.make_node("LeakyRelu", ["c"], ["a"], alpha=0.25),
             helper.make_node("Transpose", ["a"], ["y"], perm=[0, 2, 3, 1])]
    inputs = [value("x", [1, 5, 6, 3])]
    model = model_of([own], inputs, [value("y", None)], [w])
    model.opset_import.append(helper.make_opsetid(NHWC, 1))
    return model, model_of(nodes, inputs, [value("y", None)], [w])


def run_reference(model, inputs):
    """By ONNX Runtime, or by the onnx package where that has no such operator."""
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return ReferenceEvaluator(model).run(None, inputs)[0]
    return session.run(None, inputs)[0]


def random_input(rng, info):
    shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    if dtype == np.float32:
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)


def import_layer(model, folder):
    """The table of a model's only layer, its weights written."""
    folder.mkdir()
    onnx.save(model, folder / "model.onnx")
    command = [sys.executable, ROOT / "tools/onnx_import", folder / "model.onnx", folder / "answer.json"]
    subprocess.run([*command, "--weights", folder], check=True)
    answer = json.loads((folder / "answer.json").read_text())
    assert not answer["failures"], answer
    (layer,) = answer["layers"]
    return layer


# What a layer reads besides its constants, by the names of the models here.
ROLES = {"r": "residual", "o": "offset", "m": "mask"}


def to_case(layer, inputs):
    arrays = {ROLES.get(name, "X"): array for name, array in inputs.items()}
    arrays.update({name: np.load(layer[key]) for key, name in INPUTS.items() if key in layer})
    if "layouts" not in layer:  # a Reshape in front is no part of the layer
        arrays["X"] = arrays["X"].reshape(layer["x"])
    else:  # arrays have the order of the layer's document, not of memory
        arrays["X"] = arrays["X"].transpose(0, 3, 1, 2)
    case = {key: layer[key] for key in layer if key in OWN_KEYS}
    if layer["operator"] in ("QLinearConv", "ConvInteger"):
        arrays = {name.lower() if name != "B" else name: array for name, array in arrays.items()}
        arrays.update(quantization_inputs(case.pop("quantization"), layer["dtype"]))
    shapes = {"x", "w", "bias", "mask", "offset", "residual", "source", *INPUTS}
    attributes = {key: layer[key] for key in layer if key not in OWN_KEYS | shapes}
    return {**case, "attributes": attributes, "inputs": arrays}


def quantization_inputs(table, dtype):
    """What these two operators have as inputs, as arrays again."""
    dtypes = {"x_zero_point": dtype, "w_zero_point": table["w_dtype"], "y_zero_point": table["y_dtype"]}
    return {key: np.squeeze(np.array(number, dtypes.get(key, np.float32)))
            for key, number in table.items() if not key.endswith("dtype")}  # fmt: skip


class ImportedModels(unittest.TestCase):
    def test_all(self):
        rng = np.random.default_rng(11)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            models = self.models(folder)
            cases, expected = [], []
            for number, (model, meaning) in enumerate(models):
                inputs = {info.name: random_input(rng, info) for info in model.graph.input}
                cases.append(to_case(import_layer(model, folder / str(number)), inputs))
                expected.append(run_reference(meaning, inputs))
            answers, outputs, process = kiln_run.run(cases, folder)
            for case, answer, want in zip(cases, answers, expected):
                with self.subTest(case["name"]):
                    self.assertEqual(answer["status"], "ok", answer)
                    result = outputs[case["name"]]
                    self.check(result.transpose(0, 2, 3, 1) if "layouts" in case else result, want)
            self.assertEqual(process.returncode, 0, process.stderr)

    def check(self, result, expected):
        self.assertEqual((result.dtype, result.shape), (expected.dtype, expected.shape))
        if result.dtype == np.float32:
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
            return
        # ONNX Runtime may compute between DequantizeLinear and QuantizeLinear in float32: then a half can go either way.
        difference = np.abs(result.astype(np.int64) - expected)
        self.assertLessEqual(difference.max(), 1 if result.itemsize == 1 else 0)
        self.assertLess((difference > 0).mean(), 0.01)

    def models(self, folder):
        """Pairs: what is imported, and a model of what it means for onnxruntime."""
        from onnxruntime.quantization import QuantFormat

        relu = [helper.make_node("Relu", ["c"], ["a"])]
        plain = [
            conv_block(), scaled_transpose(), several_nodes(), deformable(), qlinear(), integer(),
            named("qdq", qdq_model(pads=[1, 1, 1, 1], behind=relu)),
            named("qdq_channels", qdq_model(w_scale=[0.01, 0.02, 0.03, 0.04], w_zero_point=np.uint8([1, 2, 3, 100]),
                                            x_zero_point=np.int8(-3), y_zero_point=np.int8(5), group=2)),
            named("qdq_transposed", qdq_model("ConvTranspose", (4, 3, 2, 2), [0.01, 0.02, 0.03], np.zeros(3, np.int8), 1,
                                              group=2, strides=[2, 2])),
            named("qdq_float", qdq_model(y=False, bias=None, behind=relu)),
            slopes("Conv", "slopes", (6, 1, 1), pads=[1, 1, 1, 1]),
            slopes("ConvTranspose", "slopes_transposed", (1, 6, 1, 1), strides=[2, 2], group=2),
            slopes("DeformConv", "slopes_deformable", (6, 1, 1), pads=[1, 1, 1, 1]),
            named("qdq_slopes", qdq_model(pads=[1, 1, 1, 1], extra=[tensor("k", np.reshape([0.25, -0.5, 1.5, 3], (4, 1, 1)))],
                                          behind=[helper.make_node("PRelu", ["c", "k"], ["a"])])),
            quantiser("tool_qdq", QuantFormat.QDQ, True, folder),
            quantiser("tool_qlinear", QuantFormat.QOperator, False, folder),
        ]  # fmt: skip
        activation = {"activation": "LeakyRelu", "activation_params": [0.25]}
        return [(model, model) for model in plain] + [
            channels_last("nhwc_transposed", "ConvTranspose", {"strides": [2, 2]}, (3, 4, 3, 3), **activation),
            channels_last("nhwc_conv", "Conv", {"pads": [1, 1, 1, 1]}, (4, 3, 3, 3), **activation),
        ]


if __name__ == "__main__":
    unittest.main(verbosity=2)
