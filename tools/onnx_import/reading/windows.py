"""Windows of convolutions and pools that are larger than what they slide over, of which onnx's inference says nothing."""

from terms import INPUTS, attribute_values, is_onnx

SLIDING = ("Conv", "ConvInteger", "QLinearConv", "MaxPool", "AveragePool", "LpPool")


def too_large(node, dims):
    """Along which axis the window does not fit, in words; None where it does, or sizes are not known. `dims` tells a value's."""
    if node.op_type not in SLIDING or not is_onnx(node):
        return None
    attributes = attribute_values(node)
    x = dims(node.input[0]) if node.input else None
    kernel = attributes.get("kernel_shape")
    if kernel is None and node.op_type in INPUTS and len(node.input) > INPUTS[node.op_type]["w"]:
        kernel = (dims(node.input[INPUTS[node.op_type]["w"]]) or [])[2:]
    if x is None or not kernel or len(x) != len(kernel) + 2 or attributes.get("auto_pad", b"NOTSET").startswith(b"SAME"):
        return None
    pads, dilations = (attributes.get(name) or [default] * count for name, default, count in
                       (("pads", 0, 2 * len(kernel)), ("dilations", 1, len(kernel))))  # fmt: skip
    if len(pads) != 2 * len(kernel) or len(dilations) != len(kernel):
        return None
    for axis, taps in enumerate(kernel):
        reach = None if taps is None else (taps - 1) * dilations[axis] + 1
        if reach is not None and x[axis + 2] is not None and reach > x[axis + 2] + pads[axis] + pads[axis + len(kernel)]:
            return (f"its window of {reach} is larger than axis {axis + 2}, which is {x[axis + 2]} with pads of {pads[axis]} and "
                    f"{pads[axis + len(kernel)]}")
    return None
