"""The libraries' processes, as those who ask them see them."""

import json
import os
import select
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


class Gone(Exception):
    """The process ended, or did not answer in time and was ended."""


class Side:
    """One library: a worker that is asked one thing at a time, and that may end at any of them."""

    def __init__(self, name, module, python=sys.executable, cpu=None, environment=None, hold=None, timeout=120.0):
        self.name, self.timeout = name, timeout
        self.command = [python, os.path.join(HERE, "peers", "worker.py"), module]
        self.command += [] if cpu is None else ["--cpu", str(cpu)]
        self.command += ["--hold", *hold] if hold else []
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
        self.process, self.facts = None, {}

    def start(self):
        """Returns what the library says of itself: its version and layouts, or "failed"."""
        self.stop()
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env=self.environment, bufsize=0)
        self.buffer = b""
        try:
            self.facts = self._read()
        except Gone as error:
            self.facts = {"failed": str(error)}
        return self.facts

    def ask(self, do, **request):
        try:
            self.process.stdin.write(json.dumps({"do": do, **request}).encode() + b"\n")
        except (BrokenPipeError, AttributeError):
            raise Gone(self._how()) from None
        return self._read()

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None

    def _read(self):
        while b"\n" not in self.buffer:
            if not select.select([self.process.stdout], [], [], self.timeout)[0]:
                self.stop()
                raise Gone(f"no answer in {self.timeout:g} s")
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                raise Gone(self._how())
            self.buffer += part
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def _how(self):
        if self.process is None:
            return "it is not running"
        code = self.process.wait()
        return f"crashed: {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
