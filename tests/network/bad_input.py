"""Networks where something is wrong: models, inputs, memory. All is told, and nothing crashes. Seconds: the models are tiny."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/frontend"))
from onnx_models import model_of, random_tensor, value  # noqa: E402

KILN = os.environ["KILN"]
RNG = np.random.default_rng(3)
W = random_tensor(RNG, "w", 4, 3, 3, 3)
CONV = helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1])
X, Y = value("x", [1, 3, 6, 5]), value("y", [1, 4, 6, 5])

PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include "net.h"

static _Alignas(KILN_ALIGNMENT) unsigned char arena[NET_ARENA_BYTES + KILN_ALIGNMENT];
static float x[90], y[120];

CALLBACK
static void check(int place, net_args args) {
    const int code = net_run(&args);
    printf("%d: %d %s\n", place, code, code == kiln_ok ? "" : kiln_last_message());
}

int main(void) {
    for (int i = 0; i < 90; ++i) x[i] = (float)(i % 7) - 3;
    const net_args good = {.x = x, .y = y, .arena = arena MORE};
    net_args bad = good;
    bad.x = NULL;
    check(0, bad);
    bad = good, bad.y = NULL;
    check(1, bad);
    bad = good, bad.x = (const float *)((const char *)x + 1);
    check(2, bad);
    bad = good, bad.arena = NULL;
    check(3, bad);
    bad = good, bad.arena = arena + 8;
    check(4, bad);
    LAST
    memset(arena + NET_ARENA_BYTES, 99, KILN_ALIGNMENT);
    check(6, good);
    for (int i = 0; i < KILN_ALIGNMENT; ++i)
        if (arena[NET_ARENA_BYTES + i] != 99) return 2;
    printf("y: %g %g\n", y[0], y[119]);
    return net_run(NULL) == kiln_ok;
}
"""
CALLBACK = r"""
static int32_t twice(void *context, const void *const *inputs, void *const *outputs) {
    const float *from = inputs[0];
    float *to = outputs[0];
    for (int i = 0; i < 120; ++i) to[i] = from[i] * *(const float *)context;
    return kiln_ok;
}
static float factor = 2;
"""


def plain():
    return model_of([CONV, helper.make_node("Relu", ["c"], ["r"], "relu"), helper.make_node("Transpose", ["r"], ["t"], "turn"),
                     helper.make_node("Transpose", ["t"], ["y"], "back")], [X], [Y], [W])


def foreign(shape=True):
    """An operator that nobody knows, in the middle."""
    model = model_of([CONV, helper.make_node("Twice", ["c"], ["d"], "my node", domain="com.example"),
                      helper.make_node("Relu", ["d"], ["y"], "relu")], [X], [Y], [W])
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    if shape:
        model.graph.value_info.append(value("d", [1, 4, 6, 5]))
    return model


