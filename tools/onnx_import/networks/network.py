"""A whole model as a network: the tensors it computes, how they lie in memory, and the steps that compute them.

Between convolutions tensors lie channels last. Everything else follows what it reads, as far as it can; what needs the
model's order, and outputs of the model, get it by a copy where what makes them cannot write it so at once.
"""

import os
import shlex

import numpy as np
import onnx

from names import Fields
from networks import copies, layouts, long_tail, views
from networks.units import roles_of, units_of, with_tails
import operations
from reading.order import called
from terms import ModelError, NodeError, attribute_values


class Tensor:
    """Memory of a physical shape: an input's or output's, a constant, a part of another tensor, or the network's own."""

    def __init__(self, number, name, dtype, shape, logical, order):
        self.number, self.name, self.dtype = number, name, np.dtype(dtype)
        self.shape, self.logical, self.order = list(shape), list(logical), tuple(order)
        self.constant = None  # a .npy file
        self.view = None  # (tensor, offset in bytes)
        self.is_input = False
        self.output = None  # the name of the model's output that it is

    def bytes(self):
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def table(self):
        return {"name": self.name, "dtype": self.dtype.name, "shape": self.shape, "logical": self.logical,
                "order": list(self.order), "constant": self.constant,
                "view": {"of": self.view[0].number, "offset": self.view[1]} if self.view else None}


class Placement:
    """A value of the model where it lies: a tensor, taken for this logical shape and order."""

    def __init__(self, tensor, shape, order):
        self.tensor, self.shape, self.order = tensor, list(shape), tuple(order)


