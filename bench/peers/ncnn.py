"""ncnn: a network of one layer. Its blobs are NCX of one image; inside it packs channels."""

import os
import struct
import tempfile

import numpy as np

from peers import Prepared, plain_epilogue, require

PACKAGES = ("ncnn==1.0.20261020",)
LAYOUTS = [("ncx", True), ("ncx, no Winograd", True)]
CALL_NOTE = "each call comes through Python"


def version():
    import ncnn

    return ncnn.__version__


def _axes(first, values):
    """A value for each axis in ncnn's numbers of a layer's parameters: width, then height (+10), then depth (+20)."""
    return " ".join(f"{first + 10 * index}={value}" for index, value in enumerate(reversed(values)))


def _layer(problem):
    name = "Deconvolution" if problem.transposed else "Convolution"
    if problem.deformable:
        name = "DeformableConv2D"
    else:
        name += ("DepthWise" if problem.groups > 1 else "") + {1: "1D", 2: "", 3: "3D"}[problem.rank]
    begins, ends = problem.pads_begin, problem.pads_end
    pads = _axes(4, begins)
    if problem.deformable or begins != ends:
        require(problem.rank == 2, "pads that differ at the two ends are driven in two dimensions only")
        pads = f"4={begins[1]} 15={ends[1]} 14={begins[0]} 16={ends[0]}"
    # Parameters: 0 outputs, 1 kernel, 2 dilation, 3 stride, 4 pads, 5 bias, 6 weights, 7 groups, 9 activation.
    return (name, f"0={problem.out_channels} {_axes(1, problem.kernel)} {_axes(2, problem.dilations)} "
            f"{_axes(3, problem.strides)} {pads} 5={int('bias' in problem.flags)} "
            f"6={int(np.prod(problem.weight_shape))} 7={problem.groups} 9={int(bool(problem.activation))}")


def _write(folder, problem, tensors, inputs):
    name, parameters = _layer(problem)
    lines = [f"Input {blob} 0 1 {blob}" for blob in inputs]
    lines.append(f"{name} layer {len(inputs)} 1 {' '.join(inputs)} y {parameters}")
    with open(os.path.join(folder, "net.param"), "w", encoding="utf-8") as file:
        file.write("\n".join(["7767517", f"{len(lines)} {len(lines)}", *lines, ""]))
    w = tensors["w"]
    if problem.transposed:  # ncnn has (group, out, in, taps)
        w = w.reshape(problem.groups, problem.in_channels // problem.groups, problem.out_channels // problem.groups, -1)
        w = w.swapaxes(1, 2)
    with open(os.path.join(folder, "net.bin"), "wb") as file:
        file.write(struct.pack("<I", 0) + np.ascontiguousarray(w, np.float32).tobytes())
        if "bias" in tensors:
            file.write(tensors["bias"].astype(np.float32).tobytes())


def prepare(problem, layout, tensors):
    import ncnn

    plain_epilogue(problem)
    require(problem.x_type in ("f32", "bf16"), f"{problem.x_type} is not driven here")
    require(problem.batch == 1, "it takes one image")
    require(problem.rank <= 3, "it has three dimensions at the most")
    require(not problem.deformable or problem.groups == 1, "deformable convolutions have no groups")
    winograd = "no Winograd" not in layout
    require(winograd or (problem.operator == "conv" and problem.kernel == (3, 3) and problem.strides == (1, 1)
                         and problem.groups == 1), "it has no Winograd for this")
    inputs = {name: tensors[name] for name in ("x", "offset", "mask") if name in tensors}
    net = ncnn.Net()
    options = net.opt
    options.num_threads = 1
    options.use_vulkan_compute = False
    options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = False
    options.use_bf16_storage = problem.x_type == "bf16"
    options.use_winograd_convolution = winograd
    with tempfile.TemporaryDirectory() as folder:
        _write(folder, problem, tensors, inputs)
        require(net.load_param(os.path.join(folder, "net.param")) == 0, "it has no such layer")
        require(net.load_model(os.path.join(folder, "net.bin")) == 0, "it does not take the weights")
    blobs = {name: ncnn.Mat(np.ascontiguousarray(value[0], np.float32)).clone() for name, value in inputs.items()}
    last = []

    def run():
        extractor = net.create_extractor()
        for name, blob in blobs.items():
            extractor.input(name, blob)
        code, y = extractor.extract("y")
        if code != 0:
            raise RuntimeError(f"extract returned {code}")
        last[:] = [y]

    return Prepared(run, lambda: np.array(last[0]).reshape(problem.y_shape))
