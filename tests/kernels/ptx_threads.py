"""Runs PTX without a GPU: what a kernel of a few blocks computes, all of its threads in step.

It has the instructions that kernels of matrix products (gpu_mma) are made of, among them mma.sync.m16n8k16 as the PTX ISA's
tables have its operands in a warp's threads: so it tells whether a kernel reads, orders and writes numbers rightly. How a
GPU rounds in the midst of that instruction it does not tell. And it has those of kernels with shared memory, asynchronous
copies (cp.async) among them, whose data come at the last moment: it tells where a thread may meet another's read or write of
a word, since no barrier is between them, or a copy that it did not wait for.
"""

import functools
import mmap
import re
import sys
from pathlib import Path

import numpy as np

WARP = 32
SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}
COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal, "ltu": np.less, "neu": np.not_equal,
    "gtu": np.greater, "leu": np.less_equal, "geu": np.greater_equal,
}  # fmt: skip


def numpy_type(name):
    kind, bits = name[0], int(re.sub(r"\D", "", name) or 8)
    return {"s": SIGNED, "u": UNSIGNED, "b": UNSIGNED, "f": FLOATS}[kind][bits]


def widened(bits, kind):
    """Of words of two products, or of one TF32: the float32s of each."""
    if kind == "tf32":
        return (bits & 0xFFFFE000).view(np.float32)[..., None]
    halves = np.stack([bits & 0xFFFF, bits >> 16], axis=-1).astype(np.uint16)
    if kind == "bf16":
        return (halves.astype(np.uint32) << 16).view(np.float32)
    return halves.view(np.float16).astype(np.float32)


