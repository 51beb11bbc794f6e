"""Activations as models have them: the operators that are one, and the nodes that exporters write one as."""

import ast
import collections

import numpy as np

from terms import HIGHEST, LOWEST, NodeError, attribute_values, is_number, is_onnx

# Operators that a layer can have as its activation, with the parameters that a node gives, in the order of
# activation_params, and their defaults. Clip's are inputs since opset 11.
ACTIVATIONS = {"Relu": {}, "LeakyRelu": {"alpha": 0.01}, "Tanh": {}, "Sigmoid": {},
               "HardSigmoid": {"alpha": 0.2, "beta": 0.5}, "HardSwish": {}, "Clip": {"min": LOWEST, "max": HIGHEST},
               "Swish": {"alpha": 1}, "Gelu": {}, "GeluTanh": {}, "Mish": {}, "Elu": {"alpha": 1},
               "Softplus": {}, "PRelu": {}}
# Of these, those that have a slope for each output channel, an input; of one for all channels they are another.
WITH_SLOPES = {"PRelu"}
# Operators that are another activation where an attribute has this value.
VARIANTS = {("Gelu", "approximate", b"tanh"): "GeluTanh"}

# The same in several nodes: (activation, expression, activation_params of the expression's letters). An expression names
# operators; x is the layer's result, other letters are numbers, one and the same wherever they stand. An operator that is
# an activation stands for its other forms too. Parameters of None: these numbers make something else.
FORMS = [
    ("Clip", "Min(Max(x, a), b)", lambda a, b: (a, b) if a <= b else None),
    ("Clip", "Max(Min(x, b), a)", lambda a, b: (a, b) if a <= b else None),
    ("Clip", "Min(Relu(x), b)", lambda b: (0, b) if b >= 0 else None),
    ("LeakyRelu", "Max(x, Mul(x, a))", lambda a: (a,) if 0 <= a <= 1 else None),
    ("LeakyRelu", "PRelu(x, a)", lambda a: (a,)),
    ("Sigmoid", "Div(1, Add(1, Exp(Neg(x))))", lambda: ()),
    # Clip(x + b, 0, c) / c is Clip(x / c + b / c, 0, 1).
    ("HardSigmoid", "Div(Clip(Add(x, b), 0, c), c)", lambda b, c: (1 / c, b / c) if c > 0 else None),
    ("HardSigmoid", "Mul(Clip(Add(x, b), 0, c), a)", lambda a, b, c: (a, a * b) if c > 0 and is_near(a * c, 1) else None),
    ("HardSigmoid", "Clip(Add(Mul(x, a), b), 0, 1)", lambda a, b: (a, b)),
    ("HardSigmoid", "Clip(Add(Div(x, a), b), 0, 1)", lambda a, b: (1 / a, b)),
    ("HardSigmoid", "Clip(Mul(Add(x, b), a), 0, 1)", lambda a, b: (a, a * b)),
    ("HardSigmoid", "Clip(Div(Add(x, b), a), 0, 1)", lambda a, b: (1 / a, b / a)),
    ("HardSwish", "Mul(x, HardSigmoid(x, 1 / 6, 1 / 2))", lambda: ()),
    ("HardSwish", "Div(Mul(x, Clip(Add(x, 3), 0, 6)), 6)", lambda: ()),
    ("HardSwish", "Mul(Mul(x, Clip(Add(x, 3), 0, 6)), 1 / 6)", lambda: ()),
    ("HardSwish", "Mul(Mul(x, 1 / 6), Clip(Add(x, 3), 0, 6))", lambda: ()),
    ("HardSwish", "Mul(Div(x, 6), Clip(Add(x, 3), 0, 6))", lambda: ()),
    ("Swish", "Mul(x, Sigmoid(x))", lambda: (1,)),
    ("Swish", "Mul(x, Sigmoid(Mul(x, a)))", lambda a: (a,)),
    ("Mish", "Mul(x, Tanh(Softplus(x)))", lambda: ()),
    ("Softplus", "Log(Add(1, Exp(x)))", lambda: ()),
    ("Softplus", "Add(Relu(x), Log(Add(1, Exp(Neg(Abs(x))))))", lambda: ()),
]
# exp(x) - 1 times a number, below 0; the functions that pick them are right for factors from 0 on where they are Min.
for _below in ("Sub(Exp({}), 1)", "Add(Exp({}), -1)"):
    FORMS += [("Elu", f"Add(Relu(x), Mul({_below.format('Min(x, 0)')}, a))", lambda a: (a,)),
              ("Elu", f"Add(Relu(x), {_below.format('Min(x, 0)')})", lambda: (1,)),
              ("Elu", f"Add(Relu(x), Min(Mul({_below.format('x')}, a), 0))", lambda a: (a,) if a >= 0 else None),
              ("Elu", f"Add(Relu(x), Min({_below.format('x')}, 0))", lambda: (1,))]
    for _pick in ("Where(Greater(x, 0), x, {})", "Where(GreaterOrEqual(x, 0), x, {})", "Where(Less(x, 0), {}, x)",
                  "Where(LessOrEqual(x, 0), {}, x)"):
        FORMS += [("Elu", _pick.format(f"Mul({_below.format('x')}, a)"), lambda a: (a,)),
                  ("Elu", _pick.format(_below.format("x")), lambda: (1,))]
