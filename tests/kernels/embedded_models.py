"""Models compiled with their weights inside: a C program that passes x and y alone computes what the model does."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import kiln_run
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/frontend"))
from onnx_models import model_of, qdq_model, random_tensor, tensor, value  # noqa: E402

PROGRAM = """
#include <stdio.h>
#include "net.h"

static _Alignas(KILN_ALIGNMENT) char x[{x_bytes}], y[{y_bytes}], workspace[NET_CONV_WORKSPACE_BYTES + 1];

int main(int argc, char **argv) {{
    FILE *file = fopen(argv[1], "rb");
    if (argc != 3 || !file || fread(x, 1, sizeof x, file) != sizeof x) return 100;
    const net_conv_args args = {{.x = x, .y = y, .workspace = workspace}};
    const int code = net_conv(&args);
    if (code) return code;
    file = fopen(argv[2], "wb");
    return file && fwrite(y, 1, sizeof y, file) == sizeof y && !fclose(file) ? 0 : 101;
}}
"""


# The same with weights that are packed first.
RAW_PROGRAM = PROGRAM.replace("workspace[", "packed[NET_PACKED_BYTES], workspace[").replace(
    "    const net_conv_args args = {{", """    if (net_pack_all(packed + 1) != kiln_invalid_argument) return 102;
    puts(kiln_last_message());
    if (net_pack_all(packed) != kiln_ok) return 103;
    const net_conv_args args = {{.packed_weights = packed + NET_CONV_PACKED_OFFSET, """)


def normalized():
    """A bias that only folding makes."""
    rng = np.random.default_rng(1)
    constants = [*(random_tensor(rng, name, 6) for name in ("scale", "shift", "mean")),
                 tensor("variance", rng.uniform(0.5, 2, 6)), random_tensor(rng, "w", 6, 4, 3, 3)]
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
             helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
             helper.make_node("Relu", ["n"], ["y"])]
    return model_of(nodes, [value("x", [2, 4, 7, 9])], [value("y", [2, 6, 7, 9])], constants)


def added():
    """A transposed convolution whose bias is an Add."""
    rng = np.random.default_rng(2)
    nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["c"], "conv", strides=[2, 2]),
             helper.make_node("Add", ["c", "b"], ["y"])]
    return model_of(nodes, [value("x", [1, 4, 5, 6])], [value("y", [1, 6, 11, 13])],
                    [random_tensor(rng, "w", 4, 6, 3, 3), random_tensor(rng, "b", 6, 1, 1)])


def quantised():
    """Integers, with a bias of 32 bits."""
    model = qdq_model()
    model.graph.output[0].type.CopyFrom(value("y", [1, 4, 4, 4], TensorProto.UINT8).type)
    return model


def shape_and_type(info):
    return ([dim.dim_value for dim in info.type.tensor_type.shape.dim],
            helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type))


class EmbeddedModels(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compile(self, model, *options):
        onnx.save(model, self.folder / "net.onnx")
        out = self.folder / "out"
        command = [kiln_run.kiln(), "compile", self.folder / "net.onnx", "-o", out, *options]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(process.returncode, 0, process.stderr)
        return out, process.stdout

    def run_program(self, source, out, x, y_bytes):
        (self.folder / "main.c").write_text(source.format(x_bytes=x.nbytes, y_bytes=y_bytes))
        compiler = os.environ.get("CC", "cc").split()
        includes = [f"-I{ROOT / 'runtime/include'}", f"-I{out}"]
        compiled, program = self.folder / "main.o", self.folder / "main"
        flags = ["-std=c11", "-Wall", "-Werror", "-O1"]
        subprocess.run([*compiler, *flags, *includes, "-c", self.folder / "main.c", "-o", compiled], check=True)
        runtime = [ROOT / "runtime" / name for name in ("cpu.cpp", "message.cpp", "parallel_for.cpp")]
        linker = [*os.environ.get("CXX", "c++").split(), "-std=c++17", includes[0]]
        subprocess.run([*linker, compiled, *runtime, out / "libnet.a", "-lm", "-o", program], check=True)
        x.tofile(self.folder / "x.bin")
        process = subprocess.run([program, self.folder / "x.bin", self.folder / "y.bin"], check=False,
                                 capture_output=True, text=True)
        self.assertEqual(process.returncode, 0)
        return self.folder / "y.bin", process.stdout

    def check(self, model, source, *options):
        out, _ = self.compile(model, *options)
        (x_shape, x_type), (y_shape, y_type) = (shape_and_type(group[0])
                                                for group in (model.graph.input, model.graph.output))
        rng = np.random.default_rng(9)
        x = rng.standard_normal(x_shape).astype(x_type) if x_type == np.float32 else \
            rng.integers(0, 256, x_shape).astype(x_type)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        expected = session.run(None, {"x": x})[0]
        path, said = self.run_program(source, out, x, expected.nbytes)
        y = np.fromfile(path, y_type).reshape(y_shape)
        # Integers may go either way where the sum is a half.
        np.testing.assert_allclose(y.astype(np.float64), expected, rtol=1e-4, atol=1 if y_type == np.uint8 else 1e-4)
        return said

    def test_weights_and_bias(self):
        for make in (normalized, added, quantised):
            with self.subTest(make.__name__):
                self.check(make(), PROGRAM, "--embed-weights")

    def test_raw_weights(self):
        for make in (normalized, added, quantised):
            with self.subTest(make.__name__):
                said = self.check(make(), RAW_PROGRAM, "--embed-weights=raw")
                self.assertEqual(said, "net_conv_pack: packed is not a multiple of 64\n")

    def test_sizes_are_told(self):
        for options, how in ((), "no"), (("--embed-weights",), "packed"), (("--embed-weights=raw",), "raw"):
            out, said = self.compile(normalized(), *options)
            layer = json.loads((out / "net.json").read_text())["layers"][0]
            self.assertEqual((layer["embedded"], layer["weight_bytes"]), (how, 6 * 4 * 9 * 4))
            self.assertGreater(layer["packed_bytes"], 0)
            wanted = {"no": 0, "packed": layer["packed_bytes"] + 24, "raw": layer["weight_bytes"] + 24}
            self.assertEqual(layer["embedded_bytes"], wanted[how])
            sizes = f"weights {layer['weight_bytes'] / 1024:.1f} KB, packed {layer['packed_bytes'] / 1024:.1f} KB"
            self.assertIn(sizes, said)
        explained = subprocess.run([kiln_run.kiln(), "explain", self.folder / "net.onnx"], capture_output=True, text=True,
                                   check=True).stdout
        self.assertIn(sizes.replace("weights ", "weights: "), explained)

    def test_verified_with_their_own_weights(self):
        """Bounds are those of the model's weights: 1000 times the weights have 1000 times the bound."""
        bounds = []
        for factor in (1, 1000):
            model = added()
            weights = onnx.numpy_helper.to_array(model.graph.initializer[0])
            model.graph.initializer[0].CopyFrom(tensor("w", weights * factor))
            model.graph.initializer[1].CopyFrom(tensor("b", np.full((6, 1, 1), factor)))
            onnx.save(model, self.folder / "net.onnx")
            (row,) = kiln_run.verify(self.folder / "net.onnx")
            self.assertEqual((row["verdict"], row["loose"]), ("ok", False), row)
            self.assertTrue(0 < row["bound_share"] < 0.01, row)
            bounds.append(row["bound"])
        # They are of the elements that come nearest to theirs, which are not the same ones.
        self.assertTrue(500 < bounds[1] / bounds[0] < 2000, bounds)
        out, _ = self.compile(model, "--embed-weights", "--save-weights", self.folder / "weights")
        np.testing.assert_array_equal(np.fromfile(self.folder / "weights/conv.w.bin", np.float32),
                                      (weights * 1000).ravel())
        self.assertEqual(np.fromfile(self.folder / "weights/conv.b.bin", np.float32).size, 6)

    def test_where_a_layer_stands_in_its_model(self):
        model = normalized()
        node = model.graph.node[0]
        node.name = "features/*0*/conv" + "_long" * 60
        model.graph.input[0].name = node.input[0] = "da\nta"
        out, said = self.compile(model, "--layer", node.name)
        self.assertIn("1 of 1 convolutions", said)
        self.assertIn("shortened", said)
        (layer,) = json.loads((out / "net.json").read_text())["layers"]
        self.assertEqual(len(layer["name"]), 63)
        self.assertEqual(layer["source"], {"node": node.name, "operator": "Conv", "output": "y",
                                           "inputs": {"w": "w", "x": "da\nta"}})
        header = (out / "net.h").read_text()
        self.assertIn('"features/ *0* /conv_long', header)
        self.assertIn('x "da?ta"', header)
        (self.folder / "main.c").write_text('#include "net.h"\nint main(void) { return net_library()->layer_count - 1; }\n')
        subprocess.run([*os.environ.get("CC", "cc").split(), "-Wall", "-Werror", f"-I{ROOT / 'runtime/include'}", f"-I{out}",
                        "-c", self.folder / "main.c", "-o", self.folder / "main.o"], check=True)

    def test_what_is_left_out_is_counted(self):
        model = normalized()
        model.graph.node.insert(0, helper.make_node("ConvTranspose", ["x", "w"], ["odd"], "odd", flavour=1))
        onnx.save(model, self.folder / "net.onnx")
        command = [kiln_run.kiln(), "compile", self.folder / "net.onnx", "-o", self.folder / "out"]
        for options, status, word in ((), 1, ""), (("--skip-unsupported",), 0, "left out: "):
            process = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
            self.assertEqual(process.returncode, status, process.stderr)
            self.assertIn(f"layer odd: {word}invalid_argument: unknown attribute flavour", process.stderr)
            self.assertIn("1 of 2 convolutions", process.stdout)
        left_out = json.loads((self.folder / "out/net.json").read_text())["left_out"]
        self.assertEqual([(row["layer"], row["node"]) for row in left_out], [("odd", "odd")])

    def test_a_bias_that_is_no_constant_stays_an_input(self):
        model = normalized()
        model.graph.node[0].input.append("b")
        del model.graph.node[1:]
        model.graph.node[0].output[0] = "y"
        model.graph.input.append(value("b", [6]))
        out, said = self.compile(model, "--embed-weights")
        self.assertIn("note: the bias stays an input, since nothing says its values: conv", said)
        self.assertIn("const void *bias; /* [6] */", (out / "net.h").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
