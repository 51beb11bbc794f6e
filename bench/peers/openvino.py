"""OpenVINO's CPU plugin: a model of one layer, its layout changed at the model's boundary."""

import numpy as np

from peers import Prepared, plain_epilogue, require

PACKAGES = ("openvino==2026.4.1",)
# It computes channels last: a channels-last boundary needs no change of layout.
X_SCALE = np.float32(0.5)  # of 8-bit data: any but 1, which the optimiser removes, and with it the 8-bit kernel
LAYOUTS = [("ncx", True), ("nxc", False)]
CALL_NOTE = "each call comes through Python, and takes and gives float32 where it computes in 16 bits"


def version():
    import openvino

    return openvino.__version__.split("-")[0]


def _sum(op, problem, x, tensors, parameters):
    """The convolution's node, and in `parameters` the inputs that it needs besides x."""
    axes = (problem.strides, problem.pads_begin, problem.pads_end, problem.dilations)
    groups, w = problem.groups, tensors["w"]
    if problem.quantised:
        channels = w.shape[0]
        require(not problem.transposed, "8-bit deconvolutions are not driven here")
        w = op.convert(op.constant(w.reshape(groups, channels // groups, *w.shape[1:]) if groups > 1 else w), "f32")
        shape = (groups, channels // groups) if groups > 1 else (channels,)
        w = op.multiply(w, op.constant((tensors["scale"] / X_SCALE).reshape(*shape, *(1,) * (problem.rank + 1))))
    elif groups > 1:
        w = op.constant(w.reshape(groups, w.shape[0] // groups, *w.shape[1:]))
    else:
        w = op.constant(w)
    if problem.deformable:
        from openvino import opset8

        inputs = [op.parameter(tensors[name].shape, np.float32) for name in ("offset", "mask") if name in tensors]
        parameters += inputs
        mask = {"mask": inputs[1]} if len(inputs) > 1 else {}
        return opset8.deformable_convolution(x, inputs[0], w, *axes, group=groups, bilinear_interpolation_pad=True,
                                             deformable_group=problem.offset_groups, **mask)
    if problem.transposed:
        natural = [(i - 1) * s - b - e + (k - 1) * d + 1 for i, s, b, e, k, d in
                   zip(problem.inputs, *axes[:3], problem.kernel, problem.dilations)]
        require(natural == list(problem.outputs), "an output padding is not driven here")
        name = "group_convolution_backprop_data" if groups > 1 else "convolution_backprop_data"
        return getattr(op, name)(x, w, axes[0], None, *axes[1:])
    return (op.group_convolution if groups > 1 else op.convolution)(x, w, *axes)


def _model(ov, problem, tensors):
    from openvino import opset13 as op

    parameters = [op.parameter(problem.x_shape, tensors["x"].dtype)]
    x = parameters[0]
    if problem.quantised:
        x = op.multiply(op.convert(x, "f32"), op.constant(X_SCALE))
    channels = (1, -1) + (1,) * problem.rank
    y = _sum(op, problem, x, tensors, parameters)
    if "bias" in tensors:
        bias = tensors["bias"] * tensors["scale"] if problem.quantised else tensors["bias"]
        y = op.add(y, op.constant(bias.astype(np.float32).reshape(channels)))
    if problem.activation:
        y = op.relu(y)
    if problem.quantised:
        low, high = np.float32([0, 255] if problem.y_type == "u8" else [-128, 127])
        y = op.convert(op.fake_quantize(y, *map(op.constant, (low, high, low, high)), 256),
                       "u8" if problem.y_type == "u8" else "i8")
    return ov.Model([y], parameters, "layer")


def _channels_last(ov, model):
    processor = ov.preprocess.PrePostProcessor(model)
    rank = len(model.input(0).shape) - 2
    spatial = "DHW"[-rank:]
    for tensor in (processor.input(0), processor.output(0)):
        tensor.tensor().set_layout(ov.Layout(f"N{spatial}C"))
        tensor.model().set_layout(ov.Layout(f"NC{spatial}"))
    return processor.build()


def prepare(problem, layout, tensors):
    import openvino as ov

    plain_epilogue(problem)
    require(problem.x_zero_point == 0 and problem.y_zero_point == 0, "zero points are not driven here")
    require(problem.x_type != "f64", "float64 is not driven here")
    precision = {"bf16": "bf16", "f16": "f16"}.get(problem.x_type, "f32")
    core = ov.Core()
    capabilities = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    require(precision == "f32" or {"bf16": "BF16", "f16": "FP16"}[precision] in capabilities,
            f"it does not compute in {precision} on this processor")
    model = _model(ov, problem, tensors)
    feeds = [tensors[name] for name in ("x", "offset", "mask") if name in tensors]
    if layout == "nxc":
        require(not problem.deformable, "channels last is not driven for deformable convolutions")
        model = _channels_last(ov, model)
        feeds[0] = np.moveaxis(feeds[0], 1, -1)
    compiled = core.compile_model(model, "CPU", {
        "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": precision})
    request = compiled.create_infer_request()
    for index, feed in enumerate(feeds):
        request.set_input_tensor(index, ov.Tensor(np.ascontiguousarray(feed), shared_memory=False))

    def run():
        request.start_async()
        request.wait()

    def output():
        y = np.array(request.get_output_tensor(0).data)
        return np.moveaxis(y, -1, 1) if layout == "nxc" else y

    return Prepared(run, output)
