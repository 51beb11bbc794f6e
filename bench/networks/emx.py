"""emx-onnx-cgen's C, compiled at -O3 for this processor: the embedded way. The file's sizes must be fixed."""

import ctypes
import os
import subprocess
import tempfile

import numpy as np

from peers import Prepared

PACKAGES = ("emx-onnx-cgen==1.4.0", "onnx==1.23.2")
LAYOUTS = []


def version():
    from importlib.metadata import version as of

    return of("emx-onnx-cgen")


def load(model, inputs):
    import onnx
    from emx_onnx_cgen.compiler import Compiler, CompilerOptions

    parsed = onnx.load(model)
    text = Compiler(CompilerOptions(model_name="network", large_weight_threshold=0)).compile(parsed)
    folder = tempfile.mkdtemp()
    source, library = os.path.join(folder, "network.c"), os.path.join(folder, "network.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run([os.environ.get("CC") or "gcc", "-O3", "-march=native", "-shared", "-fPIC", source, "-lm", "-o", library],
                   check=True, capture_output=True)
    run = ctypes.CDLL(library).network
    constants = {tensor.name for tensor in parsed.graph.initializer}
    given = [np.ascontiguousarray(inputs[value.name]) for value in parsed.graph.input if value.name not in constants]
    outputs = []
    for value in parsed.graph.output:
        kind = value.type.tensor_type
        shape = [size.dim_value for size in kind.shape.dim]
        outputs.append(np.zeros(shape, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)))
    places = [ctypes.c_void_p(array.ctypes.data) for array in [*given, *outputs]]
    return Prepared(lambda given=given: run(*places), lambda: outputs)
