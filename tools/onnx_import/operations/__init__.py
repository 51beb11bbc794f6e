"""What a node of a model is as operations: kernels that are no convolutions (docs/OPERATIONS.md has their texts)."""

from terms import NodeError, is_onnx

from operations import convolution, elementwise, gathering, interpolation, movement, products
from operations.base import Values
from operations.elementwise import is_map, map_of
from operations.movement import copy_text

HANDLERS = {**gathering.HANDLERS, **movement.HANDLERS, **interpolation.HANDLERS, **products.HANDLERS,
            **convolution.HANDLERS}
# Operators of ONNX Runtime's own that are as they are.
MICROSOFT = {("com.microsoft", "FusedMatMul")}

# Operators that may compute something of their results before they are stored.
TAKING = {"MatMul", "FusedMatMul", "Gemm", "InstanceNormalization", "LayerNormalization", "RMSNormalization", "GroupNormalization",
          "MeanVarianceNormalization"}

__all__ = ["copy_text", "is_map", "map_of", "may_take", "operation_of", "with_chain"]


def operation_of(node, graph):
    """The operations that a node is, a list, in the order in which they run. NodeError: why it is none."""
    if is_onnx(node) and node.op_type in elementwise.HANDLERS:
        return [map_of([node], graph)]
    if not (is_onnx(node) or (node.domain, node.op_type) in MICROSOFT) or node.op_type not in HANDLERS:
        raise NodeError(f"there is no kernel for {node.op_type}" + (f" of {node.domain}" if node.domain else ""), "unsupported")
    values = Values(graph, node)
    if node.op_type not in ("MaxPool", "Split"):
        values.refuse_outputs_behind_first()
    try:
        return HANDLERS[node.op_type](values)
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise NodeError(f"its attributes or inputs are not those of a {node.op_type}: {error!r}") from error


def may_take(node):
    return node.op_type in TAKING and (is_onnx(node) or (node.domain, node.op_type) in MICROSOFT)


def with_chain(node, chain, graph):
    """The operation of a node together with that of the chain of nodes behind it. NodeError: they are two."""
    made = operation_of(node, graph)
    if len(made) != 1:
        raise NodeError("it is more than one operation", "unsupported")
    made[0].with_behind(map_of(chain, graph))
    return made
