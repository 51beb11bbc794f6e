"""What a compiled library promises besides right values: the same bytes each time, nothing of Halide, no heap."""

import filecmp
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import kiln_run

ROOT = Path(__file__).resolve().parents[2]

# Both operators, with scratch and without, in both layouts.
LAYERS = """
[defaults]
bias = true
[[layer]]
name = "conv"
operator = "Conv"
x = [1, 32, 20, 20]
w = [48, 32, 3, 3]
pads = [1, 1, 1, 1]
layouts = { x = "NXC", y = "NXC" }
activation = "Relu"
[[layer]]
name = "stem"
operator = "Conv"
x = [1, 3, 33, 33]
w = [16, 3, 7, 7]
pads = [3, 3, 3, 3]
strides = [2, 2]
[[layer]]
name = "depthwise"
operator = "Conv"
x = [2, 24, 17, 17]
w = [24, 1, 3, 3]
group = 24
dilations = [2, 2]
[[layer]]
name = "up"
operator = "ConvTranspose"
x = [1, 24, 9, 9]
w = [24, 12, 4, 4]
pads = [1, 1, 1, 1]
strides = [2, 2]
layouts = { x = "NXC", y = "NXC" }
[[layer]]
name = "up_ncx"
operator = "ConvTranspose"
x = [1, 8, 30]
w = [8, 5, 3]
strides = [3]
"""


class CompiledLibrary(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        (cls.folder / "layers.toml").write_text(LAYERS)
        cls.first = cls.compile("first", "--jobs", "2")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def compile(cls, folder, *options):
        out = cls.folder / folder
        command = [kiln_run.kiln(), "compile", cls.folder / "layers.toml", "-o", out, "--name", "net", *options]
        subprocess.run(command, check=True)
        return out

    def symbols(self):
        """Lines of nm: (kind, name)."""
        output = subprocess.run(["nm", self.first / "libnet.a"], capture_output=True, text=True, check=True).stdout
        return [tuple(line.split()[-2:]) for line in output.splitlines() if len(line.split()) >= 2]

    def test_two_compilations_are_the_same_bytes(self):
        second = self.compile("second/elsewhere", "--jobs", "1")
        names = sorted(p.name for p in self.first.iterdir())
        self.assertEqual(names, ["libnet.a", "net.h", "net.json"])
        for name in names:
            self.assertTrue(filecmp.cmp(self.first / name, second / name, shallow=False), f"{name} differs")

    def test_nothing_of_halide_is_defined_or_needed(self):
        symbols = self.symbols()
        self.assertTrue(any("net" in name for _, name in symbols), "nm found none of the library's own symbols")
        self.assertEqual([s for s in symbols if "halide" in s[1].lower()], [])

    def test_needs_no_allocator(self):
        needed = {name for kind, name in self.symbols() if kind == "U"}
        self.assertEqual(needed & {"malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "_Znwm"}, set())

    def test_a_run_makes_no_heap_call(self):
        program = self.folder / "no_heap"
        runtime = sorted(str(p) for p in (ROOT / "runtime").rglob("*.cpp"))
        compiler = os.environ.get("CXX", "c++").split()
        command = [
            *compiler, "-std=c++17", "-O1", f"-I{ROOT / 'runtime/include'}", f"-I{ROOT / 'runtime'}", f"-I{self.first}",
            '-DKILN_LIBRARY_HEADER="net.h"', "-DKILN_LIBRARY=net_library", ROOT / "tests/kernels/no_heap.cpp", *runtime,
            self.first / "libnet.a", "-o", program,
        ]  # fmt: skip
        subprocess.run(command, check=True)
        output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        self.assertEqual(output, "heap calls: 0\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
