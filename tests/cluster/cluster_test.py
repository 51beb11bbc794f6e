"""kiln tune --cluster with real Ray processes: a head and three nodes on this machine's loopback, some of them killed with -9.

They are started once, for all that is looked at, one thing after the other. Times follow from the candidates' own schedules, by a
runner, so that decisions can be compared with those of this machine alone; all else is real: the kernels, the programs, the checks.
"""

import collections
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

KILN, TARGET = os.environ["KILN"], "x86-64-avx2"
ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / "tools/cluster/.venv/bin"
NOT_RUN = 77  # ctest is told so: neither passed nor failed
LAYER = """
[[layer]]
name = "{name}"
operator = "Conv"
x = [1, {channels}, {size}, {size}]
w = [16, {channels}, 1, 1]
layouts = {{ x = "NXC", y = "NXC" }}
"""
SEEDED_RUNNER = ROOT / "tests/kernels/seeded_runner.py"
# A node that is gone is known to be within seconds.
ENVIRONMENT = {**os.environ, "KILN": KILN, "KILN_PYTHON": str(VENV / "python3"), "RAY_worker_niceness": "0",
               "RAY_health_check_initial_delay_ms": "1000", "RAY_health_check_period_ms": "1000",
               "RAY_health_check_failure_threshold": "3", "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
               "RAY_USAGE_STATS_ENABLED": "0",
               # The cluster is this test's alone: nobody without its token may use it.
               "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Cluster:
    """Ray's processes, each node's in a session of its own."""

    def __init__(self, folder):
        self.port, self.folder, self.nodes = free_port(), folder, {}
        self.address = f"127.0.0.1:{self.port}"

    def start(self, name, cpus, **claims):
        place = ["--head", f"--port={self.port}", "--include-dashboard=false"] if name == "head" else [f"--address={self.address}"]
        command = [str(VENV / "ray"), "start", *place, "--node-ip-address=127.0.0.1", f"--num-cpus={cpus}", "--block",
                   f"--node-name={name}",
                   f"--resources={json.dumps(claims)}", "--object-store-memory=80000000", "--disable-usage-stats"]
        with open(self.folder / f"{name}.log", "w", encoding="utf-8") as log:
            self.nodes[name] = subprocess.Popen(command, stdout=log, stderr=log, env={**ENVIRONMENT, "KILN_TEST_NODE": name},
                                                start_new_session=True)
        # One after the other: those that start together take each other's sockets.
        log, end = self.folder / f"{name}.log", time.monotonic() + 60
        while "This command will now block" not in log.read_text():
            expect(time.monotonic() < end and self.nodes[name].poll() is None, f"{name} starts: {log.read_text()[-1500:]}")
            time.sleep(0.1)

    def processes(self, name):
        """All of a node's: each carries the node's name in its environment."""
        mark, found = f"KILN_TEST_NODE={name}".encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark in (entry / "environ").read_bytes().split(b"\0") and "Z" not in (entry / "stat").read_text().split()[2]:
                        found.append(int(entry.name))
                except OSError:
                    pass  # it has just ended, or is another user's
        return found

    def kill(self, name):
        while pids := self.processes(name):
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
        self.nodes.pop(name).wait()


class Run:
    """kiln tune on the cluster, or on this machine alone where there is none."""

    def __init__(self, folder, name, cluster=None, target=TARGET, budget="6c/layer", timings=None, more=()):
        self.timings, self.decisions = timings or folder / f"{name}.jsonl", folder / f"{name}.decisions"
        command = [KILN, "tune", folder / "net.toml", "--target", target, "--budget", budget, "--timings", self.timings, "--decisions",
                   self.decisions, "--json", "--runner", folder / "runner", *more]
        command += ["--cluster", cluster.address] if cluster else []
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=ENVIRONMENT)
        self.said = []
        self.listener = threading.Thread(target=lambda: self.said.extend(self.process.stderr))
        self.listener.start()

    def records(self):
        text = self.timings.read_text() if self.timings.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def await_records(self, count):
        end = time.monotonic() + 90
        while len(self.records()) < count and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        expect(len(self.records()) >= count, f"{count} records within 90 s, not {len(self.records())}: {self.said}")

    def end(self, status):
        answer = self.process.stdout.read()
        code = self.process.wait(timeout=150)
        self.listener.join()
        expect(code == status, f"status {status}, not {code}: {''.join(self.said)}")
        return json.loads(answer) if code == 0 else "".join(self.said)

    def decided(self):
        return sorted(self.decisions.read_text().splitlines())


def expect(good, what):
    if not good:
        raise AssertionError(what)


def key(record):
    return record["problem"], record["algorithm"], record["schedule"], record.get("final", False)


def expect_each_once(records, what):
    often = [k for k, count in collections.Counter(map(key, records)).items() if count > 1]
    expect(not often, f"{what}: recorded more than once: {often}")


def kills_lose_nothing(cluster, folder, alone):
    """Two of four nodes die, a timer and a compiler: the rest goes on, and decides what this machine alone does."""
    run = Run(folder, "killed", cluster)
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
    run = Run(folder, "headless", cluster)
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
    defaults = {key(record) for record in before if record["ratio"] == 1}
    often = [k for k, count in again.items() if count > 1 and k not in defaults]
    expect(not often, f"resumed: recorded more than once: {often}")


def main():
    if not (VENV / "ray").exists():
        print("not run: there is no Ray in tools/cluster/.venv, which ./dev test makes")
        return NOT_RUN
    begin = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="kiln-"))
    ENVIRONMENT["RAY_TMPDIR"] = str(folder)  # a head that was killed leaves its address there
    cluster = Cluster(folder)
    try:
        (folder / "net.toml").write_text("".join(LAYER.format(name=f"l{i}", channels=8 + 8 * i, size=4 + i) for i in range(3)))
        shutil.copy(SEEDED_RUNNER, folder / "runner")
        cluster.start("head", 1)
        alone = Run(folder, "alone")
        claim = {f"kiln-{TARGET}": 1}
        for name, cpus, claims in (("timer-1", 1, claim), ("timer-2", 1, claim), ("compiler", 1, {})):
            cluster.start(name, cpus, **claims)
        alone.end(0)
        print(f"{time.monotonic() - begin:.0f} s: four nodes are up", flush=True)
        print("killed:", kills_lose_nothing(cluster, folder, alone), flush=True)
        print(f"{time.monotonic() - begin:.0f} s: kills lost nothing", flush=True)
        cluster.start("liar", 1, **{"kiln-arm-64-linux": 1})
        a_wrong_claim_is_refused(cluster, folder)
        print(f"{time.monotonic() - begin:.0f} s: a wrong claim is refused", flush=True)
        without_its_head_a_run_stops_and_resumes(cluster, folder)
        print(f"{time.monotonic() - begin:.0f} s: the head's end stops it, and it resumes", flush=True)
    except AssertionError as error:
        print(f"expected: {error}")
        return 1
    finally:
        for name in list(cluster.nodes):
            cluster.kill(name)
        shutil.rmtree(folder, ignore_errors=True)
    left = [pid for name in ("head", "timer-1", "timer-2", "compiler", "liar") for pid in cluster.processes(name)]
    print(f"{time.monotonic() - begin:.0f} s: {len(left)} processes are left")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
