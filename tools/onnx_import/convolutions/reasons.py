"""Why a node behind a layer, which looks as if it could be a part of it, is none."""

import collections

from convolutions.activations import ACTIVATIONS
from terms import FUSIBLE, input_name, is_onnx

AFFINE = ("BatchNormalization", "Mul", "Div", "Add", "Sub", "Sum")
# Operators of one input that change each number by itself, as an activation does.
ELEMENTWISE = ("Abs", "Celu", "Elu", "Erf", "Exp", "Gelu", "Log", "Mish", "Neg", "PRelu", "Reciprocal", "Selu", "Shrink",
               "Softplus", "Softsign", "Sqrt", "Swish", "ThresholdedRelu")
POOLS = ("GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceMax", "ReduceSum", "AveragePool")
# No squeeze-and-excite has more nodes.
MOST_NODES = 24
MOST_NAMES = 3


def notes(graph, layers, used, told):
    """A note for every kind of node and reason; `used` and `told` are ids of nodes that need none."""
    ends = {layer.end: layer for layer in layers if layer.node.op_type in FUSIBLE}
    reasons = collections.defaultdict(dict)
    for node in graph.nodes:
        behind = [name for name in node.input if name in ends]
        if not behind or id(node) in used or id(node) in told or not is_onnx(node):
            continue
        if node.op_type in AFFINE or node.op_type in ELEMENTWISE or node.op_type in ACTIVATIONS:
            pools = {name: pool for name in behind if (pool := pool_between(graph, name, node))}
            name, pool = next(iter(pools.items())) if pools else (max(behind, key=lambda name: ends[name].position), None)
            reasons[node.op_type, reason(graph, ends[name], node, pool)][ends[name].name] = None
    for (op_type, why), names in reasons.items():
        shown = list(names)[:MOST_NAMES]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        yield f"the {op_type} behind {', '.join(shown)}{more} stays outside: {why}"


def reason(graph, layer, node, pool):
    if pool:
        return (f"it scales channels by what is computed from the same result (a {pool}): the whole of it must be there "
                "before the first pixel can be scaled")
    if layer.end in graph.outputs:
        return "the value in front of it is an output of the model"
    readers = graph.readers[layer.end]
    if len({id(reader) for reader in readers}) > 1:
        kinds = list(dict.fromkeys(reader.op_type for reader in readers))[:4]
        return f"the value in front of it is read {len(readers)} times, by {', '.join(kinds)}"
    if layer.activation:
        return "it is behind an activation, which is the last that a layer does"
    if node.op_type in AFFINE:
        return reason_of_affine(graph, layer, node)
    if node.op_type in ACTIVATIONS:
        return "its parameters are not constant numbers"
    return "Kiln has no such activation"


def reason_of_affine(graph, layer, node):
    others = [name for name in node.input if name != layer.end]
    if len(node.input) != 2 or len(others) != 1:
        return "it does not combine the result with one other value"
    if layer.residual and (others[0] in graph.constants or node.op_type not in ("Add", "Sum")):
        return "it is behind the residual sum, behind which a layer has an activation only"
    if others[0] in graph.constants:
        return "it divides by the result" if node.op_type == "Div" and node.input[1] == layer.end else \
            "its constant differs within a channel"
    if node.op_type not in ("Add", "Sum"):
        return "its other value is not a constant"
    if layer.residual:
        return "the layer has a residual already"
    shapes = [graph.open_shape(name) for name in (layer.end, others[0])]
    if any(shape is None or None in shape for shape in shapes) and not differ(*shapes):
        return "whether both values have one shape is not known before it runs"
    return f"its values have the shapes {shapes[0]} and {shapes[1]}, and a residual has the result's"


def differ(first, second):
    """Whether two shapes are different for certain."""
    if first is None or second is None:
        return False
    return len(first) != len(second) or any(None not in sizes and sizes[0] != sizes[1] for sizes in zip(first, second))


def pool_between(graph, end, node):
    """The pool by which a product's other value is computed from a layer's result, or None."""
    if node.op_type != "Mul":
        return None
    pending, seen, pool = [name for name in node.input if name != end], set(), None
    while pending and len(seen) < MOST_NODES:
        maker = graph.makers.get(pending.pop())
        if maker is None or id(maker) in seen:
            continue
        seen.add(id(maker))
        if maker.op_type in POOLS and input_name(maker, 0) == end:
            pool = maker.op_type
        pending += maker.input
    return pool
