"""The branches of an If whose condition the model computes: one that does not fit the sizes is left out of a network, which then
requires of the condition that it takes the other."""

import collections

import onnx

from reading.order import names_of
from terms import attribute_values

DOMAIN, OPERATOR = "kiln.network", "Require"


class Branch:
    """What following a branch gives: its nodes, its results' names, what does not fit (`doubts`), which branches within it are
    left out, and how many of its nodes were copies and branches."""

    def __init__(self, folder, node, body, scope, wanted):
        """Follows one that is taken where the condition is as `wanted`; nothing of it stays in the folder."""
        self.wanted = wanted
        begin, kept = len(folder.nodes), (folder.doubts, folder.left_out, folder.copies, folder.branches)
        folder.doubts, folder.left_out = self.doubts, self.left_out = [], []
        folder.copies, folder.branches = self.copies, self.branches = collections.Counter(), collections.Counter()
        folder.guards.append((node.input[0], wanted))
        self.results = folder.follow_body(node, body, scope, self.name())
        folder.guards.pop()
        self.nodes = folder.nodes[begin:]
        del folder.nodes[begin:]
        folder.doubts, folder.left_out, folder.copies, folder.branches = kept

    def name(self):
        return "then" if self.wanted else "else"

    def add_to(self, folder):
        folder.nodes += self.nodes
        folder.doubts += self.doubts
        folder.left_out += self.left_out
        folder.copies += self.copies
        folder.branches += self.branches


def take_only(folder, node, branch, other):
    """Adds a branch to the folder, and before it what makes sure that the other one, which does not fit, is not taken."""
    name = node.name or node.output[0]
    condition = Condition(folder, node.input[0], branch.wanted)
    message = f'{condition}: the {other.name()} branch of the If "{name}" does not fit the sizes that the network is made for'
    for part in requirement(node, branch, folder.guards, message, {} if folder.guards else condition.example()):
        folder.nodes.append(part)
        folder.follow_node(part)
        folder.types[part.output[0]] = onnx.helper.make_tensor_type_proto(onnx.TensorProto.BOOL, [])
    folder.left_out.append(f'left out: the {other.name()} branch of the If "{name}": {other.doubts[0]}')
    branch.add_to(folder)


def requirement(node, branch, guards, message, example):
    """The nodes that say that an If has to take a branch wherever all of the `guards` hold, (condition, whether it has to be true)
    of the branches that it is in itself."""
    nodes, joined, name = [], None, node.output[0]
    for place, (value, wanted) in enumerate([*((guard, not held) for guard, held in guards), (node.input[0], branch.wanted)]):
        if not wanted:
            nodes.append(onnx.helper.make_node("Not", [value], [f"{name}/not{place}"]))
            value = nodes[-1].output[0]
        if joined is not None:
            nodes.append(onnx.helper.make_node("Or", [joined, value], [f"{name}/or{place}"]))
            value = nodes[-1].output[0]
        joined = value
    nodes.append(onnx.helper.make_node(OPERATOR, [joined], [f"{name}/required"], name, domain=DOMAIN, message=message,
                                       results=branch.results, **example))
    return nodes


class Condition:
    """A condition in words, by the input of the model that says it all where there is one."""

    def __init__(self, folder, name, wanted):
        self.name, self.value, self.equal = name, True, wanted
        inputs = {value.name for value in folder.model.graph.input}
        self.is_input = name in inputs
        maker = next((node for node in reversed(folder.nodes) if name in node.output), None)
        if maker is None or maker.op_type != "Equal" or maker.domain not in ("", "ai.onnx"):
            return
        for one, other in (maker.input, maker.input[::-1]):
            if one in inputs and other in folder.values and folder.values[other].size == 1:
                self.name, self.value, self.is_input = one, folder.values[other].reshape(-1)[0].item(), True

    def __str__(self):
        if isinstance(self.value, bool):
            return f'"{self.name}" must be {str(self.value == self.equal).lower()}'
        return f'"{self.name}" {"must" if self.equal else "may not"} be {self.value}'

    def example(self):
        """An input of the model, and a value of it for which the condition holds."""
        if not self.is_input:
            return {}
        other = not self.value if isinstance(self.value, bool) else self.value + 1
        return {"input": self.name, "value": self.value if self.equal else other}


def is_requirement(node):
    """Whether a node says that its input has to be true."""
    return node.domain == DOMAIN and node.op_type == OPERATOR


def without_idle_requirements(nodes, outputs):
    """The nodes, without what is required for results that no output needs."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        made = node.output
        if is_requirement(node):
            made = [name.decode() for name in attribute_values(node)["results"]]
            if not wanted.intersection(made):
                continue
        if wanted.intersection(made):
            wanted.update(names_of(node))
        kept.append(node)
    return kept[::-1]
