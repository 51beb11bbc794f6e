"""How each target's kernels are tried on this machine: run, emulated, or compiled and linked alone, which tells no values."""

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

RUN, EMULATED, COMPILED = "run", "emulated", "compiled and linked, not run"

NOT_RUN = f"{sys.executable} {Path(__file__).resolve().parent / 'not_run.py'}"

# What a Linux program can hold: arm-64-noos has a test of its own, in a machine without a system.
NOT_OF_LINUX = {"arm-64-noos"}


def kiln():
    """The kiln under test: the environment variable KILN, else the checkout's build."""
    return os.environ.get("KILN", Path(__file__).resolve().parents[2] / "build/bin/kiln")


@functools.cache
def all_targets(command=None):
    """What `kiln targets` tells, by name; of the kiln under test unless another is given."""
    text = subprocess.run([command or kiln(), "targets", "--json"], capture_output=True, text=True, check=True).stdout
    return {row["name"]: row for row in json.loads(text)}


def is_gpu(target):
    return target in ("opencl", "cuda")


def cpu_targets():
    return [name for name in all_targets() if not is_gpu(name) and name not in NOT_OF_LINUX]


def host_target():
    """The short name of the target that host is."""
    return next(name for name in cpu_targets() if all_targets()[name]["runs_here"])


def end_if_done_by_name(target, named):
    """Ends the test with the status of one that is not run, where `target` is host, and host is `named`, which the same test
    is run for by name: minutes of a processor that has no other target."""
    if target == "host" and host_target() == named:
        print(f"not run: host is {named} here, which has this test by name")
        sys.exit(77)


def emulator(target):
    """(compiler, emulator), or None where this machine lacks one of them or needs none."""
    pair = all_targets()[target]["compiler"], all_targets()[target]["emulator"]
    return pair if pair[1] and all(shutil.which(command.split()[0]) for command in pair) else None


def way(target):
    """RUN, EMULATED or COMPILED."""
    if target == "host" or all_targets()[target]["runs_here"]:
        return RUN
    return EMULATED if emulator(target) else COMPILED


def options(target):
    """What kiln run and kiln verify need to try a target's kernels here."""
    words = ["--target", target]
    if way(target) == EMULATED:
        compiler, runner = emulator(target)
        return [*words, "--cxx", compiler, "--runner", runner]
    return [*words, "--runner", NOT_RUN] if way(target) == COMPILED else words


def lacks(target):
    """Why a target is not run here."""
    return f"this machine is none with {' '.join(all_targets()[target]['requires'])}"
