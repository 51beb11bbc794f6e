"""Nodes of a network that Kiln has no operation for: emx-onnx-cgen writes C for them, and what it refuses becomes a callback.

A node, or several that hand each other what is no tensor of a known shape, is cut out as a small model: its constants inside,
the bodies of control flow whole. Weights of more than a few numbers are inputs of its C, because the library embeds them as
it does a layer's.
"""

import contextlib
import functools
import hashlib
import io
import os
import re

import numpy as np
import onnx

from expanding import recurrent
from names import to_identifier
from networks.c_source import Source
from terms import NodeError, is_onnx, is_random, outer_names, subgraphs

PACKAGE = "emx-onnx-cgen"
ENTRY = "model"
# What a network's tensors may hold.
TYPES = {"FLOAT": np.float32, "DOUBLE": np.float64, "FLOAT16": np.float16, "BOOL": np.bool_, "INT8": np.int8,
         "UINT8": np.uint8, "INT16": np.int16, "UINT16": np.uint16, "INT32": np.int32, "UINT32": np.uint32,
         "INT64": np.int64, "UINT64": np.uint64}
# Constants of more elements are weights.
MOST_ELEMENTS = 64


def groups(nodes, graph):
    """These nodes, in their order, as lists of those that have to become one part: they hand each other sequences, or tensors
    whose shapes are not known before they run. A list stands where its last node does."""
    parts = []
    for node in nodes:
        handed = {name for name in reads(node) if name not in graph.constants and not is_tensor(graph, name)}
        joined = [part for part in parts if handed.intersection(name for other in part for name in other.output)]
        parts = [part for part in parts if part not in joined]
        parts.append([*(other for part in joined for other in part), node])
    return parts


def reads(node):
    """What a node reads from outside, in its bodies too, each name once."""
    return list(dict.fromkeys(name for name in [*node.input, *outer_names(node)] if name))


def is_tensor(graph, name):
    return graph.shape(name) is not None and graph.element_type(name) in TYPES


def step_of(nodes, graph, folder, callbacks=False):
    """The step of a network that some nodes become: {"node", "inputs", "outputs"} and either "c", {"source": a file in
    `folder`, "function", "scratch_bytes"}, or "callback", a name, with the "operator" and the "reason". Inputs are names and,
    for constants, arrays. The same C has the same name. `callbacks`: a callback too where emx-onnx-cgen is not installed.
    Raises NodeError where there is no way."""
    part = Part(nodes, graph)
    step = {"node": label(nodes), "inputs": part.inputs, "outputs": part.outputs}
    try:
        source = part.c_source()
    except NotInstalled as error:
        if not callbacks:
            raise
        reason = str(error)
    except NodeError as error:
        reason = str(error)
    else:
        path = os.path.join(folder, f"{source.name}.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source.text)
        return {**step, "c": {"source": path, "function": source.name, "scratch_bytes": source.scratch_bytes}}
    operators = ", ".join(dict.fromkeys(node.op_type for node in nodes))
    return {**step, "operator": operators, "callback": to_identifier(nodes[-1].name or nodes[-1].output[0], "callback"),
            "reason": reason}


def label(nodes):
    return ", ".join(node.name or next(filter(None, node.output), node.op_type) for node in nodes)


class NotInstalled(NodeError):
    """There is no emx-onnx-cgen in this Python."""


class Part:
    """Nodes cut out of a graph: `inputs` and `outputs` of the part, as a step has them."""

    def __init__(self, nodes, graph):
        self.nodes, self.graph = nodes, graph
        made = {name for node in nodes for name in node.output}
        read = list(dict.fromkeys(name for node in self.nodes for name in reads(node) if name not in made))
        self.constants = [name for name in read if name in graph.constants]
        self.tensors = [name for name in read if name not in graph.constants]
        self.weights = [name for name in self.constants if self.is_weight(name)]
        ids = {id(node) for node in nodes}
        self.outputs = [name for node in nodes for name in node.output if name and self.is_wanted(name, ids)]
        for name, what in [*((name, "reads") for name in self.tensors), *((name, "makes") for name in self.outputs)]:
            self.check_tensor(label(nodes), name, what)
        self.inputs = [*self.tensors, *(graph.value(name) for name in self.weights)]

    def is_weight(self, name):
        """Whether a constant is given to the C, not written into it: operators want shapes and axes written."""
        shape = self.graph.shape(name)
        return self.graph.element_type(name) in ("FLOAT", "FLOAT16", "DOUBLE", "INT8", "UINT8") and shape is not None \
            and np.prod(shape, dtype=np.float64) > MOST_ELEMENTS

    def is_wanted(self, name, ids):
        """Whether anything but these nodes reads what they make."""
        return name in self.graph.outputs or any(id(reader) not in ids for reader in self.graph.readers[name])

    def check_tensor(self, node, name, what):
        kind = self.graph.element_type(name)
        if self.graph.shape(name) is None:
            raise NodeError(f'"{node}" {what} "{name}", whose shape is not known before it runs: a network\'s sizes are fixed '
                            "when it is compiled", "unsupported")
        if kind not in TYPES:
            known = f"{kind} no node can have that Kiln has no kernel for" if kind else "is not known"
            raise NodeError(f'"{node}" {what} "{name}", whose type {known}', "unsupported")

    def c_source(self):
        """The C of it, whose function is called by a digest of it. Raises NodeError."""
        for node in self.nodes:
            if is_random(node, self.graph):
                training = ": it is in training mode" if node.op_type == "Dropout" else ""
                raise NodeError(f"it does not give the same result twice{training}")
        try:
            text = generated(self.model(self.weights))
            inputs = len(self.inputs)
        except NotInstalled:
            raise
        except NodeError:
            if not self.weights:
                raise
            text = generated(self.model([]))  # some operators want their weights written
            self.inputs[len(self.tensors):] = []
            inputs = len(self.tensors)
        name = f"kiln_tail_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        return Source(text, ENTRY, name, inputs, len(self.outputs))

    def model(self, weights):
        """A model of these nodes alone, whose inputs are what they read and these weights. All names are its own: what a
        file calls its values stands in no code."""
        names = {}
        new = lambda name: names.setdefault(name, f"v{len(names)}") if name else ""
        info = lambda name: onnx.helper.make_tensor_value_info(
            new(name), onnx.TensorProto.DataType.Value(self.graph.element_type(name)), self.graph.shape(name))
        inputs = [info(name) for name in [*self.tensors, *weights]]
        outputs = [info(name) for name in self.outputs]
        inside = [name for node in self.nodes for name in node.output if name and name not in self.outputs]
        values = [info(name) for name in inside if is_tensor(self.graph, name)]
        constants = [onnx.numpy_helper.from_array(self.graph.value(name), new(name)) for name in self.constants
                     if name not in weights]
        nodes = [renamed(plain, new) for node in self.nodes for plain in in_plain_terms(node, self.graph)]
        graph = onnx.helper.make_graph(nodes, "part", inputs, outputs, constants, value_info=values)
        opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in self.graph.opsets.items()
                  if domain != "ai.onnx"]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="")


