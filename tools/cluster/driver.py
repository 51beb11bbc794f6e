"""The process between kiln tune and a Ray cluster (tools/tune/pools/cluster_pool.h): reads tasks from stdin, and writes what became of
them to stdout, a line of JSON each. What is done where, scheduler.py decides.
"""

import asyncio
import json
import os
import queue
import sys
import threading

sys.path.insert(1, os.path.dirname(os.path.realpath(__file__)))

import boards as boards_file  # noqa: E402
from scheduler import Fatal, Scheduler  # noqa: E402

CONNECTIONS = 3  # tried with a cluster that answers, and fails to let us in: a busy head
NEEDS_RAY = ("--cluster needs Ray, and {python} has none: {python} -m pip install 'ray[client]==2.60.0' (the same on every machine "
             "of the cluster), or name another Python in KILN_PYTHON")


class Output:
    """Lines to kiln, written by a thread of their own: a driver that waits for kiln to read would not hear it."""

    def __init__(self):
        self.file = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # what others print is no line of ours
        self.lines = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._write, daemon=True)
        self.thread.start()

    def say(self, **line):
        self.lines.put(json.dumps(line))

    def end(self):
        self.lines.put(None)
        self.thread.join(10)

    def _write(self):
        try:
            for line in iter(self.lines.get, None):
                self.file.write(line + "\n")
                self.file.flush()
        except (BrokenPipeError, ValueError):
            pass  # kiln is gone; the end of stdin says so too


def first_and_last(text):
    """Of an error of many lines, those that tell what and why."""
    lines = text.strip().splitlines() or [""]
    return lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"


def connect(ray, options):
    """Connects to the cluster; "local" starts one of this machine alone."""
    common = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
    address = options["address"]
    if address == "local":
        claims = {f"kiln-{options['target']}": 1}
        if options["boards"]:
            claims = {name: len(boards_file.read(options["boards"], options["target"]) or []) for name in claims}
        ray.init(address="local", resources=claims, include_dashboard=False, **common)
        return
    for attempt in range(1, CONNECTIONS + 1):
        try:
            ray.init(address=address, **({} if address.startswith("ray://") else common))
            return
        except (ConnectionError, RuntimeError) as error:
            if "Initialization failure from server" not in str(error) or attempt == CONNECTIONS:
                raise


async def main_loop(ray, options, output):
    scheduler = Scheduler(ray, options, output)
    scheduler.prepare()
    reader = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        await scheduler.run(reader)
    finally:
        for task in list(scheduler.tasks):
            task.cancel()
        await asyncio.gather(*(scheduler.end(timer) for timer in scheduler.timers if timer.actor and timer.state == "ready"),
                             return_exceptions=True)


def main():
    output = Output()
    options = json.loads(sys.stdin.readline())
    options["own_kiln"] = os.environ.get("KILN", "")
    # A head that is gone is gone; Ray would look for it for a minute.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "20")
    # Work at a low priority would wait for all else that a machine does.
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        try:
            import ray
        except ImportError:
            raise Fatal(NEEDS_RAY.format(python=sys.executable)) from None
        try:
            connect(ray, options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise Fatal(f"--cluster {options['address']}: there is no cluster: {first_and_last(str(error))}") from None
        asyncio.run(main_loop(ray, options, output))
        ray.shutdown()
    except (Fatal, OSError, ValueError) as error:
        output.say(fatal=str(error))
    except Exception as error:
        output.say(fatal=f"the cluster's driver failed: {type(error).__name__}: {error}")
    output.end()


if __name__ == "__main__":
    main()
