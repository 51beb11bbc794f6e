"""A model as the importer walks it, and the values of its constants."""

import collections

import numpy as np
import onnx

from reading.folding import dims_of, evaluate, symbols_of
from terms import DTYPES, MAX_CONSTANT_ELEMENTS, NodeError, is_onnx, outer_names, shape_text


class Graph:
    """A model's nodes: who makes and who reads each value, the types of values, and constants."""

    def __init__(self, folded, hints):
        """`hints` tell how inputs without a full shape can be given one."""
        self.hints = hints
        self.model, self.folder = folded.model, folded.folder
        self.nodes, self.opset, self.opsets = folded.nodes, folded.opset, folded.opsets
        self.outputs, self.copies, self.branches = folded.outputs, folded.copies, folded.branches
        self.misfits, self.left_out = folded.misfits, folded.left_out
        self.types, self.initializers, self.constants = folded.types, folded.tensors, folded.constants
        self._values = dict(folded.values)
        self.products = set()  # results of convolutions that are products of matrices in the model
        self.files = {}  # of weights that layers have as the model does, by name and type
        self._captured = {}
        self.set_nodes(self.nodes)

    def set_nodes(self, nodes):
        """Makes these the model's nodes, in an order in which they can run."""
        self.nodes = nodes
        self.readers = collections.defaultdict(list)
        self.makers = {}
        for node in self.nodes:
            read = [] if self.tells_known_shape(node) else [*node.input, *self.captured_by(node)]
            for name in filter(None, read):  # "" is an input that is left out
                self.readers[name].append(node)
            for name in filter(None, node.output):
                self.makers[name] = node

    def tells_known_shape(self, node):
        """Whether a node only asks for a shape that is known: what it asks need not be there."""
        return node.op_type in ("Shape", "Size") and is_onnx(node) and all(name in self._values for name in node.output)

    def captured_by(self, node):
        """What the bodies of a node read; kept, as a graph's nodes are set for every layer that something is moved to."""
        if id(node) not in self._captured:
            self._captured[id(node)] = node, list(outer_names(node))  # a node that is kept has an id of its own
        return self._captured[id(node)][1]

    def add_constant(self, name, value):
        """A constant that the model has not itself."""
        self.constants.add(name)
        self._values[name] = value
        self.set_type(name, onnx_type(value), value.shape)

    def set_type(self, name, element_type, shape):
        self.types[name] = onnx.helper.make_tensor_type_proto(onnx.TensorProto.DataType.Value(element_type), list(shape))

    def shape(self, name):
        """The shape of a value as a list, or None if it is not known."""
        sizes = self.open_shape(name)
        return None if sizes is None or None in sizes else sizes

    def open_shape(self, name):
        """The shape of a value as a list, with None for sizes that are not known; None if their number is not either."""
        return list(self.initializers[name].dims) if name in self.initializers else dims_of(self.types.get(name))

    def have_one_shape(self, first, second):
        """Whether two values have one shape for certain: sizes that are not known must have the same symbol."""
        dims = [symbols_of(self.types.get(name)) for name in (first, second)]
        return None not in dims and dims[0] == dims[1] and None not in dims[0]

    def element_type(self, name):
        """"FLOAT", ..., or None if it is not known."""
        if name in self.initializers:
            return onnx.TensorProto.DataType.Name(self.initializers[name].data_type)
        kind = self.types.get(name)
        known = kind is not None and kind.HasField("tensor_type") and kind.tensor_type.elem_type
        return onnx.TensorProto.DataType.Name(kind.tensor_type.elem_type) if known else None

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
        results = evaluate(node, {item: self._values[item] for item in node.input if item}, self.opsets)
        result = results[list(node.output).index(name)]
        if not isinstance(result, (np.ndarray, np.generic)):
            raise NodeError("it is no tensor")
        return np.asarray(result)

    def known_shape(self, what, name):
        """Like shape(). Raises NodeError, with what the user can do, where it is not known."""
        shape = self.shape(name)
        if shape is None and name in self.constants:
            shape = list(self.value(name).shape)
        if shape is None:
            stated = shape_text(self.types[name].tensor_type) if name in self.types else self.origin(name)
            raise NodeError(f'the shape of its {what} "{name}" is not known ({stated})'
                            + (": " + "; ".join(self.hints) if self.hints else ""))
        return shape

    def origin(self, name):
        """Why nothing is known of a value."""
        return "no shape" if name in self.makers else "nothing makes it" if name else "it is left out"

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