# Gelu is x * (1 + f) / 2, by the error function or by what is near it.
ERROR_FUNCTIONS = {
    "Gelu": ["Erf(Div(x, 2 ** 0.5))", "Erf(Mul(x, 0.5 ** 0.5))"],
    "GeluTanh": [f"Tanh(Mul(Add(x, Mul({cube}, 0.044715)), (2 / 3.141592653589793) ** 0.5))"
                 for cube in ("Pow(x, 3)", "Mul(x, Mul(x, x))")],
}
for _activation, _functions in ERROR_FUNCTIONS.items():
    for _function in _functions:
        FORMS += [(_activation, _whole.format(_function), lambda: ()) for _whole in (
            "Mul(Mul(x, Add(1, {})), 0.5)", "Mul(Mul(x, 0.5), Add(1, {}))", "Mul(x, Mul(Add(1, {}), 0.5))",
            "Div(Mul(x, Add(1, {})), 2)", "Mul(x, Div(Add(1, {}), 2))", "Mul(x, Add(0.5, Mul({}, 0.5)))")]
COMMUTATIVE = {"Add", "Mul", "Min", "Max"}
# More nodes than any form has, and more readers of one value: no search goes further.
MOST_NODES, MOST_READERS = 12, 6


class Found(collections.namedtuple("Found", "name parameters nodes output")):
    """An activation that was found: the nodes that it is, of which the last makes `output`."""

    def what(self):
        """What notes call it."""
        kinds = sorted(node.op_type for node in self.nodes)
        return self.name if kinds == [self.name] else f"{self.name} ({', '.join(kinds)})"



def find_activation(graph, start, channel_values=None):
    """The activation behind a value, of as many nodes as possible; None where there is none that takes all its readers.
    `channel_values` tells a constant as one number an output channel, or None."""
    return Search(graph, start).longest() or (channel_values and with_slopes(graph, start, channel_values))


def with_slopes(graph, start, channel_values):
    """One of a slope for each output channel, or None."""
    node = graph.only_reader(start)
    if node is None or not is_onnx(node) or node.op_type not in WITH_SLOPES or node.input[0] != start:
        return None
    slopes = channel_values(node.input[1]) if node.input[1] in graph.constants else None
    if slopes is None or not np.isfinite(np.float32(slopes)).all():
        return None
    return Found(node.op_type, [float(np.float32(slope)) for slope in slopes], [node], node.output[0])


def is_near(number, wanted, tolerance=1e-6):
    """Whether they differ by no more than roundings."""
    return bool(np.isclose(number, wanted, rtol=tolerance, atol=0))


def own_activation(node):
    """What a node would be by itself, as layers call it."""
    values = attribute_values(node)
    return next((activation for (operator, name, value), activation in VARIANTS.items()
                 if node.op_type == operator and values.get(name) == value), node.op_type)


def own_parameters(graph, node):
    """Those of a node that is an activation by itself, or None where they are not constant numbers."""
    attributes = attribute_values(node)
    parameters = [float(attributes.get(name, value)) for name, value in ACTIVATIONS[own_activation(node)].items()]
    for index, name in enumerate(node.input[1:]):
        if name and index < len(parameters):
            number = constant_number(graph, name)
            if number is None:
                return None
            parameters[index] = number[0]
    return None if any(np.isnan(parameters)) else [min(max(number, LOWEST), HIGHEST) for number in parameters]


def constant_number(graph, name):
    """(a constant of one element, how far rounding to its type may have moved it), or None."""
    if name not in graph.constants:
        return None
    try:
        value = graph.value(name)
    except NodeError:
        return None
    if value.size != 1 or not is_number(value.dtype):
        return None
    rounding = {"float16": 2e-3, "bfloat16": 8e-3}.get(value.dtype.name, 1e-6)
    return float(value.reshape(-1)[0]), rounding


