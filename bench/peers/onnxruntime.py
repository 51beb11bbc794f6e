"""onnxruntime: one node in a model, run through its Python binding on memory of its own."""

import numpy as np

import tensors as numbers
from peers import Prepared, plain_epilogue, require

PACKAGES = ("onnxruntime==1.31.1", "onnx==1.23.2")
# Its float kernels have blocks of 8 or 16 channels (NCHWc): with the changes of layout they need, and without ("blocked").
LAYOUTS = [("ncx", True), ("ncx, blocked inside", True), ("blocked", False), ("nxc", False)]
CALL_NOTE = "each call comes through Python"


def version():
    import onnxruntime

    return onnxruntime.__version__


def _attributes(problem):
    attributes = {"kernel_shape": problem.kernel, "strides": problem.strides, "dilations": problem.dilations,
                  "group": problem.groups, "pads": [*problem.pads_begin, *problem.pads_end]}
    if problem.deformable:
        attributes["offset_group"] = problem.offset_groups
    return attributes


def _model(problem, tensors, channels_last):
    """(model, {input: array}, {output: element type})"""
    from onnx import TensorProto, helper, numpy_helper

    element = {"f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE, "f16": TensorProto.FLOAT16, "u8": TensorProto.UINT8,
               "s8": TensorProto.INT8}
    require(problem.x_type in element, f"{problem.x_type} is not among the types of its Conv here")
    operator = {"conv": "Conv", "convtranspose": "ConvTranspose", "deformconv": "DeformConv"}[problem.operator]
    attributes = _attributes(problem)
    x = tensors["x"]
    y_shape = problem.y_shape
    feeds = {"x": numbers.stored(x, problem.x_type)}
    constants = {"w": numbers.stored(tensors["w"], problem.w_type)}
    names = ["x", "w"]
    if problem.quantised:
        require(operator == "Conv", f"8-bit {operator} is not among its operators")
        zero = feeds["x"].dtype.type
        constants |= {"x_scale": np.float32(1), "x_zero": zero(problem.x_zero_point), "w_scale": tensors["scale"],
                      "w_zero": np.zeros(problem.out_channels, np.int8), "y_scale": np.float32(1),
                      "y_zero": zero(problem.y_zero_point)}
        operator, names = "QLinearConv", ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"]
    if problem.deformable:
        feeds["offset"] = numbers.stored(tensors["offset"], problem.x_type)
        names.append("offset")
    if "bias" in tensors:
        constants["bias"] = numbers.stored(tensors["bias"], "s32" if problem.quantised else problem.x_type)
        names.append("bias")
    elif problem.deformable:
        names.append("")
    if "mask" in tensors:
        feeds["mask"] = numbers.stored(tensors["mask"], problem.x_type)
        names.append("mask")
    domain = ""
    if channels_last:
        require(problem.quantised, "channels last is for 8-bit data only")
        feeds["x"] = np.ascontiguousarray(np.moveaxis(feeds["x"], 1, -1))
        y_shape = (y_shape[0], *y_shape[2:], y_shape[1])
        attributes["channels_last"], domain = 1, "com.microsoft"
    relu = problem.activation and not (problem.quantised and problem.x_type == "u8" and problem.y_zero_point == 0)
    require(not (relu and problem.quantised), "an 8-bit ReLU above the type's lowest value is not driven here")
    nodes = [helper.make_node(operator, names, ["sum" if relu else "y"], domain=domain, **attributes)]
    if relu:
        nodes.append(helper.make_node("Relu", ["sum"], ["y"]))
    inputs = [helper.make_tensor_value_info(name, element[problem.x_type], value.shape) for name, value in feeds.items()]
    graph = helper.make_graph(nodes, "layer", inputs, [helper.make_tensor_value_info("y", element[problem.y_type], y_shape)],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    opsets = [helper.make_opsetid("", 22)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 10
    return model, feeds


def _session(model, level, saved=None):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    if saved:
        options.optimized_model_filepath = saved
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _bound(session, feeds):
    """(run, the output's array), on memory that is bound once."""
    import onnxruntime as ort

    values = {name: ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value)) for name, value in feeds.items()}
    output = session.get_outputs()[0].name

    def binding():
        binding = session.io_binding()
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        return binding

    first = binding()
    first.bind_output(output, "cpu")
    session.run_with_iobinding(first)
    y = first.get_outputs()[0]
    final = binding()
    final.bind_ortvalue_output(output, y)
    options = ort.RunOptions()
    return lambda: session.run_with_iobinding(final, options), y


def _optimised(model):
    """The model as the optimiser leaves it, and its operators."""
    import tempfile

    import onnx

    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        _session(model, "ORT_ENABLE_ALL", file.name)
        optimised = onnx.load(file.name)
    return optimised, [node.op_type for node in optimised.graph.node]


def _only(model, node, feeds):
    """(run, the output's value) of one node of a model, with what is not a constant fed."""
    from onnx import ModelProto, TensorProto, helper

    part = ModelProto()
    part.CopyFrom(model)
    graph = part.graph
    for fields in (graph.node, graph.value_info, graph.input, graph.output):
        del fields[:]
    graph.node.append(node)
    graph.input.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
                       for name, value in feeds.items())
    graph.output.append(helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None))
    return _bound(_session(part, "ORT_DISABLE_ALL"), feeds)


def _blocked(model, x):
    """The kernel of the optimised model by itself; the changes of layout around it are made once, before and after."""
    nodes = {node.op_type: node for node in model.graph.node}
    if "ReorderInput" in nodes:
        run, blocked = _only(model, nodes["ReorderInput"], {"x": x})
        run()
        x = blocked.numpy()
    run, y = _only(model, nodes["Conv"], {nodes["Conv"].input[0]: x})

    def output():
        back, plain = _only(model, nodes["ReorderOutput"], {nodes["ReorderOutput"].input[0]: y.numpy()})
        back()
        return plain.numpy()

    return Prepared(run, output, "NCHWc")


def prepare(problem, layout, tensors):
    plain_epilogue(problem)
    model, feeds = _model(problem, tensors, layout == "nxc")
    if "blocked" in layout:
        require(layout != "blocked" or problem.x_type == "f32", "its blocked kernels are float32's")
        optimised, operators = _optimised(model)
        require("ReorderOutput" in operators and operators.count("Conv") == 1, "it has no blocked kernel for this")
        if layout == "blocked":
            return _blocked(optimised, feeds["x"])
    run, y = _bound(_session(model, "ORT_ENABLE_ALL" if "blocked" in layout else "ORT_ENABLE_EXTENDED"), feeds)
    return Prepared(run, lambda: np.moveaxis(y.numpy(), -1, 1) if layout == "nxc" else y.numpy())
