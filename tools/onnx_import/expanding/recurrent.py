"""LSTM, GRU and RNN that run backwards, or both ways, as such that run forwards: of the others emx-onnx-cgen 1.4.0 refuses
GRU, and makes of LSTM and RNN what has Y's steps in the order in which they are computed."""

import onnx

from terms import NodeError, attribute_values, input_name

OPERATORS = ("LSTM", "GRU", "RNN")
# What a direction has a share of.
SHARED = ("activations", "activation_alpha", "activation_beta")


def forward_only(node, steps):
    """Nodes that make what an LSTM, a GRU or an RNN of so many steps makes, in which all run forwards. Raises NodeError."""
    attributes = attribute_values(node)
    direction = attributes.get("direction", b"forward")
    if direction == b"forward":
        return [directed(node, node.input, node.output, 0, 1)]
    if attributes.get("layout", 0) or input_name(node, 4):
        raise NodeError(f"it runs {direction.decode(errors='replace')} with "
                        + ("layout = 1" if attributes.get("layout", 0) else "sequence_lens"), "unsupported")
    ways = ["reverse"] if direction == b"reverse" else ["forward", "reverse"]
    base = next(filter(None, node.output))
    results = [[f"{base}/{way}/{place}" for place in range(len(node.output))] for way in ways]
    nodes = [part for place, way in enumerate(ways) for part in one_way(node, results[place], place, len(ways), range(steps)[::-1] if way == "reverse" else None)]
    for place, output in enumerate(node.output):
        if output:
            nodes.append(onnx.helper.make_node("Concat", [made[place] for made in results], [output], axis=1 if place == 0 else 0))
    return nodes


def one_way(node, results, place, count, backwards):
    """Nodes of one direction, which make these results; the order of its steps where that is not theirs."""
    nodes, inputs = [], list(node.input)
    for index, source in enumerate(inputs):
        if index > 0 and source and count > 1:
            inputs[index] = f"{results[0]}/{index}"
            nodes += gathered(source, inputs[index], [place])
    if backwards is None:
        return [*nodes, directed(node, inputs, results, place, count)]
    reversed_result = f"{results[0]}/reversed"
    nodes += gathered(inputs[0], f"{results[0]}/x", backwards)
    nodes.append(directed(node, [f"{results[0]}/x", *inputs[1:]], [reversed_result, *results[1:]], place, count))
    return [*nodes, *gathered(reversed_result, results[0], backwards)]


def directed(node, inputs, outputs, place, count):
    """The node, forwards, of one of `count` directions. emx-onnx-cgen's GRU does not understand that direction is forward:
    it is the default too."""
    same = onnx.helper.make_node(node.op_type, inputs, outputs)
    for item in node.attribute:
        if item.name in SHARED:
            values = list(onnx.helper.get_attribute_value(item))
            share = len(values) // count
            same.attribute.append(onnx.helper.make_attribute(item.name, values[place * share:(place + 1) * share]))
        elif item.name != "direction":
            same.attribute.append(item)
    return same


def gathered(source, output, places):
    """What of a value lies at these indices of its first axis."""
    return [onnx.helper.make_node("Constant", [], [f"{output}/places"], value_ints=list(places)),
            onnx.helper.make_node("Gather", [source, f"{output}/places"], [output], axis=0)]
