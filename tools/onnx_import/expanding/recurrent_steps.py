"""LSTM, GRU and RNN of a known number of steps as nodes of ONNX: a product of all steps' inputs, and for each step one product
with what the step before made, and elementwise nodes. Both ways of a bidirectional one; ONNX Runtime's quantised LSTM too, whose
input and state stay floats."""

import numpy as np
import onnx

# Longer ones, both directions counted, stay what they are.
MOST_STEPS = 512
ACTIVATIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
PLAIN = ("Sigmoid", "Tanh", "Relu")  # those without numbers of their own


class NotUnrolled(Exception):
    """It has something that these nodes do not say."""


def write_steps(writer):
    """Writes the nodes of a recurrent one. Raises NotUnrolled."""
    Recurrence(writer).write()


class Recurrence:
    """What its inputs and attributes say; shapes are those of the document with layout = 0."""

    def __init__(self, writer):
        self.writer, self.kind = writer, writer.node.op_type.removeprefix("DynamicQuantize")
        attributes = writer.attributes
        self.batch_first = attributes.get("layout", 0) == 1
        x = writer.shape(writer.name(0))
        if len(x) != 3 or 0 in x:
            raise NotUnrolled
        self.steps, self.batch, self.width = (x[1], x[0], x[2]) if self.batch_first else x
        self.hidden, self.gates = attributes["hidden_size"], GATES[self.kind]
        ways = {b"forward": [False], b"reverse": [True], b"bidirectional": [False, True]}
        self.ways = ways[attributes.get("direction", b"forward")]
        self.resets_behind = bool(attributes.get("linear_before_reset", 0))
        self.activations = [name.decode() for name in attributes.get("activations", [])] or \
            [*ACTIVATIONS[self.kind]] * len(self.ways)
        if self.steps * len(self.ways) > MOST_STEPS or attributes.get("clip", 0) or attributes.get("input_forget", 0) \
                or len(self.activations) != len(ACTIVATIONS[self.kind]) * len(self.ways) \
                or not set(self.activations) <= set(PLAIN) or not self.runs_all_steps():
            raise NotUnrolled

    def runs_all_steps(self):
        """Whether every row of the batch has all steps."""
        name = self.writer.name(4)
        lengths = self.writer.folder.values.get(name)
        return not name or (lengths is not None and (lengths == self.steps).all())

    def write(self):
        writer = self.writer
        x = writer.add("Transpose", writer.name(0), perm=[1, 0, 2]) if self.batch_first else writer.name(0)
        runs = [Direction(self, place, reverse).run(x) for place, reverse in enumerate(self.ways)]
        outputs = [input_name_of(writer.node.output, place) for place in range(3)]
        for output, place in zip(outputs[1:], (1, 2)):
            if output:
                self.join([run[place] for run in runs], output, [len(self.ways), self.batch, self.hidden], [1, 0, 2])
        if outputs[0]:
            rows = [state for states in zip(*(run[0] for run in runs)) for state in states]
            self.join(rows, outputs[0], [self.steps, len(self.ways), self.batch, self.hidden], [2, 0, 1, 3])

    def join(self, states, output, shape, batch_first):
        """States of each step or direction, one behind the other, as an output."""
        writer = self.writer
        rows = [self.reshape(state, [1, self.batch, self.hidden]) for state in states]
        value = writer.add("Concat", *rows, axis=0) if len(rows) > 1 else rows[0]
        if self.batch_first:
            writer.add("Transpose", self.reshape(value, shape), output=output, perm=batch_first)
        else:
            writer.add("Reshape", value, writer.number(shape, np.int64), output=output)

    def reshape(self, value, shape):
        return self.writer.reshape(value, shape)

    def sliced(self, value, first, last, axis):
        writer = self.writer
        if writer.folder.opset < 10:
            return writer.add("Slice", value, starts=[first], ends=[last], axes=[axis])
        return writer.add("Slice", value, *(writer.number([number], np.int64) for number in (first, last, axis)))

    def weights(self, index, place):
        """Rows of one direction, [gates * hidden, columns]."""
        writer = self.writer
        value = self.of_direction(index, place)
        if writer.node.op_type == self.kind:
            return value
        scale, point = (self.of_direction(8 + 2 * (index - 1) + more, place) for more in (0, 1))
        to_float = lambda name: writer.add("Cast", name, to=onnx.TensorProto.FLOAT)
        value = writer.add("Mul", writer.add("Sub", to_float(value), to_float(point)), scale)
        return writer.add("Transpose", value, perm=[1, 0])

    def of_direction(self, index, place):
        return self.writer.add("Gather", self.writer.name(index), self.writer.number(place, np.int64), axis=0)