class Network:
    """Lays a graph out, whose convolutions are layers already, and writes its steps."""

    def __init__(self, graph, importer, folder, callbacks, sizes=()):
        """`sizes` are names of sizes that the program says, each a field of its arguments too."""
        self.graph, self.folder, self.callbacks, self.sizes = graph, folder, callbacks, sizes
        self.tables = {table["name"]: table for table in importer.tables}
        refused = {failure["layer"]: NodeError(failure["message"], failure["code"]) for failure in importer.failures}
        self.refusals = {id(layer.node): refused[layer.name] for layer in importer.layers if layer.name in refused}
        self.tensors, self.steps, self.failures, self.copies = [], [], [], []
        self.placements = {}  # of values: lists
        self.operations = {}
        self.views = 0
        self.fields = Fields()
        layers = [layer for layer in importer.layers if layer.name not in importer.failed and self.is_constant(layer)]
        self.units = with_tails(graph, units_of(graph, layers, self.is_map, self.takes), self.has_no_kernel)

    # ---- The whole

    def build(self):
        """The importer's answer about the network."""
        inputs = [self.add_input(value) for value in self.graph.model.graph.input]
        self.refuse_unknown_shapes()
        self.wanted = Wishes(self).orders
        for unit in self.units:
            try:
                self.add(unit)
            except NodeError as error:
                self.failures.append({"node": called_node(unit.node), "operator": unit.node.op_type,
                                      "domain": unit.node.domain, "code": error.code, "message": str(error)})
                for name in unit.outputs:  # so that what is behind is looked at too
                    self.make(name, layouts.identity(len(self.graph.known_shape("result", name))))
        outputs = [self.add_output(value.name) for value in self.graph.model.graph.output]
        self.steps = copies.composed(self.steps, self.tensors)
        return {"inputs": inputs, "outputs": outputs, "size_fields": [self.fields.unique(name, "size") for name in self.sizes],
                "tensors": [tensor.table() for tensor in self.tensors], "values": self.model_values(), "steps": self.steps,
                "failures": self.failures, "copies": self.copies, "views": self.views}

    def model_values(self):
        """Where the model's own values lie, in the order in which they are made."""
        makers = {name: called_node(node) for node in self.graph.model.graph.node for name in node.output if name}
        made = {number: place for place, step in enumerate(self.steps)
                for number in step.get("outputs", [step.get("y")])}
        values = [(made.get(placed[0].tensor.number, -1), name, placed[0]) for name, placed in self.placements.items()
                  if name in makers and placed and not placed[0].tensor.constant]
        return [{"value": name, "node": makers[name], "tensor": placement.tensor.number, "shape": placement.shape,
                 "order": list(placement.order)} for _, name, placement in sorted(values, key=lambda item: item[0])]

    def refuse_unknown_shapes(self):
        for unit in self.units:
            for name in [*unit.inputs, *unit.outputs]:
                if name not in self.graph.constants and self.graph.shape(name) is None and self.is_tensor(name):
                    hints = "; ".join([*self.graph.misfits[:1], *self.graph.hints, *self.deciding_numbers(unit),
                                       *self.ends_before_open_shapes()])
                    raise ModelError(f'a network\'s sizes are fixed, and the shape of "{name}" at the {unit.node.op_type} '
                                     f"{called(unit.node)} is {self.open_text(name)}"
                                     + (f": {hints}" if hints else ""))

    def deciding_numbers(self, unit):
        """What decides a shape that is not known, where the shapes of all that a node reads are: integers, if it reads any."""
        read = [name for name in unit.inputs if name not in self.graph.constants]
        if self.graph.misfits or self.graph.hints or any(self.graph.shape(name) is None for name in read):
            return
        whole = [name for name in read if (self.graph.element_type(name) or "").startswith(("INT", "UINT", "BOOL"))]
        if read:
            yield f"""the numbers in {" and ".join(f'"{name}"' for name in whole or read)} decide it"""

    def open_text(self, name):
        sizes = self.graph.open_shape(name)
        texts = ["?" if size is None else str(size) for size in sizes or []]
        return f"[{', '.join(texts)}]" if texts else self.not_known(name)

    def not_known(self, name):
        known = name in self.graph.makers or name in self.graph.types
        return "not known" + ("" if known else f" ({self.graph.origin(name)})")

    def ends_before_open_shapes(self):
        """How what comes before values of unknown shapes can be a network, where the model's inputs have theirs."""
        if self.graph.hints:
            return
        behind, ends = set(), {}
        for unit in self.units:
            values = [*unit.inputs, *unit.outputs]
            if any(name in behind or (name and name not in self.graph.constants and self.graph.shape(name) is None)
                   for name in values):
                behind.update(unit.outputs)
                ends.update((name, None) for name in unit.inputs if name in self.graph.makers)
        ends.update((name, None) for name in self.graph.outputs)
        own = {name for node in self.graph.model.graph.node for name in node.output}
        ends = [name for name in ends if name in own and name not in behind and name not in self.graph.constants
                and self.graph.shape(name) is not None]
        if ends:
            yield "what is before can be one: " + " ".join(f"--output-name {shlex.quote(name)}" for name in ends)

    def is_tensor(self, name):
        """Whether a value is one at all: a sequence, a map or an optional one is not, and is told where it is read."""
        kind = self.graph.types.get(name)
        return kind is None or kind.WhichOneof("value") in (None, "tensor_type")

    def add_input(self, value):
        dtype, shape = self.dtype(value.name), self.graph.shape(value.name)
        if shape is None:
            raise ModelError(f'a network\'s sizes are fixed: {"; ".join(self.graph.hints)}')
        tensor = self.new_tensor(value.name, dtype, shape, layouts.identity(len(shape)))
        tensor.is_input = True
        self.placements[value.name] = [Placement(tensor, shape, tensor.order)]
        return {"name": value.name, "field": self.fields.unique(value.name, "input"), "tensor": tensor.number}

    def add_output(self, name):
        """An output is a tensor of its own, in the model's order."""
        shape = self.graph.known_shape("output", name)
        placement = self.at(name, layouts.identity(len(shape)))
        tensor = placement.tensor
        if tensor.is_input or tensor.constant or tensor.view or tensor.output is not None or \
                any(other.view and other.view[0] is tensor and other.output is not None for other in self.tensors):
            placement = self.copied(name, placement, placement.order)
            tensor = placement.tensor
        tensor.output = name
        return {"name": name, "field": self.fields.unique(name, "output"), "tensor": tensor.number, "shape": shape}

    # ---- Tensors

    def dtype(self, name):
        """NumPy's type of a value. NodeError: it is no tensor of numbers."""
        element_type = self.graph.element_type(name)
        if element_type in (None, "UNDEFINED", "STRING"):
            raise NodeError(f'"{name}" is of type {element_type or "unknown"}', "unsupported")
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(element_type)))
        if dtype.kind == "c" or element_type.startswith("FLOAT8") or "4" in element_type.replace("64", ""):
            raise NodeError(f'"{name}" is of type {element_type}', "unsupported")
        return dtype

    def new_tensor(self, name, dtype, shape, order):
        tensor = Tensor(len(self.tensors), name, dtype, layouts.physical(shape, order), shape, order)
        self.tensors.append(tensor)
        return tensor

    def make(self, name, order):
        """The tensor that a step computes a value into."""
        shape = self.graph.known_shape("result", name)
        tensor = self.new_tensor(name, self.dtype(name), shape, order)
        self.placements.setdefault(name, []).append(Placement(tensor, shape, order))
        return tensor

    def constant(self, name, value, order):
        tensor = self.new_tensor(name, value.dtype, value.shape, order)
        tensor.constant = os.path.join(os.path.abspath(self.folder), f"constant{tensor.number}.npy")
        lying = np.ascontiguousarray(value.transpose(order)) if value.ndim else value
        np.save(tensor.constant, lying.view({"bfloat16": np.uint16, "bool": np.uint8}.get(lying.dtype.name, lying.dtype)))
        return tensor

    def lies(self, name):
        """The order that a value lies in first; None for constants, which lie as one likes."""
        return self.placements[name][0].order if name in self.placements else None

    def at(self, name, order):
        """A value as it lies in an order, by a copy where it lies in none that is the same."""
        placements = self.placements.setdefault(name, [])
        for placement in placements:
            if layouts.same(placement.shape, placement.order, order):
                return placement
        if name in self.graph.constants:
            value = np.asarray(self.graph.value(name))
            placements.append(Placement(self.constant(name, value, order), value.shape, order))
            return placements[-1]
        if not placements:
            raise NodeError(f'nothing makes "{name}"')
        copy = self.copied(name, placements[0], order)
        self.copies.append({"value": name, "shape": copy.shape, "bytes": copy.tensor.bytes()})
        return copy

    def copied(self, name, placement, order):
        tensor = self.new_tensor(name, placement.tensor.dtype, placement.shape, order)
        self.steps.append({"node": name, "operation": operations.copy_text(placement.tensor.dtype, placement.shape,
                                                                           placement.order, order),
                           "inputs": [placement.tensor.number], "outputs": [tensor.number]})
        self.placements[name].append(Placement(tensor, placement.shape, order))
        return self.placements[name][-1]

    # ---- Units

    def is_constant(self, layer):
        """Whether all that a layer's kernel is made of is known."""
        table = self.tables[layer.name]
        return "?" not in table["x"] and table.get("quantization", {}).get("x_zero_point") != "?" \
            and layer.inputs["w"] in self.graph.constants

    def has_no_kernel(self, unit):
        if unit.kind in ("layer", "check") or (unit.kind == "node" and views.is_view(unit.node, self.graph)):
            return False
        try:
            self.operation(unit)
        except NodeError:
            return True
        return False

    def is_map(self, node):
        return operations.is_map(node, self.graph)

    def takes(self, node, chain):
        """Whether a node computes what the chain of nodes behind it does."""
        if not operations.may_take(node):
            return False
        try:
            operations.with_chain(node, chain, self.graph)
        except NodeError:
            return False
        return True

    def operation(self, unit):
        """What a unit is as operations, a list. NodeError: it is none."""
        if id(unit) not in self.operations:
            try:
                made = operations.map_of(unit.nodes, self.graph) if unit.kind == "map" \
                    else operations.with_chain(unit.nodes[0], unit.nodes[1:], self.graph) if unit.kind == "taking" \
                    else operations.operation_of(unit.node, self.graph)
                self.operations[id(unit)] = made if isinstance(made, list) else [made]
            except NodeError as error:
                self.operations[id(unit)] = error
        if isinstance(self.operations[id(unit)], NodeError):
            raise self.operations[id(unit)]
        return self.operations[id(unit)]

    def add(self, unit):
        if unit.kind == "layer":
            self.add_layer(unit.layer)
            return
        if unit.kind == "node" and views.add_view(self, unit.node):
            return
        if unit.kind == "tail":
            self.add_tail(unit)
            return
        if unit.kind == "check":
            self.add_check(unit.node)
            return
        for operation in self.operation(unit):
            self.add_operation(unit, operation)

    def add_layer(self, layer):
        table = self.tables[layer.name]
        orders = self.layer_orders(layer)
        step = {"node": called_node(layer.node), "layer": layer.name}
        for role, name in roles_of(self.graph, layer).items():
            placement = self.at(name, (0,) if role == "bias" else orders["y" if role == "residual" else "x"])
            step[role] = placement.tensor.number
        if not layer.has_channels_last():
            rank = len(self.graph.shape(layer.inputs["x"]))
            table["layouts"] = {key: "NXC" if order == layouts.channels_last(rank) else "NCX"
                                for key, order in orders.items()}
        step["y"] = self.make(layer.end, orders["y"]).number
        self.steps.append(step)

    def layer_orders(self, layer):
        """How x and y of a layer lie: channels last, but for what already lies as the model has it or has to."""
        shapes = {"x": self.graph.known_shape("input", layer.inputs["x"]), "y": self.graph.known_shape("result", layer.end)}
        model, last = (make(len(shapes["x"])) for make in (layouts.identity, layouts.channels_last))
        if layer.has_channels_last():
            return {"x": model, "y": model}
        lies = self.lies(layer.inputs["x"])
        as_it_is = lies is not None and layouts.same(shapes["x"], lies, model) and layer.node.op_type != "DeformConv" \
            and not layouts.same(shapes["x"], lies, last)
        wanted = self.wanted.get(layer.end)
        to_model = wanted is not None and layouts.same(shapes["y"], wanted, model) \
            and not layouts.same(shapes["y"], wanted, last)
        return {"x": model if as_it_is else last, "y": model if to_model else last}

    def add_operation(self, unit, operation):
        orders = [self.lies(item) if isinstance(item, str) else None for item in operation.inputs]
        operation = operation.laid(operation.follow(orders)[1][0])
        inputs, outputs = operation.follow(orders)
        numbers = []
        for item, order in zip(operation.inputs, inputs):
            if isinstance(item, str):
                numbers.append(self.at(item, order).tensor.number)
            else:
                numbers.append(self.constant(f"{unit.outputs[0]}/constant", np.asarray(item),
                                             order or layouts.identity(np.ndim(item))).number)
        step = {"node": called_node(unit.node), "operation": operation.text(inputs, outputs), "inputs": numbers,
                "outputs": [self.make(name, order).number for name, order in zip(operation.outputs, outputs)]}
        if len(unit.nodes) > 1:
            step["nodes"] = [called_node(node) for node in unit.nodes]
        self.steps.append(step)

    def add_check(self, node):
        """A condition without which the network does not compute what the model does."""
        condition, attributes = node.input[0], attribute_values(node)
        placement = self.at(condition, layouts.identity(len(self.graph.known_shape("input", condition))))
        step = {"node": node.name, "check": attributes["message"].decode(), "inputs": [placement.tensor.number], "outputs": []}
        if "input" in attributes:
            step["example"] = {"input": attributes["input"].decode(), "value": attributes["value"]}
        self.steps.append(step)

    def add_tail(self, unit):
        """Nodes that Kiln has no kernel for: C that is generated for them, or a callback."""
        try:
            step = long_tail.step_of(unit.nodes, self.graph, os.path.abspath(self.folder), self.callbacks)
        except NodeError as error:
            known = self.refusals.get(id(unit.node))
            raise NodeError(f"{known}; {error}" if known else str(error), error.code) from error
        if "callback" in step:
            step["callback"] = self.fields.unique(step["callback"], "callback")
        inputs = []
        for item in step["inputs"]:
            if isinstance(item, str):
                inputs.append(self.at(item, layouts.identity(len(self.graph.known_shape("input", item)))).tensor.number)
            else:
                inputs.append(self.constant(f"{unit.outputs[0]}/constant", item, layouts.identity(np.ndim(item))).number)
        step["inputs"] = inputs
        step["outputs"] = [self.make(name, layouts.identity(len(self.graph.known_shape("result", name)))).number
                           for name in step["outputs"]]
        self.steps.append(step)


