"""Layers whose kernels once failed: right on each target whose programs run here, and on every other compiled, needing
nothing that the runtime does not have."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import kiln_run
import parts
import targets

CASES = Path(__file__).resolve().parents[1] / "cases"
LAYERS, FLOAT64 = CASES / "regressions.toml", CASES / "regressions_f64.toml"

# What a library may leave undefined beside its own names: C's functions, and what the runtime has. Those of AMX ask it for
# the processor's features, since Linux wants to be asked for tiles.
NEEDED = {"memset", "memcpy", "memmove", "kiln_refuse", "kiln_parallel_for", "kiln_parallel_for_outer", "kiln_parallel_for_joined", "kiln_cpu_features"}


def x86_targets():
    """(those whose programs run here, the others)."""
    names = [name for name in targets.all_targets() if name.startswith("x86-64")]
    runnable = [name for name in names if targets.way(name) == targets.RUN]
    return runnable, [name for name in names if name not in runnable]


class Regressions(unittest.TestCase):
    def check(self, layers, target, *options):
        rows = kiln_run.verify(layers, "--target", target, *options)
        self.assertEqual(len({row["layer"] for row in rows}), layers.read_text().count("[[layer]]"))
        for row in rows:
            with self.subTest(row["layer"], target=target):
                self.assertEqual(row["verdict"], "ok", row)

    def test_targets_of_this_processor(self):
        runnable, _ = x86_targets()
        self.assertIn("x86-64-avx2", runnable)
        for target in runnable:
            self.check(LAYERS, target)

    def test_float64_on_32_bit_arm(self):
        self.check(FLOAT64, "arm-32-linux", "--cxx", "arm-linux-gnueabihf-g++", "--runner", "qemu-arm -cpu max")

    def test_other_targets_need_no_other_symbols(self):
        others = parts.part(x86_targets()[1])
        print(f"compiled and not run: {' '.join(others) or 'none'}", flush=True)
        for target in others:
            with self.subTest(target), tempfile.TemporaryDirectory() as folder:
                kiln_run.compile_layers(LAYERS, "-o", folder, "--name", "net", "--target", target)
                names = subprocess.run(["nm", Path(folder) / "libnet.a"], capture_output=True, text=True, check=True)
                undefined = {line.split()[1] for line in names.stdout.splitlines() if line.split()[:1] == ["U"]}
                self.assertTrue(undefined)
                self.assertEqual({name for name in undefined - NEEDED if not name.startswith("net_")}, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