def in_plain_terms(node, graph):
    """The same in nodes that are simpler."""
    if node.op_type == "If" and not any(True for _ in subgraphs(node)):
        return selects(node, graph)
    if node.op_type in recurrent.OPERATORS and is_onnx(node):
        return recurrent.forward_only(node, graph.known_shape("input", node.input[0])[0])
    return [node]


def selects(node, graph):
    """An If whose condition the model computes reads the results of both branches here."""
    condition, count = node.input[0], len(node.output)
    choices = list(zip(node.output, node.input[1:1 + count], node.input[1 + count:]))
    if any(graph.shape(first) != graph.shape(second) for _, first, second in choices):
        raise NodeError(f'the branches of the If "{node.name}" have results of different shapes', "unsupported")
    return [onnx.helper.make_node("Where", [condition, first, second], [output]) for output, first, second in choices]


def renamed(node, new):
    """A copy of a node with other names of all values, in its bodies too, and no name or text of its own."""
    copy = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    copy.input.extend(new(name) for name in node.input)
    copy.output.extend(new(name) for name in node.output)
    copy.attribute.extend(node.attribute)
    for attribute in copy.attribute:
        attribute.doc_string = ""
    for body in subgraphs(copy):
        rename_body(body, new)
    return copy


def rename_body(body, new):
    for value in [*body.input, *body.output, *body.value_info, *body.initializer]:
        value.name = new(value.name)
        value.doc_string = ""
    nodes = [renamed(node, new) for node in body.node]
    del body.node[:]
    body.node.extend(nodes)
    body.name, body.doc_string = "body", ""


class LateTemplate:
    """A template that is read where something of it is asked for."""

    def __init__(self, read):
        self.read = functools.cache(read)

    def __getattr__(self, name):
        return getattr(self.read(), name)


@functools.cache
def make_generator():
    """emx-onnx-cgen's compiler, one for all parts. It asks for the templates of all operators, seconds to read, and uses few."""
    from emx_onnx_cgen.compiler import Compiler, CompilerOptions

    # Of one byte: every temporary comes from the heap, which Source makes scratch.
    made = Compiler(CompilerOptions(model_name=ENTRY, large_temp_threshold_bytes=1, large_weight_threshold=0,
                                    restrict_arrays=False))
    environment = getattr(getattr(made, "_emitter", None), "_env", None)
    if environment is not None:  # other versions of it may be another inside: then they take their time
        read = environment.get_template
        environment.get_template = lambda *arguments: LateTemplate(functools.partial(read, *arguments))
    return made


def generated(model):
    """What emx-onnx-cgen writes for a model. Raises NodeError with its reason where it refuses."""
    try:
        with silence():
            generator = make_generator()
    except ImportError as error:
        raise NotInstalled(f"Kiln has no kernel for it; {PACKAGE} writes C for such nodes, which this Python has not: "
                           f"pip install {PACKAGE}", "unsupported") from error
    try:
        with silence():
            return generator.compile(model)
    except Exception as error:  # whatever it is, the node is not lost
        reason = re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__
        raise NodeError(f"{PACKAGE} refuses it: {reason[:300]}", "unsupported") from error


@contextlib.contextmanager
def silence():
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