def multiply_tiles(a, b, c, kind):
    """mma.m16n8k16, of TF32 m16n8k8, of whole warps: operands over (register, warp, thread of it); sums likewise."""
    lane = np.arange(WARP)
    group, within = lane // 4, lane % 4
    warps, of_word = a[0].shape[0], 1 if kind == "tf32" else 2
    rows, columns = np.zeros((warps, 16, 8 * of_word), np.float32), np.zeros((warps, 8 * of_word, 8), np.float32)
    sums = np.zeros((warps, 16, 8), np.float32)
    for register in range(4):
        row, column = group + 8 * (register % 2), (within + 4 * (register // 2)) * of_word
        numbers = widened(a[register], kind)
        for number in range(of_word):
            rows[:, row, column + number] = numbers[..., number]
        sums[:, group + 8 * (register // 2), within * 2 + register % 2] = c[register].view(np.float32)
    for register in range(2):
        numbers, row = widened(b[register], kind), (within + 4 * register) * of_word
        for number in range(of_word):
            columns[:, row + number, group] = numbers[..., number]
    result = (rows.astype(np.float64) @ columns.astype(np.float64) + sums).astype(np.float32)
    return [result[:, group + 8 * (r // 2), within * 2 + r % 2].view(np.uint32) for r in range(4)]


class Kernel:
    """An entry of a text: its instructions and what labels stand for."""

    def __init__(self, ptx, name=None):
        entries = re.findall(r"\.visible \.entry (\w+)\((.*?)\)[^{]*\{(.*?)\n\}", ptx, re.DOTALL)
        self.name, parameters, body = next(entry for entry in entries if name in (None, entry[0]))
        self.parameters = re.findall(r"(\w+)\s*(?:,|$)", parameters.strip())
        self.labels, self.code = {}, []
        body = re.sub(r"//[^\n]*", "", body)
        for statement in re.findall(r"\$?\w+:|[{}]|[^;{}:]*(?:\{[^{};]*\}[^;{}]*)*;", body):
            text = " ".join(statement.split())
            if text.endswith(":"):
                self.labels[text[:-1]] = len(self.code)
            elif text not in ("{", "}", ";") and not text.startswith("."):
                self.code.append(self.parse(text.rstrip(";").strip()))

    @staticmethod
    def parse(text):
        guard = re.match(r"@(!?)(%\w+) (.*)", text)
        predicate = (guard[2], guard[1] == "!") if guard else None
        text = guard[3] if guard else text
        operation, _, rest = text.partition(" ")
        operands, depth, start = [], 0, 0
        for at, letter in enumerate(rest + ","):
            depth += letter in "{[(" and 1 or letter in "}])" and -1 or 0
            if letter == "," and depth == 0:
                operands.append(rest[start:at].strip())
                start = at + 1
        return predicate, operation.split("."), [o for o in operands if o]


class Shared:
    """All blocks' shared memory, in words, and who has used them since the block's last barrier: what another thread wrote, or a copy
    is still on its way to, is not read; what another thread reads is not written."""

    def __init__(self, blocks, size):
        self.size, words = size, blocks * (size // 4)
        self.memory = np.full(words * 4, 0xFF, np.uint8)  # NaNs
        self.barriers = np.zeros(blocks, np.int64)  # that each block has passed
        self.written, self.writer = np.full(words, -1), np.zeros(words, np.int64)  # after how many barriers, by which thread
        self.read, self.first, self.last = np.full(words, -1), np.zeros(words, np.int64), np.zeros(words, np.int64)
        self.coming = np.zeros(words, bool)
        self.copies = []  # that are on their way

    def address(self, offset, block, size):
        assert (offset >= 0).all() and (offset + size <= self.size).all() and not (offset % min(size, 4)).any(), "outside shared memory"
        return offset + block * self.size

    def is_read(self, word, thread, block):
        now = self.barriers[block]
        assert not self.coming[word].any(), "a copy is read that was not waited for"
        assert not ((self.written[word] == now) & (self.writer[word] != thread)).any(), "no barrier before a read"
        others = word[self.read[word] != now]
        self.first[others], self.last[others] = np.iinfo(np.int64).max, -1
        self.read[word] = now
        np.minimum.at(self.first, word, thread)
        np.maximum.at(self.last, word, thread)

    def is_written(self, word, thread, block):
        now = self.barriers[block]
        assert not self.coming[word].any(), "a copy is overwritten that was not waited for"
        others = (self.first[word] < thread) | (self.last[word] > thread)
        assert not ((self.read[word] == now) & others).any(), "no barrier between a read and a write"
        assert not ((self.written[word] == now) & (self.writer[word] != thread)).any(), "two threads write a word"
        self.written[word], self.writer[word] = now, thread

    def start(self, address, data, thread, block, group):
        """Copies of data's rows, bytes, to addresses; `group`: which of the thread's they are of."""
        words = address[:, None] // 4 + np.arange(data.shape[1] // 4)
        each = words.shape[1]
        self.is_written(words.reshape(-1), np.repeat(thread, each), np.repeat(block, each))
        self.coming[words] = True
        self.copies.append((address, data, thread, block, group))

    def wait(self, until):
        """`until`: by thread, the group up to which all copies are to be there."""
        still = []
        for address, data, thread, block, group in self.copies:
            done = group <= until[thread]
            self.memory[address[done, None] + np.arange(data.shape[1])] = data[done]
            words = address[done, None] // 4 + np.arange(data.shape[1] // 4)
            self.coming[words], self.written[words] = False, self.barriers[block[done], None]
            if not done.all():
                still.append(tuple(part[~done] for part in (address, data, thread, block, group)))
        self.copies = still


class Run:
    """A launch: `arguments` are what parameters hold, addresses in `memory`, a bytearray's view, among them."""

    def __init__(self, kernel, grid, block, shared_bytes, arguments, memory):
        self.kernel, self.memory = kernel, memory
        x, y, z = (np.arange(n, dtype=np.uint32) for n in block)
        tid = [a.reshape(-1) for a in np.broadcast_arrays(x[None, None, :], y[None, :, None], z[:, None, None])]
        threads = len(tid[0])
        assert threads % WARP == 0, f"{threads} threads are no whole warps"
        blocks = int(np.prod(grid))
        number = np.repeat(np.arange(blocks, dtype=np.uint32), threads)
        self.count = blocks * threads
        self.groups = np.zeros(self.count, np.int64)  # of copies, that a thread has ended
        self.block, self.shared = number.astype(np.int64), Shared(blocks, -(-shared_bytes // 16) * 16)
        self.registers = {}
        for axis, name in enumerate("xyz"):
            self.registers[f"%tid.{name}"] = np.tile(tid[axis], blocks)
        self.registers["%ctaid.x"] = number % grid[0]
        self.registers["%ctaid.y"] = number // grid[0] % grid[1]
        self.registers["%ctaid.z"] = number // (grid[0] * grid[1])
        self.arguments = dict(zip(kernel.parameters, arguments))
        assert len(kernel.parameters) == len(arguments), kernel.parameters
        self.products = 0

    def go(self):
        at, waits = np.zeros(self.count, np.int64), np.zeros(self.count, bool)
        end = len(self.kernel.code)
        with np.errstate(all="ignore"):
            while (now := int(np.where(waits, end, at).min())) < end:
                active = (at == now) & ~waits
                predicate, operation, operands = self.kernel.code[now]
                if operation[0] == "bar":
                    waits |= active
                    come = (waits & (at == now)).reshape(len(self.shared.barriers), -1).all(axis=1)
                    self.shared.barriers += come
                    passes = come[self.block]
                    waits, at = waits & ~passes, np.where(passes, now + 1, at)
                    continue
                taken = active
                if predicate:
                    held = self.truth(predicate[0]) ^ predicate[1]
                    taken = active & held
                if operation[0] == "bra":
                    at = np.where(taken, self.kernel.labels[operands[0]], np.where(active, now + 1, at))
                    continue
                if operation[0] in ("ret", "exit"):
                    at = np.where(taken, end, np.where(active, now + 1, at))
                    continue
                self.do(operation, operands, taken)
                at = np.where(active, now + 1, at)
        assert not waits.any(), "a part of a block waits at a barrier"

    def read(self, operand, dtype=np.uint64):
        dtype = np.dtype(dtype)
        bits = UNSIGNED[dtype.itemsize * 8]
        if operand.startswith("-") and operand[1:].startswith("%"):
            return -self.read(operand[1:], dtype)
        if operand.startswith("%"):
            value = self.registers.get(operand)
            if value is None:  # that only other threads wrote yet
                value = np.zeros(self.count, np.uint64)
        elif operand.startswith("0f"):
            value = np.full(self.count, int(operand[2:], 16), np.uint64)
        elif operand.startswith("0d"):
            value = np.full(self.count, int(operand[2:], 16), np.uint64)
        elif operand in ("true", "false"):
            value = np.full(self.count, operand == "true")
        else:
            value = np.full(self.count, int(operand.rstrip("U"), 0) & (2**64 - 1), np.uint64)
        return value.astype(bits).view(dtype)

    def truth(self, operand):
        if not operand.startswith("%"):
            return np.full(self.count, operand not in ("0", "false"))
        return self.registers[operand].astype(bool)

    def write(self, name, value, active):
        value = np.asarray(value)
        if value.dtype.kind != "b":
            value = np.ascontiguousarray(value).view(UNSIGNED[value.dtype.itemsize * 8])
        before = self.registers.get(name)
        if before is None or before.dtype != value.dtype:
            before = np.zeros(self.count, value.dtype) if before is None else before.astype(value.dtype)
        self.registers[name] = np.where(active, value, before)

    @staticmethod
    def list_of(operand):
        return [o.strip() for o in operand.strip("{}").split(",")]

    def address(self, operand):
        base, offset = re.match(r"\[([^+\]]+)\+?(-?\d+)?\]", operand).groups()
        return self.read(base.strip(), np.int64) + int(offset or 0)

    def do(self, operation, operands, active):
        name, kind = operation[0], operation[-1]
        if not active.any():
            return
        if name == "cp":
            self.copy(operation, operands, active)
            return
        if name == "ld" and operation[1] == "param":
            self.write(operands[0], np.full(self.count, self.arguments[operands[1].strip("[]")], np.uint64), active)
            return
        if name in ("ld", "st"):
            assert operation[1] in ("global", "shared"), operation
            registers, place = (operands[0], operands[1]) if name == "ld" else (operands[1], operands[0])
            dtype = np.dtype(numpy_type(kind))
            list_of = self.list_of(registers)
            address = self.address(place)
            whole = dtype.itemsize * len(list_of)
            assert not (address[active] % whole).any(), f"{operation} at an odd place"
            self.access(name, list_of, dtype, address, active, operation[1] == "shared")
            return
        if name == "cvta":
            self.write(operands[0], self.read(operands[1]), active)
        elif name == "mov" and ("{" in operands[0] or "{" in operands[1]):
            self.move_parts(operands, int(kind[1:]), active)
        elif name == "mov":
            dtype = bool if kind == "pred" else numpy_type(kind)
            value = self.truth(operands[1]) if kind == "pred" else self.read(operands[1], dtype)
            self.write(operands[0], value, active)
        elif name == "setp":
            dtype = numpy_type(kind)
            self.write(operands[0], COMPARE[operation[1]](self.read(operands[1], dtype), self.read(operands[2], dtype)), active)
        elif name == "selp":
            dtype = numpy_type(kind)
            chosen = self.truth(operands[3])
            self.write(operands[0], np.where(chosen, self.read(operands[1], dtype), self.read(operands[2], dtype)), active)
        elif name == "mma":
            self.multiply(operation, operands, active)
        elif name == "dp4a":
            x, w = (self.read(o, np.uint32).view(np.uint8).reshape(-1, 4).view(np.int8 if t == "s32" else np.uint8).astype(np.int64)
                    for o, t in zip(operands[1:], operation[1:]))  # fmt: skip
            self.write(operands[0], ((x * w).sum(axis=1) + self.read(operands[3], np.int32)).astype(np.int32), active)
        elif name == "cvt":
            self.convert(operation, operands, active)
        elif kind == "pred":
            values = [self.truth(operand) for operand in operands[1:]]
            of_bools = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not}
            self.write(operands[0], of_bools[name](*values), active)
        else:
            self.arithmetic(operation, operands, active)

    def copy(self, operation, operands, active):
        if operation[2] == "commit_group":
            self.groups += active
            return
        if operation[2] == "wait_group":
            self.shared.wait(np.where(active, self.groups - 1 - int(operands[0]), -1))
            return
        assert operation[2:] in (["ca", "shared", "global"], ["cg", "shared", "global"]), operation
        size, threads = int(operands[2]), np.nonzero(active)[0]
        assert size == 16 or (operation[2] == "ca" and size in (4, 8)), operation
        to, source = self.address(operands[0])[active], self.address(operands[1])[active]
        taken = self.read(operands[3], np.uint32)[active] if len(operands) > 3 else np.full(len(to), size)
        assert not (to % size).any() and not (source % size).any() and np.isin(taken, (0, size)).all(), f"{operation} at an odd place"
        places = source[:, None] + np.arange(size)
        assert (places >= 0).all() and (places < len(self.memory)).all(), "a copy from outside memory"
        data = np.where(taken[:, None] > 0, self.memory[places], np.uint8(0))
        blocks = self.block[active]
        self.shared.start(self.shared.address(to, blocks, size), data, threads, blocks, self.groups[active])

    def access(self, name, registers, dtype, address, active, is_shared):
        index = address[active]
        memory, threads, blocks = self.shared.memory if is_shared else self.memory, np.nonzero(active)[0], self.block[active]
        for number, register in enumerate(registers):
            at = index + number * dtype.itemsize
            if is_shared:
                at = self.shared.address(at, blocks, dtype.itemsize)
                for word in range(0, dtype.itemsize, 4):
                    use = self.shared.is_read if name == "ld" else self.shared.is_written
                    use((at + word) // 4, threads, blocks)
            places = at[:, None] + np.arange(dtype.itemsize)
            assert (at >= 0).all() and (places < len(memory)).all(), f"{name} outside memory"
            if name == "ld":
                value = np.zeros(self.count, UNSIGNED[dtype.itemsize * 8])
                value[active] = np.ascontiguousarray(memory[places]).view(value.dtype)[:, 0]
                is_narrow = dtype.kind == "i" and dtype.itemsize < 4  # its sign fills up what a register has more
                self.write(register, value.view(dtype).astype(np.int32) if is_narrow else value, active)
            else:
                value = np.ascontiguousarray(self.read(register, UNSIGNED[dtype.itemsize * 8])[active])
                memory[places] = value[:, None].view(np.uint8).reshape(len(value), -1)

    def move_parts(self, operands, bits, active):
        if "{" in operands[0]:  # apart
            parts = self.list_of(operands[0])
            value, each = self.read(operands[1], UNSIGNED[bits]), bits // len(parts)
            for number, part in enumerate(parts):
                if part.startswith("%"):
                    self.write(part, (value >> UNSIGNED[bits](number * each)).astype(UNSIGNED[each]), active)
        else:
            parts = self.list_of(operands[1])
            each, value = bits // len(parts), np.zeros(self.count, UNSIGNED[bits])
            for number, part in enumerate(parts):
                value |= self.read(part, UNSIGNED[each]).astype(value.dtype) << UNSIGNED[bits](number * each)
            self.write(operands[0], value, active)

    def multiply(self, operation, operands, active):
        shape = "m16n8k8" if operation[7] == "tf32" else "m16n8k16"
        assert operation[:7] == ["mma", "sync", "aligned", shape, "row", "col", "f32"], operation
        assert operation[7] in ("f16", "bf16", "tf32") and operation[7] == operation[8] and operation[9] == "f32", operation
        warps = active.reshape(-1, WARP)
        assert (warps.all(axis=1) | ~warps.any(axis=1)).all(), "a part of a warp comes to mma.sync"
        a, b, c = ([self.read(o, np.uint32).reshape(-1, WARP) for o in self.list_of(list_of)] for list_of in operands[1:])
        for register, value in zip(self.list_of(operands[0]), multiply_tiles(a, b, c, operation[7])):
            self.write(register, value.reshape(-1), active)
        self.products += int(warps.any(axis=1).sum())

    def convert(self, operation, operands, active):
        to, from_ = operation[-2], operation[-1]
        value = self.read(operands[1], numpy_type(from_))
        whole = {"rmi": np.floor, "rpi": np.ceil, "rni": np.rint, "rzi": np.trunc}.get(operation[1])
        value = whole(value) if whole and value.dtype.kind == "f" else value
        self.write(operands[0], value.astype(numpy_type(to)), active)

    def arithmetic(self, operation, operands, active):
        name, kind = operation[0], operation[-1]
        dtype = numpy_type(kind)
        if name in ("shl", "shr"):
            bits = np.dtype(dtype).itemsize * 8
            value, by = self.read(operands[1], dtype), self.read(operands[2], np.uint32).astype(np.int64)
            shifted = np.left_shift(value, np.minimum(by, bits - 1).astype(dtype)) if name == "shl" else np.right_shift(
                value, np.minimum(by, bits - 1).astype(dtype))
            self.write(operands[0], np.where(by < bits, shifted, 0).astype(dtype) if name == "shl" else shifted, active)
            return
        values = [self.read(o, dtype) for o in operands[1:]]
        if "wide" in operation:
            wide = (SIGNED if kind[0] == "s" else UNSIGNED)[2 * np.dtype(dtype).itemsize * 8]
            result = values[0].astype(wide) * values[1].astype(wide)
            if name == "mad":
                result = result + self.read(operands[3], wide)
        elif "hi" in operation:
            product = values[0].astype(object) * values[1].astype(object)
            result = np.array([int(p) >> (np.dtype(dtype).itemsize * 8) for p in product]).astype(dtype)
        elif name in ("mad", "fma"):
            if kind[0] == "f":
                result = (values[0].astype(np.float64) * values[1] + values[2]).astype(dtype)
            else:
                result = values[0] * values[1] + values[2]
        elif name == "prmt":
            both = values[0].astype(np.uint64) | values[1].astype(np.uint64) << np.uint64(32)
            result = np.zeros(self.count, np.uint32)
            for number in range(4):
                byte = (both >> ((values[2] >> (4 * number) & 7).astype(np.uint64) * 8)) & 0xFF
                result |= byte.astype(np.uint32) << (8 * number)
        elif name == "bfe":
            result = (values[0] >> values[1]) & ((dtype(1) << values[2]) - dtype(1))
        else:
            of_name = {
                "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
                "xor": np.bitwise_xor, "not": np.invert, "neg": np.negative, "min": np.minimum, "max": np.maximum,
                "abs": np.abs, "div": np.floor_divide, "rem": np.fmod,
            }  # fmt: skip
            if name in ("min", "max") and kind[0] == "f":
                of_name = {"min": np.fmin, "max": np.fmax}
            elif kind[0] == "f":
                of_name |= {"div": np.divide, "rcp": np.reciprocal}
            result = of_name[name](*values)
        self.write(operands[0], result, active)


@functools.cache
def kernel_of(ptx, entry):
    return Kernel(ptx, entry)


def launch(memory, ptx, entry, *numbers):
    numbers = [int(number) for number in numbers]
    with open(memory, "r+b") as file:
        bytes_of = np.frombuffer(mmap.mmap(file.fileno(), 0), np.uint8)
    run = Run(kernel_of(Path(ptx).read_text(), entry), numbers[:3], numbers[3:6], numbers[6], numbers[7:], bytes_of)
    run.go()


def main():
    """Launches what each line says, and says when it is done."""
    for line in sys.stdin:
        launch(*line.split())
        print("done", flush=True)


if __name__ == "__main__":
    main()
