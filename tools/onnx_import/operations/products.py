"""Products of matrices that are both computed in the model."""

import numpy as np

from terms import NodeError, attribute_values

from operations.base import Behind, Operand, Operation, identity, number_text, tensor_text
from operations.elementwise import Map


class Product(Operation):
    """`shapes` are those that the inputs are taken for, of at least two axes."""

    def __init__(self, inputs, dtypes, shapes, output, dtype, shape, parameters):
        super().__init__(inputs, output, dtype, shape)
        self.dtypes, self.shapes, self.parameters = dtypes, shapes, parameters
        self.ranks = None
        self.result = None
        self.behind = None

    def taken_for(self, result, ranks):
        """The shape that the result is taken for, and the ranks that inputs have in the model."""
        self.result, self.ranks = result, ranks
        return self

    def with_behind(self, chain):
        if self.behind or self.result != self.shape or self.parameters.endswith("-z"):
            raise NodeError("nothing is computed behind a product of vectors or bytes", "unsupported")
        behind = Behind.of(chain, self.outputs[0])
        self.ends_in(chain)
        self.behind = behind
        self.inputs += [operand.item for operand in behind.operands]

    def follow(self, orders):
        asked = [swapped(rank) if place < 2 and rank == len(self.shapes[place]) > 1
                 and lies_swapped(self.shapes[place], orders[place]) else identity(rank)
                 for place, rank in enumerate(self.ranks)]
        result = identity(len(self.shape))
        return asked + [operand.order(result) for operand in (self.behind.operands if self.behind else [])], [result]

    def text(self, inputs, outputs):
        """A side whose rows and columns lie the other way is read as such."""
        shapes, sides = [list(shape) for shape in self.shapes], list(self.parameters[1:3])
        for place in (0, 1):
            if inputs[place] != identity(self.ranks[place]):
                shapes[place] = [shapes[place][axis] for axis in inputs[place]]
                sides[place] = "n" if sides[place] == "t" else "t"
        operands = [tensor_text(dtype, shape) for dtype, shape in zip(self.dtypes, shapes)]
        behind = ""
        if self.behind:
            operands += [operand.text(outputs[0]) for operand in self.behind.operands]
            behind = self.behind.text()
        return f"matmul-{','.join(operands)}-{tensor_text(self.dtype, self.result)}-{''.join(sides)}{self.parameters[3:]}{behind}"


def swapped(rank):
    """The order in which a matrix's columns lie as its rows would."""
    return (*range(rank - 2), rank - 1, rank - 2)


def lies_swapped(shape, order):
    """Whether a side lies so, and not as the model has it too."""
    if order is None:
        return False
    moving = [axis for axis in order if shape[axis] != 1]
    return moving == [axis for axis in swapped(len(shape)) if shape[axis] != 1] != sorted(moving)


def sides_of(values, first, second, batch_of=None):
    """(shapes that both sides are taken for, the result's): a vector is a row, or a column."""
    a, b = values.shape(first), values.shape(second)
    if not a or not b:
        raise NodeError("it multiplies a scalar")
    left, right = (a if len(a) > 1 else [1, *a]), (b if len(b) > 1 else [*b, 1])
    batch = list(np.broadcast_shapes(tuple(left[:-2]), tuple(right[:-2])))
    return [left, right], [*batch, left[-2], right[-1]]


def items(values, *indices):
    return [values.item(index) for index in indices]


def matmul(values):
    """FusedMatMul too, which has a factor; its sides are turned by nodes of their own."""
    shapes, result = sides_of(values, 0, 1)
    attributes = attribute_values(values.node)
    if any(number for name, number in attributes.items() if name.startswith("trans")):
        raise NodeError("its sides are turned", "unsupported")
    alpha = number_text(np.float32(attributes.get("alpha", 1)))
    return [Product(items(values, 0, 1), [values.dtype(0), values.dtype(1)], shapes, values.node.output[0],
                    values.output_dtype(), values.output_shape(), "-nn" if alpha == "1" else f"-nn-alpha{alpha}-beta1")
            .taken_for(result, [len(values.shape(0)), len(values.shape(1))])]


