"""A Ray cluster of real processes on this machine's loopback, and runs of kiln tune on it.

Times follow from the candidates' own schedules, by a runner, so that decisions can be compared with those of this machine alone; all
else is real: the kernels, the programs, the checks.
"""

import collections
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

KILN, TARGET = os.environ["KILN"], "x86-64-avx2"
ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / "tools/cluster/.venv/bin"
NOT_RUN = 77  # ctest is told so: neither passed nor failed
LAYER = """
[[layer]]
name = "{name}"
operator = "Conv"
x = {x}
w = [16, {channels}, 1, 1]
layouts = {{ x = "NXC", y = "NXC" }}
{more}
"""
SEEDED_RUNNER = ROOT / "tests/kernels/seeded_runner.py"
# A node that is gone is known to be within seconds.
ENVIRONMENT = {**os.environ, "KILN": KILN, "KILN_PYTHON": str(VENV / "python3"), "RAY_worker_niceness": "0",
               "RAY_health_check_initial_delay_ms": "1000", "RAY_health_check_period_ms": "1000",
               "RAY_health_check_failure_threshold": "3", "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
               "RAY_USAGE_STATS_ENABLED": "0",
               # What others take of this machine's memory is no reason to end workers.
               "RAY_memory_monitor_refresh_ms": "0",
               # The cluster is this test's alone: nobody without its token may use it.
               "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def write_layers(path, count):
    """The last leaves sizes open, and is timed at two."""
    layers = []
    for i in range(count):
        channels, size = 8 + 8 * i, 4 + i
        known = f"[1, {channels}, {size}, {size}]"
        opened = {"x": f'[1, {channels}, "?", "?"]', "more": f"sizes = [{known}, [1, {channels}, 3, 7]]"}
        layers.append(LAYER.format(name=f"l{i}", channels=channels, **(opened if i == count - 1 else {"x": known, "more": ""})))
    path.write_text("".join(layers))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Cluster:
    """Ray's processes, each node's in a session of its own."""

    def __init__(self, folder):
        self.port, self.client_port, self.folder = free_port(), free_port(), folder
        self.address, self.nodes, self.names = f"127.0.0.1:{self.port}", {}, []

    def start(self, name, cpus, claims=None, inside=(), **environment):
        """`inside`: the beginning of a command that starts Ray's."""
        place = [f"--address={self.address}"]
        if name == "head":
            place = ["--head", f"--port={self.port}", f"--ray-client-server-port={self.client_port}", "--include-dashboard=false"]
        command = [*inside, VENV / "ray", "start", *place, "--node-ip-address=127.0.0.1", f"--num-cpus={cpus}", "--block",
                   f"--node-name={name}", f"--resources={json.dumps(claims or {})}", "--object-store-memory=80000000",
                   "--disable-usage-stats"]
        with open(self.folder / f"{name}.log", "w", encoding="utf-8") as log:
            self.nodes[name] = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, start_new_session=True,
                                                env={**ENVIRONMENT, **environment, "KILN_TEST_NODE": self.mark(name)})
        self.names.append(name)
        # One after the other: those that start together take each other's sockets.
        log, end = self.folder / f"{name}.log", time.monotonic() + 60
        while "This command will now block" not in log.read_text():
            expect(time.monotonic() < end and self.nodes[name].poll() is None, f"{name} starts: {log.read_text()[-1500:]}")
            time.sleep(0.1)

    def mark(self, name):
        return f"{self.port}/{name}"  # another test's cluster has a node of that name too

    def processes(self, name):
        """All of a node's: each carries its mark in its environment."""
        mark, found = f"KILN_TEST_NODE={self.mark(name)}".encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark in (entry / "environ").read_bytes().split(b"\0") and "Z" not in (entry / "stat").read_text().split()[2]:
                        found.append(int(entry.name))
                except OSError:
                    pass  # it has just ended, or is another user's
        return found

    def runs(self, name, program):
        """Whether a program is one of a node's processes."""
        for pid in self.processes(name):
            try:
                if Path(f"/proc/{pid}/comm").read_text().strip() == program:
                    return True
            except OSError:
                pass  # it has just ended
        return False

    @staticmethod
    def signal(processes, number):
        for pid in processes:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def stop(self, name):
        """In rounds, until none is found that was not stopped: the others may have started it meanwhile."""
        stopped = set()
        while running := set(self.processes(name)) - stopped:
            self.signal(running, signal.SIGSTOP)
            stopped |= running
            time.sleep(0.05)

    def kill(self, name):
        while processes := self.processes(name):
            self.signal(processes, signal.SIGKILL)
            time.sleep(0.05)
        self.nodes.pop(name).wait()


class Run:
    """kiln tune on the cluster, or on this machine alone where there is none."""

    def __init__(self, folder, name, address=None, target=TARGET, budget="6c/layer", layers="net.toml", timings=None, runner="",
                 more=()):
        self.timings, self.decisions = timings or folder / f"{name}.jsonl", folder / f"{name}.decisions"
        command = self.command(folder, self.timings, self.decisions, address, target, budget, layers, runner, more)
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=ENVIRONMENT)
        self.said = []
        self.listener = threading.Thread(target=lambda: self.said.extend(self.process.stderr))
        self.listener.start()

    @staticmethod
    def command(folder, timings, decisions, address=None, target=TARGET, budget="6c/layer", layers="net.toml", runner="", more=()):
        return [KILN, "tune", folder / layers, "--target", target, "--budget", budget, "--timings", timings, "--decisions", decisions,
                "--json", "--runner", runner or folder / "runner", *more, *(["--cluster", address] if address else [])]

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


def expect_clear_disks(folder):
    """What ran on nodes has left nothing, not even where it was killed."""
    left = [path.name for kind in ("timer", "candidate") for path in (folder / "tmp").glob(f"kiln-{kind}-*")]
    expect(not left, f"no folder of a node's is left: {left}")


@contextmanager
def a_cluster():
    """A folder and a cluster that has a head, which compiles; nothing of either is left."""
    folder = Path(tempfile.mkdtemp(prefix="kiln-"))
    ENVIRONMENT["RAY_TMPDIR"] = str(folder)  # a head that was killed leaves its address there
    ENVIRONMENT["TMPDIR"] = str(folder / "tmp")  # of what runs on the nodes
    (folder / "tmp").mkdir()
    shutil.copy(SEEDED_RUNNER, folder / "runner")
    cluster = Cluster(folder)
    try:
        cluster.start("head", 1)
        yield folder, cluster
    finally:
        for name in list(cluster.nodes):
            cluster.kill(name)
        shutil.rmtree(folder, ignore_errors=True)
    expect(not [pid for name in cluster.names for pid in cluster.processes(name)], "no process is left")


def run_test(look):
    """The status of a test that calls `look` with a cluster, and with a function that says how far it is."""
    if not (VENV / "ray").exists():
        print("not run: there is no Ray in tools/cluster/.venv, which ./dev test makes")
        return NOT_RUN
    begin = time.monotonic()

    def say(what):
        print(f"{time.monotonic() - begin:.0f} s: {what}", flush=True)

    try:
        with a_cluster() as (folder, cluster):
            look(folder, cluster, say)
    except AssertionError as error:
        print(f"expected: {error}")
        return 1
    say("nothing is left")
    return 0
