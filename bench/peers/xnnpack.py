"""XNNPACK through ai-edge-litert (TensorFlow Lite), whose default delegate it is: a model of one operator, channels last.

Pads become an operator of their own in front, which the delegate folds into the convolution.
"""

import numpy as np

from peers import Prepared, plain_epilogue, require

PACKAGES = ("ai-edge-litert==2.3.0", "flatbuffers==25.12.19")
LAYOUTS = [("nxc", False)]  # it has no other
CALL_NOTE = "each call comes through Python"


def version():
    import importlib.metadata

    return importlib.metadata.version("ai-edge-litert")


class _Model:
    """A model's tensors and operators, in the words of the schema."""

    def __init__(self):
        from ai_edge_litert import schema_py_generated as schema

        self.schema = schema
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.buffers = [schema.BufferT()]
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators, self.model.operatorCodes = [], [], []
        self.model.subgraphs = [self.graph]

    def tensor(self, name, shape, kind, scale=None, zero=0, axis=0):
        tensor = self.schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, list(map(int, shape)), kind, 0
        if scale is not None:
            quantisation = self.schema.QuantizationParametersT()
            quantisation.scale = [float(value) for value in np.atleast_1d(scale)]
            quantisation.zeroPoint = [zero] * len(quantisation.scale)
            quantisation.quantizedDimension = axis
            tensor.quantization = quantisation
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def constant(self, name, array, kind, **quantisation):
        buffer = self.schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        index = self.tensor(name, array.shape, kind, **quantisation)
        self.graph.tensors[index].buffer = len(self.model.buffers) - 1
        return index

    def operator(self, name, options_name, options, inputs, outputs, version_=1):
        code = self.schema.OperatorCodeT()
        code.builtinCode = getattr(self.schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), version_
        self.model.operatorCodes.append(code)
        operator = self.schema.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        operator.builtinOptionsType = getattr(self.schema.BuiltinOptions, options_name)
        operator.builtinOptions = options
        operator.inputs, operator.outputs = inputs, outputs
        self.graph.operators.append(operator)

    def content(self):
        import flatbuffers

        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())


def _spatial(problem):
    """Strides, dilations, kernel, begins, ends and outputs in two dimensions or three: one is a row of an image."""
    lead = (1,) if problem.rank == 1 else ()
    none = (0,) if problem.rank == 1 else ()
    return (lead + problem.strides, lead + problem.dilations, lead + problem.kernel, none + problem.pads_begin,
            none + problem.pads_end, lead + problem.outputs)


def _options(options, strides, dilations):
    for axis, stride, dilation in zip("DHW"[-len(strides):], strides, dilations):
        setattr(options, f"stride{axis}", stride)
        if hasattr(options, f"dilation{axis}Factor"):
            setattr(options, f"dilation{axis}Factor", dilation)
    return options


def _same_pads(problem):
    """Whether TRANSPOSE_CONV's SAME, whose pads follow from the output, has these pads."""
    for size, out, kernel, stride, begin in zip(problem.inputs, problem.outputs, problem.kernel, problem.strides,
                                                problem.pads_begin):
        if begin != max((size - 1) * stride + kernel - out, 0) // 2:
            return False
    return True


