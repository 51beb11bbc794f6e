"""Times a model in onnxruntime: one thread, all optimisations, its own internal layout.

    ort_timing.py MODEL INPUT.npy CALLS OUTPUT.npy OUT.json

OUT.json holds {"version", "library": its path, "seconds": of every call}. What the model computes goes to OUTPUT.npy. The
processor to run on is the caller's to choose.
"""

import glob
import json
import os
import sys
import time

import numpy as np
import onnxruntime


def make_session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def library():
    """The shared library a C++ program would link; where there is none, the extension module that holds all of it."""
    folder = os.path.join(os.path.dirname(onnxruntime.__file__), "capi")
    for pattern in ("libonnxruntime.so*", "onnxruntime_pybind11_state*"):
        for path in glob.glob(os.path.join(folder, pattern)):
            return path
    return None


def main():
    model, image, count, output, answer = sys.argv[1:]
    session = make_session(model)
    feed = {session.get_inputs()[0].name: np.load(image)}
    seconds = []
    for call in range(int(count) + 1):
        begin = time.perf_counter()
        result = session.run(None, feed)[0]
        if call > 0:  # the first one warms up
            seconds.append(time.perf_counter() - begin)
    np.save(output, result)
    with open(answer, "w", encoding="utf-8") as file:
        json.dump({"version": onnxruntime.__version__, "library": library(), "seconds": seconds}, file, indent=1)


if __name__ == "__main__":
    main()
