"""What Kiln is timed beside: a module for each library, run in a process of its own (worker.py).

A module has

    PACKAGES        what pip installs for it, () for nothing
    LAYOUTS         [(name, whether x and y are plain NCX there)]: the ways in which it is tried; the fastest counts
    version()       of the library, a text
    prepare(problem, layout, tensors)
                    everything that comes before a run; returns a Prepared. Unsupported where the library lacks the case

and may have CALL_NOTE, what its times include that is not the library's.
"""

import time


class Unsupported(Exception):
    """The library, or how it is driven here, lacks the case."""


class Prepared:
    """A layer that is ready to run."""

    def __init__(self, run, output, note="", seconds=None):
        self.run = run  # computes it once
        self.output = output  # the result of the last run, in ONNX's order of dimensions
        self.note = note  # the algorithm, where the library tells
        self.first = 0.0  # seconds of the first run
        self._seconds = seconds

    def seconds(self, calls):
        """How long `calls` runs take."""
        if self._seconds:
            return self._seconds(calls)
        run, begin = self.run, time.perf_counter()
        for _ in range(calls):
            run()
        return time.perf_counter() - begin


def require(condition, reason):
    if not condition:
        raise Unsupported(reason)


def plain_epilogue(problem):
    """Raises Unsupported unless there is nothing but a bias and a ReLU behind the sum."""
    require("residual" not in problem.flags, "a residual is not driven here")
    require(problem.activation in ("", "relu"), f"activation {problem.activation} is not driven here")
