"""onnxruntime's CPU provider, all of its optimisations on, on memory that is bound once."""

import numpy as np

from peers import Prepared

PACKAGES = ("onnxruntime==1.31.1", "onnx==1.23.2")
LAYOUTS = []
CALL_NOTE = "each call comes through Python"


def version():
    import onnxruntime

    return onnxruntime.__version__


def load(model, inputs):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value)))
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")
    return Prepared(lambda: session.run_with_iobinding(binding), lambda: [value.numpy() for value in binding.get_outputs()])
