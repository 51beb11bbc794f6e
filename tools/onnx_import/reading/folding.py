"""Follows constants and shapes through a model, with the onnx package's own inference and reference evaluator."""

import collections

import numpy as np
import onnx
import onnx.shape_inference

from evaluating import evaluator
from expanding import loops
from expanding.dialects import VERSIONS, expanded, in_onnx_terms, result_type
from expanding.microsoft import in_onnx_nodes
from expanding.sequences import Sequences
from reading import branches, windows
from reading.order import in_order, names_of
from terms import (INPUTS, ModelError, attribute_values, copied, input_name, is_foldable, is_layer, is_onnx, outer_names, shape_of,
                   subgraphs)

# Constants of more elements are weights: they are computed when a layer wants them, and no shape depends on them.
MOST_ELEMENTS = 4096
# Operators whose result has a shape that depends on the numbers of their input, and is not larger.
SHRINKING = ("Compress", "NonZero", "Unique")
UNKNOWN = onnx.TypeProto()
# Before this operator set its inference counts windows that begin behind what they slide over, where sizes are rounded up.
POOLS, POOLS_RIGHT = ("AveragePool", "LpPool", "MaxPool"), 22


class Folder:
    """A model's nodes in an order in which they can run, without those that compute nothing and with those of the branches
    of If among them; the types of all values; what is constant, and the values of small constants. `misfits` tells of nodes
    that cannot be computed, `doubts` of such in branches that may not be taken, `left_out` of branches that a network is
    without for their sake."""

    def __init__(self, model, folder, whole, as_network=False):
        """Without `whole` the inference over the whole model, which adds what little the walk does not know, is left out.
        `as_network`: nodes that a network computes as several of ONNX's are those."""
        self.model, self.folder, self.as_network = model, folder, as_network
        self.opsets = {entry.domain: entry.version for entry in model.opset_import}
        self.opset = self.opsets[""] = self.opsets.get("", self.opsets.get("ai.onnx", 1))
        self.imports = [onnx.helper.make_opsetid("", self.opset)]
        self.outputs = {value.name for value in model.graph.output}
        # What the file says, and later what the inference over the whole model knows.
        self.stated = {value.name: value.type for group in (model.graph.output, model.graph.value_info) for value in group}
        self.source = in_order(model.graph.node)
        self.read = self.outputs.union(*(names_of(node) for node in self.source))
        self.schemas, self.data = {}, {}
        self.walk()
        if whole and self.has_open_layers() and self.infer_whole():
            self.walk()

    def walk(self):
        """Follows types and constants from the inputs to the outputs."""
        self.nodes, self.misfits, self.doubts, self.left_out = [], [], [], []
        self.guards = []  # of the branches that may not be taken: their conditions, and whether they take them
        self.copies, self.branches = collections.Counter(), collections.Counter()
        self.types = {value.name: value.type for value in self.model.graph.input}
        self.tensors, self.values, self.constants, self.sequences = {}, {}, set(), Sequences(self)
        self.defined, self.original = set(self.types), {}
        scope = collections.ChainMap()
        self.add_tensors(self.model.graph.initializer, scope, "")
        self.follow(self.source, scope, "")
        if self.left_out:
            self.nodes = branches.without_idle_requirements(self.nodes, self.outputs)

    def add_tensors(self, tensors, scope, prefix):
        for tensor in tensors:
            name = self.define(tensor.name, scope, prefix)
            self.tensors[name] = tensor
            self.constants.add(name)
            self.types[name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            if np.prod(tensor.dims, dtype=np.float64) <= MOST_ELEMENTS:
                try:
                    self.values[name] = onnx.numpy_helper.to_array(tensor, self.folder)
                except Exception:  # told where a layer wants it
                    pass

    def define(self, name, scope, prefix):
        """The name that a value of a branch has here: both branches may have values of one name."""
        new = f"{prefix}{name}" if prefix and name in self.defined else name
        self.defined.add(new)
        if new != name or name in scope:
            scope[name] = new
            self.original[new] = name
        return new

    def follow(self, nodes, scope, prefix):
        for node in nodes:
            if self.is_copy(node, scope):
                self.copies[node.op_type] += 1
                scope[node.output[0]] = scope.get(node.input[0], node.input[0])
                continue
            bodies, rounds = list(subgraphs(node)), self.rounds_of(node, scope)
            node = self.renamed(node, scope, prefix)
            if is_onnx(node) and node.op_type == "If":
                self.follow_if(node, scope)
            elif rounds is not None:
                self.follow_loop(node, bodies[0], rounds, scope)
            else:
                for part in self.expanded(node) or [node]:
                    self.nodes.append(part)
                    self.follow_node(part)

    def expanded(self, node):
        """The nodes that a node is taken for, or None."""
        if not self.as_network:
            return expanded(node, self)
        return self.sequences.expanded(node) or in_onnx_nodes(node, self)

    def renamed(self, node, scope, prefix):
        """The node with the names that its values have here."""
        inputs = [scope.get(name, name) for name in node.input]
        outputs = [self.define(name, scope, prefix) if name else "" for name in node.output]
        captured = {} if node.op_type == "If" else {name: scope[name] for name in outer_names(node) if name in scope}
        if inputs == list(node.input) and outputs == list(node.output) and not captured:
            return node
        new = copied(node, inputs, outputs)
        rename_captured(new, captured)
        return new

    def alias(self, output, source, scope):
        """Lets a value be another one, which has its name only where it is the model's own output."""
        if output in self.outputs:
            self.nodes.append(onnx.helper.make_node("Identity", [source], [output]))
            self.follow_node(self.nodes[-1])
        else:
            scope[output] = scope[self.original.get(output, output)] = source

    def is_copy(self, node, scope):
        """Whether it is an Identity, or a Dropout as it is in inference."""
        if not is_onnx(node) or not node.input or not node.input[0] or not node.output or not node.output[0] \
                or node.output[0] in self.outputs:
            return False
        if node.op_type == "Identity":
            return True
        if node.op_type != "Dropout" or self.read.intersection(node.output[1:]):
            return False
        if self.opset < 7:
            return bool(attribute_values(node).get("is_test", 0))
        training = input_name(node, 2)
        value = self.values.get(scope.get(training, training))
        return not training or (value is not None and not value.any())

    # ---- Branches

    def follow_if(self, node, scope):
        """The branch that is taken, where that is constant; else both, the If reading the results of each, but for a network the
        one alone that fits where the other does not."""
        graphs = {attribute.name: attribute.g for attribute in node.attribute}
        bodies = [graphs.get("then_branch"), graphs.get("else_branch")]
        if not all(body is not None and len(body.output) == len(node.output) for body in bodies) or not node.input:
            raise ModelError(f'the If "{node.name}" has no two branches with its {len(node.output)} results')
        condition = self.values.get(node.input[0])
        if condition is not None and condition.size == 1:
            self.branches["constant"] += 1
            body = bodies[0 if condition.reshape(-1)[0] else 1]
            self.alias_all(node.output, self.follow_body(node, body, scope, "branch"), scope)
            return
        parts = [branches.Branch(self, node, body, scope, wanted) for body, wanted in zip(bodies, (True, False))]
        fitting = [part for part in parts if not part.doubts]
        if self.as_network and len(fitting) == 1:
            branches.take_only(self, node, fitting[0], parts[0] if fitting[0] is parts[1] else parts[1])
            self.alias_all(node.output, fitting[0].results, scope)
            return
        self.branches["open"] += 1
        for part in parts:
            part.add_to(self)
        results = [part.results for part in parts]
        self.nodes.append(onnx.helper.make_node("If", [node.input[0], *results[0], *results[1]], list(node.output),
                                                node.name))
        for output, first, second in zip(node.output, *results):
            kind = common_type(self.types.get(first), self.types.get(second))
            self.types[output] = merged(kind, self.stated.get(output))

    def alias_all(self, outputs, sources, scope):
        for output, source in zip(outputs, sources):
            self.alias(output, source, scope)

    def follow_body(self, node, body, scope, which):
        """Follows a branch; returns its results' names."""
        inner = scope.new_child()
        prefix = f"{node.output[0]}/{which}/"
        self.add_tensors(body.initializer, inner, prefix)
        self.follow(body.node, inner, prefix)
        return [inner.get(value.name, value.name) for value in body.output]

    # ---- Loops

    def rounds_of(self, node, scope):
        """How often a Loop or Scan runs that a network can have as copies of its body; else None."""
        if not self.as_network:
            return None
        return loops.count_of(node, lambda name: self.values.get(scope.get(name, name)),
                              lambda name: self.shape(scope.get(name, name)))

    def follow_loop(self, node, body, rounds, scope):
        """Follows a Loop's or Scan's body once for each round."""
        scanned = attribute_values(node).get("num_scan_inputs", 0)
        first = 0 if node.op_type == "Scan" else 2  # of a Loop's inputs: how often, and whether at all
        handed = list(node.input[first:len(node.input) - scanned])
        rows = [[] for _ in node.output[len(handed):]]
        for place in range(rounds):
            inner, prefix = scope.new_child(), f"{node.output[0]}/{place}/"
            known = [] if node.op_type == "Scan" else [np.int64(place), np.True_]
            self.add_tensors([onnx.numpy_helper.from_array(np.asarray(value), port.name)
                              for port, value in zip(body.input, known)], inner, prefix)
            slices = [loops.slice_of(node, number, place, rounds, prefix) for number in range(scanned)]
            for index, pick in slices:
                self.add_tensors([index], inner, prefix)
                self.follow([pick], inner, prefix)
            sources = [*handed, *(inner.get(pick.output[0], pick.output[0]) for _, pick in slices)]
            inner.update(zip((port.name for port in body.input[first:]), sources))
            self.add_tensors(body.initializer, inner, prefix)
            self.follow(body.node, inner, prefix)
            results = [inner.get(value.name, value.name) for value in body.output[first // 2:]]
            handed = results[:len(handed)]
            for row, result in zip(rows, results[len(handed):]):
                row.append(result)
        for output, source in zip(node.output, handed):
            if output:
                self.alias(output, source, scope)
        for number, row in enumerate(rows):
            output = node.output[len(handed) + number]
            if output:
                axes, nodes = loops.stack_of(node, number, row, output, self.opset)
                self.add_tensors([axes], scope, "")
                self.follow(nodes, collections.ChainMap(), "")

    # ---- One node

    def follow_node(self, node):
        """The types of what a node makes, and its values where they are small constants."""
        if is_layer(node):
            self.know_from_weights(node)
        if is_foldable(node) and all(name in self.constants for name in node.input if name):
            self.constants.update(name for name in node.output if name)
        known = self.infer(node)
        for name in node.output:
            kind = merged(known.get(name), self.stated.get(name))
            if name and kind is not None:
                self.types[name] = kind
        if is_foldable(node):
            self.fold(node)
        self.check_reshape(node)
        if (why := windows.too_large(node, lambda name: dims_of(self.types.get(name)))) is not None:
            self.tell_misfit(node, why)

    def know_from_weights(self, node):
        """How many dimensions and channels a convolution's input has."""
        places = INPUTS[node.op_type]
        x, w = input_name(node, places["x"]), self.types.get(input_name(node, places["w"]))
        sizes = [size for size in dims_of(w) or [] if size != 0]
        if not x or len(sizes) < 3 or sizes[0] is None or sizes[1] is None:
            return
        last = node.domain not in ("", "ai.onnx")
        channels = sizes[0] if node.op_type == "ConvTranspose" else sizes[1] * attribute_values(node).get("group", 1)
        if not 0 < channels < 1 << 31:
            return
        shape = [None, *[None] * (len(sizes) - 2), channels] if last else [None, channels, *[None] * (len(sizes) - 2)]
        same_type = node.op_type not in ("ConvInteger", "QLinearConv")
        kind = onnx.helper.make_tensor_type_proto(w.tensor_type.elem_type if same_type else 0, shape)
        self.types[x] = merged(self.types.get(x), kind)

    def infer(self, node):
        """The types of a node's results as far as they can be known."""
        same = in_onnx_terms(node, self.rank)
        if same is None:
            return self.infer_onnx(node, node) if is_onnx(node) else {}
        for step in same:
            known = self.infer_onnx(step, node)
            self.types.update(known)
        element_type = result_type(node, self.element_type)
        if element_type and known.get(node.output[0]) is not None:
            known[node.output[0]].tensor_type.elem_type = onnx.TensorProto.DataType.Value(element_type)
        return known

    def infer_onnx(self, node, told):
        schema = self.schema(node.op_type, is_onnx(told))
        if schema is None or not node.output:
            return {}
        names = [*node.input, *outer_names(node)]
        types = {name: self.types.get(name, UNKNOWN) for name in names if name}
        try:
            return onnx.shape_inference.infer_node_outputs(
                schema, node, types, {name: self.tensor(name) for name in node.input if name in self.values},
                opset_imports=self.imports)
        except onnx.shape_inference.InferenceError as error:
            if all(shape_of(types[name].tensor_type) is not None for name in node.input if name):
                self.tell_misfit(told, str(error).strip().split("] ", 1)[-1])
        except onnx.checker.ValidationError as error:  # of types that are known
            if is_onnx(told) and all(types[name].WhichOneof("value") for name in node.input if name):
                self.tell_misfit(told, str(error).strip())
        except Exception:  # a node that is not what its operator's schema says: a layer is told by its own checks
            pass
        return {}

    def schema(self, operator, is_own):
        """What onnx knows of an operator; `is_own`: of the model's own node, not of one that stands for another domain's."""
        key = operator, is_own
        if key not in self.schemas:
            version = self.opset if is_own else min(self.opset, VERSIONS.get(operator, self.opset))
            if operator == "Resize" and version in (11, 12):  # of which it misses the shape where scales are left out
                version = 13
            if operator in POOLS:
                version = max(version, POOLS_RIGHT)
            try:
                self.schemas[key] = onnx.defs.get_schema(operator, version, "")
            except (onnx.defs.SchemaError, TypeError):  # or the operator set's number is none
                self.schemas[key] = None
        return self.schemas[key]

    def tensor(self, name):
        """A small constant as onnx's inference takes it."""
        known = self.data.get(name)
        if known is None or known[0] is not self.values[name]:
            known = self.data[name] = (self.values[name], onnx.numpy_helper.from_array(self.values[name], name))
        return known[1]

    def check_reshape(self, node):
        """onnx's inference does not count what a Reshape moves."""
        if node.op_type != "Reshape" or not is_onnx(node) or not node.input:
            return
        before, after = (dims_of(self.types.get(name)) for name in (node.input[0], node.output[0]))
        if before is None or after is None or None in before or None in after:
            return
        if np.prod(before, dtype=np.float64) != np.prod(after, dtype=np.float64):
            self.tell_misfit(node, f"its result would be {after}")

    def tell_misfit(self, node, message):
        shapes = [f'"{name}" is {dims_of(self.types.get(name)) or "of an unknown shape"}' for name in node.input if name]
        text = (f'the {node.op_type} "{node.name or node.output[0]}" does not fit its inputs: {", ".join(shapes)} '
                f"({message.rstrip('.')})")
        (self.doubts if self.guards else self.misfits).append(text)

    def rank(self, name):
        dims = dims_of(self.types.get(name))
        return None if dims is None else len(dims)

    def shape(self, name):
        """A shape that is known in full, or None."""
        dims = dims_of(self.types.get(name))
        return None if dims is None or None in dims else dims

    def element_type(self, name):
        kind = self.types.get(name)
        known = kind is not None and kind.HasField("tensor_type") and kind.tensor_type.elem_type
        return onnx.TensorProto.DataType.Name(kind.tensor_type.elem_type) if known else None

    # ---- Constants

    def fold(self, node):
        """Computes a node whose inputs are small constants, or that asks for a known shape."""
        inputs = self.asked_shape(node) if node.op_type in ("Shape", "Size") else \
            {name: self.values.get(name) for name in node.input if name}
        if inputs is None or any(value is None for value in inputs.values()):
            return
        for name in filter(None, node.output):
            sizes = dims_of(self.types.get(name))
            known = sizes is not None and None not in sizes and np.prod(sizes, dtype=np.float64) <= MOST_ELEMENTS
            if not known and node.op_type not in SHRINKING:
                return
        try:
            results = evaluate(node, inputs, self.opsets)
        except Exception:  # whatever the reference implementation of an operator raises; a layer that needs it tells
            return
        for name, value in zip(node.output, results):
            if name and isinstance(value, (np.ndarray, np.generic)):
                self.values[name] = value = np.asarray(value)
                self.constants.add(name)
                self.types[name] = onnx.helper.make_tensor_type_proto(
                    onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)

    def asked_shape(self, node):
        """A value with the shape of what Shape or Size read, if what they ask for is known."""
        sizes = dims_of(self.types.get(input_name(node, 0)))
        attributes = attribute_values(node)
        asked = sizes and sizes[attributes.get("start", 0):attributes.get("end", len(sizes))]
        if sizes is None or None in asked or (node.op_type == "Size" and None in sizes):
            return None
        return {node.input[0]: np.broadcast_to(np.float32(0), [1 if size is None else size for size in sizes])}

    # ---- The whole model

    def has_open_layers(self):
        return any(None in (dims_of(self.types.get(name)) or [None])
                   for node in self.nodes if is_layer(node) for name in node.input if name)

    def infer_whole(self):
        """What onnx's inference over the whole model knows besides: it carries sizes that are known in part through
        arithmetic on shapes. Returns whether it says anything."""
        nodes, made = [], set()
        for node in self.nodes:
            steps = in_onnx_terms(node, self.rank) or ([node] if is_onnx(node) else [])
            constant = node.output and all(name in self.constants for name in node.output)
            if constant or (node.op_type == "If" and not any(subgraphs(node))):
                continue
            nodes += steps
            made.update(name for step in steps for name in step.output)
        read = {name for node in nodes for name in names_of(node)} - made - {""}
        constants = [onnx.numpy_helper.from_array(self.values[name], name) for name in read if name in self.values]
        inputs = [onnx.ValueInfoProto(name=name, type=self.types[name]) for name in read
                  if name in self.types and name not in self.values]
        infos = [onnx.ValueInfoProto(name=name, type=self.types[name]) for name in made if name in self.types]
        graph = onnx.helper.make_graph(nodes, "whole", inputs, [], constants, value_info=infos)
        try:
            model = onnx.helper.make_model(graph, opset_imports=self.imports)
            inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        except Exception:  # the C++ checker raises several kinds; what was known stays known
            return False
        for value in inferred.graph.value_info:
            self.stated[value.name] = merged(self.types.get(value.name), value.type)
        return True


def rename_captured(node, names):
    """Renames what the bodies of a node read from outside."""
    if names:
        for graph in subgraphs(node):
            for inner in graph.node:
                inner.input[:] = [names.get(name, name) for name in inner.input]
                rename_captured(inner, names)
            for value in graph.output:
                value.name = names.get(value.name, value.name)


def evaluate(node, inputs, opsets):
    """What a node makes of these constants, by the reference implementation of its operator."""
    known = evaluated_at_once(node, inputs)
    if known is not None:
        return [known]
    opsets = dict(opsets)
    opsets["ai.onnx"] = opsets[""]
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        # The reference implementation has them from 19 on; the versions before say the same of fewer types.
        opsets[node.domain] = max(opsets.get(node.domain, 1), 19)
    make, type_of = onnx.helper.make_tensor_value_info, onnx.helper.np_dtype_to_tensor_dtype
    infos = [make(name, type_of(value.dtype), value.shape) for name, value in inputs.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "constant", infos, outputs)
    results = iter(evaluator(graph, opsets=opsets).run(None, inputs))
    return [next(results) if name else None for name in node.output]


def evaluated_at_once(node, inputs):
    """The result of a Constant or a Shape, None of other nodes: exporters write them by the thousand, and the reference
    implementation takes a millisecond for each."""
    if not is_onnx(node) or len(node.output) != 1:
        return None
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "Constant" and list(attributes) == ["value"] and attributes["value"].type == onnx.AttributeProto.TENSOR:
        return onnx.numpy_helper.to_array(attributes["value"].t)
    if node.op_type == "Shape" and not attributes and len(node.input) == 1:
        return np.int64(inputs[node.input[0]].shape)
    return None


def dims_of(kind):
    """[1, 3, None, None] of a type, None for a size that is not known; None if the rank is not known."""
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
            for dim in kind.tensor_type.shape.dim]


def symbols_of(kind):
    """dims_of(), with a size's symbol in place of None where it has one."""
    dims = dims_of(kind)
    return dims and [(dim.dim_param or None) if size is None else size for size, dim in zip(dims, kind.tensor_type.shape.dim)]


def merged(first, second):
    """A type with what another one says besides; where they differ, the first holds."""
    if first is None or second is None or not (first.HasField("tensor_type") and second.HasField("tensor_type")):
        return second if first is None or not first.WhichOneof("value") else first
    result = onnx.TypeProto()
    result.CopyFrom(first)
    tensor, other = result.tensor_type, second.tensor_type
    tensor.elem_type = tensor.elem_type or other.elem_type
    if not tensor.HasField("shape"):
        if other.HasField("shape"):
            tensor.shape.CopyFrom(other.shape)
    elif len(tensor.shape.dim) == len(other.shape.dim):
        for dim, more in zip(tensor.shape.dim, other.shape.dim):
            known = dim.HasField("dim_value") and dim.dim_value >= 0
            if not known and (more.HasField("dim_value") or (more.dim_param and not dim.dim_param)):
                dim.CopyFrom(more)
    return result


def common_type(first, second):
    """What holds of both of two types; None where that is nothing."""
    if first is None or second is None or not (first.HasField("tensor_type") and second.HasField("tensor_type")):
        return None
    ours, theirs = dims_of(first), dims_of(second)
    same = first.tensor_type.elem_type == second.tensor_type.elem_type
    shape = [one if one == other else None for one, other in zip(ours, theirs)] \
        if ours is not None and theirs is not None and len(ours) == len(theirs) else None
    return onnx.helper.make_tensor_type_proto(first.tensor_type.elem_type if same else 0, shape)
