"""kiln tune --cluster by ray://, with boards behind an emulator, with machines that are cut off and with disks that are full."""

import json
import os
import shutil
import subprocess
import sys
import time

from ray_cluster import ENVIRONMENT, TARGET, Run, expect, expect_each_once, key, run_test, write_layers

ARM = "arm-64-linux"
BOARDS = """
[[board]]
name = "shelf-1"
target = "arm-64-linux"
runner = "{folder}/runner qemu-aarch64 -cpu cortex-a72"
host = "shelf"
cxx = "aarch64-linux-gnu-g++"
processor = "Cortex-A72"

[[board]]
name = "shelf-2"
target = "arm-64-linux"
runner = "{folder}/runner qemu-aarch64 -cpu cortex-a53"
host = "shelf"
cxx = "aarch64-linux-gnu-g++"
processor = "Cortex-A72"
"""

# What starts a program whose mounts nobody else sees.
OWN_MOUNTS = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--mount"]


def await_that(good, what, seconds=90, every=0.1):
    end = time.monotonic() + seconds
    while not good():
        expect(time.monotonic() < end, f"within {seconds} s: {what}")
        time.sleep(every)


def expect_as_alone(run, alone, what):
    expect_each_once(run.records(), what)
    failed = [record for record in run.records() if record["verdict"] != "ok"]
    expect(not failed, f"{what}: nothing failed: {failed}")
    expect({key(r) for r in run.records()} == {key(r) for r in alone.records()}, f"{what}: the same candidates as alone")
    expect(run.decided() == alone.decided(), f"{what}: the same decisions as alone")


def ten_layers_decide_the_same_as_alone(cluster, folder):
    """Two nodes, reached through Ray's client server."""
    write_layers(folder / "ten.toml", 10)
    alone = Run(folder, "ten-alone", layers="ten.toml", budget="3c/layer")
    alone.end(0)
    run = Run(folder, "ten", f"ray://127.0.0.1:{cluster.client_port}", layers="ten.toml", budget="3c/layer")
    answer = run.end(0)
    expect_as_alone(run, alone, "ray://")
    expect(len(run.decided()) == 10, f"ten layers: {run.decided()}")
    machine, = answer["pool"]["machines"]
    expect(machine["host"] == "timer" and machine["timed"] == len(run.records()), f"the timer timed all: {machine}")


def boards_are_timed_and_a_wrong_one_is_refused(cluster, folder):
    """Two boards of one host, of which one is not what it is said to be."""
    (folder / "boards.toml").write_text(BOARDS.format(folder=folder))
    cluster.start("shelf", 1, {f"kiln-{ARM}": 2})
    runner = f"{folder}/runner qemu-aarch64 -cpu cortex-a72"
    # Said, since $CXX names this machine's own compiler.
    cross = ("--cxx", "aarch64-linux-gnu-g++")
    alone = Run(folder, "board-alone", target=ARM, budget="2c/layer", runner=runner, more=cross)
    alone.end(0)
    run = Run(folder, "boards", cluster.address, target=ARM, budget="2c/layer", runner=runner,
              more=(*cross, "--boards", folder / "boards.toml", "--report", folder / "boards.html"))
    answer = run.end(0)
    cluster.kill("shelf")
    expect_as_alone(run, alone, "boards")
    expect({record["host"] for record in run.records()} == {"shelf-1"}, "the right board timed all")
    expect(all(record["machine"].startswith("Cortex-A72; ") for record in run.records()), f"its processor: {run.records()[0]}")
    why = answer["pool"]["refused"].get("shelf-2", "")
    expect("said to be Cortex-A72, but is Cortex-A53" in why, f"the wrong board is refused: {answer['pool']}")
    page = (folder / "boards.html").read_text()
    expect("<td class=\"left\">shelf-2</td>" in page and "but is Cortex-A53" in page, "the report says so")


