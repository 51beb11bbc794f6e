"""Runs the lines of tests/cases/regressions.jsonl: layers that failed once, each on its target, by its engine and decision.

A line is {"target", "engine", "step", "decision", "layer", "class"}: step is run or verify (trials.py), decision a line of a
decisions file or null, layer as layers.py has it, class what failed when it was found. `./dev soak` adds lines. One that is not
mended yet may be told to be "open": it then has to fail, so that whoever mends it takes the word off. One that was mended by
refusing its decision has the words of the refusal, "refused".
"""

import itertools
import json
import unittest
from pathlib import Path

import parts
import targets
import trials

PATH = Path(__file__).resolve().parents[1] / "cases/regressions.jsonl"


def line(layer, target, engine, step, decision, verdict):
    return {"target": target, "engine": engine, "step": step, "decision": decision, "layer": layer,
            "class": verdict.failure_class}  # fmt: skip


def kind_of(failure):
    """Failures of one kind are taken to have one cause."""
    layer = failure["layer"]
    return f"{failure['target']}, {failure['engine']}, {layer['operator']}, {layer['dtype']}: {failure['class']}"


def lines_of(path):
    return [text for text in path.read_text().splitlines() if text.strip()] if path.exists() else []


def read(path=PATH):
    return [json.loads(text) for text in lines_of(path)]


def add(path, failure):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(failure) + "\n")


def group_of(failure):
    return json.dumps([failure[key] for key in ("target", "engine", "step", "decision")])


def verdicts(failures, jobs=None):
    """Of each line, in their order; those that differ in their layer alone are compiled and linked together."""
    found, by_default = {}, verdicts_by_default(failures, jobs)
    numbered = sorted(enumerate(failures), key=lambda pair: group_of(pair[1]))
    for _, group in itertools.groupby(numbered, key=lambda pair: group_of(pair[1])):
        numbers, lines = zip(*group)
        found |= zip(numbers, verdicts_of_group(lines, [by_default.get(number) for number in numbers], jobs))
    return [found[number] for number in range(len(failures))]


def is_run(failure):
    """Whether it is tried by kiln run, rather than by kiln verify."""
    return failure["step"] == trials.RUN or targets.way(failure["target"]) == targets.COMPILED


def verdicts_by_default(failures, jobs):
    """{number: verdict by kiln run} of the lines for kiln verify, which takes problems: how their default kernels do is not what
    is asked. Those of one target are compiled together."""
    found = {}
    engine_of = lambda number: (failures[number]["target"], failures[number]["engine"])
    numbers = sorted((number for number, failure in enumerate(failures) if not is_run(failure)), key=engine_of)
    for (target, engine), group in itertools.groupby(numbers, key=engine_of):
        group = list(group)
        found |= zip(group, trials.run([failures[number]["layer"] for number in group], target, engine, jobs=jobs))
    return found


def verdicts_of_group(lines, by_default, jobs):
    target, engine, decision = (lines[0][key] for key in ("target", "engine", "decision"))
    decisions = [decision] if decision else []
    tried = [each["layer"] for each in lines]
    if is_run(lines[0]):
        return trials.run(tried, target, engine, decisions, jobs)
    texts = [verdict.problem for verdict in by_default if verdict.problem]
    told = dict(zip(texts, trials.verify(texts, target, decisions, jobs)[0])) if texts else {}
    return [told.get(verdict.problem, verdict) for verdict in by_default]


class Regressions(unittest.TestCase):
    def test_lines(self):
        failures = parts.part(read())
        self.assertGreater(len(failures), 0)
        for failure, verdict in zip(failures, verdicts(failures)):
            with self.subTest(json.dumps(failure)):
                if failure.get("open"):
                    print(f"known to fail on {failure['target']}: {verdict.problem}: {verdict.failure}")
                    self.assertNotEqual(verdict.failure, "", 'it is mended: take "open" off')
                elif failure.get("refused"):
                    self.assertIn(failure["refused"], verdict.failure)
                else:
                    self.assertEqual(verdict.failure, "")
        unseen = {failure["target"] for failure in failures if targets.way(failure["target"]) == targets.COMPILED}
        for target in sorted(unseen):
            print(f"those of {target} were COMPILED AND LINKED ALONE, no value was seen: {targets.lacks(target)}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
