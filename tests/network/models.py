"""Whole models with seeded weights: those of the onnx package, and small ones of kinds that it has none of.

    models.py NAME OUT.onnx        writes one; without arguments the names are listed
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LIGHT = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
SEED = 2024


# ---- The onnx package's, whose weights are fills


def light(name):
    """A light model, its constant fills replaced by numbers that keep activations at one size."""
    model, rng = onnx.load(LIGHT / f"light_{name}.onnx"), np.random.default_rng(SEED)
    graph = model.graph
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    shapes = {node.output[0]: [int(size) for size in values[node.input[0]]]
              for node in graph.node if node.op_type == "ConstantOfShape"}
    shapes.update({name: list(value.shape) for name, value in values.items() if value.size > 1 and value.dtype.kind == "f"})
    drawn = {}
    for node in graph.node:
        for place, source in enumerate(node.input):
            if source in shapes and source not in drawn:
                value = drawn_for(node, place, shapes[source], rng)
                if value is not None:
                    drawn[source] = value.astype(np.float32)
    nodes = [node for node in graph.node if node.output[0] not in drawn]
    kept = [tensor for tensor in graph.initializer if tensor.name not in drawn]
    inputs = [value for value in graph.input if value.name not in drawn]
    for field, items in (("node", nodes), ("input", inputs),
                         ("initializer", [*kept, *(numpy_helper.from_array(value, key) for key, value in drawn.items())])):
        del getattr(graph, field)[:]
        getattr(graph, field).extend(items)
    model.ir_version = max(model.ir_version, 4)  # from which on initializers need not be inputs
    return model


def drawn_for(node, place, shape, rng):
    """Numbers for one input of a node; None for what is no weight."""
    if node.op_type in ("Conv", "Gemm"):
        if place == 1:
            fan = np.prod(shape[1:]) if node.op_type == "Conv" else shape[1]
            return rng.standard_normal(shape) * np.sqrt(2 / fan)
        return rng.normal(0, 0.1, shape) if place == 2 else None
    if node.op_type == "BatchNormalization":
        return [None, rng.uniform(0.6, 1.1, shape), rng.normal(0, 0.1, shape), rng.normal(0, 0.1, shape),
                rng.uniform(0.7, 1.4, shape)][place]
    if node.op_type in ("Mul", "Add"):
        return rng.uniform(0.7, 1.2, shape) if node.op_type == "Mul" else rng.normal(0, 0.1, shape)
    return None


# ---- Small ones


class Builder:
    """A model that grows node by node; each method gives the name of what it made."""

    def __init__(self, opset=17):
        self.nodes, self.constants, self.opset = [], [], opset
        self.rng = np.random.default_rng(SEED)
        self.channels = {}

    def node(self, op, *inputs, outputs=1, **attributes):
        names = [f"{op.lower()}{len(self.nodes)}" + (f"_{place}" if outputs > 1 else "") for place in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, f"{op.lower()}{len(self.nodes)}", **attributes))
        if inputs and inputs[0] in self.channels:
            self.channels.update(dict.fromkeys(names, self.channels[inputs[0]]))
        return names if outputs > 1 else names[0]

    def constant(self, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def conv(self, x, channels, kernel=3, stride=1, group=1, bias=True):
        w = self.rng.standard_normal((channels, self.channels[x] // group, kernel, kernel))
        w = self.constant((w * np.sqrt(2 / np.prod(w.shape[1:]))).astype(np.float32))
        more = [self.constant(self.rng.normal(0, 0.1, channels).astype(np.float32))] if bias else []
        made = self.node("Conv", x, w, *more, pads=[kernel // 2] * 4, strides=[stride] * 2, group=group)
        self.channels[made] = channels
        return made

    def transposed(self, x, channels, kernel, stride, pad=0):
        w = self.rng.standard_normal((self.channels[x], channels, kernel, kernel))
        w = self.constant((w * np.sqrt(2 * stride**2 / (self.channels[x] * kernel**2))).astype(np.float32))
        made = self.node("ConvTranspose", x, w, strides=[stride] * 2, pads=[pad] * 4)
        self.channels[made] = channels
        return made

    def norm(self, x):
        count, rng = self.channels[x], self.rng
        drawn = (rng.uniform(0.8, 1.2, count), rng.normal(0, 0.1, count), rng.normal(0, 0.1, count), rng.uniform(0.7, 1.4, count))
        return self.node("BatchNormalization", x, *(self.constant(value.astype(np.float32)) for value in drawn))

    def concat(self, *parts):
        made = self.node("Concat", *parts, axis=1)
        self.channels[made] = sum(self.channels[part] for part in parts)
        return made

    def dense(self, x, inputs, outputs):
        w = (self.rng.standard_normal((inputs, outputs)) / np.sqrt(inputs)).astype(np.float32)
        return self.node("Gemm", x, self.constant(w), self.constant(self.rng.normal(0, 0.1, outputs).astype(np.float32)))

    def model(self, inputs, outputs):
        """`inputs` and `outputs` are {name: shape}."""
        info = lambda items: [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in items.items()]
        graph = helper.make_graph(self.nodes, "net", info(inputs), info(outputs), self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        onnx.checker.check_model(made, full_check=True)
        return made


def silu(b, x, *conv):
    y = b.norm(b.conv(x, *conv, bias=False))
    return b.node("Mul", y, b.node("Sigmoid", y))


def c2f(b, x, channels, shortcut):
    """A block of YOLO's: half of the channels go through two convolutions more."""
    first, second = b.node("Split", silu(b, x, channels, 1), b.constant(np.int64([channels // 2] * 2)), outputs=2, axis=1)
    b.channels[first] = b.channels[second] = channels // 2
    y = silu(b, silu(b, second, channels // 2, 3), channels // 2, 3)
    return silu(b, b.concat(first, second, b.node("Add", second, y) if shortcut else y), channels, 1)


def yolo(size=160, classes=20, bins=16):
    """A detector with SiLU, as exporters write it: a backbone, two ways through a pyramid, boxes from distributions."""
    b = Builder()
    b.channels["images"] = 3
    x = silu(b, silu(b, "images", 16, 3, 2), 32, 3, 2)
    p3 = c2f(b, silu(b, c2f(b, x, 32, True), 64, 3, 2), 64, True)
    p4 = c2f(b, silu(b, p3, 96, 3, 2), 96, True)
    y = silu(b, c2f(b, silu(b, p4, 128, 3, 2), 128, True), 64, 1)
    pools = [y]
    for _ in range(3):
        pools.append(b.node("MaxPool", pools[-1], kernel_shape=[5, 5], pads=[2] * 4))
    p5 = silu(b, b.concat(*pools), 128, 1)
    up = lambda v: b.node("Resize", v, "", b.constant(np.float32([1, 1, 2, 2])), mode="nearest",
                          coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    n4 = c2f(b, b.concat(up(p5), p4), 96, False)
    n3 = c2f(b, b.concat(up(n4), p3), 64, False)
    m4 = c2f(b, b.concat(silu(b, n3, 64, 3, 2), n4), 96, False)
    m5 = c2f(b, b.concat(silu(b, m4, 96, 3, 2), p5), 128, False)
    heads = []
    for level in (n3, m4, m5):
        boxes = b.conv(silu(b, level, 64, 3), 4 * bins, 1)
        heads.append(b.node("Reshape", b.concat(boxes, b.conv(silu(b, level, 64, 3), classes, 1)),
                            b.constant(np.int64([1, 4 * bins + classes, -1]))))
    cells = [(size // stride) ** 2 for stride in (8, 16, 32)]
    joined = b.node("Concat", *heads, axis=2)
    boxes, scores = b.node("Split", joined, b.constant(np.int64([4 * bins, classes])), outputs=2, axis=1)
    bars = b.node("Transpose", b.node("Reshape", boxes, b.constant(np.int64([1, 4, bins, sum(cells)]))), perm=[0, 2, 1, 3])
    weights = b.constant(np.arange(bins, dtype=np.float32).reshape(1, bins, 1, 1))
    sides = b.node("Reshape", b.node("Conv", b.node("Softmax", bars, axis=1), weights), b.constant(np.int64([1, 4, sum(cells)])))
    low, high = (b.node("Slice", sides, b.constant(np.int64([start])), b.constant(np.int64([start + 2])), b.constant(np.int64([1])))
                 for start in (0, 2))
    centres, strides = anchors(size)
    first, last = b.node("Sub", b.constant(centres), low), b.node("Add", b.constant(centres), high)
    middle = b.node("Div", b.node("Add", first, last), b.constant(np.float32(2)))
    box = b.node("Mul", b.node("Concat", middle, b.node("Sub", last, first), axis=1), b.constant(strides))
    b.node("Concat", box, b.node("Sigmoid", scores), axis=1)
    return b.model({"images": [1, 3, size, size]}, {b.nodes[-1].output[0]: [1, 4 + classes, sum(cells)]})


def anchors(size):
    points, strides = [], []
    for stride in (8, 16, 32):
        y, x = np.mgrid[:size // stride, :size // stride].reshape(2, -1) + 0.5
        points.append(np.stack([x, y]))
        strides.append(np.full(x.size, stride))
    return np.concatenate(points, 1)[None].astype(np.float32), np.concatenate(strides)[None, None].astype(np.float32)


def mobilenet_v2(size=96, classes=100):
    b = Builder()
    b.channels["image"] = 3
    six = lambda v: b.node("Clip", v, b.constant(np.float32(0)), b.constant(np.float32(6)))
    x = six(b.norm(b.conv("image", 16, 3, 2, bias=False)))
    for channels, stride in ((16, 1), (24, 2), (24, 1), (32, 2), (32, 1), (64, 2), (64, 1), (96, 1), (96, 1)):
        wide = 6 * b.channels[x]
        y = six(b.norm(b.conv(x, wide, 1, bias=False)))
        y = six(b.norm(b.conv(y, wide, 3, stride, wide, bias=False)))
        y = b.norm(b.conv(y, channels, 1, bias=False))
        x = b.node("Add", x, y) if stride == 1 and channels == b.channels[x] else y
        b.channels[x] = channels
    x = b.node("GlobalAveragePool", six(b.norm(b.conv(x, 256, 1, bias=False))))
    b.node("Softmax", b.dense(b.node("Flatten", x), 256, classes), axis=1)
    return b.model({"image": [1, 3, size, size]}, {b.nodes[-1].output[0]: [1, classes]})


def unet(size=64):
    b = Builder()
    b.channels["x"] = 1
    twice = lambda v, channels: b.node("Relu", b.conv(b.node("Relu", b.conv(v, channels)), channels))
    sides, x = [], "x"
    for channels in (16, 32, 64):
        sides.append(twice(x, channels))
        x = b.node("MaxPool", sides[-1], kernel_shape=[2, 2], strides=[2, 2])
    x = twice(x, 96)
    for side in reversed(sides):
        x = twice(b.concat(side, b.transposed(x, b.channels[side], 2, 2)), b.channels[side])
    b.node("Sigmoid", b.conv(x, 1, 1))
    return b.model({"x": [1, 1, size, size]}, {b.nodes[-1].output[0]: [1, 1, size, size]})


def gan():
    """A generator of pictures of 64 by 64."""
    b = Builder()
    b.channels["z"] = 64
    x = b.node("Relu", b.norm(b.transposed("z", 128, 4, 1)))
    for channels in (64, 48, 32):
        x = b.node("Relu", b.norm(b.transposed(x, channels, 4, 2, 1)))
    b.node("Tanh", b.transposed(x, 3, 4, 2, 1))
    return b.model({"z": [1, 64, 1, 1]}, {b.nodes[-1].output[0]: [1, 3, 64, 64]})


def recurrent():
    """A reader of lines of text: convolutions, an LSTM both ways, the best characters of each place."""
    b = Builder()
    b.channels["line"] = 1
    x = b.node("MaxPool", b.node("Relu", b.conv("line", 16)), kernel_shape=[2, 2], strides=[2, 2])
    x = b.node("MaxPool", b.node("Relu", b.conv(x, 32)), kernel_shape=[8, 2], strides=[8, 2])
    x = b.node("Transpose", b.node("Squeeze", x, b.constant(np.int64([2]))), perm=[2, 0, 1])
    draw = lambda *shape: b.constant((b.rng.standard_normal(shape) * 0.3).astype(np.float32))
    y = b.node("LSTM", x, draw(2, 96, 32), draw(2, 96, 24), draw(2, 192), outputs=2, direction="bidirectional", hidden_size=24)[0]
    y = b.node("Reshape", b.node("Transpose", y, perm=[0, 2, 1, 3]), b.constant(np.int64([-1, 48])))
    best = b.node("TopK", b.node("Softmax", b.dense(y, 48, 40), axis=1), b.constant(np.int64([3])), outputs=2, axis=1)
    model = helper.make_model(helper.make_graph(
        b.nodes, "net", [helper.make_tensor_value_info("line", TensorProto.FLOAT, [1, 1, 16, 64])],
        [helper.make_tensor_value_info(best[0], TensorProto.FLOAT, [16, 3]),
         helper.make_tensor_value_info(best[1], TensorProto.INT64, [16, 3])], b.constants),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def quantized(model, folder):
    """The same with 8-bit tensors, as onnxruntime's static quantisation writes it (QDQ)."""
    import onnxruntime.quantization as quantization

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            rng, value = np.random.default_rng(SEED), model.graph.input[0]
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            self.rows = iter([{value.name: rng.standard_normal(shape).astype(np.float32)} for _ in range(4)])

        def get_next(self):
            return next(self.rows, None)

    source, target = pathlib.Path(folder) / "float.onnx", pathlib.Path(folder) / "int8.onnx"
    onnx.save(model, source)
    quantization.quantize_static(source, target, Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=True)
    return onnx.load(target)


MODELS = {**{name.removeprefix("light_"): lambda name=name: light(name.removeprefix("light_"))
             for name in sorted(path.stem for path in LIGHT.glob("light_*.onnx"))},
          "yolo": yolo, "mobilenet_v2": mobilenet_v2, "unet": unet, "gan": gan, "recurrent": recurrent}


def make(name, folder):
    """A model by its name; where that ends with `_int8` it is quantised. `folder` is for what quantising writes."""
    return quantized(MODELS[name.removesuffix("_int8")](), folder) if name.endswith("_int8") else MODELS[name]()


NAMES = [*MODELS, "yolo_int8", "mobilenet_v2_int8"]

if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(" ".join(NAMES))
        sys.exit(2 if len(sys.argv) > 1 else 0)
    onnx.save(make(sys.argv[1], str(pathlib.Path(sys.argv[2]).resolve().parent)), sys.argv[2])