def a_machine_that_is_cut_off_is_given_up(cluster, folder, alone):
    """All of its processes stop, as if the network to it were cut: it answers nothing, and ends nothing."""
    cluster.start("timer-2", 1, {f"kiln-{TARGET}": 1})
    run = Run(folder, "cut", cluster.address)
    await_that(lambda: any(record["host"] == "timer-2" for record in run.records()) or run.process.poll() is not None,
               "timer-2 has timed something")
    await_that(lambda: cluster.runs("timer-2", "kiln") or run.process.poll() is not None, "timer-2 times", every=0.01)
    expect(run.process.poll() is None, "cut off while it is needed")
    cluster.stop("timer-2")
    answer = run.end(0)
    cluster.kill("timer-2")
    expect_as_alone(run, alone, "cut off")
    states = {machine["host"]: machine["state"] for machine in answer["pool"]["machines"]}
    expect(states == {"timer": "ready", "timer-2": "lost"}, f"it is known as lost: {answer['pool']}")


def full_disks_are_no_candidates_fault(cluster, folder, alone):
    """A timer and a compiler whose temporary folders are on a disk of a megabyte."""
    small = folder / "small"
    small.mkdir()
    inside = [*OWN_MOUNTS, "sh", "-c", f"mount -t tmpfs -o size=1m none {small} && exec \"$@\"", "sh"]
    for name, claims in (("full-timer", {f"kiln-{TARGET}": 1}), ("full-compiler", {})):
        cluster.start(name, 1, claims, inside, TMPDIR=str(small))
    run = Run(folder, "full", cluster.address)
    answer = run.end(0)
    expect_as_alone(run, alone, "full disks")
    expect("disk is full" in answer["pool"]["refused"].get("full-timer", ""), f"the timer is refused: {answer['pool']}")
    names = [machine["host"] for machine in answer["pool"]["machines"]]
    expect(names == ["timer"], f"and is told of once: {answer['pool']}")
    expect(any("full-compiler cannot compile: its disk is full" in line for line in run.said), f"it is told: {run.said}")
    cluster.kill("full-compiler")
    cluster.kill("full-timer")


def a_full_disk_alone_stops_with_words(cluster, folder):
    """The driver's own: what it has recorded is whole."""
    disk = folder / "disk"
    disk.mkdir()
    command = [*OWN_MOUNTS, "sh", "-c",
               f"mount -t tmpfs -o size=8k none {disk} && \"$@\"; status=$?; cp {disk}/t.jsonl {folder}/full-disk.jsonl; exit $status",
               "sh", *(str(word) for word in Run.command(folder, disk / "t.jsonl", folder / "d.decisions", cluster.address))]
    process = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False, timeout=150)
    expect(process.returncode == 1 and "go on with --resume" in process.stderr, f"it stops in words: {process.stderr}")
    lines = (folder / "full-disk.jsonl").read_text().splitlines(keepends=True)
    expect(lines and all(line.endswith("\n") and json.loads(line) for line in lines), f"whole lines: {lines}")
    more = Run(folder, "full-resumed", cluster.address, timings=folder / "full-disk.jsonl", more=("--resume",))
    more.end(0)
    expect(len(more.decided()) == 3, f"all are decided: {more.decided()}")


def look(folder, cluster, say):
    cluster.start("timer", 1, {f"kiln-{TARGET}": 1})
    say("two nodes are up")
    ten_layers_decide_the_same_as_alone(cluster, folder)
    say("ten layers by ray:// decide as alone")
    write_layers(folder / "net.toml", 3)
    if shutil.which("qemu-aarch64") and shutil.which("aarch64-linux-gnu-g++"):
        boards_are_timed_and_a_wrong_one_is_refused(cluster, folder)
        say("a board is timed, and one of another processor refused")
    else:
        say("not looked at: boards, for want of qemu-aarch64 and aarch64-linux-gnu-g++")
    alone = Run(folder, "alone")
    alone.end(0)
    a_machine_that_is_cut_off_is_given_up(cluster, folder, alone)
    say("a machine that was cut off is given up")
    if subprocess.run([*OWN_MOUNTS, "true"], capture_output=True, check=False).returncode == 0:
        full_disks_are_no_candidates_fault(cluster, folder, alone)
        say("full disks are no candidate's fault")
        a_full_disk_alone_stops_with_words(cluster, folder)
        say("the driver's own full disk stops it, and it resumes")
    else:
        say("not looked at: full disks, for want of a user who may mount a folder of his own, as in a chroot")


if __name__ == "__main__":
    sys.exit(run_test(look))
