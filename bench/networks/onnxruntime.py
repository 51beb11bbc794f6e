"""onnxruntime's CPU provider, all of its optimisations on, on memory that is bound once."""

import json
import os
import re
import tempfile

import numpy as np

from peers import Prepared

PACKAGES = ("onnxruntime==1.31.1", "onnx==1.23.2")
LAYOUTS = []
CALL_NOTE = "each call comes through Python"


def version():
    import onnxruntime

    return onnxruntime.__version__


def load(model, inputs):
    session, binding = bound(model, inputs, options_of())
    prepared = Prepared(lambda: session.run_with_iobinding(binding), lambda: [value.numpy() for value in binding.get_outputs()])
    profiled = Profiled(model, inputs)
    prepared.order, prepared.profile = profiled.order, profiled.profile
    return prepared


def options_of():
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


def bound(model, inputs, options):
    import onnxruntime as ort

    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value)))
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")
    return session, binding


class Profiled:
    """A session that notes what each node takes, made when it is first asked for."""

    def __init__(self, model, inputs):
        self.model, self.inputs = model, inputs
        self.session, self.kept = None, []  # of each run, whether it counts

    def order(self, calls):
        if self.session is None:
            options = options_of()
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(tempfile.mkdtemp(), "profile")
            self.session, self.binding = bound(self.model, self.inputs, options)
        for place in range(calls + 1):
            self.session.run_with_iobinding(self.binding)
            self.kept.append(place > 0)

    def profile(self):
        with open(self.session.end_profiling(), encoding="utf-8") as file:
            return nodes_of(json.load(file), self.kept)


def nodes_of(events, kept):
    """Rows of what a profile has of nodes, of those runs that count."""
    runs = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event["name"] == "model_run")
    runs = [run for run, counts in zip(runs[len(runs) - len(kept):], kept) if counts]
    rows = {}
    for event in events:
        if event.get("cat") != "Node" or not event["name"].endswith("_kernel_time"):
            continue
        if not any(begin <= event["ts"] <= end for begin, end in runs):
            continue
        name, kind = event["name"].removesuffix("_kernel_time"), event["args"]["op_name"]
        key = name, event["args"].get("node_index")
        rows.setdefault(key, {"names": names_of(name), "kind": kind, "seconds": []})["seconds"].append(event["dur"] * 1e-6)
    return list(rows.values())


def names_of(name):
    """What it may have made a node's name of: it adds what it did, and calls some by what they make."""
    plain = re.sub(r"^fused ", "", name)
    return [name, plain, re.sub(r"_nchwc(_token_\d+)?$", "", plain)]
