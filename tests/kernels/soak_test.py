"""The soak with a compiler that only pretends: that failures are found, reduced and kept, and that it goes on where it stopped."""

import concurrent.futures
import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import layers
import problems
import reducer
import soak_regressions
import soak
import soak_totals
import support_table
import targets
import trials

TARGETS = ["x86-64-avx2", "x86-64-amx"]


class Inline(concurrent.futures.Executor):
    """Does at once what it is given, where the mocks are."""

    def __init__(self, max_workers):
        pass

    def submit(self, function, *arguments):
        future = concurrent.futures.Future()
        future.set_result(function(*arguments))
        return future


def is_bad(layer):
    alike = layer["dtype"] == "bfloat16" and layer["operator"] == "Conv"
    return alike and max(layer["kernel"]) >= 2 and layer["channels"] // layer["group"] >= 3


def run(tried, target="host", engine="specialized", decisions=(), jobs=None, time_limit=None):
    """In place of trials.run: bad layers have a wrong value, by default decisions."""
    right = "not run" if targets.way(target) == targets.COMPILED else "right"
    return [
        trials.Verdict("a wrong value: y[3] is 1.5" if is_bad(layer) and not decisions else "", right, json.dumps(layer))
        for layer in tried
    ]


def verify(texts, target="host", decisions=(), jobs=None, seed=1, time_limit=None):
    """In place of trials.verify: drawn decisions are wrong for strides of 3."""
    texts = list(texts)
    return [trials.Verdict("failed: y[0][1] is 2" if is_bad_drawn(text) else "", problem=text) for text in texts], []


def is_bad_drawn(text):
    layer = json.loads(text)
    return 3 in strides(text) and layer["dtype"] == "float32" and layer["operator"] == "ConvTranspose"


def strides(text):
    layer = json.loads(text)
    return layer["attributes"].get(layers.NAMES[layer["dialect"]]["strides"], [])


def decision_of(text, target, decision):
    return {"problem": "*", "algorithm": "direct", "schedule": "lanes:8"}


