"""OpenVINO's CPU plugin, for the least latency, in float32 where the model is."""

import numpy as np

from peers import Prepared

PACKAGES = ("openvino==2026.4.1",)
LAYOUTS = []
CALL_NOTE = "each call comes through Python"


def version():
    import openvino

    return openvino.__version__.split("-")[0]


def load(model, inputs):
    request, outputs, _ = request_of(model, inputs, {})
    prepared = Prepared(lambda: run(request), lambda: [np.array(request.get_output_tensor(index).data) for index in range(outputs)])
    profiled = Profiled(model, inputs)
    prepared.order, prepared.profile = profiled.order, profiled.profile
    return prepared


def request_of(model, inputs, options):
    """(what is asked to run, how many outputs it has, the compiled model)"""
    import openvino as ov

    core = ov.Core()
    read = core.read_model(model)
    read.reshape({name: list(value.shape) for name, value in inputs.items()})
    compiled = core.compile_model(read, "CPU", {
        "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": "f32", **options})
    request = compiled.create_infer_request()
    for name, value in inputs.items():
        request.set_tensor(name, ov.Tensor(np.ascontiguousarray(value), shared_memory=False))
    return request, len(compiled.outputs), compiled


def run(request):
    request.start_async()
    request.wait()


class Profiled:
    """A model that counts what each node takes, made when it is first asked for. It tells the mean of all its runs."""

    def __init__(self, model, inputs):
        self.model, self.inputs, self.request = model, inputs, None

    def order(self, calls):
        if self.request is None:
            self.request, _, self.compiled = request_of(self.model, self.inputs, {"PERF_COUNT": True})
        for _ in range(calls + 1):
            run(self.request)

    def profile(self):
        names = {op.get_friendly_name(): original_names(op) for op in self.compiled.get_runtime_model().get_ordered_ops()}
        return [{"names": [info.node_name, *names.get(info.node_name, [])], "kind": info.node_type,
                 "seconds": [info.real_time.total_seconds()]}
                for info in self.request.get_profiling_info() if "EXECUTED" in str(info.status)]


def original_names(op):
    """The names of the model's nodes that a node computes."""
    text = op.get_rt_info()["originalLayersNames"]
    text = text.astype(str) if hasattr(text, "astype") else str(text)
    return [name for name in text.split(",") if name]
