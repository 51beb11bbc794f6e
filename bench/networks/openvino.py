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
    import openvino as ov

    core = ov.Core()
    read = core.read_model(model)
    read.reshape({name: list(value.shape) for name, value in inputs.items()})
    compiled = core.compile_model(read, "CPU", {
        "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    for name, value in inputs.items():
        request.set_tensor(name, ov.Tensor(np.ascontiguousarray(value), shared_memory=False))

    def run():
        request.start_async()
        request.wait()

    return Prepared(run, lambda: [np.array(request.get_output_tensor(index).data) for index in range(len(compiled.outputs))])
