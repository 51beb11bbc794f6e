"""A library's own process: worker.py MODULE [--cpu N] [--hold LEVEL LIBRARY]. Requests and answers are lines of JSON.

    {"do": "prepare", "key", "problem", "layout", "tensors": FILE.npz, "output": FILE.npy}
    {"do": "load", "key", "model", "names", "inputs": FILE.npz, "output": FILE.npz}  of whole networks (networks/)
    {"do": "time", "key", "seconds"}       answers {"seconds": of one call, the best}
    {"do": "order", "key", "calls"}        runs a network so often, its nodes timed
    {"do": "profile", "key"}               answers {"nodes": [...]}, what its nodes took in those runs
    {"do": "drop"}                         forgets what was prepared
    {"do": "peak", "kind", "avx2", "seconds"}  of Kiln's own module, which has a function for it
"""

import argparse
import ctypes
import importlib
import json
import os
import sys
import time

SAMPLE_SECONDS = 100e-6  # calls are timed in groups that take about this long
SLOW_SECONDS = 0.5  # a call that takes longer is not made again


def hold(level, path):
    """Masks what CPUID tells this process; whether that works here. It comes before the library is loaded."""
    return ctypes.CDLL(path).kiln_bench_hold(int(level == "avx2")) == 0


def best_time(prepared, budget):
    """Seconds of one call: the best group of calls within `budget` seconds, behind some to warm up."""
    if prepared.first > SLOW_SECONDS:
        return prepared.first
    begin = time.perf_counter()
    prepared.seconds(1)
    calls = max(1, int(SAMPLE_SECONDS / max(prepared.seconds(1), 1e-9)))
    best, samples = float("inf"), 0
    while samples < 3 or time.perf_counter() - begin < budget:
        best = min(best, prepared.seconds(calls) / calls)
        samples += 1
    return best


class Worker:
    def __init__(self, module, held):
        self.module, self.held, self.prepared = module, held, {}

    def hello(self):
        return {"version": self.module.version(), "layouts": self.module.LAYOUTS, "held": self.held,
                "note": getattr(self.module, "CALL_NOTE", "")}

    def prepare(self, request):
        import numpy as np

        import problem as problems

        with np.load(request["tensors"]) as file:
            tensors = dict(file)
        prepared = self.module.prepare(problems.parse(request["problem"]), request["layout"], tensors)
        prepared.first = prepared.seconds(1)
        np.save(request["output"], prepared.output())
        self.prepared[request["key"]] = prepared
        return {"note": prepared.note}

    def load(self, request):
        import numpy as np

        with np.load(request["inputs"]) as file:
            inputs = {name: file[f"arr_{place}"] for place, name in enumerate(request["names"])}
        prepared = self.module.load(request["model"], inputs)
        prepared.first = prepared.seconds(1)
        np.savez(request["output"], *prepared.output())
        self.prepared[request["key"]] = prepared
        return {}

    def time(self, request):
        return {"seconds": best_time(self.prepared[request["key"]], request["seconds"])}

    def order(self, request):
        self.prepared[request["key"]].order(request["calls"])
        return {}

    def profile(self, request):
        return {"nodes": self.prepared[request["key"]].profile()}

    def peak(self, request):
        return {"gops": self.module.peak(request["kind"], request["avx2"], request["seconds"])}

    def drop(self, _):
        self.prepared.clear()
        return {}

    def answer(self, request):
        try:
            return getattr(self, request["do"])(request)
        except Exception as error:  # whatever a library raises is an answer
            from peers import Unsupported

            kind = "unsupported" if isinstance(error, Unsupported) else "failed"
            return {kind: (str(error) or repr(error)).splitlines()[0][:200]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--cpu", type=int)
    parser.add_argument("--hold", nargs=2, metavar=("LEVEL", "LIBRARY"))
    arguments = parser.parse_args()
    if arguments.cpu is not None:
        os.sched_setaffinity(0, {arguments.cpu})
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is not an answer
    held = hold(*arguments.hold) if arguments.hold else None
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    try:
        worker = Worker(importlib.import_module(arguments.module), held)
        print(json.dumps(worker.hello()), file=answers)
    except (ImportError, OSError) as error:
        print(json.dumps({"failed": str(error).splitlines()[0]}), file=answers)
        return
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=answers)


if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its modules are named as the libraries are
    main()
