"""The order in which a model's nodes can run."""

import graphlib

from terms import ModelError, outer_names


def in_order(nodes):
    """The nodes with each behind those that it reads from. Raises ModelError where there is no such order."""
    nodes, makers = list(nodes), {}
    for place, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in makers:
                raise ModelError(f'"{name}" is made by two nodes, {called(nodes[makers[name]])} and {called(node)}')
            makers[name] = place
    needed = {place: [makers[name] for name in names_of(node) if name in makers] for place, node in enumerate(nodes)}
    if all(other < place for place, others in needed.items() for other in others):
        return nodes
    try:
        return [nodes[place] for place in graphlib.TopologicalSorter(needed).static_order()]
    except graphlib.CycleError as error:
        circle = [called(nodes[place]) for place in error.args[1][1:]]
        raise ModelError("its nodes need each other's results in a circle: " + ", ".join(circle[:6])
                         + (", ..." if len(circle) > 6 else "")) from error


def called(node):
    return f'"{node.name or node.output[0]}"'


def names_of(node):
    """What a node reads, in its bodies too."""
    return {*node.input, *outer_names(node)}
