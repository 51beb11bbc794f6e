"""Drives `kiln run` for tests: cases with their arrays in, answers with their outputs out."""

import json
import os
import re
import subprocess
import tempfile
import tomllib
from pathlib import Path

import numpy as np
from targets import all_targets as targets
from targets import kiln, options

# Another algorithm's kernel is right too, but not what is tested.
NO_FALLBACK = "--no-fallback"


def file_limit(kilobytes):
    """A command that runs another, which writes no file of more than so many KB. The signal is ignored, as it is on a disk that
    is full, so that writing fails."""
    return ["bash", "-c", f'trap "" XFSZ; ulimit -f {kilobytes}; "$@"', "bash"]


def target_option(target=None):
    """What selects a target, or the one that the environment variable KILN_TARGET names, if any, and how its programs are built
    and run here: KILN_CXX and KILN_RUNNER, else as targets.py has it."""
    target = target or os.environ.get("KILN_TARGET")
    own = {name: os.environ[name] for name in ("KILN_CXX", "KILN_RUNNER") if name in os.environ}
    if not own:
        return options(target) if target else []
    words = ["--target", target] if target else []
    return [*words, *(word for name, value in own.items() for word in (f"--{name[5:].lower()}", value))]


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
    command = [kiln(), "compile", spec, NO_FALLBACK, *options]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise AssertionError(f"kiln compile failed:\n{process.stderr[-4000:]}")


def run(cases, folder, *options, target=None, time_limit=None):
    """Returns (answers in the order of the cases, outputs by name, the finished process)."""
    path = write_cases(cases, folder)
    out = Path(folder) / "out"
    command = [kiln(), "run", path, "-o", out, NO_FALLBACK, *target_option(target), *options]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=time_limit)
    if not (out / "results.jsonl").exists():
        raise AssertionError(f"kiln run gave no results:\n{process.stderr[-4000:]}")
    answers = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    printed = [json.loads(line) for line in process.stdout.splitlines()]
    assert sorted(a["name"] for a in printed) == sorted(a["name"] for a in answers), "stdout and results.jsonl differ"
    assert [a["name"] for a in answers] == [c["name"] for c in cases], "answers are not in the order of the cases"
    outputs = {a["name"]: np.load(out / a["output"]) for a in answers if a["status"] == "ok"}
    return answers, outputs, process


# Takes the parts of kiln's programs from the folder that REMEMBERED_OBJECTS names, for tests that see what kiln does with them.
REMEMBERING_CXX = Path(__file__).resolve().parent / "remembering_cxx.sh"
REMEMBERED_OBJECTS = "KILN_TEST_OBJECTS"


def kept_objects():
    """The folder where kiln keeps the parts of its programs for the compiler of other tests; made where it is not there."""
    case = {"name": "a", "operator": "Conv", "attributes": {},
            "inputs": {name: np.ones((1, 1, 1, 1), np.float32) for name in ("X", "W")}}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "programs"
        command = [kiln(), "run", write_cases([case], folder), "-o", Path(folder) / "out", "--cxx", REMEMBERING_CXX]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "KILN_TEST_LOG": str(log)})
        return re.search(r"(\S+/harness-\w+)/\d+\.o", log.read_text())[1]


def verify(spec, *options):
    """Returns the rows of kiln verify, in the order of the layers."""
    command = [kiln(), "verify", spec, "--json", NO_FALLBACK, *target_option(), *options]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in process.stdout.splitlines()]
    if not rows:
        raise AssertionError(f"kiln verify gave no results:\n{process.stderr[-4000:]}")
    return rows


def verify_layers(layers, *options):
    """The rows of kiln verify for the text of a layers file."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "layers.toml"
        spec.write_text(layers)
        return verify(spec, *options)


def types_of_layers(spec):
    """{name: type} of a layers file's layers and of their variants."""
    text = tomllib.loads(Path(spec).read_text())
    own = text.get("defaults", {}).get("dtype", "float32")
    types = {layer["name"]: layer.get("dtype", own) for layer in text["layer"]}
    variants = {f"{name}_{variant['dtype']}": variant["dtype"]
                for variant in text.get("variant", []) for name in variant.get("layers", types)}  # fmt: skip
    return types | variants


def run_layers(cases):
    """The answers of kiln run alone."""
    with tempfile.TemporaryDirectory() as folder:
        return run(cases, folder)[0]


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
