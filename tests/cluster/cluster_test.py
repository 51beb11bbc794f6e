"""kiln tune --cluster with a head and three nodes, some of them killed with -9.

They are started once, for all that is looked at, one thing after the other.
"""

import collections
import subprocess
import sys

from ray_cluster import ENVIRONMENT, KILN, TARGET, Run, expect, expect_clear_disks, expect_each_once, key, run_test, write_layers


def kills_lose_nothing(cluster, folder, alone):
    """Two of four nodes die, a timer and a compiler: the rest goes on, and decides what this machine alone does."""
    run = Run(folder, "killed", cluster.address)
    run.await_records(4)
    timer = run.records()[-1]["host"]
    expect(timer in ("timer-1", "timer-2"), f"records name who timed them: {timer}")
    cluster.kill(timer)
    run.await_records(9)
    cluster.kill("compiler")
    answer = run.end(0)
    pool = answer["pool"]
    expect_each_once(run.records(), "killed")
    expect({key(r) for r in run.records()} == {key(r) for r in alone.records()}, "the same candidates as alone")
    expect(run.decided() == alone.decided(), "the same decisions as alone")
    expect(pool["lost"] <= 2, f"no more than the two are lost, of which Ray may not know yet: {pool}")
    states = {machine["host"]: machine["state"] for machine in pool["machines"]}
    expect(states[timer] == "lost" and sorted(states.values()) == ["lost", "ready"] and len(pool["machines"]) == 2,
           f"both timers are reported, once: {pool}")
    sizes = {len(record.get("sizes", [])) for record in run.records()}
    expect(sizes == {0, 2}, f"a layer with open sizes is timed at each of two: {sizes}")
    expect_clear_disks(folder)
    return pool


def a_wrong_claim_is_refused(cluster, folder):
    """A node claims ARM, and is none."""
    command = [KILN, "tune", folder / "net.toml", "--target", "arm-64-linux", "--budget", "1c", "--timings", folder / "arm.jsonl",
               "--decisions", folder / "arm.decisions", "--cluster", cluster.address, "--cluster-wait", "2"]
    process = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=ENVIRONMENT, check=False,
                             timeout=90)
    expect(process.returncode == 1 and "cannot run arm-64-linux" in process.stderr and "is refused" in process.stderr,
           f"a refusal: {process.stderr}")
    expect('--resources=\'{"kiln-arm-64-linux": 1}\'' in process.stderr, f"a hint: {process.stderr}")


def without_its_head_a_run_stops_and_resumes(cluster, folder):
    run = Run(folder, "headless", cluster.address)
    run.await_records(4)
    cluster.kill("head")
    words = run.end(1)
    expect("--resume" in words, words)
    before = run.records()
    expect_each_once(before, "headless")
    expect(len(before) >= 4, "records stay")
    more = Run(folder, "headless", timings=run.timings, more=("--resume",))
    more.end(0)
    expect(len(more.decided()) == 3, f"all are decided: {more.decided()}")
    again = collections.Counter(key(record) for record in more.records())
    # A default is what others are compared with, and a last comparison that was cut off is made anew.
    compared = collections.Counter(key(record)[0] for record in before if record.get("final"))
    finalists = collections.Counter(problem for problem, _, _, final in again if final)
    allowed = {key(record) for record in before
               if (compared[record["problem"]] < finalists[record["problem"]] if record.get("final") else record["ratio"] == 1)}
    often = [k for k, count in again.items() if count > 1 and k not in allowed]
    expect(not often, f"resumed: recorded more than once: {often}")


def look(folder, cluster, say):
    write_layers(folder / "net.toml", 3)
    alone = Run(folder, "alone")
    for name, claims in (("timer-1", {f"kiln-{TARGET}": 1}), ("timer-2", {f"kiln-{TARGET}": 1}), ("compiler", {})):
        cluster.start(name, 1, claims)
    alone.end(0)
    say("four nodes are up")
    say(f"killed: {kills_lose_nothing(cluster, folder, alone)}")
    cluster.start("liar", 1, {"kiln-arm-64-linux": 1})
    a_wrong_claim_is_refused(cluster, folder)
    say("a wrong claim is refused")
    without_its_head_a_run_stops_and_resumes(cluster, folder)
    say("the head's end stops it, and it resumes")


if __name__ == "__main__":
    sys.exit(run_test(look))
