"""Times the convolutions of a model in onnxruntime: one thread, all optimisations, its own internal layout.

    ort_timing.py MODEL INPUT.npy RUNS OUTPUT.npy OUT.json

The profiler of onnxruntime tells the time of every node; Conv and FusedConv (with the bias, and with Sum and Relu where
it fused those) count as convolutions, ReorderInput and ReorderOutput as changes of layout, and the rest as others.
OUT.json holds {"version", "library": its path, "runs": [{"conv": [s, ...] in order, "reorder": s, "other": s}],
"operators": {name: how many nodes a run has}}. The model's last output goes to OUTPUT.npy. The processor to run on is
the caller's to choose.
"""

import collections
import glob
import json
import os
import sys
import tempfile

import numpy as np
import onnxruntime


def make_session(model, folder):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.enable_profiling = True
    options.profile_file_prefix = os.path.join(folder, "profile")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def kind_of(operator):
    if operator in ("Conv", "FusedConv"):
        return "conv"
    return "reorder" if operator in ("ReorderInput", "ReorderOutput") else "other"


def split_runs(events):
    """The kernels' events of every run, in order; a run ends with an event of the session's own."""
    run, runs = [], []
    for event in sorted(events, key=lambda event: event["ts"] + event["dur"]):
        if event.get("cat") == "Session" and event["name"] == "model_run":
            runs.append(run)
            run = []
        elif event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            run.append(event)
    return runs


def library():
    """The shared library a C++ program would link; where there is none, the extension module that holds all of it."""
    folder = os.path.join(os.path.dirname(onnxruntime.__file__), "capi")
    for pattern in ("libonnxruntime.so*", "onnxruntime_pybind11_state*"):
        for path in glob.glob(os.path.join(folder, pattern)):
            return path
    return None


def main():
    model, image, count, output, answer = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        session = make_session(model, folder)
        feed = {session.get_inputs()[0].name: np.load(image)}
        for _ in range(int(count) + 1):
            result = session.run(None, feed)[-1]
        with open(session.end_profiling(), encoding="utf-8") as file:
            runs = split_runs(json.load(file))[1:]  # the first one warms up
    np.save(output, result)
    times = []
    for run in runs:
        kinds = {"conv": [], "reorder": [], "other": []}
        for event in run:
            kinds[kind_of(event["args"]["op_name"])].append(event["dur"] * 1e-6)
        times.append({"conv": kinds["conv"], "reorder": sum(kinds["reorder"]), "other": sum(kinds["other"])})
    operators = collections.Counter(event["args"]["op_name"] for event in runs[0])
    with open(answer, "w", encoding="utf-8") as file:
        json.dump({"version": onnxruntime.__version__, "library": library(), "runs": times,
                   "operators": operators}, file, indent=1)


if __name__ == "__main__":
    main()
