"""kiln calibrate: a row of every figure, in numbers and as generators/targets/cores.h has it; what it refuses. Two minutes on an idle machine."""

import json
import re
import shutil
import subprocess
import unittest
from pathlib import Path

import kiln_run

TARGET = "x86-64-avx2"
CACHES = ("l1", "l2", "last", "memory")
# Those that a target may have no instruction for, with who has it.
NOT_EVERYWHERE = {"bf16_sums_per_cycle": ("x86-64-zen5", "x86-64-zen4", "x86-64-amx", "x86-64-sapphire-rapids")}


def figures():
    """The names of a row's numbers, as the header has them."""
    text = (Path(__file__).parents[2] / "generators/targets/core_model.h").read_text()
    body = text[text.index("struct CoreModel {"):text.index("struct CoreFigure {")]
    return re.findall(r"\b(\w+_(?:per_cycle|latency|beside_adds)) = ", body)


class Calibrate(unittest.TestCase):
    def kiln(self, *arguments):
        return subprocess.run([kiln_run.kiln(), "calibrate", *arguments], capture_output=True, text=True, check=False)

    def answer(self, *arguments):
        process = self.kiln("--json", *arguments)
        self.assertEqual(process.returncode, 0, process.stderr)
        return json.loads(process.stdout)

    def check_figures(self, target, row):
        """Every figure is there, and positive where the target has what it is of."""
        names = figures()
        self.assertGreater(len(names), 8)
        for name in names:
            wanted = name not in NOT_EVERYWHERE or target in NOT_EVERYWHERE[name]
            self.assertTrue(row[name] > 0 if wanted else row[name] == 0, (name, row))

    def check_row(self, answer, target):
        self.assertEqual(answer["target"], target)
        self.assertGreater(answer["gigahertz"], 0)
        self.assertEqual(answer["row"]["figures"], f"kiln calibrate on {answer['processor']}")
        self.check_figures(target, answer["row"])
        for width in answer["widths"]:
            self.check_figures(target, width)
        for cache in CACHES:
            for rate in ("read", "write", "latency"):
                self.assertGreater(answer["row"][cache][rate], 0, (cache, rate))
        sizes = [cache["bytes"] for cache in answer["caches"]]
        self.assertEqual(sizes, sorted(sizes))
        self.assertEqual(answer["row"]["l1"]["bytes"], sizes[0] // (2 if answer["caches"][0]["cores"] > 1 else 1))
        self.assertNotIn("bytes", answer["row"]["memory"])

    def test_this_machine(self):
        answer = self.answer("--target", TARGET)
        self.check_row(answer, TARGET)
        self.assertEqual([width["bits"] for width in answer["widths"]], [128, 256])

    def test_the_row_as_it_is_written(self):
        """The text has what JSON has: the same names, each once, in the order of the struct, as initializers want it."""
        process = self.kiln("--target", TARGET, "--caches", "16K,64K")
        self.assertEqual(process.returncode, 0, process.stderr)
        row = process.stdout[process.stdout.index("constexpr CoreModel"):]
        self.assertEqual(re.findall(r"^    \.(\w+) = ", row, re.MULTILINE), [*figures(), *CACHES])
        self.assertIn(".l1 = {.bytes = 16 << 10, ", row)
        self.assertIn(".l2 = {.bytes = 64 << 10, ", row)
        self.assertIn(".last = {.bytes = 64 << 10, ", row)
        self.assertRegex(process.stdout, r"cache 2 +64 KB +1 ")

    def test_through_an_emulator(self):
        answer = self.answer("--caches", "4K,8K", *kiln_run.target_option("arm-64-linux"))
        self.check_row(answer, "arm-64-linux")
        self.assertEqual([width["bits"] for width in answer["widths"]], [128])

    @unittest.skipUnless(shutil.which("llvm-mca-19") or shutil.which("llvm-mca"), "there is no llvm-mca")
    def test_predicted(self):
        for target, cpu, widths in (("x86-64-zen4", "znver4", 3), ("x86-64-avxvnni", "sapphirerapids", 2),
                                    ("arm-64-linux-dotprod-fp16", "neoverse-v1", 1)):
            answer = self.answer("--target", target, "--predict", cpu)
            self.assertRegex(answer["row"]["figures"], f"predicted by llvm-mca .* for {cpu}")
            self.assertEqual(len(answer["widths"]), widths)
            self.check_figures(target, answer["row"])
            self.assertNotIn("l1", answer["row"])
            self.assertEqual(answer["row"]["fma_latency"], 4)

    def test_refused(self):
        for arguments, words, status in (
                (["--caches", "48"], "--caches: 48: write one to three sizes", 2),
                (["--caches", "1K,2K,3K,4K"], "write one to three sizes", 2),
                (["--predict", "znver4", "--caches", "4K"], "--caches", 2),
                (["--target", "z80"], 'target "z80"', 1),
                (["--target", "riscv-64-linux"], "riscv-64-linux cannot be calibrated: there are loops for x86-64 and 64-bit ARM", 1),
                (["--target", "cuda"], "cuda cannot be calibrated", 1),
                (["--target", "x86-64-avx2", "--predict", "i386"], "--predict i386", 1)):
            process = self.kiln(*arguments)
            self.assertEqual(process.returncode, status, process.stderr)
            self.assertIn(words, process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
