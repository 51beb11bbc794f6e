#!/usr/bin/env python3
"""All that is tested of kernels for GPUs, on a real device: on a machine with a GPU, and with no network.

    device.py [--target cuda|opencl] [--bin build/bin] [--jobs N] [--only NAME,NAME] [--seeds 4] [--logs FOLDER] [--list]

Kernels are compiled and verified there by the kiln of --bin, beside which the runtime's own tests lie; several tests run at once. It
tells what each came to, and exits with 1 where one failed. Where there is no such device, that is said, and the status is 77.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests/cases/gpu.toml"
MMA_CASES = ROOT / "tests/cases/mma.toml"
QUANTIZED_CASES = ROOT / "tests/cases/gpu_quantized.toml"
KERNELS = ROOT / "tests/kernels"
sys.path.insert(0, str(ROOT / "bench"))

import gpu_layers  # noqa: E402

WINOGRAD = ("winograd", "winograd_row", "winograd_strided", "winograd_up")  # the cases that it applies to
TUNED = ("conv_nxc", "grouped", "up", "depthwise", "deform")
CHECKSUM = "checksum: 2365322"  # of examples/gpu, by a reference in NumPy
NOT_RUN = 77


class Failed(Exception):
    """With why a test failed."""


class Test:
    """One command: its name, what it is run with, and a function that tells what its output came to, or raises Failed."""

    def __init__(self, name, command, tell, status=0, **environment):
        self.name, self.command, self.tell, self.status = name, list(map(str, command)), tell, status
        self.environment = {key: str(value) for key, value in environment.items()}

    def run(self, logs, seconds):
        """(name, whether it is well, what it came to)"""
        begin, log = time.time(), logs / f"{self.name}.log"
        with log.open("w") as file:
            try:
                status = subprocess.run(self.command, env={**os.environ, **self.environment}, stdout=file, stderr=subprocess.STDOUT,
                                        timeout=seconds, check=False).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                status = f"none after {seconds} seconds"
            except OSError as error:
                status = error.strerror
        output = log.read_text(errors="replace")
        try:
            told = self.tell(output)
            is_well = status == self.status
        except Failed as error:
            told, is_well = str(error), False
        ending = "" if is_well else f" (status {status}; the output is in {log})"
        return self.name, is_well, f"{told}{ending}, {time.time() - begin:.0f} s"


def found(pattern, output, what):
    match = re.search(pattern, output, re.MULTILINE)
    if not match:
        raise Failed(f"no {what} in the output")
    return match


def verified(algorithm=None, count=None):
    """Of kiln verify: every check is right and none is left out; where an algorithm is asked for, so many are by it."""

    def tell(output):
        match = found(r"^(\d+) layers?: (\d+) checks?, (\d+) failed, (\d+) skipped; largest ratio of error to bound ([\d.]+)", output, "total")
        layers, checks, failed, skipped = map(int, match.groups()[:4])
        if failed or skipped or not checks:
            raise Failed(match[0])
        if algorithm:
            right = len(re.findall(rf"^\S+ +\S+ +{algorithm} .* ok$", output, re.MULTILINE))
            if right != (layers if count is None else count):
                raise Failed(f"{right} layers by {algorithm}: {match[0]}")
        return f"{checks} layers right, {algorithm or 'by default'}; largest ratio of error to bound {match[5]}"

    return tell


def unit_tests(output):
    """Of Python's unittest, with what random problems tell besides."""
    match = found(r"^Ran (\d+) tests? ", output, "total")
    skipped = re.search(r"^OK(?: \(skipped=(\d+)\))?$", output, re.MULTILINE)
    if not skipped:
        raise Failed(f"{match[1]} tests: {found('^FAILED.*$', output, 'verdict')[0]}")
    problems = re.search(r"\b(\d+) of (\d+) right, (\d+) unsupported$", output, re.MULTILINE)
    if problems and problems[1] != problems[2]:
        raise Failed(problems[0])
    return f"{match[1]} tests" + (f", problems: {problems[0]}" if problems else "")


def google_tests(output):
    match = found(r"^\[  PASSED  \] (\d+) tests?\.", output, "count of tests that passed")
    if "[  FAILED  ]" in output or "[  SKIPPED ]" in output or match[1] == "0":
        raise Failed("tests failed, or were left out")
    return f"{match[1]} tests"


def words(text):
    return lambda output: found(text, output, f'"{text}"')[0]


def tuned(timings):
    def tell(output):
        found("tried", output, "word on what was tried")
        records = [json.loads(line) for line in timings.read_text().splitlines()]
        wrong = [record for record in records if record["verdict"] != "ok" and not record["verdict"].startswith("failed: ")]
        right = sum(record["verdict"] == "ok" for record in records)
        if wrong or right < 2 * len(TUNED):
            raise Failed(f"{right} of {len(records)} candidates were right; {wrong[:1]}")
        return f"{right} of {len(records)} candidates right and timed, the others could not run"

    return tell