class Networks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def save(self, model):
        path = self.folder / "net.onnx"
        if isinstance(model, bytes):
            path.write_bytes(model)
        else:
            onnx.save(model, path)
        return path

    def kiln(self, command, model, *arguments):
        return subprocess.run([KILN, command, self.save(model), "--network", *arguments], capture_output=True, text=True)

    def refused(self, pattern, command, model, *arguments):
        """The command must fail in words, not by a signal or an exception that nobody caught."""
        result = self.kiln(command, model, *arguments)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertRegex(result.stderr, pattern)
        self.assertNotRegex(result.stderr, "Traceback|terminate called|signal")

    def compiled(self, model, *arguments):
        result = self.kiln("compile", model, "-o", self.folder / "out", "--name", "net", "--target", "x86-64-avx2", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    # ---- Models

    def test_models_that_make_no_sense(self):
        circle = model_of([CONV, helper.make_node("Add", ["c", "b"], ["a"], "first"),
                           helper.make_node("Relu", ["a"], ["b"], "second"), helper.make_node("Relu", ["b"], ["y"], "third")],
                          [X], [Y], [W])
        twice = model_of([CONV, helper.make_node("Relu", ["c"], ["y"], "first"), helper.make_node("Abs", ["c"], ["y"], "second")],
                         [X], [Y], [W])
        missing = model_of([CONV, helper.make_node("Add", ["c", "nothing"], ["y"], "sum")], [X], [Y], [W])
        unmade = model_of([CONV, helper.make_node("Relu", ["c"], ["r"], "relu")], [X], [Y], [W])
        for model, said in ((circle, '"first", "second"|circle'), (twice, '"y" is made by two nodes'), (missing, '"nothing"'),
                            (unmade, '"y"')):
            for command, *options in (("compile", "-o", self.folder / "out"), ("verify",)):
                self.refused(said, command, model, *options)
        self.assertFalse((self.folder / "out").exists() and list((self.folder / "out").glob("*.a")))

    def test_truncated_files(self):
        whole = plain().SerializeToString()
        for size in (0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 20):
            result = self.kiln("compile", whole[:size], "-o", self.folder / "out")
            self.assertEqual(result.returncode, 1, f"{size} bytes: {result.stdout}{result.stderr}")
            self.assertNotRegex(result.stderr, "Traceback|terminate called")
            self.assertIn("net.onnx", result.stderr)

    def test_what_is_drawn_is_no_view(self):
        """A Dropout in training mode."""
        constants = [onnx.numpy_helper.from_array(np.array(number), name) for name, number in (("r", np.float32(0.5)), ("t", True))]
        model = model_of([CONV, helper.make_node("Dropout", ["c", "r", "t"], ["y"], "drop")], [X], [Y], [W, *constants], opset=17)
        self.refused("drop must be computed by a program .*not give the same result twice: it is in training mode", "verify", model)

    def test_sizes_that_are_open(self):
        model = model_of([CONV, helper.make_node("Relu", ["c"], ["y"])], [value("x", ["n", 3, "h", 5])], [value("y", None)], [W])
        self.refused("sizes are fixed.*--shape x=", "compile", model, "-o", self.folder / "out")
        self.refused("sizes are fixed", "compile", model, "-o", self.folder / "out", "--shape", "x=1x3x?x5")
        self.refused("has no input \"z\"", "compile", model, "-o", self.folder / "out", "--shape", "z=1x3x4x5")

    def test_a_layers_file_is_no_network(self):
        layers = self.folder / "layers.toml"
        layers.write_text("")
        result = subprocess.run([KILN, "compile", layers, "--network", "-o", self.folder / "out"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("a network is an ONNX model", result.stderr)

    # ---- Inputs

    def test_inputs_that_do_not_fit(self):
        good = np.zeros([1, 3, 6, 5], np.float32)
        path = self.folder / "in.npz"
        for arrays, said in (({"z": good}, '"z" is no input of the model: its inputs are "x".*"x" is missing'),
                             ({}, '"x" is missing: float32 \\[1, 3, 6, 5\\]'),
                             ({"x": good[0]}, '"x" is float32 \\[3, 6, 5\\]: the model has float32 \\[1, 3, 6, 5\\]'),
                             ({"x": good.astype(np.float64)}, '"x" is float64'),
                             ({"x": np.array([None])}, "in.npz")):
            np.savez(path, **arrays)
            self.refused(said, "run", plain(), "--inputs", path, "-o", self.folder / "out")
        path.write_bytes(b"PK no zip")
        self.refused("in.npz is no .npz file", "run", plain(), "--inputs", path, "-o", self.folder / "out")
        self.refused("absent.npz", "run", plain(), "--inputs", self.folder / "absent.npz", "-o", self.folder / "out")

    def test_a_folder_that_cannot_be(self):
        (self.folder / "file").write_text("")
        self.refused("file/out", "run", plain(), "-o", self.folder / "file" / "out")
        self.refused("file/out", "compile", plain(), "-o", self.folder / "file" / "out")

    # ---- Memory

    def program(self, more="", callback="", last=""):
        """What a C program says that calls the network wrongly, then rightly."""
        source = self.folder / "main.c"
        source.write_text(PROGRAM.replace("CALLBACK", callback).replace("MORE", more).replace("LAST", last))
        runtime = [ROOT / "runtime" / name for name in ("status.cpp", "message.cpp", "parallel_for.cpp", "network.cpp", "cpu.cpp")]
        include = ["-I", ROOT / "runtime/include", "-I", ROOT / "runtime", "-I", self.folder / "out"]
        subprocess.run([os.environ.get("CC", "cc"), "-c", source, *include, "-o", self.folder / "main.o", "-Wall", "-Werror"],
                       check=True)
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++17", self.folder / "main.o", *runtime, *include,
                        self.folder / "out/libnet.a", "-lm", "-o", self.folder / "main"], check=True)
        result = subprocess.run([self.folder / "main"], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout.splitlines()

    def check_refusals(self, lines):
        for line, name in zip(lines, ("x", "y", "x", "arena", "arena")):
            self.assertRegex(line, rf"^\d: 1 .*\b{name}\b")

    def expected(self, model):
        from onnx.reference import ReferenceEvaluator

        x = (np.arange(90) % 7 - 3).astype(np.float32).reshape(1, 3, 6, 5)
        return ReferenceEvaluator(model).run(None, {"x": x})[0]

    def test_pointers(self):
        self.compiled(plain())
        *lines, said, values = self.program()
        self.check_refusals(lines)
        self.assertEqual(said.strip(), "6: 0")
        y = self.expected(plain()).reshape(-1)
        np.testing.assert_allclose([float(text) for text in values.split()[1:]], [y[0], y[-1]], rtol=1e-4, atol=1e-5)

    # ---- Nodes that nobody knows

    def test_an_unknown_operator_becomes_a_callback(self):
        said = self.compiled(foreign())
        self.assertRegex(said, "1 callbacks")
        self.assertRegex(said, "note: the program computes it: my node")
        header = (self.folder / "out/net.h").read_text()
        self.assertRegex(header, r'kiln_callback my_node; /\* computes "my node": float32 \[1\]\[4\]\[6\]\[5\] -> ')
        *lines, none, said, values = self.program(
            ", .context = &factor, .my_node = twice", CALLBACK, "bad = good, bad.my_node = NULL;\n    check(5, bad);")
        self.check_refusals(lines)
        self.assertRegex(none, r"^5: 1 .*\bmy_node\b")
        self.assertEqual(said.strip(), "6: 0")
        y = self.expected(model_of([CONV, helper.make_node("Add", ["c", "c"], ["d"]), helper.make_node("Relu", ["d"], ["y"])],
                                   [X], [Y], [W])).reshape(-1)
        np.testing.assert_allclose([float(text) for text in values.split()[1:]], [y[0], y[-1]], rtol=1e-4, atol=1e-5)

    def test_an_unknown_operator_of_unknown_shape(self):
        # What it hands on is nobody else's: both nodes are one callback. Without a shape for the result there is none.
        self.assertRegex(self.compiled(foreign(shape=False)), "the program computes it: my node, relu: ")
        model = foreign(shape=False)
        del model.graph.output[:]
        model.graph.output.append(value("y", None))
        self.refused('"y"|"d"', "compile", model, "-o", self.folder / "out")

    def test_a_callback_is_for_programs(self):
        for command in ("verify", "bench"):
            self.refused("my node", command, foreign())
        self.refused("my node", "run", foreign(), "-o", self.folder / "out")


if __name__ == "__main__":
    unittest.main()
