"""What a compiled library promises besides right values: the same bytes each time, nothing of Halide, no heap."""

import filecmp
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import kiln_run
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(kiln_run.kiln()).parents[1]
LAYERS = ROOT / "tests/cases/small.toml"

class CompiledLibrary(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        cls.first = cls.compile("first", "--jobs", "2")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def compile(cls, folder, *options):
        out = cls.folder / folder
        kiln_run.compile_layers(LAYERS, "-o", out, "--name", "net", *options)
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

    def build(self, main, library, *built):
        """Compiles a program with the library and the runtime, or with libraries that hold that and more. Returns its path."""
        program = self.folder / Path(main).stem
        compiler = os.environ.get("CXX", "c++").split()
        sources = () if built else sorted((ROOT / "runtime").rglob("*.cpp"))
        command = [
            *compiler, "-std=c++17", "-O1", "-pthread", f"-I{library}", '-DKILN_LIBRARY_HEADER="net.h"',
            "-DKILN_LIBRARY=net_library", *(f"-I{ROOT / i}" for i in ("runtime/include", "runtime", "tools", "tests")),
            ROOT / main, *sources, library / "libnet.a", *built, "-o", program,
        ]  # fmt: skip
        subprocess.run(command, check=True)
        return program

    def test_a_run_makes_no_heap_call(self):
        program = self.build("tests/kernels/no_heap.cpp", self.first)
        output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        self.assertEqual(output, "heap calls: 0\n")

    def test_flat_functions_from_c(self):
        compiler = os.environ.get("CC", "cc").split()
        compiled = self.folder / "flat_function.o"
        command = [*compiler, "-std=c11", "-Wall", "-Werror", f"-I{ROOT / 'runtime/include'}", f"-I{self.first}", "-c"]
        subprocess.run([*command, ROOT / "tests/kernels/flat_function.c", "-o", compiled], check=True)
        program = self.folder / "flat_function"
        runtime = [ROOT / "runtime" / name for name in ("cpu.cpp", "message.cpp", "parallel_for.cpp")]
        linker = [*os.environ.get("CXX", "c++").split(), "-std=c++17", f"-I{ROOT / 'runtime/include'}"]
        subprocess.run([*linker, compiled, *runtime, self.first / "libnet.a", "-lm", "-o", program], check=True)
        self.assertEqual(subprocess.run([program], check=False).returncode, 0)

    def test_embedded_weights(self):
        """The harness compares a layer with embedded weights to the reference on the same weights."""
        weights = np.random.default_rng(3).standard_normal((24, 12, 4, 4)).astype(np.float32)
        bias = np.random.default_rng(4).standard_normal(12).astype(np.float32)
        np.save(self.folder / "w.npy", weights)
        np.save(self.folder / "b.npy", bias)
        spec = self.folder / "embedded.toml"
        spec.write_text(
            "[[layer]]\nname = 'up'\noperator = 'ConvTranspose'\nx = [1, 24, 9, 9]\nw = [24, 12, 4, 4]\n"
            "strides = [2, 2]\npads = [1, 1, 1, 1]\nweights = 'w.npy'\nbias = true\nbias_values = 'b.npy'\n"
        )
        out = self.folder / "embedded"
        kiln_run.compile_layers(spec, "-o", out, "--name", "net", "--embed-weights")
        program = self.build("tools/harness/main.cpp", out, BUILD / "libkiln_harness.a", BUILD / "runtime/libkiln_runtime.a")
        weights.tofile(self.folder / "up.w.bin")
        bias.tofile(self.folder / "up.b.bin")

        def verdicts():
            command = [program, "verify", "--json", "--weights-dir", self.folder]
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            return [json.loads(line)["verdict"] for line in process.stdout.splitlines()]

        self.assertEqual(verdicts(), ["ok", "ok"])
        for array, index, file in (weights, (3, 4, 1, 2), "up.w.bin"), (bias, 5, "up.b.bin"):
            with self.subTest(file):
                array[index] += 1
                array.tofile(self.folder / file)
                kernel, embedded = verdicts()
                self.assertEqual(kernel, "ok")
                self.assertRegex(embedded, "^failed: y")
                array[index] -= 1
                array.tofile(self.folder / file)

    def test_open_sizes_from_c(self):
        """One layer for any image: several targets' kernels, weights embedded, memory told for the sizes at hand."""
        np.save(self.folder / "ones.npy", np.ones((8, 8, 3, 3), np.float32))
        spec = self.folder / "open.toml"
        spec.write_text(
            "[[layer]]\nname = 'any'\noperator = 'Conv'\nx = [1, 8, '?', '?']\nw = [8, 8, 3, 3]\npads = [1, 1, 1, 1]\n"
            "layouts = { x = 'NXC', y = 'NXC' }\nweights = 'ones.npy'\n"
        )
        out = self.folder / "open"
        targets = ["--target", "x86-64-avx2", "--target", "x86-64-avx512"]
        options = ["-o", out, "--name", "net", "--embed-weights", *targets]
        kiln_run.compile_layers(spec, *options)
        compiled, program = self.folder / "open_sizes.o", self.folder / "open_sizes"
        compiler = [*os.environ.get("CC", "cc").split(), "-std=c11", "-Wall", "-Werror"]
        includes = [f"-I{ROOT / 'runtime/include'}", f"-I{out}"]
        subprocess.run([*compiler, *includes, "-c", ROOT / "tests/kernels/open_sizes.c", "-o", compiled], check=True)
        runtime = [ROOT / "runtime" / name for name in ("cpu.cpp", "image_parts.cpp", "message.cpp", "parallel_for.cpp")]
        linker = [*os.environ.get("CXX", "c++").split(), "-std=c++17", includes[0]]
        subprocess.run([*linker, compiled, *runtime, out / "libnet.a", "-lm", "-o", program], check=True)
        process = subprocess.run([program], capture_output=True, text=True, check=False)
        self.assertEqual((process.returncode, process.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