def _build(problem, tensors):
    strides, dilations, kernel, begins, ends, outputs = _spatial(problem)
    model = _Model()
    schema = model.schema
    kinds = schema.TensorType
    kind = kinds.INT8 if problem.quantised else kinds.FLOAT32
    # Unsigned data is signed data with another zero point.
    x_zero, y_zero = (zero - (128 if dtype == "u8" else 0) for zero, dtype in (
        (problem.x_zero_point, problem.x_type), (problem.y_zero_point, problem.y_type)))
    like = {"scale": 1.0, "zero": x_zero} if problem.quantised else {}
    x_shape = (problem.batch, *((1,) if problem.rank == 1 else ()), *problem.inputs, problem.in_channels)
    data = model.tensor("x", x_shape, kind, **like)
    model.graph.inputs = [data]
    y = model.tensor("y", (problem.batch, *outputs, problem.out_channels), kind,
                     **({"scale": 1.0, "zero": y_zero} if problem.quantised else {}))
    model.graph.outputs = [y]
    w = tensors["w"].reshape(*tensors["w"].shape[:2], *kernel)
    depthwise = problem.operator == "conv" and problem.groups == problem.in_channels > 1 and len(kernel) == 2
    scale = {"scale": tensors["scale"], "axis": 3 if depthwise else 0} if problem.quantised else {}
    bias = tensors.get("bias", np.zeros(problem.out_channels))
    bias = model.constant("bias", bias.astype(np.int32 if problem.quantised else np.float32),
                          kinds.INT32 if problem.quantised else kinds.FLOAT32,
                          **({"scale": tensors["scale"]} if problem.quantised else {}))
    rank3 = len(kernel) == 3
    if not problem.transposed and any((*begins, *ends)):
        require(min(*begins, *ends) >= 0, "negative pads are not driven here")
        pads = np.int32([(0, 0), *zip(begins, ends), (0, 0)])
        padded = [size + begin + end for size, begin, end in zip(x_shape[1:-1], begins, ends)]
        inner = model.tensor("padded", (problem.batch, *padded, problem.in_channels), kind, **like)
        model.operator("PAD", "PadOptions", schema.PadOptionsT(), [data, model.constant("pads", pads, kinds.INT32)],
                       [inner], 2)
        data = inner
    version_ = 3 if problem.quantised or (problem.transposed and not rank3) else 1
    if problem.transposed:
        name, options_name = ("CONV_3D_TRANSPOSE", "Conv3DOptions") if rank3 else ("TRANSPOSE_CONV", "TransposeConvOptions")
        options = schema.Conv3DOptionsT() if rank3 else schema.TransposeConvOptionsT()
        weights = w.transpose(2, 3, 4, 1, 0) if rank3 else w.transpose(1, 2, 3, 0)
        options.padding = int(not any((*begins, *ends)))
        size = np.int32([problem.batch, *outputs, problem.out_channels])
        inputs = [model.constant("size", size, kinds.INT32), None, data, bias]
    else:
        if rank3:
            name, options_name, options = "CONV_3D", "Conv3DOptions", schema.Conv3DOptionsT()
            weights = w.transpose(2, 3, 4, 1, 0)
        elif depthwise:
            name, options_name, options = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", schema.DepthwiseConv2DOptionsT()
            options.depthMultiplier = problem.out_channels // problem.in_channels
            weights = w.transpose(1, 2, 3, 0)
        else:
            name, options_name, options = "CONV_2D", "Conv2DOptions", schema.Conv2DOptionsT()
            weights = w.transpose(0, 2, 3, 1)
        options.padding = 1  # VALID
        inputs = [data, None, bias]
    options.fusedActivationFunction = int(problem.activation == "relu")
    weights = model.constant("w", weights, kind, **scale)
    model.operator(name, options_name, _options(options, strides, dilations),
                   [weights if at is None else at for at in inputs], [y], version_)
    return model.content()


def prepare(problem, layout, tensors):
    from ai_edge_litert.interpreter import Interpreter

    plain_epilogue(problem)
    require(not problem.deformable, "it has no deformable convolution")
    require(problem.x_type in ("f32", "s8", "u8"), f"{problem.x_type} is not driven here")
    require(problem.rank <= 3, "it has three dimensions at the most")
    if problem.transposed:
        require(problem.groups == 1, "its transposed convolution has no groups")
        require(set(problem.dilations) == {1}, "its transposed convolution has no dilation")
        require(_same_pads(problem), "its transposed convolution has no such pads")
    interpreter = Interpreter(model_content=_build(problem, tensors), num_threads=1)
    interpreter.allocate_tensors()
    x = np.moveaxis(tensors["x"], 1, -1)
    if problem.quantised:
        x = (x.astype(np.int32) - (128 if problem.x_type == "u8" else 0)).astype(np.int8)
    details = interpreter.get_input_details()[0]
    interpreter.set_tensor(details["index"], np.ascontiguousarray(x).reshape(details["shape"]))
    index = interpreter.get_output_details()[0]["index"]

    def output():
        y = interpreter.get_tensor(index).astype(np.int32 if problem.quantised else np.float32)
        y = y + (128 if problem.y_type == "u8" else 0)
        return np.moveaxis(y.reshape(problem.batch, *problem.outputs, problem.out_channels), -1, 1)

    return Prepared(interpreter.invoke, output)
