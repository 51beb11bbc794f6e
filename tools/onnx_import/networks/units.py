"""What a network is made of before it is laid out: layers, chains of elementwise nodes, single nodes, and how they depend on
each other."""

import collections

from networks import long_tail
from networks.lookups import Lookups, is_number
from reading.branches import is_requirement
from reading.order import names_of
from terms import BYTES, NARROW_FLOATS, is_onnx

# A chain is one kernel: it may not read more tensors, nor be of more nodes.
MOST_READ, MOST_NODES = 12, 32


class Unit:
    """Something that is computed at once: `kind` is "layer", "map" (a chain), "node", "taking" (a node and the chain behind it),
    "tail" (nodes without kernels) or "check" (of a condition)."""

    def __init__(self, kind, nodes, inputs, outputs, layer=None):
        self.kind, self.nodes, self.layer = kind, nodes, layer
        self.inputs = list(dict.fromkeys(filter(None, inputs)))
        self.outputs = [name for name in outputs if name]

    @property
    def node(self):
        """The node that messages name."""
        return self.layer.node if self.layer else self.nodes[-1]


def units_of(graph, layers, is_map, takes):
    """The units that the model's outputs need, in an order in which they can run."""
    units = needed(graph, all_units(graph, layers))
    return with_chains(graph, chained(graph, units, is_map), takes)


def all_units(graph, layers):
    owners = {id(node): layer for layer in layers for node in layer.nodes}
    last = {}
    for position, node in enumerate(graph.nodes):
        if id(node) in owners:
            last[owners[id(node)].name] = position
    for position, node in enumerate(graph.nodes):
        layer = owners.get(id(node))
        if is_requirement(node):
            yield Unit("check", [node], node.input, node.output)
        elif layer is None:
            if not all(name in graph.constants for name in node.output if name):
                yield Unit("node", [node], sorted(names_of(node), key=list(names_of(node)).index), node.output)
        elif last[layer.name] == position:
            yield Unit("layer", layer.nodes, roles_of(graph, layer).values(), [layer.end], layer)


def roles_of(graph, layer):
    """{"x": name, "residual": name, ...} of what a layer reads when it runs: its constants lie in the library."""
    roles = {"x": layer.inputs["x"], "residual": layer.residual, "mask": layer.inputs.get("mask", "")}
    if layer.node.op_type == "DeformConv":
        roles["offset"] = layer.node.input[2]
    if layer.inputs.get("bias") and layer.inputs["bias"] not in graph.constants:
        roles["bias"] = layer.inputs["bias"]
    return {role: name for role, name in roles.items() if name}


def needed(graph, units):
    wanted, result = set(graph.outputs), []
    for unit in reversed(list(units)):
        if unit.kind == "check" or wanted.intersection(unit.outputs):
            wanted.update(unit.inputs)
            result.append(unit)
    return result[::-1]


def readers_of(units):
    readers = collections.defaultdict(list)
    for unit in units:
        for name in unit.inputs:
            readers[name].append(unit)
    return readers


def chained(graph, units, is_map):
    """The units with elementwise nodes joined, where nobody else reads what is between them. A node that makes floats of
    bytes is in each chain that reads it."""
    readers, lookups, chains = readers_of(units), Lookups(graph, units, is_map), {}  # the chains that each unit is in
    for unit in reversed(units):
        if unit.kind != "node" or not is_map(unit.node):
            continue
        behind = {id(chain): chain for reader in readers[unit.outputs[0]] for chain in chains.get(id(reader), [None])}
        joined = [chain for chain in behind.values() if chain is not None and may_join(graph, unit, chain, lookups)]
        if len(behind) > 1 and not widens(graph, unit):
            joined = []
        for chain in joined:
            chain.insert(0, unit)
        chains[id(unit)] = joined if joined and len(joined) == len(behind) else [*joined, [unit]]
    result = []
    for unit in units:
        if id(unit) not in chains:
            result.append(unit)
        for chain in chains.get(id(unit), []):
            if chain[-1] is unit:
                result.append(chain_of(chain))
    return result


def chain_of(units):
    made = {name for unit in units for name in unit.outputs}
    inputs = [name for unit in units for name in unit.inputs if name not in made]
    return Unit("map", [unit.node for unit in units], inputs, units[-1].outputs)


def widens(graph, unit):
    """Whether a node makes floats of bytes: chains that each read these and make floats of their own cost less than floats that
    are stored."""
    return is_onnx(unit.node) and unit.node.op_type in ("DequantizeLinear", "Cast") \
        and graph.element_type(unit.node.input[0]) in BYTES and graph.element_type(unit.outputs[0]) in ("FLOAT", *NARROW_FLOATS)


def with_chains(graph, units, takes):
    """The units with chains joined to the node in front, where that computes them before it stores its result."""
    makers = {unit.outputs[0]: unit for unit in units if unit.kind == "node" and len(unit.outputs) == 1}
    readers, gone, joined = readers_of(units), set(), {}
    for unit in units:
        if unit.kind != "map":
            continue
        for name in unit.inputs:
            maker = makers.get(name)
            if maker is None or id(maker) in gone or len(readers[name]) != 1 or name in graph.outputs or \
                    graph.shape(name) != graph.shape(unit.outputs[0]) or not takes(maker.node, unit.nodes):
                continue
            gone.add(id(maker))
            joined[id(unit)] = Unit("taking", [*maker.nodes, *unit.nodes],
                                    [*maker.inputs, *(other for other in unit.inputs if other != name)], unit.outputs)
            break
    return [joined.get(id(unit), unit) for unit in units if id(unit) not in gone]


def with_tails(graph, units, has_no_kernel):
    """The units with those that Kiln has no kernel for put together, as far as they have to be."""
    units = [part for unit in units for part in (taken_apart(unit) if has_no_kernel(unit) else [unit])]
    bare = {id(unit.node): unit for unit in units if has_no_kernel(unit)}
    parts = {id(part[-1]): part for part in long_tail.groups([unit.node for unit in bare.values()], graph)}
    result = []
    for unit in units:
        part = parts.get(id(unit.node)) if id(unit.node) in bare else None
        if part is not None:
            made = {name for node in part for name in node.output}
            inputs = [name for node in part for name in long_tail.reads(node) if name not in made]
            ids = {id(node) for node in part}
            outputs = [name for node in part for name in node.output
                       if name in graph.outputs or any(id(reader) not in ids for reader in graph.readers[name])]
            result.append(Unit("tail", part, inputs, outputs))
        elif id(unit.node) not in bare:
            result.append(unit)
    return result


def taken_apart(unit):
    """The nodes of a chain that is no kernel by themselves."""
    return [Unit("node", [node], node.input, node.output) for node in unit.nodes]


def may_join(graph, unit, chain, lookups):
    if unit.outputs[0] in graph.outputs or len(chain) >= MOST_NODES or lookups.end_at(unit.outputs[0], chain[-1].outputs[0]):
        return False
    read = {name for part in [unit, *chain] for name in part.inputs}
    made = {name for part in [unit, *chain] for name in part.outputs}
    tensors = [name for name in read - made if not is_number(graph, name)]
    return len(tensors) <= MOST_READ and graph.shape(unit.outputs[0]) == graph.shape(chain[-1].outputs[0])
