"""Concatenations of what concatenations make, as one: each part is moved once."""

from terms import attribute_values, copied, is_onnx, outer_names

MOST_PARTS = 16


def with_joined_concats(graph):
    """The first ones first: what they make has all of its parts when the next is looked at."""
    captured = {name for node in graph.nodes for name in outer_names(node)}
    parts, nodes, gone = {}, [], set()  # of results that one Concat alone reads
    for node in graph.nodes:
        if is_concat(graph, node):
            node = joined(node, {name: inside for (name, axis), inside in parts.items() if axis == axis_of(graph, node)}, gone)
            result = node.output[0]
            if graph.only_reader(result) is not None and result not in captured:
                parts[result, axis_of(graph, node)] = list(node.input)
        nodes.append(node)
    if gone:
        graph.set_nodes([node for node in nodes if not gone.intersection(node.output)])


def joined(node, parts, gone):
    """The node, reading the parts of what it reads as far as these are not too many; `gone` gets what it then does not read."""
    inputs = list(node.input)
    for name in node.input:
        if name in parts and inputs.count(name) == 1 and len(inputs) - 1 + len(parts[name]) <= MOST_PARTS:
            place = inputs.index(name)
            inputs[place:place + 1] = parts[name]
            gone.add(name)
    if inputs == list(node.input):
        return node
    return copied(node, inputs)


def is_concat(graph, node):
    return node.op_type == "Concat" and is_onnx(node) and graph.shape(node.output[0]) is not None


def axis_of(graph, node):
    return attribute_values(node).get("axis", 1) % max(len(graph.shape(node.output[0])), 1)