class Wishes:
    """The orders in which whoever reads a value would best have it: found from the outputs back to the inputs."""

    def __init__(self, network):
        self.network, self.graph = network, network.graph
        self.orders, self.of_layers = {}, set()
        for name in self.graph.outputs:
            shape = self.graph.shape(name)
            if shape is not None:
                self.wish(name, layouts.identity(len(shape)))
        for unit in reversed(network.units):
            if unit.kind == "layer":
                self.wishes_of_layer(unit.layer)
            else:
                self.wishes_of(unit)

    def wish(self, name, order):
        shape = self.graph.shape(name)
        if order is None or shape is None or name in self.graph.constants:
            return
        model, last = layouts.identity(len(shape)), layouts.channels_last(len(shape))
        if len(shape) <= 2 or not layouts.same(shape, model, last):  # else it lies both ways at once
            self.orders.setdefault(name, tuple(order))

    def wishes_of_layer(self, layer):
        rank = len(self.graph.known_shape("input", layer.inputs["x"]))
        order = layouts.identity(rank) if layer.has_channels_last() else layouts.channels_last(rank)
        for role, name in roles_of(self.graph, layer).items():
            if role == "residual" and self.orders.get(layer.end) == layouts.identity(rank):
                self.wish(name, layouts.identity(rank))  # it lies as the layer's result does
            elif role != "bias" and name not in self.of_layers:
                self.orders[name] = order  # whatever others wish
                self.of_layers.add(name)

    def wishes_of(self, unit):
        if unit.kind == "node" and views.is_view(unit.node, self.graph):
            self.wish(unit.node.input[0], views.wish(self.graph, unit.node, self.orders.get(unit.outputs[0])))
            return
        if unit.kind in ("tail", "check"):  # it has the model's order
            for name in unit.inputs:
                shape = self.graph.shape(name)
                self.wish(name, layouts.identity(len(shape)) if shape is not None else None)
            return
        for operation in reversed(self.network.operation(unit)):
            self.wishes_of_operation(operation)

    def wishes_of_operation(self, operation):
        """What it asks for where its inputs lie as its result is wanted, or channels last."""
        shapes = [self.graph.shape(item) if isinstance(item, str) else None for item in operation.inputs]
        wanted = self.orders.get(operation.outputs[0])
        orders = [None if shape is None or item in self.graph.constants
                  else wanted if wanted is not None and len(wanted) == len(shape) else layouts.channels_last(len(shape))
                  for item, shape in zip(operation.inputs, shapes)]
        for item, shape, order, asked in zip(operation.inputs, shapes, orders, operation.follow(orders)[0]):
            if isinstance(item, str) and order is not None and (wanted is not None or not layouts.same(shape, order, asked)):
                self.wish(item, asked)


def called_node(node):
    return node.name or next((name for name in node.output if name), node.op_type)
