"""Takes out of a model what computes nothing."""

import collections

import onnx

from terms import attribute_values, is_onnx, outer_names, subgraphs


def take_out_copies(model):
    """Takes out Identity, and Dropout as it is in inference; says how many of each."""
    read = {value.name for value in model.graph.output}
    for node in model.graph.node:
        read.update([*node.input, *outer_names(node)])
    outputs = {value.name for value in model.graph.output}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    sources, kept, counts = {}, [], collections.Counter()
    for node in model.graph.node:
        if is_copy(node, constants, opset) and node.output[0] not in outputs and not read.intersection(node.output[1:]):
            sources[node.output[0]] = sources.get(node.input[0], node.input[0])
            counts[node.op_type] += 1
        else:
            kept.append(node)
    if counts:
        del model.graph.node[:]
        model.graph.node.extend(kept)
        rename_inputs(model.graph, sources)
    return counts


def is_copy(node, constants, opset):
    if not is_onnx(node) or not node.input or not node.input[0] or not node.output or not node.output[0]:
        return False
    if node.op_type == "Identity":
        return True
    if node.op_type != "Dropout":
        return False
    if opset < 7:
        return bool(attribute_values(node).get("is_test", 0))
    training = node.input[2] if len(node.input) > 2 else ""
    return not training or (training in constants and not onnx.numpy_helper.to_array(constants[training]).any())


def rename_inputs(graph, names):
    """What nodes and bodies of nodes read, by other names."""
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name in names:
                node.input[index] = names[name]
        for inner in subgraphs(node):
            rename_inputs(inner, names)
            for value in inner.output:
                value.name = names.get(value.name, value.name)
