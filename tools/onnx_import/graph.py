"""A model as the importer walks it, and the values of its constants."""

import collections

import numpy as np
import onnx
import onnx.reference

from loading import open_inputs
from terms import DTYPES, MAX_CONSTANT_ELEMENTS, NodeError, is_foldable, outer_names, shape_of, shape_text


class Graph:
    """A model's main graph: who makes and who reads each value, the types of values, and constants."""

    def __init__(self, model, folder):
        self.model, self.folder = model, folder
        self.nodes = list(model.graph.node)
        self.outputs = {value.name for value in model.graph.output}
        self.opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
        self.types = {value.name: value.type.tensor_type
                      for group in (model.graph.input, model.graph.output, model.graph.value_info) for value in group}
        self.initializers = {tensor.name: tensor for tensor in model.graph.initializer}
        self.readers = collections.defaultdict(list)
        self.makers = {}
        for node in self.nodes:
            for name in [*node.input, *outer_names(node)]:
                self.readers[name].append(node)
            for name in node.output:
                self.makers[name] = node
        self.constants = set(self.initializers)
        for node in self.nodes:
            if is_foldable(node) and all(name in self.constants for name in node.input if name):
                self.constants.update(name for name in node.output if name)
        self._values = {}

    def shape(self, name):
        """The shape of a value as a list, or None if it is not known."""
        if name in self.initializers:
            return list(self.initializers[name].dims)
        return shape_of(self.types[name]) if name in self.types else None

    def element_type(self, name):
        """"FLOAT", ..., or None if it is not known."""
        if name in self.initializers:
            return onnx.TensorProto.DataType.Name(self.initializers[name].data_type)
        return onnx.TensorProto.DataType.Name(self.types[name].elem_type) if name in self.types else None

    def only_reader(self, name):
        """The node that alone reads a value, or None."""
        readers = self.readers[name]
        return readers[0] if len(readers) == 1 and name not in self.outputs else None

    def value(self, name):
        """The value of a constant, as an array. Raises NodeError where it cannot be computed."""
        waiting = [name]  # not by recursion: a model may have thousands of constants made of each other
        while waiting:
            needed = [] if waiting[-1] in self._values else self._not_computed(waiting[-1])
            if not needed:
                self._keep(waiting.pop())
            waiting += needed
        return self._values[name]

    def _not_computed(self, name):
        """The constants that one is computed from and that are not known yet."""
        if name in self.initializers:
            return []
        return [item for item in self.makers[name].input if item and item not in self._values]

    def _keep(self, name):
        if name in self._values:
            return
        shape = self.shape(name)
        if shape is not None and np.prod(shape, dtype=np.float64) > MAX_CONSTANT_ELEMENTS:
            raise NodeError(f'constant "{name}" of shape {shape} is too large')
        try:
            self._values[name] = self._compute(name)
        except Exception as error:  # whatever the reference implementation of an operator raises
            raise NodeError(f'constant "{name}" cannot be computed: {error}') from error

    def _compute(self, name):
        if name in self.initializers:
            return onnx.numpy_helper.to_array(self.initializers[name], self.folder)
        node = self.makers[name]
        inputs = {item: self._values[item] for item in node.input if item}
        make, type_of = onnx.helper.make_tensor_value_info, onnx.helper.np_dtype_to_tensor_dtype
        infos = [make(item, type_of(value.dtype), value.shape) for item, value in inputs.items()]
        graph = onnx.helper.make_graph([node], "constant", infos, [onnx.ValueInfoProto(name=name)])
        opsets = {entry.domain: entry.version for entry in self.model.opset_import}
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            # The reference implementation has them from 19 on; the versions before say the same of fewer types.
            opsets[node.domain] = max(opsets.get(node.domain, 1), 19)
        imports = [onnx.helper.make_opsetid(*entry) for entry in opsets.items()]
        model = onnx.helper.make_model(graph, opset_imports=imports)
        return onnx.reference.ReferenceEvaluator(model).run([name], inputs)[0]

    def known_shape(self, what, name):
        """Like shape(). Raises NodeError, with what the user can do, where it is not known."""
        shape = self.shape(name)
        if shape is None and name in self.constants:
            shape = list(self.value(name).shape)
        if shape is None:
            stated = shape_text(self.types[name]) if name in self.types else "no shape"
            hints = open_inputs(self.model.graph)
            raise NodeError(f'the shape of its {what} "{name}" is not known ({stated})'
                            + (": " + "; ".join(hints) if hints else ""))
        return shape

    def dtype(self, name):
        """Kiln's name of a value's element type. Raises NodeError where it has none."""
        element_type = self.element_type(name)
        if element_type not in DTYPES:
            raise NodeError(f'its input "{name}" is of type {element_type or "unknown"}', "unsupported")
        return DTYPES[element_type]


def onnx_type(value):
    return onnx.TensorProto.DataType.Name(onnx.helper.np_dtype_to_tensor_dtype(value.dtype))


def one_number(what, value):
    """The single number of a constant."""
    if value.size != 1:
        raise NodeError(f"{what} has shape {list(value.shape)}: one number is needed", "unsupported")
    return value.reshape(-1)[0].item()


def per_channel(value):
    """A constant as a list, of one number where that holds for every channel."""
    return [number.item() for number in value.reshape(-1)]