@mock.patch.dict(soak.WEIGHTS, specialized={targets.RUN: 1, targets.COMPILED: 1})
@mock.patch.multiple(trials, run=run, verify=verify, decision_of=decision_of)
@mock.patch.object(targets, "way", lambda target: targets.COMPILED if target == "x86-64-amx" else targets.RUN)
@mock.patch.object(targets, "all_targets", lambda: {name: {"requires": ["a"], "runs_here": True} for name in TARGETS})
class SoakTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.regressions = self.folder / "regressions.jsonl"

    def soak(self, *arguments):
        """(exit status, what was printed)"""
        options = soak.parse(["--folder", str(self.folder), "--regressions", str(self.regressions), *arguments])
        options.pool = Inline
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            started = soak.Soak(options)
            status = started.run()
            if options.tables:
                started.write_tables()
            return status, said.getvalue()

    def batches(self):
        return [json.loads(line) for line in soak_regressions.lines_of(self.folder / "batches.jsonl")]

    def test_failures_are_reduced_and_kept_once_a_kind(self):
        status, said = self.soak("--targets", "x86-64-avx2", "--batches", "2", "--batch", "60", "--seed", "1")
        self.assertEqual(status, 1)
        self.assertIn("failures of 2 kinds", said)
        kept = {line["step"]: line for line in soak_regressions.read(self.regressions)}
        self.assertEqual(len(soak_regressions.read(self.regressions)), 2)
        value, drawn = kept["run"]["layer"], kept["verify"]["layer"]
        self.assertTrue(is_bad(value))
        self.assertEqual((len(value["sizes"]), value["channels"], value["out_channels"], value["group"]), (1, 3, 1, 1))
        self.assertEqual((len(drawn["sizes"]), drawn["channels"], drawn["activation"]), (1, 1, None))
        self.assertEqual(strides(json.dumps(drawn)), [3])
        self.assertEqual(kept["verify"]["decision"]["schedule"], "lanes:8")
        self.assertEqual([v.failure_class for v in soak_regressions.verdicts(soak_regressions.read(self.regressions))],
                         [line["class"] for line in soak_regressions.read(self.regressions)])  # fmt: skip
        self.soak("--targets", "x86-64-avx2", "--batches", "1", "--batch", "60")
        self.assertEqual(len(soak_regressions.read(self.regressions)), 2)

    def test_goes_on_where_it_stopped(self):
        for _ in range(3):
            self.soak("--targets", *TARGETS, "--batches", "2", "--batch", "5")
        batches = self.batches()
        self.assertEqual(len({batch["seed"] for batch in batches}), 1)
        for target in TARGETS:
            self.assertEqual([b["first"] for b in batches if b["target"] == target], [0, 5, 10])

    def test_targets_have_their_shares_and_draw_layers_of_their_own(self):
        with mock.patch.dict(soak.WEIGHTS, specialized={targets.RUN: 5, targets.COMPILED: 1}):
            self.soak("--targets", *TARGETS, "--batches", "12", "--batch", "6", "--seed", "7")
        tried = {target: sum(b["count"] for b in self.batches() if b["target"] == target) for target in TARGETS}
        self.assertEqual(tried, dict(zip(TARGETS, (60, 12))))
        drawn = [soak.draw(soak.Lane(target, "specialized", 7), 0, 12) for target in TARGETS]
        for first, second in zip(*drawn):
            self.assertNotEqual({**first, "data": None}, {**second, "data": None})

    def test_kinds_are_drawn_alone(self):
        grouped = soak.draw(soak.Lane("x86-64-avx2", "specialized", 7, ["grouped"]), 0, 40)
        self.assertTrue(all(layer["group"] > 1 for layer in grouped))
        for layer in soak.draw(soak.Lane("x86-64-avx2", "specialized", 7, ["patches"]), 0, 40):
            steps = strides(json.dumps(layer))
            self.assertEqual((layer["group"], steps[-1]), (1, layer["kernel"][-1]), layer)
            if layer["operator"] != "ConvTranspose":  # none of x is left
                self.assertEqual(layers.geometry(layer).out[-1] * steps[-1], layer["sizes"][-1], layer)

    def test_a_share_is_tried_by_drawn_decisions(self):
        self.soak("--targets", "x86-64-avx2", "--batches", "1", "--batch", "60", "--seed", "2")
        (batch,) = self.batches()
        self.assertEqual(batch["points"], -(-batch["right"] // soak.DRAWN_SHARE))

    def test_values_that_nobody_saw_are_no_right_ones(self):
        _, said = self.soak("--targets", "x86-64-amx", "--batches", "1", "--batch", "3", "--seed", "5")
        self.assertEqual(self.batches()[0]["right"], 0)
        self.assertIn("x86-64-amx was compiled and linked alone, no value was seen", said)

    def test_totals_are_kept_over_seeds_and_machines(self):
        totals, document = self.folder / "totals.jsonl", self.folder / "support.md"
        document.write_text(support_table.document({}))
        with mock.patch.object(soak_totals, "PATH", totals), mock.patch.object(support_table, "PATH", document):
            for seed in ("1", "1", "2"):  # the first goes on, the last is another machine's
                self.soak("--targets", *TARGETS, "--batches", "2", "--batch", "5", "--seed", seed, "--tables")
            kept = soak_totals.read()
            self.assertEqual([(line["seed"], line["target"], line["count"]) for line in kept],
                             [(seed, target, count) for seed, count in ((1, 10), (2, 5)) for target in sorted(TARGETS)])  # fmt: skip
            for target, way in zip(TARGETS, (targets.RUN, targets.COMPILED)):
                self.assertIn(f"| {target} | specialized | {way} | 15 | 0 |", document.read_text())

    def test_what_was_run_is_not_overwritten_by_what_was_only_compiled(self):
        cell, other = problems.CELLS[0], problems.CELLS[-1]
        document = self.folder / "support.md"
        document.write_text(support_table.document({}))
        with mock.patch.object(support_table, "PATH", document):
            for way, found in ((targets.COMPILED, cell), (targets.RUN, other), (targets.COMPILED, cell)):
                support_table.update("specialized", "x86-64-amx", way, {found: True})
            self.assertEqual(support_table.read()["specialized", "x86-64-amx"], (targets.RUN, {other: True}))

    def test_a_batch_that_answers_nothing_is_halved(self):
        def attempt(tried):
            if 7 in tried:
                raise AssertionError("kiln run gave no results")
            return [trials.Verdict() for _ in tried]

        failures = [v.failure for v in soak.halved(list(range(20)), attempt, trials.Verdict)]
        self.assertEqual([number for number, failure in enumerate(failures) if failure], [7])

    def test_reduces_whatever_is_drawn(self):
        """Layers stay legal on the way, and end small."""
        count = 0
        for number in range(300):
            layer = problems.draw(1, number, 30_000_000, wide=number % 2 == 1)
            if is_bad(layer):
                small = reducer.reduce(layer, lambda tried: [is_bad(each) for each in tried])
                self.assertEqual((len(small["sizes"]), small["channels"] // small["group"]), (1, 3), small)
                self.assertEqual(layers.Layer(small).expected().y.shape[1], small["out_channels"])
                count += 1
        self.assertGreater(count, 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
