"""Ends the process when it meets a ReLU in NXC, and when timed in NCX with one; raises for transposed convolutions."""

import os
import signal

import right
from peers import Prepared
from right import LAYOUTS, PACKAGES, version  # noqa: F401


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def prepare(problem, layout, tensors):
    if problem.transposed:
        raise ValueError("no such thing")
    inner = right.prepared(problem, layout, tensors, right.SECONDS, "crashing")
    if not problem.activation:
        return inner
    if layout == "nxc":
        crash()
    batches = []

    def seconds(calls):
        batches.append(calls)
        if len(batches) > 1:  # the first run is that which is checked
            crash()
        return calls * 1e-4

    return Prepared(inner.run, inner.output, "", seconds)
