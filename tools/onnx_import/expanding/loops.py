"""Loop and Scan that run a known number of times: so many copies of their bodies, one behind the other."""

import numpy as np
import onnx
from onnx import numpy_helper

from terms import attribute_values, is_onnx, subgraphs

# Longer ones stay what they are.
MOST_NODES = 4096


def count_of(node, value_of, shape_of):
    """How often the body of a node runs, where that is known and a small number; else None.

    `value_of` gives an outer constant's value, `shape_of` an outer value's shape, None where it is not known.
    """
    if not is_onnx(node) or node.op_type not in ("Loop", "Scan"):
        return None
    bodies = list(subgraphs(node))
    if len(bodies) != 1:
        return None
    count = loop_count(node, bodies[0], value_of) if node.op_type == "Loop" else scan_count(node, bodies[0], shape_of)
    if count is None or count * len(bodies[0].node) > MOST_NODES:
        return None
    # Of no round there is nothing to stack, whose shape the body alone knows.
    return max(count, 0) if count > 0 or len(node.output) <= states_of(node) else None


def states_of(node):
    """How many values a round hands on to the next."""
    return len(node.input) - (2 if node.op_type == "Loop" else attribute_values(node).get("num_scan_inputs", 0))


def loop_count(node, body, value_of):
    if len(node.input) < 2 or not node.input[0] or len(body.input) != len(node.input) or len(body.output) <= len(node.input) - 2:
        return None
    count = value_of(node.input[0])
    if count is None or count.size != 1 or not goes_on(body, value_of):
        return None
    begins = value_of(node.input[1]) if node.input[1] else np.True_
    return int(count.reshape(-1)[0]) if begins is not None and begins.all() else None


def goes_on(body, value_of):
    """Whether the condition that a Loop's body hands on is always true."""
    makers = {node.output[0]: node for node in body.node if node.output}
    name = body.output[0].name
    while name in makers and makers[name].op_type in ("Identity", "Cast"):
        name = makers[name].input[0]
    if name == body.input[1].name:
        return True
    inside = {tensor.name: tensor for tensor in body.initializer}
    if name in makers and makers[name].op_type == "Constant":
        inside[name] = attribute_values(makers[name]).get("value")
    if name in inside:
        return inside[name] is not None and bool(numpy_helper.to_array(inside[name]).all())
    value = None if name in makers else value_of(name)
    return value is not None and bool(value.all())


def scan_count(node, body, shape_of):
    scanned = attribute_values(node).get("num_scan_inputs", 0)
    states = len(node.input) - scanned
    if scanned < 1 or states < 0 or len(body.input) != len(node.input) or len(body.output) < states:
        return None
    shape = shape_of(node.input[states])
    axis = number_of(node, "scan_input_axes", 0)
    return shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None


def number_of(node, name, place):
    """An axis or a direction of one of a Scan's inputs or results, 0 where it says none."""
    numbers = attribute_values(node).get(name, ())
    return numbers[place] if place < len(numbers) else 0


def slice_of(node, number, place, rounds, prefix):
    """(an index, the node that picks with it) what a round of a Scan reads of an input."""
    states = len(node.input) - attribute_values(node)["num_scan_inputs"]
    index = rounds - 1 - place if number_of(node, "scan_input_directions", number) else place
    name = f"{prefix}slice{number}"
    pick = onnx.helper.make_node("Gather", [node.input[states + number], f"{name}/index"], [name], name,
                                 axis=number_of(node, "scan_input_axes", number))
    return numpy_helper.from_array(np.asarray(index, np.int64), f"{name}/index"), pick


def stack_of(node, number, row, output, opset):
    """(an axis, as a constant, the nodes that read it) which make a result of the rows that a Loop's or Scan's rounds made."""
    if number_of(node, "scan_output_directions", number):
        row = row[::-1]
    axis = number_of(node, "scan_output_axes", number)
    axes = numpy_helper.from_array(np.array([axis], np.int64), f"{output}/axes")
    widened = [f"{output}/row{place}" for place in range(len(row))]
    if opset < 13:
        nodes = [onnx.helper.make_node("Unsqueeze", [one], [wide], wide, axes=[axis]) for one, wide in zip(row, widened)]
    else:
        nodes = [onnx.helper.make_node("Unsqueeze", [one, axes.name], [wide], wide) for one, wide in zip(row, widened)]
    return axes, [*nodes, onnx.helper.make_node("Concat", widened, [output], node.name or output, axis=axis)]
