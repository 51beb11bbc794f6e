"""Drives `kiln run` for tests: cases with their arrays in, answers with their outputs out."""

import functools
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np

# Another algorithm's kernel is right too, but not what is tested.
NO_STAND_IN = "--no-stand-in"


def kiln():
    """The kiln under test: the environment variable KILN, else the checkout's build."""
    return os.environ.get("KILN", Path(__file__).resolve().parents[2] / "build/bin/kiln")


@functools.cache
def targets():
    """What `kiln targets` tells of each, by name."""
    text = subprocess.run([kiln(), "targets", "--json"], capture_output=True, text=True, check=True).stdout
    return {target["name"]: target for target in json.loads(text)}


def target_option():
    """What selects the target that the environment variable KILN_TARGET names, if any, and how its programs are built and
    run: KILN_CXX and KILN_RUNNER, else as the target's own row says for another machine's."""
    row = targets().get(os.environ.get("KILN_TARGET"), {})
    foreign = {"--cxx": row["compiler"], "--runner": row["emulator"]} if row.get("emulator") else {}
    names = {"KILN_TARGET": "--target", "KILN_CXX": "--cxx", "KILN_RUNNER": "--runner"}
    options = foreign | {option: os.environ[name] for name, option in names.items() if name in os.environ}
    return [word for option in options.items() for word in option]


def write_cases(cases, folder):
    """Writes cases.jsonl and its .npy files. A case is its line, with arrays in place of the paths of its inputs."""
    folder = Path(folder)
    with open(folder / "cases.jsonl", "w") as file:
        for number, case in enumerate(cases):
            line = {key: value for key, value in case.items() if key != "inputs"}
            line["inputs"] = {}
            for name, array in case["inputs"].items():
                np.save(folder / f"{number}.{name}.npy", array)
                line["inputs"][name] = f"{number}.{name}.npy"
            file.write(json.dumps(line) + "\n")
    return folder / "cases.jsonl"


def compile_layers(spec, *options):
    """Compiles all of a layers file's layers, each kernel by the algorithm that was decided."""
    command = [kiln(), "compile", spec, NO_STAND_IN, *options]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise AssertionError(f"kiln compile failed:\n{process.stderr[-4000:]}")


def run(cases, folder, *options):
    """Returns (answers in the order of the cases, outputs by name, the finished process)."""
    path = write_cases(cases, folder)
    out = Path(folder) / "out"
    command = [kiln(), "run", path, "-o", out, NO_STAND_IN, *target_option(), *options]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if not (out / "results.jsonl").exists():
        raise AssertionError(f"kiln run gave no results:\n{process.stderr[-4000:]}")
    answers = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    printed = [json.loads(line) for line in process.stdout.splitlines()]
    assert sorted(a["name"] for a in printed) == sorted(a["name"] for a in answers), "stdout and results.jsonl differ"
    assert [a["name"] for a in answers] == [c["name"] for c in cases], "answers are not in the order of the cases"
    outputs = {a["name"]: np.load(out / a["output"]) for a in answers if a["status"] == "ok"}
    return answers, outputs, process


def verify(spec, *options):
    """Returns the rows of kiln verify, in the order of the layers."""
    command = [kiln(), "verify", spec, "--json", NO_STAND_IN, *target_option(), *options]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in process.stdout.splitlines()]
    if not rows:
        raise AssertionError(f"kiln verify gave no results:\n{process.stderr[-4000:]}")
    return rows


def check_rows(test, rows, algorithm):
    """Each row of kiln verify is ok, and of a kernel by that algorithm."""
    for row in rows:
        with test.subTest(row["layer"], schedule=row.get("schedule")):
            test.assertEqual((row["verdict"], row.get("algorithm")), ("ok", algorithm), row)


def changed_decisions(rows, revision, pattern, replacement):
    """Decisions for the problems of kiln verify's rows: their schedules with what a pattern matches replaced."""
    return [
        {
            "problem": row["problem"],
            "target": row["kernel"],
            "algorithm": row["algorithm"],
            "revision": revision,
            "schedule": re.sub(pattern, replacement, row["schedule"]),
        }
        for row in rows
    ]


def generic_rows(names):
    """The rows of tools/generic.toml with these names, as a layers file."""
    text = (Path(__file__).resolve().parents[2] / "tools/generic.toml").read_text()
    rows = ["[[layer]]" + row for row in text.split("[[layer]]")[1:]]
    return "".join(next(row for row in rows if f'name = "{name}"' in row) for name in names)