class Direction:
    """One direction of it. A state is [batch, hidden, 1]: the product with the weights is a convolution. Gates are rows of one
    product; in a batch each has its own, because its part of all gates' rows would have to be copied."""

    def __init__(self, whole, place, reverse):
        self.whole, self.place, self.reverse = whole, place, reverse
        count = len(ACTIVATIONS[whole.kind])
        self.activations = whole.activations[place * count:(place + 1) * count]
        self.add = whole.writer.add

    def run(self, x):
        """(the states of all steps in the model's order, the last one, the last cell's)"""
        whole = self.whole
        self.recurrent = self.parts(whole.reshape(whole.weights(2, self.place), [whole.gates * whole.hidden, whole.hidden, 1]))
        if whole.kind == "GRU" and not whole.resets_behind:  # the last gate is of another state
            *self.recurrent, self.of_new = self.recurrent if len(self.recurrent) > 1 else \
                [whole.sliced(self.recurrent[0], first * whole.hidden, last * whole.hidden, 0) for first, last in ((0, 2), (2, 3))]
        self.read_bias_and_peepholes()
        inputs = [self.input_product(x, *part) for part in zip(self.parts(whole.weights(1, self.place)), self.bias)]
        state, cell, states = self.initial(5), self.initial(6) if whole.kind == "LSTM" else "", []
        step = {"LSTM": self.lstm, "GRU": self.gru, "RNN": self.rnn}[whole.kind]
        for index in range(whole.steps)[::-1 if self.reverse else 1]:
            state, cell = step([self.row(part, index, len(inputs)) for part in inputs], state, cell)
            states.append(state)
        return states[::-1] if self.reverse else states, state, cell

    def parts(self, rows):
        """Rows of all gates as one part, or as one for each gate."""
        whole = self.whole
        if whole.batch == 1 or whole.gates == 1:
            return [rows]
        return [rows and whole.sliced(rows, gate * whole.hidden, (gate + 1) * whole.hidden, 0) for gate in range(whole.gates)]

    def input_product(self, x, weights, bias):
        """Of all steps' inputs."""
        made = self.add("MatMul", x, self.add("Transpose", weights, perm=[1, 0]))
        return self.add("Add", made, bias) if bias else made

    def row(self, part, index, parts):
        whole = self.whole
        row = whole.sliced(part, index, index + 1, 0) if whole.steps > 1 else part
        return whole.reshape(row, [whole.batch, whole.gates * whole.hidden // parts, 1])

    def initial(self, index):
        """A state before the first step; "" where it is zero."""
        whole = self.whole
        name = whole.writer.name(index)
        if not name:
            return ""
        value = whole.writer.add("Transpose", name, perm=[1, 0, 2]) if whole.batch_first else name
        value = self.add("Gather", value, whole.writer.number(self.place, np.int64), axis=0)
        return whole.reshape(value, [whole.batch, whole.hidden, 1])

    def read_bias_and_peepholes(self):
        """The sum of both biases, but the state's own for itself in a GRU that resets behind the product."""
        whole, ours, late, self.peepholes = self.whole, "", "", []
        rows = whole.gates * whole.hidden
        if whole.writer.name(3):
            both = whole.of_direction(3, self.place)
            ours, theirs = whole.sliced(both, 0, rows, 0), whole.sliced(both, rows, 2 * rows, 0)
            if whole.kind == "GRU" and whole.resets_behind:
                late = theirs
            else:
                ours = self.add("Add", ours, theirs)
        self.bias, self.late_bias = self.parts(ours), self.parts(late)
        if whole.kind == "LSTM" and whole.writer.name(7):
            all_of_them = whole.of_direction(7, self.place)
            self.peepholes = [whole.reshape(whole.sliced(all_of_them, gate * whole.hidden, (gate + 1) * whole.hidden, 0),
                                            [1, whole.hidden, 1]) for gate in range(3)]

    def dtype(self):
        name = self.whole.writer.folder.element_type(self.whole.writer.name(0))
        return onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(name))

    def gate(self, parts, place, count=1):
        if len(parts) > 1:
            return parts[place]
        hidden = self.whole.hidden
        return self.whole.sliced(parts[0], place * hidden, (place + count) * hidden, 1) if self.whole.gates > 1 else parts[0]

    def product(self, state, weights, bias=""):
        return self.add("Conv", state, weights, bias)

    def with_state(self, row, state):
        return [self.add("Add", self.product(state, weights), part) if state else part
                for weights, part in zip(self.recurrent, row)]

    def lstm(self, row, state, cell):
        first, second, third = self.activations
        sums = self.with_state(row, state)
        enter, leave, forget, new = (self.gate(sums, place) for place in range(4))
        if self.peepholes and cell:
            enter, forget = (self.add("Add", gate, self.add("Mul", self.peepholes[place], cell))
                             for gate, place in ((enter, 0), (forget, 2)))
        made = self.add("Mul", self.add(first, enter), self.add(second, new))
        if cell:
            made = self.add("Add", self.add("Mul", self.add(first, forget), cell), made)
        if self.peepholes:
            leave = self.add("Add", leave, self.add("Mul", self.peepholes[1], made))
        return self.add("Mul", self.add(first, leave), self.add(third, made)), made

    def gru(self, row, state, _):
        first, second = self.activations
        if not state and not any(self.late_bias):
            update, new = self.add(first, self.gate(row, 0)), self.add(second, self.gate(row, 2))
            return self.add("Sub", new, self.add("Mul", update, new)), ""
        state = state or self.zero_state()
        sums = [self.product(state, weights, bias) for weights, bias in zip(self.recurrent, self.late_bias)]
        update, reset = (self.add(first, gate) for gate in self.update_and_reset(sums, row))
        if self.whole.resets_behind:
            new = self.add("Add", self.add("Mul", reset, self.gate(sums, 2)), self.gate(row, 2))
        else:
            new = self.add("Add", self.product(self.add("Mul", reset, state), self.of_new), self.gate(row, 2))
        new = self.add(second, new)
        return self.add("Add", new, self.add("Mul", update, self.add("Sub", state, new))), ""

    def update_and_reset(self, sums, row):
        if len(row) > 1:
            return [self.add("Add", part, own) for part, own in zip(sums[:2], row)]
        hidden = self.whole.hidden
        both = self.add("Add", self.gate(sums, 0, 2) if self.whole.resets_behind else sums[0], self.gate(row, 0, 2))
        return [self.whole.sliced(both, place * hidden, (place + 1) * hidden, 1) for place in (0, 1)]

    def zero_state(self):
        return self.whole.writer.number(np.zeros([self.whole.batch, self.whole.hidden, 1]), self.dtype())

    def rnn(self, row, state, _):
        return self.add(self.activations[0], *self.with_state(row, state)), ""


def input_name_of(names, place):
    return names[place] if place < len(names) else ""
