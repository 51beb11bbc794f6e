"""The sizes of dimensions that a model leaves open, as its user gives them: one each, or several, each combination of which
is a network of its own."""

import itertools
import math
import re

from reading.loading import forget_shapes
from terms import ModelError

MOST_COMBINATIONS = 64


def parse_sizes(texts):
    """{"width": [160, 320]} of ["width=160,320"]."""
    sizes = {}
    for text in texts:
        name, separator, values = text.rpartition("=")
        if not separator or not name or not re.fullmatch(r"[1-9]\d{0,17}(,[1-9]\d{0,17})*", values):
            raise ModelError(f"--size {text}: write it like --size width=160,320,640, with the name of a dimension, or "
                             "like --size x.3=160, with that of an input and an axis")
        values = [int(value) for value in values.split(",")]
        if len(set(values)) < len(values):
            raise ModelError(f"--size {text}: it has a value twice")
        if name in sizes:
            raise ModelError(f'--size {text}: "{name}" was given before')
        sizes[name] = values
    combinations = math.prod(len(values) for values in sizes.values())
    if combinations > MOST_COMBINATIONS:
        raise ModelError(f"--size: {' x '.join(str(len(values)) for values in sizes.values())} values are {combinations} "
                         f"networks: at most {MOST_COMBINATIONS} go into one library")
    return sizes


class Sizes:
    """Which dimensions of a graph's inputs the given sizes are of."""

    def __init__(self, path, graph, sizes):
        self.path, self.values = path, sizes
        self.places = {name: self.places_of(graph, name) for name in sizes}
        taken = {}
        for name, places in self.places.items():
            for source, axis in places:
                dim = graph_dim(graph, source, axis)
                if dim.HasField("dim_value"):
                    raise ModelError(f'--size {name}: it is {dim.dim_value} already, by the model or by --shape')
                if (source, axis) in taken:
                    raise ModelError(f'--size {name}: it is the same dimension as "{taken[source, axis]}"')
                taken[source, axis] = name

    def places_of(self, graph, name):
        """(input, axis) of each dimension of this name; an input and an axis name all dimensions of the same name."""
        named = [(value.name, axis) for value, axis, dim in dimensions(graph) if name_of(dim) == name]
        if named:
            return named
        for value, axis, dim in dimensions(graph):
            if name == f"{value.name}.{axis}":
                return self.places_of(graph, name_of(dim)) if name_of(dim) else [(value.name, axis)]
        raise ModelError(f'{self.path} has no dimension "{name}" to give a size: {known_dimensions(graph)}')

    def several(self):
        """The names of those of several values."""
        return [name for name, values in self.values.items() if len(values) > 1]

    def combinations(self):
        """{name: value} of each, those of the last name next to each other."""
        return [dict(zip(self.values, values)) for values in itertools.product(*self.values.values())]

    def set(self, graph, combination):
        for name, value in combination.items():
            for source, axis in self.places[name]:
                graph_dim(graph, source, axis).dim_value = value
        if combination:
            forget_shapes(graph)


def dimensions(graph):
    """(input, axis, dimension) of all inputs."""
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            yield value, axis, dim


def name_of(dim):
    """A dimension's name, None where it has none: some exporters write "?" for that."""
    return dim.dim_param if dim.dim_param not in ("", "?") else None


def graph_dim(graph, source, axis):
    return next(dim for value, place, dim in dimensions(graph) if (value.name, place) == (source, axis))


def known_dimensions(graph):
    """What sizes may be given to, in words."""
    names = {}
    for value, axis, dim in dimensions(graph):
        if not dim.HasField("dim_value"):
            place = f"{value.name}.{axis}"
            names.setdefault(name_of(dim) or place, []).append(place)
    if not names:
        return "it leaves none open"
    return "it leaves open " + ", ".join(f'"{name}"' + (f" ({', '.join(places)})" if places != [name] else "")
                                         for name, places in names.items())
