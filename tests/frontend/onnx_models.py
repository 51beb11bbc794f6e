"""Small ONNX models, and the pieces they are made of."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def tensor(name, values):
    return numpy_helper.from_array(np.asarray(values, np.float32), name)


def integers(name, values, dtype=np.int64):
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def value(name, shape, element_type=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, element_type, shape)


def model_of(nodes, inputs, outputs, initializers=(), opset=17):
    graph = helper.make_graph(nodes, "test", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def random_tensor(rng, name, *shape):
    return tensor(name, rng.standard_normal(shape))


def quantized(values, scale, zero_point, axis):
    """The nearest integers of zero_point's type; scale and zero point are one, or one for each index along an axis."""
    shape = [-1 if np.ndim(scale) and dim == axis else 1 for dim in range(np.ndim(values))]
    limits = np.iinfo(zero_point.dtype)
    integers = np.round(values / np.reshape(scale, shape)) + np.reshape(zero_point, shape).astype(int)
    return np.clip(integers, limits.min, limits.max).astype(zero_point.dtype)


def qdq_model(op="Conv", w_shape=(4, 2, 3, 3), w_scale=0.02, w_zero_point=np.int8(0), axis=0, bias="int32", behind=(),
              y=True, x_zero_point=np.uint8(120), y_zero_point=np.uint8(7), extra=(), **attributes):
    """DequantizeLinear of x, wq and bq, the node "conv" with these attributes, which makes c, the nodes `behind`, and
    QuantizeLinear, which makes y.

    w's scales and zero points are along `axis`; the bias is "int32", "float" or None; without `y` the result is
    float32; `extra` are more initializers."""
    rng = np.random.default_rng(8)
    transposed, group = op == "ConvTranspose", attributes.get("group", 1)
    in_channels, channels = (w_shape[0], w_shape[1] * group) if transposed else (w_shape[1] * group, w_shape[0])
    x_scale, w_scale = np.float32(0.03), np.asarray(w_scale, np.float32)
    constants = {"xs": x_scale, "xz": x_zero_point, "ws": w_scale, "wz": w_zero_point,
                 "wq": quantized(rng.uniform(-1.5, 1.5, w_shape), w_scale, w_zero_point, axis)}
    nodes = [helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
             helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["wf"], axis=axis)]
    if bias == "int32":
        constants["bq"] = rng.integers(-500, 500, channels, np.int32)
        constants["bs"] = x_scale * (np.tile(w_scale, group if transposed else 1) if w_scale.ndim else w_scale)
        nodes.append(helper.make_node("DequantizeLinear", ["bq", "bs"], ["bf"], axis=0))
    elif bias == "float":
        constants["bf"] = rng.standard_normal(channels).astype(np.float32)
    nodes += [helper.make_node(op, ["xf", "wf", *(["bf"] if bias else [])], ["c"], "conv", **attributes), *behind]
    result = value(nodes[-1].output[0], None)
    if y:
        constants.update(ys=np.float32(0.1), yz=y_zero_point)
        nodes.append(helper.make_node("QuantizeLinear", [result.name, "ys", "yz"], ["y"]))
        result = value("y", None, helper.np_dtype_to_tensor_dtype(y_zero_point.dtype))
    x = value("x", [1, in_channels, 6, 6], helper.np_dtype_to_tensor_dtype(x_zero_point.dtype))
    initializers = [numpy_helper.from_array(np.asarray(item), name) for name, item in constants.items()]
    return model_of(nodes, [x], [result], [*initializers, *extra], opset=19)