def gemm(values):
    attributes = attribute_values(values.node)
    a, b, result = values.shape(0), values.shape(1), values.output_shape()
    if len(a) != 2 or len(b) != 2:
        raise NodeError(f"a Gemm of shapes {a} and {b}")
    which = "".join("t" if attributes.get(name, 0) else "n" for name in ("transA", "transB"))
    inputs = [0, 1, 2] if values.has(2) else [0, 1]
    alpha, beta = (number_text(np.float32(attributes.get(name, 1))) for name in ("alpha", "beta"))
    scales = "" if alpha == beta == "1" else f"-alpha{alpha}-beta{beta}"
    shapes = [values.shape(index) for index in inputs]
    return [Product(items(values, *inputs), [values.dtype(index) for index in inputs], shapes, values.node.output[0],
                    values.output_dtype(), result, f"-{which}{scales}").taken_for(result, [len(shape) for shape in shapes])]


def points_of(values, indices):
    """The zero points of both sides, zeros where there are none; empty where there are none at all."""
    if not any(values.has(index) for _, index, _ in indices):
        return [], []
    inputs, shapes = [], []
    for side, index, size in indices:
        if not values.has(index):
            inputs.append(np.zeros([], values.dtype(side)))
            shapes.append([])
            continue
        shape = values.shape(index)
        count = int(np.prod(shape))
        if count not in (1, size) or (len(shape) > 1 and count != 1):
            raise NodeError(f"its zero points have shape {shape}", "unsupported")
        inputs.append(values.item(index))
        shapes.append(shape if count != 1 else [1] * len(shape))
    return inputs, shapes


def integer_product(values, first, second, points, output, shape):
    """Sums of products of bytes less their zero points."""
    shapes, result = sides_of(values, first, second)
    zero_points, point_shapes = points_of(values, ((first, points[0], result[-2]), (second, points[1], result[-1])))
    dtypes = [values.dtype(first), values.dtype(second)]
    return Product([*items(values, first, second), *zero_points], dtypes * (2 if zero_points else 1),
                   [*shapes, *point_shapes], output, np.int32, shape, "-nn-z" if zero_points else "-nn") \
        .taken_for(result, [len(values.shape(first)), len(values.shape(second)), *map(len, point_shapes)])


def matmul_integer(values):
    return [integer_product(values, 0, 1, (2, 3), values.node.output[0], values.output_shape())]


def qlinear_matmul(values):
    """Of bytes, rounded to bytes by what all three scales make together."""
    shape = values.output_shape()
    sums = values.intermediate("sums", np.int32, shape)
    product = integer_product(values, 0, 3, (2, 5), sums, shape)
    numbers = [values.constant(index, what) for index, what in
               ((1, "a_scale"), (4, "b_scale"), (6, "y_scale"), (7, "y_zero_point"))]
    if any(number.size != 1 for number in (numbers[0], *numbers[2:])):
        raise NodeError("its scales are of rows", "unsupported")
    factor = (numbers[0].reshape(-1)[0].astype(np.float32) * numbers[1].astype(np.float32)
              / numbers[2].reshape(-1)[0].astype(np.float32)).reshape(-1)
    operands = [Operand(sums, np.int32, shape, range(len(shape)))]
    scale = number_text(factor[0])
    if factor.size > 1:
        operands.append(Operand(factor, np.float32, [factor.size], [len(shape) - 1]))
        scale = "b"
    kind = {"int8": "s8", "uint8": "u8"}[values.output_dtype().name]
    text = f"saturate_{kind}(add(saturate_s32(mul(cast_f32(a),{scale})),{number_text(numbers[3].reshape(-1)[0])}))"
    return [product, Map(text, operands, values.node.output[0], values.output_dtype(), shape)]


HANDLERS = {"MatMul": matmul, "FusedMatMul": matmul, "Gemm": gemm, "MatMulInteger": matmul_integer, "QLinearMatMul": qlinear_matmul}
