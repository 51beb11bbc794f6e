"""How tensors lie in memory: an order is a tuple whose element i is the logical axis that lies at physical place i, the
slowest first. Axes of size 1 may stand anywhere in it."""

import math


def identity(rank):
    """The order of the model itself."""
    return tuple(range(rank))


def channels_last(rank):
    """(0, 2, 3, 1): batch, points, channels."""
    return (0, *range(2, rank), 1) if rank > 2 else identity(rank)


def physical(shape, order):
    """A shape as it lies."""
    return [shape[axis] for axis in order]


def same(shape, first, second):
    """Whether two orders are one and the same memory."""
    return moving(shape, first) == moving(shape, second)


def moving(shape, order):
    """An order without axes of size 1."""
    return [axis for axis in order if shape[axis] != 1]


def transposed(order, permutation):
    """How a transposition of what lies in `order` lies, nothing being moved."""
    return tuple(permutation.index(axis) for axis in order)


def before_transposition(order, permutation):
    """How the input of a transposition lies whose result lies in `order`, nothing being moved."""
    return tuple(permutation[axis] for axis in order)


def reshaped(before, after, order):
    """How the same memory lies under another shape, or None where it would have to be moved.

    Both shapes fall into the shortest runs of axes with equal products. A run can be taken for another one where its axes
    lie next to each other, in the model's order."""
    if 0 in before or 0 in after:
        return identity(len(after))
    runs = matching_runs(before, after)
    place_of = {axis: place for place, axis in enumerate(moving(before, order))}
    placed = []
    for old, new in runs:
        places = [place_of[axis] for axis in old if before[axis] != 1]
        if places != list(range(places[0], places[0] + len(places))) if places else False:
            return None
        placed.append((places[0] if places else -1, new))
    return tuple(axis for _, new in sorted(placed, key=lambda item: item[0]) for axis in new)


def matching_runs(before, after):
    """[(axes of `before`, axes of `after`)], every axis once, each pair of one product."""
    runs, i, j = [], 0, 0
    while i < len(before) or j < len(after):
        old, new = [], []
        while not old and not new or math.prod(before[a] for a in old) != math.prod(after[a] for a in new):
            if j >= len(after) or (i < len(before)
                                   and math.prod(before[a] for a in old) <= math.prod(after[a] for a in new)):
                old.append(i)
                i += 1
            else:
                new.append(j)
                j += 1
            if i > len(before) or j > len(after):
                raise ValueError(f"shapes {before} and {after} have different numbers of elements")
        runs.append((old, new))
    return runs