class Search:
    """Looks for activations among the nodes nearest behind a value that are computed from it and constants alone, by
    operators that forms are made of."""

    def __init__(self, graph, start):
        self.graph, self.start = graph, start
        self.makers = {}
        values, pending = {start}, [] if start in graph.outputs else [start]
        while pending and len(self.makers) < MOST_NODES:
            readers = graph.readers[pending.pop(0)]
            for node in readers if len(readers) <= MOST_READERS else ():
                made = node.output[0] if node.op_type in OPERATORS and len(node.output) == 1 and is_onnx(node) else ""
                if made and made not in values and self.reads_only(node, values):
                    values.add(made)
                    pending.append(made)
                    self.makers[made] = node

    def reads_only(self, node, values):
        return all(name in values or name in self.graph.constants for name in node.input if name)

    def longest(self):
        best = None
        for output, node in self.makers.items():
            # An activation's own operator may be another one by its attributes.
            for name in ACTIVATIONS if node.op_type in ACTIVATIONS else ENDINGS[node.op_type]:
                for parameters, source, nodes in self.ways(output, name):
                    if source == self.start and self.takes_all_readers(nodes, output):
                        nodes = list({id(node): node for node in nodes}.values())
                        if best is None or len(nodes) > len(best.nodes):
                            best = Found(name, parameters, nodes, output)
        return best

    def takes_all_readers(self, nodes, output):
        """Whether nobody but these nodes reads the value in front of them and those between."""
        ids = {id(node) for node in nodes}
        between = {self.start, *(node.output[0] for node in nodes)} - {output}
        return all(name not in self.graph.outputs and all(id(reader) in ids for reader in self.graph.readers[name])
                   for name in between)

    def ways(self, value, activation):
        """Every way in which a value is an activation of another: (parameters, that other value, nodes)."""
        node = self.makers.get(value)
        if node is None:
            return
        if own_activation(node) == activation and activation not in WITH_SLOPES:
            parameters = own_parameters(self.graph, node)
            if parameters is not None:
                yield parameters, node.input[0], [node]
        for expression, parameters_of in PARSED[activation]:
            for letters, nodes in self.matches(value, expression, {}):
                source = letters.pop("x")
                try:
                    parameters = parameters_of(**letters)
                except ZeroDivisionError:
                    continue
                if parameters is not None and np.isfinite(parameters).all():
                    yield [float(number) for number in parameters], source, nodes

    def matches(self, value, expression, letters):
        """Every way in which a value is an expression, some of whose letters stand for something: (letters, nodes)."""
        if isinstance(expression, tuple):
            operator, arguments = expression
            if operator in ACTIVATIONS and operator not in WITH_SLOPES:
                yield from self.matches_of_activation(value, operator, arguments, letters)
            else:
                yield from self.matches_of_node(value, operator, arguments, letters)
        elif expression == "x":
            if letters.get("x", value) == value and value not in self.graph.constants:
                yield {**letters, "x": value}, []
        elif (number := constant_number(self.graph, value)) is not None:
            found = with_number(expression, letters, *number)
            if found is not None:
                yield found, []

    def matches_of_activation(self, value, activation, arguments, letters):
        for parameters, source, nodes in self.ways(value, activation):
            for found, more in self.matches(source, arguments[0], letters):
                for number, wanted in zip(parameters, arguments[1:]):
                    found = None if found is None else with_number(wanted, found, number)
                if found is not None:
                    yield found, [*more, *nodes]

    def matches_of_node(self, value, operator, arguments, letters):
        node = self.makers.get(value)
        if node is None or node.op_type != operator or len(node.input) != len(arguments):
            return
        for order in [arguments, arguments[::-1]] if operator in COMMUTATIVE else [arguments]:
            ways = [(letters, [])]
            for name, wanted in zip(node.input, order):
                ways = [(found, [*nodes, *more]) for known, nodes in ways
                        for found, more in self.matches(name, wanted, known)]
            yield from ((found, [*nodes, node]) for found, nodes in ways)


def with_number(expression, letters, number, tolerance=1e-6):
    """The letters with this number for an expression's letter, or in place of its number; None where it is another."""
    wanted = letters.get(expression, number) if isinstance(expression, str) else expression
    if number != wanted and not is_near(number, wanted, tolerance):
        return None
    return {**letters, expression: wanted} if isinstance(expression, str) else letters


def parsed(node):
    """An expression as a text for a letter, a float for a number, (operator, arguments) for a call."""
    if isinstance(node, ast.Call):
        return node.func.id, [parsed(argument) for argument in node.args]
    return node.id if isinstance(node, ast.Name) else float(eval(ast.unparse(node)))  # arithmetic of FORMS


def operators_of(expression):
    """The operators of an expression, its last one first."""
    if isinstance(expression, tuple):
        yield expression[0]
        for argument in expression[1]:
            yield from operators_of(argument)


def endings():
    """{operator: activations that may end in it}."""
    ends = {name: {name} for name in ACTIVATIONS}
    for _ in ACTIVATIONS:  # a form may end in an activation that has forms itself
        for name, forms in PARSED.items():
            for expression, _ in forms:
                last = expression[0]
                ends[name] |= {last, *ends.get(last, ())}
    found = collections.defaultdict(list)
    for name, operators in ends.items():
        for operator in operators:
            found[operator].append(name)
    return found


PARSED = collections.defaultdict(list)
for _activation, _text, _parameters_of in FORMS:
    PARSED[_activation].append((parsed(ast.parse(_text, mode="eval").body), _parameters_of))
OPERATORS = {operator for forms in PARSED.values() for form in forms for operator in operators_of(form[0])} | set(ACTIVATIONS)
ENDINGS = endings()
