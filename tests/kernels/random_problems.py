"""Random problems against the NumPy reference: every operator, type, rank and layout in turn, on one target, by one engine.

KILN_TARGET is the target, this machine's best one unless said; where it cannot be run here and has no emulator, its kernels are
compiled and linked, and the output says so. KILN_ENGINE is specialized or generic; KILN_RANDOM_SEED, KILN_RANDOM_FIRST and
KILN_RANDOM_COUNT choose other problems, of whose numbers a run goes through its part (parts.py); KILN_ALGORITHM asks for one
algorithm throughout. Each depends on the seed and its own number alone, so that KILN_RANDOM_ONLY=N draws just the one that failed.
"""

import os
import unittest

import kiln_run
import layers
import parts
import problems
import support_table
import targets
import trials

ENGINE = os.environ.get("KILN_ENGINE", "specialized")
TARGET = os.environ.get("KILN_TARGET", "host")
SEED = int(os.environ.get("KILN_RANDOM_SEED", 20240611))
ALGORITHM = os.environ.get("KILN_ALGORITHM")
FIRST = int(os.environ.get("KILN_RANDOM_FIRST", 0))
COUNT = int(os.environ.get("KILN_RANDOM_COUNT", {"specialized": 300, "generic": 1500}[ENGINE]))
ONLY = os.environ.get("KILN_RANDOM_ONLY")

MOST_PRODUCTS = {"specialized": 2_000_000, "generic": 300_000}[ENGINE]

# GPUs' kernels are of fewer types; what the others get is an error.
ON_GPU = targets.is_gpu(TARGET)
CELLS = [cell for cell in problems.CELLS if not ON_GPU or cell[1] in trials.GPU_TYPES]

# What kiln verify runs as well, with threads: one in so many problems; of the generic engine, so many draws of each row.
VERIFIED_SHARE = 8
GENERIC_ROWS = ["conv2d_f32", "convtranspose2d_f32", "deformconv2d_f32", "conv1d_bf16", "conv3d_s8"]
PROBLEMS_A_DRAW, MOST_DRAWS = 50, 40


class RandomProblems(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.numbers = parts.part(range(FIRST, FIRST + COUNT)) if ONLY is None else [int(ONLY)]
        cls.way = targets.way(TARGET)
        print(f"{len(cls.numbers)} problems, engine {ENGINE}, target {TARGET} ({cls.way}), seed {SEED}", flush=True)
        cls.layers = [problems.draw(SEED, number, MOST_PRODUCTS, CELLS) for number in cls.numbers]
        decisions = [{"problem": "*", "algorithm": ALGORITHM}] if ALGORITHM else ()
        cls.verdicts = trials.run(cls.layers, TARGET, ENGINE, decisions)

    def describe(self, number, layer, verdict):
        rerun = f"KILN_TARGET={TARGET} KILN_ENGINE={ENGINE} KILN_RANDOM_SEED={SEED} KILN_RANDOM_ONLY={number}"
        return f"{layer}; {verdict.problem or 'no problem'}; to rerun: {rerun}"

    def test_values(self):
        for number, layer, verdict in zip(self.numbers, self.layers, self.verdicts):
            with self.subTest(self.describe(number, layer, verdict)):
                self.assertEqual(verdict.failure, "")
                if ALGORITHM and "@" in verdict.kernel and "empty" not in verdict.kernel:
                    self.assertEqual(verdict.kernel.split("@")[0], ALGORITHM)
        told = {kind: sum(v.kind == kind and not v.failure for v in self.verdicts) for kind in ("right", "unsupported")}
        if self.way == targets.COMPILED:
            compiled = sum(v.kind == "not run" and not v.failure for v in self.verdicts)
            print(f"{compiled} of {len(self.verdicts)} COMPILED AND LINKED ALONE, no value was seen: {targets.lacks(TARGET)}")
        else:
            print(f"{told['right'] + told['unsupported']} of {len(self.verdicts)} right, {told['unsupported']} unsupported")
        self.check_support_table()

    def check_support_table(self):
        """docs/support.md says of the cells that were tried what was found."""
        target = TARGET
        if target == "host":
            target = next(v.kernel for v in self.verdicts if "@" in v.kernel).split("@")[1]
        if ON_GPU or ALGORITHM:
            return
        found = {}
        for layer, verdict in zip(self.layers, self.verdicts):
            cell = problems.cell_of(layer)
            right = not verdict.failure and verdict.kind != "unsupported"
            found[cell] = right and found.get(cell, True)
        if "KILN_UPDATE_SUPPORT" in os.environ:
            support_table.update(ENGINE, target, self.way, found)
        self.assertEqual(support_table.contradictions(ENGINE, target, found), [], "docs/support.md")

    def test_threads(self):
        """Problems in kiln verify, which runs each kernel in one thread, in two, and in three runs at once: by default, by other
        algorithms, and by points drawn from the spaces that tuning goes through."""
        if self.way == targets.COMPILED:
            print(f"kiln verify was not run: {targets.lacks(TARGET)}")
            return
        if ENGINE == "generic":
            draws = min(MOST_DRAWS, max(1, len(self.numbers) // PROBLEMS_A_DRAW))
            self.check_rows(kiln_run.verify_layers(kiln_run.generic_rows(GENERIC_ROWS), "--draws", str(draws)))
            return
        texts = [v.problem for v in self.verdicts if v.kind == "right" and not v.failure][::VERIFIED_SHARE]
        self.verify(texts)
        if ALGORITHM:
            return
        self.verify(texts, {"problem": "*", "draw": SEED})
        if ON_GPU:
            return
        for algorithm in ("winograd", "strassen", "gemm", "kn2row", "inner_product"):
            rows = self.verify(texts, {"problem": "*", "algorithm": algorithm})
            if len(texts) >= 30 and algorithm == "winograd":
                self.assertTrue(any(row["algorithm"] == algorithm for row in rows), "no problem that it applies to")

    def verify(self, texts, *decisions):
        verdicts, rows = trials.verify(texts, TARGET, decisions, seed=SEED)
        for text, verdict in zip(texts, verdicts):
            with self.subTest(text, decisions=decisions):
                self.assertEqual(verdict.failure, "")
        return rows

    def check_rows(self, rows):
        self.assertGreaterEqual(len(rows), len(GENERIC_ROWS))
        for row in rows:
            with self.subTest(row.get("problem", row["layer"])):
                self.assertEqual(row["verdict"], "ok", row)

    @unittest.skipUnless(ON_GPU, "of GPUs")
    def test_other_types_are_unsupported(self):
        cells = [cell for cell in problems.CELLS if cell[1] not in trials.GPU_TYPES and cell[2] == 2]
        drawn = [problems.draw(SEED, number, MOST_PRODUCTS, cells) for number in range(len(cells))]
        self.assertGreater(len(drawn), 10)
        answers = kiln_run.run_layers([layers.Layer(layer).case(f"other{n}") for n, layer in enumerate(drawn)])
        for layer, answer in zip(drawn, answers):
            with self.subTest(layer):
                self.assertEqual((answer["status"], answer.get("code")), ("error", "unsupported"), answer)
                self.assertRegex(answer["message"], f"type .* has no kernels on {TARGET}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
