"""Copies of what copies made, as copies of what those read: a part of a tensor that is then turned is moved once."""

import collections
import re

PLAIN = re.compile(r"copy-(?P<x>[^-,]+)-(?P<y>[^-,]+)-n(?P<extents>[\dx]+)-i(?P<first>\d+),(?P<strides>[-\dx]+)")


class Plain:
    """A copy without fills and tables: what it reads is `first` and a step of `strides` for each of its loops, the outermost
    first; what it makes are the loops' steps in their order."""

    def __init__(self, x, y, first, loops):
        self.x, self.y, self.first, self.loops = x, y, first, loops

    @staticmethod
    def of(text):
        found = PLAIN.fullmatch(text)
        if found is None:
            return None
        extents, strides = ([int(number) for number in found[name].split("x")] for name in ("extents", "strides"))
        return Plain(found["x"], found["y"], int(found["first"]), list(zip(extents, strides)))

    def text(self):
        extents, strides = ("x".join(map(str, numbers)) for numbers in zip(*self.loops))
        return f"copy-{self.x}-{self.y}-n{extents}-i{self.first},{strides}"

    def behind(self, other, offset):
        """What this copy is of what another one reads, whose result it reads from an offset; None where it is no plain one."""
        digits = Digits(other.loops)
        try:
            first = digits.add_first(self.first + offset) + other.first
            loops = [part for extent, stride in self.loops for part in digits.add_loop(extent, stride)]
        except NoDigits:
            return None
        return Plain(other.x, self.y, first, loops) if digits.never_carry() else None


class NoDigits(Exception):
    """A place in a copy's result that is not so far along each of its loops."""


class Digits:
    """The places in a copy's result as numbers of so many digits as it has loops: a step of one that reads the result is so
    many steps of one loop, as long as no digit has a carry."""

    def __init__(self, loops):
        self.digits, weight = [], 1
        for extent, stride in reversed(loops):
            if extent != 1:
                self.digits.insert(0, (weight, extent, stride))
            weight *= extent
        self.most = [0] * len(self.digits)  # of each digit

    def add_first(self, place):
        """Where a place is read from."""
        read = 0
        for at, (weight, _, stride) in enumerate(self.digits):
            self.most[at], place = divmod(place, weight)
            read += self.most[at] * stride
        if place:
            raise NoDigits
        return read

    def add_loop(self, extent, step):
        """The loops over what is read that a loop over the result is, the outermost first."""
        if extent == 1 or step == 0:
            return [(extent, 0)]
        at = next((at for at, (weight, _, _) in enumerate(self.digits) if weight <= step), None)
        if step < 0 or at is None or step % self.digits[at][0]:
            raise NoDigits
        weight, size, stride = self.digits[at]
        ahead = step // weight
        if ahead >= size:
            raise NoDigits
        count = (size - 1) // ahead + 1
        if extent <= count:
            self.most[at] += ahead * (extent - 1)
            return [(extent, ahead * stride)]
        if size % ahead or extent % count:  # it goes on in the digit before, which must be where this one ends
            raise NoDigits
        self.most[at] += ahead * (count - 1)
        return [*self.add_loop(extent // count, weight * size), (count, ahead * stride)]

    def never_carry(self):
        return all(most < size for most, (_, size, _) in zip(self.most, self.digits))


def composed(steps, tensors):
    """The steps, with copies that only copies read left out, or nobody: `tensors` are those that the steps' numbers say."""
    readers, gone = collections.defaultdict(list), set()
    for step in steps:
        for number in set(read_by(step)):
            readers[root(tensors, number).number].append(step)
    given = {root(tensors, tensor.number).number for tensor in tensors if tensor.output is not None}
    for step in steps:
        copy = Plain.of(step.get("operation", ""))
        made = tensors[step["outputs"][0]] if copy is not None else None
        if made is None or made.view or made.number in given:
            continue
        parts = [behind(other, copy, tensors) for other in readers[made.number]]
        if None in parts:
            continue
        gone.add(id(step))
        for other, part in zip(readers[made.number], parts):
            other.update(operation=part.text(), inputs=list(step["inputs"]))
        source = root(tensors, step["inputs"][0]).number
        readers[source] = [other for other in readers[source] if other is not step] + readers.pop(made.number)
    return [step for step in steps if id(step) not in gone]


def behind(step, copy, tensors):
    """What a step that reads a copy's result is of what the copy reads, or None."""
    other = Plain.of(step.get("operation", ""))
    if other is None:
        return None
    tensor, offset = tensors[step["inputs"][0]], 0
    while tensor.view:
        tensor, offset = tensor.view[0], offset + tensor.view[1]
    return other.behind(copy, offset // tensor.dtype.itemsize)


def read_by(step):
    return step["inputs"] if "inputs" in step else \
        [step[role] for role in ("x", "residual", "mask", "offset", "bias") if role in step]


def root(tensors, number):
    tensor = tensors[number]
    while tensor.view:
        tensor = tensor.view[0]
    return tensor
