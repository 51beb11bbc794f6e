"""Random problems against the NumPy reference: every operator, type, rank and layout in turn, through one engine.

KILN_ENGINE is specialized or generic; KILN_RANDOM_SEED and KILN_RANDOM_COUNT choose other problems. Each depends on the
seed and its own number alone, so that KILN_RANDOM_ONLY=N draws just the one that failed.
"""

import json
import os
import tempfile
import unittest
from pathlib import Path

import kiln_run
import numpy as np
import problems
import support_table

ENGINE = os.environ.get("KILN_ENGINE", "specialized")
SEED = int(os.environ.get("KILN_RANDOM_SEED", 20240611))
COUNT = int(os.environ.get("KILN_RANDOM_COUNT", {"specialized": 300, "generic": 5000}[ENGINE]))
ONLY = os.environ.get("KILN_RANDOM_ONLY")

# GPUs' kernels are of fewer types; what the others get is an error.
ON_GPU = os.environ.get("KILN_TARGET") in ("opencl", "cuda")
GPU_TYPES = ("float32", "float16")
CELLS = [cell for cell in problems.CELLS if not ON_GPU or cell[1] in GPU_TYPES]

MOST_PRODUCTS = {"specialized": 2_000_000, "generic": 300_000}[ENGINE]

# What kiln verify runs as well, with threads: one in so many problems; of the generic engine, so many draws of each row.
VERIFIED_SHARE = 8
GENERIC_ROWS = ["conv2d_f32", "convtranspose2d_f32", "deformconv2d_f32", "conv1d_bf16", "conv3d_s8"]
GENERIC_DRAWS = min(40, COUNT // 50)


def excess(output, expected, bound):
    """By how much each element is beyond its bound."""
    # What rounds to infinity is right to be infinite.
    limit = np.finfo(output.dtype).max if output.dtype.kind == "f" else np.inf
    overflows = np.isinf(output) & (abs(expected.y) + bound > limit) & (np.sign(output) == np.sign(expected.y))
    with np.errstate(invalid="ignore"):
        difference = abs(output.astype(expected.y.dtype) - expected.y) - bound
    difference = np.where(np.isnan(difference), np.inf, difference)
    return np.where(overflows, 0, difference)


class RandomProblems(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        numbers = range(COUNT) if ONLY is None else [int(ONLY)]
        print(f"{len(numbers)} problems, engine {ENGINE}, seed {SEED}", flush=True)
        cls.draws = {f"random{n}": problems.draw(SEED, n, MOST_PRODUCTS, CELLS) for n in numbers}
        cases = [draw.case(name) for name, draw in cls.draws.items()]
        with tempfile.TemporaryDirectory() as folder:
            cls.answers, cls.outputs, _ = kiln_run.run(cases, folder, "--engine", ENGINE)

    def describe(self, answer):
        name, problem = answer["name"], answer.get("problem", "no problem")
        rerun = f"KILN_ENGINE={ENGINE} KILN_RANDOM_SEED={SEED} KILN_RANDOM_ONLY={name[len('random') :]}"
        return f"{self.draws[name].describe()}; {problem}; to rerun: {rerun}"

    def check(self, answer):
        draw = self.draws[answer["name"]]
        self.assertEqual(answer["status"], "ok", answer)
        expected = draw.expected()
        output = self.outputs[answer["name"]]
        output = draw.from_document_order(problems.decode(output, draw.y_type()))
        self.assertEqual(answer["output_shape"], list(draw.in_document_order(expected.y).shape))
        self.assertEqual(output.shape, expected.y.shape)
        self.assertEqual((answer["pads_begin"], answer["pads_end"]), (draw.geometry.begin, draw.geometry.end))
        if output.size == 0:
            return
        winograd = "winograd" in answer["kernel"]
        beyond = excess(output, expected, expected.winograd_bound if winograd else expected.bound)
        worst = np.unravel_index(np.argmax(beyond), beyond.shape)
        at = [int(i) for i in worst]
        self.assertLessEqual(beyond[worst], 0, f"y{at} is {output[worst]}, expected {expected.y[worst]}")

    def test_values(self):
        wrong = set()
        for answer in self.answers:
            with self.subTest(self.describe(answer)):
                try:
                    self.check(answer)
                except AssertionError:
                    wrong.add(answer["name"])
                    raise
        print(f"{len(self.answers) - len(wrong)} of {len(self.answers)} right", flush=True)
        self.check_support_table(wrong)

    def check_support_table(self, wrong):
        """docs/support.md tells what was found; a run of too few problems for all its cells says nothing."""
        cells = {draw.cell for draw in self.draws.values()}
        if cells != set(problems.CELLS):
            return
        right = cells - {self.draws[name].cell for name in wrong}
        if "KILN_UPDATE_SUPPORT" in os.environ:
            support_table.update(ENGINE, right)
        self.assertEqual(support_table.sections()[ENGINE], support_table.section(ENGINE, right), "docs/support.md")

    def test_threads(self):
        """Problems in kiln verify, which runs each kernel in one thread, in two, and in three runs at once."""
        if ENGINE == "generic":
            self.verify(kiln_run.generic_rows(GENERIC_ROWS), "--draws", str(GENERIC_DRAWS))
            return
        texts = {a["name"]: a["problem"] for a in self.answers[::VERIFIED_SHARE] if a["status"] == "ok"}
        layers = "".join(f'[[layer]]\nname = "{name}"\nproblem = "{text}"\n' for name, text in texts.items())
        self.verify(layers)
        if ON_GPU:
            return
        for algorithm in ("winograd", "strassen"):
            rows = self.verify(layers, decision={"problem": "*", "algorithm": algorithm})
            if len(texts) >= 30 and algorithm == "winograd":
                self.assertTrue(any(row["algorithm"] == algorithm for row in rows), "no problem that it applies to")

    @unittest.skipUnless(ON_GPU, "of GPUs")
    def test_other_types_are_unsupported(self):
        cells = [cell for cell in problems.CELLS if cell[1] not in GPU_TYPES and cell[2] == 2]
        draws = {f"other{n}": problems.draw(SEED, n, MOST_PRODUCTS, cells) for n in range(len(cells))}
        with tempfile.TemporaryDirectory() as folder:
            answers, _, _ = kiln_run.run([draw.case(name) for name, draw in draws.items()], folder)
        self.assertGreater(len(answers), 20)
        for answer in answers:
            with self.subTest(draws[answer["name"]].describe()):
                self.assertEqual((answer["status"], answer.get("code")), ("error", "unsupported"), answer)
                self.assertRegex(answer["message"], f"type .* has no kernels on {os.environ['KILN_TARGET']}")

    def verify(self, layers, *options, decision=None):
        """`decision` names an algorithm wherever it applies, in place of the defaults."""
        with tempfile.TemporaryDirectory() as folder:
            spec = Path(folder) / "layers.toml"
            spec.write_text(layers)
            if decision:
                spec.with_suffix(".jsonl").write_text(json.dumps(decision))
                options = [*options, "--decisions", spec.with_suffix(".jsonl")]
            rows = kiln_run.verify(spec, "--seed", str(SEED), *options)
        self.assertGreaterEqual(len(rows), layers.count("[[layer]]"))
        for row in rows:
            with self.subTest(row.get("problem", row["layer"])):
                self.assertEqual(row["verdict"], "ok", row)
        return rows


if __name__ == "__main__":
    unittest.main(verbosity=2)