def tests(options, folder, jobs):
    """All tests of the target."""
    target, kiln = options.target, options.bin / "kiln"
    verify = [kiln, "verify", CASES, "--target", target, "--no-fallback", "-j", jobs]
    decisions = {}
    for algorithm in ("gpu_winograd", "gpu_definition", "gpu_mma"):
        decisions[algorithm] = folder / f"{algorithm}.jsonl"
        decisions[algorithm].write_text(json.dumps({"problem": "*", "algorithm": algorithm}) + "\n")
    listed = [
        Test("smoke", [*verify, "--layer", "pointwise"], verified()),
        Test("cases", verify, verified()),
        Test("cases_quantized", [kiln, "verify", QUANTIZED_CASES, *verify[3:]], verified()),
        Test("cases_winograd", [*verify, "--decisions", decisions["gpu_winograd"], *(word for name in WINOGRAD for word in ("--layer", name))],
             verified("gpu_winograd")),
        Test("cases_definition", [*verify, "--decisions", decisions["gpu_definition"]], verified("gpu_definition")),
    ]  # fmt: skip
    if target == "cuda":
        listed.append(Test("cases_mma", [kiln, "verify", MMA_CASES, *verify[3:], "--decisions", decisions["gpu_mma"]], verified("gpu_mma")))
    for layout in ("NXC", "NCX"):
        spec = folder / f"suite_{layout}.toml"
        spec.write_text(gpu_layers.as_toml(gpu_layers.load(), layout))
        listed.append(Test(f"suite_{layout}", [kiln, "verify", spec, "--target", target, "--no-fallback", "-j", jobs], verified()))
    common = {"KILN": kiln, "KILN_TARGET": target}
    for seed in range(3, 3 + options.seeds):
        listed.append(Test(f"random_{seed}", [sys.executable, KERNELS / "random_problems.py"], unit_tests,
                           KILN_RANDOM_SEED=seed, KILN_RANDOM_COUNT=72, **common))  # fmt: skip
    listed.append(Test("random_definition", [sys.executable, KERNELS / "random_problems.py"], unit_tests, KILN_ALGORITHM="gpu_definition",
                       KILN_RANDOM_SEED=13, KILN_RANDOM_COUNT=36, **common))  # fmt: skip
    for name, case in (("onnx_node_cases", "OnnxNodeCases"), ("document_examples", "DocumentExamples")):
        listed.append(Test(name, [sys.executable, KERNELS / f"{name}.py", f"{case}.test_specialized"], unit_tests, **common))
    device_test = options.bin / f"kiln_gpu_device_test_{target}"
    listed.append(Test("runtime", [device_test], google_tests))
    if target == "cuda":
        listed += [
            Test("stray_access", [device_test, "--gtest_also_run_disabled_tests", "--gtest_filter=*stray_access*"], words("told: .*")),
            Test("no_device", [device_test], words("not run: .*"), status=NOT_RUN, CUDA_VISIBLE_DEVICES="-1"),
            Test("example", [options.bin / "kiln_gpu_block_cuda"], words(CHECKSUM)),
        ]
    timings = folder / "timings.jsonl"
    listed.append(Test("tune", [kiln, "tune", CASES, "--target", target, "--budget", "3c/layer", "-j", jobs, "--timings", timings, "--decisions",
                                folder / "tuned.jsonl", *(word for name in TUNED for word in ("--layer", name))], tuned(timings)))  # fmt: skip
    return listed


def lacks(options):
    """Why the target does not run here, or ""."""
    text = subprocess.run([options.bin / "kiln", "targets", "--json"], capture_output=True, text=True, check=True).stdout
    row = next(row for row in json.loads(text) if row["name"] == options.target)
    if not row["runs_here"]:
        return f"this machine has no device for {options.target}"
    device_test = options.bin / f"kiln_gpu_device_test_{options.target}"
    done = subprocess.run([device_test, "--gtest_list_tests"], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == NOT_RUN else ""


def report(result, logs):
    """Tells what a test came to, with the end of its output where it failed. Returns whether it is well."""
    name, is_well, told = result
    print(f"{'ok' if is_well else 'FAILED':8}{name:20}{told}", flush=True)
    if not is_well:
        lines = (logs / f"{name}.log").read_text(errors="replace").splitlines()[-25:]
        print("".join(f"    {line}\n" for line in lines), flush=True)
    return is_well


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda", choices=["cuda", "opencl"])
    parser.add_argument("--bin", type=Path, default=ROOT / "build/bin")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", help="these tests, by the names that --list tells")
    parser.add_argument("--seeds", type=int, default=4, help="of random problems, 72 of each")
    parser.add_argument("--logs", type=Path, help="a folder for the tests' whole outputs")
    parser.add_argument("--seconds", type=int, default=400, help="that a test may take")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = options.logs or folder
        logs.mkdir(parents=True, exist_ok=True)
        listed = tests(options, folder, max(1, options.jobs // 4))
        if options.list:
            print("\n".join(test.name for test in listed))
            return 0
        if reason := lacks(options):
            print(f"not run: {reason}")
            return NOT_RUN
        if options.only:
            listed = [test for test in listed if test.name in options.only.split(",")]
        left, wells = list(listed), {}
        if left and left[0].name == "smoke":
            # Alone at first: what it builds of the harness is kept for the others, and where it fails they are not tried.
            wells["smoke"] = report(left.pop(0).run(logs, options.seconds), logs)
        with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs // 2)) as pool:
            runs = [pool.submit(test.run, logs, options.seconds) for test in left if all(wells.values())]
            for done in concurrent.futures.as_completed(runs):
                wells[done.result()[0]] = report(done.result(), logs)
        failed = sorted(name for name, well in wells.items() if not well)
        print(f"{len(wells) - len(failed)} of {len(listed)} passed" + (f"; FAILED: {', '.join(failed)}" if failed else ""))
        return 1 if failed or not listed else 0


if __name__ == "__main__":
    sys.exit(main())
