#!/usr/bin/env python3
"""Trains the network of this example on scikit-learn's digits, in seconds, and writes digits.onnx and drawings.h.

    pip install numpy onnx scikit-learn
    python3 train.py

The network reads a camera's picture of 320 by 240 grey bytes, takes its middle, and makes it as small as the digits are.
drawings.h has digits that training did not see, which main.c draws pictures of.
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

FOLDER = pathlib.Path(__file__).resolve().parent
HEIGHT, WIDTH, CELL = 240, 320, 30  # eight cells of 30 pixels are the picture's height
EPOCHS, BATCH, RATE = 25, 32, 2e-3
rng = np.random.default_rng(1)


def main():
    digits = load_digits()
    images, labels = digits.images.astype(np.float32) / 16, digits.target
    order = rng.permutation(len(images))
    seen, others = order[:1400], order[1400:]
    weights = train(images[seen], labels[seen])
    right = np.argmax(forward(weights, images[others])[-1], 1) == labels[others]
    print(f"right: {right.sum()} of {len(others)} that it did not see")
    onnx.save(model(weights), FOLDER / "digits.onnx")
    write_digits(images[others], labels[others])


# ---- The network on the digits' 8 by 8 pixels: two convolutions, the largest of four, a matrix.


def windows(x):
    """The nine neighbours of each pixel, [images, 8, 8, channels * 9]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    parts = [padded[:, :, i:i + 8, j:j + 8] for i in range(3) for j in range(3)]
    return np.stack(parts, 2).transpose(0, 3, 4, 1, 2).reshape(len(x), 8, 8, -1)


def forward(weights, x):
    w1, b1, w2, b2, w3, b3 = weights
    in1 = windows(x[:, None])
    y1 = np.maximum(in1 @ w1 + b1, 0)
    in2 = windows(y1.transpose(0, 3, 1, 2))
    y2 = np.maximum(in2 @ w2 + b2, 0)
    fours = y2.transpose(0, 3, 1, 2).reshape(len(x), -1, 4, 2, 4, 2).transpose(0, 1, 2, 4, 3, 5).reshape(len(x), -1, 4)
    flat = fours.max(2)
    return in1, y1, in2, y2, fours, flat, flat @ w3 + b3


def backward(weights, x, labels):
    """The gradients of the mean cross-entropy."""
    in1, y1, in2, y2, fours, flat, scores = forward(weights, x)
    p = np.exp(scores - scores.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(x)), labels] -= 1
    p /= len(x)
    d_flat = p @ weights[4].T
    largest = fours == flat[:, :, None]
    d_fours = largest * d_flat[:, :, None] / largest.sum(2, keepdims=True)
    d_y2 = d_fours.reshape(len(x), -1, 4, 4, 2, 2).transpose(0, 2, 4, 3, 5, 1).reshape(y2.shape) * (y2 > 0)
    d_in2 = (d_y2 @ weights[2].T).reshape(len(x), 8, 8, -1, 3, 3)
    d_y1 = np.zeros((len(x), 10, 10, y1.shape[3]), np.float32)
    for i in range(3):
        for j in range(3):
            d_y1[:, i:i + 8, j:j + 8] += d_in2[..., i, j]
    d_y1 = d_y1[:, 1:9, 1:9] * (y1 > 0)
    axes = ([0, 1, 2], [0, 1, 2])
    return [np.tensordot(in1, d_y1, axes), d_y1.sum((0, 1, 2)), np.tensordot(in2, d_y2, axes), d_y2.sum((0, 1, 2)),
            flat.T @ p, p.sum(0)]


def train(images, labels):
    """Adam, on digits in other light, a little moved and noisy."""
    sizes = [(9, 16), 16, (16 * 9, 32), 32, (32 * 16, 10), 10]
    weights = [(rng.standard_normal(size) * np.sqrt(2 / size[0])).astype(np.float32) if isinstance(size, tuple)
               else np.zeros(size, np.float32) for size in sizes]
    means, squares, step = [0] * 6, [0] * 6, 0
    for epoch in range(EPOCHS):
        for batch in np.array_split(rng.permutation(len(images)), len(images) // BATCH):
            step += 1
            gradients = backward(weights, disturbed(images[batch]), labels[batch])
            for at, gradient in enumerate(gradients):
                means[at] = 0.9 * means[at] + 0.1 * gradient
                squares[at] = 0.999 * squares[at] + 0.001 * gradient**2
                moved = means[at] / (1 - 0.9**step) / (np.sqrt(squares[at] / (1 - 0.999**step)) + 1e-8)
                weights[at] = (weights[at] - RATE * (1 - epoch / EPOCHS) * moved).astype(np.float32)
    return weights


def disturbed(images):
    count = len(images)
    light = rng.uniform(0.6, 1, (count, 1, 1)) + rng.uniform(-0.2, 0.2, (count, 1, 1)) * np.linspace(-1, 1, 8)[None, None]
    moved = np.roll(images, rng.integers(-1, 2), 2) if rng.random() < 0.3 else images
    return (moved * light + rng.uniform(0, 0.15, (count, 1, 1)) + rng.normal(0, 0.03, images.shape)).astype(np.float32)


# ---- The same as a model of a camera's picture


def model(weights):
    w1, b1, w2, b2, w3, b3 = weights
    convolution = lambda w, channels: w.reshape(channels, 3, 3, -1).transpose(3, 0, 1, 2)
    constants = {"w1": convolution(w1, 1), "b1": b1, "w2": convolution(w2, 16), "b2": b2, "w3": w3, "b3": b3,
                 "white": np.float32(255), "starts": np.int64([(WIDTH - HEIGHT) // 2]),
                 "ends": np.int64([(WIDTH + HEIGHT) // 2]), "axes": np.int64([3])}
    node = lambda op, inputs, output, **attributes: helper.make_node(op, inputs.split(), [output], output, **attributes)
    nodes = [node("Cast", "picture", "grey", to=TensorProto.FLOAT), node("Slice", "grey starts ends axes", "middle"),
             node("Div", "middle white", "light"),
             node("AveragePool", "light", "small", kernel_shape=[CELL, CELL], strides=[CELL, CELL]),
             node("Conv", "small w1 b1", "conv1", pads=[1, 1, 1, 1]), node("Relu", "conv1", "relu1"),
             node("Conv", "relu1 w2 b2", "conv2", pads=[1, 1, 1, 1]), node("Relu", "conv2", "relu2"),
             node("MaxPool", "relu2", "pooled", kernel_shape=[2, 2], strides=[2, 2]), node("Flatten", "pooled", "flat"),
             node("Gemm", "flat w3 b3", "scores"), node("Softmax", "scores", "probability", axis=1),
             node("ArgMax", "probability", "label", axis=1, keepdims=0)]
    graph = helper.make_graph(
        nodes, "digits", [helper.make_tensor_value_info("picture", TensorProto.UINT8, [1, 1, HEIGHT, WIDTH])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, [1, 10]),
         helper.make_tensor_value_info("label", TensorProto.INT64, [1])],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in constants.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made, full_check=True)
    return made


def write_digits(images, labels):
    """One of each digit, as main.c draws them."""
    rows = [images[np.flatnonzero(labels == digit)[-1]] * 16 for digit in range(10)]
    text = "".join("    {" + ", ".join(str(int(pixel)) for pixel in image.reshape(-1)) + "},\n" for image in rows)
    (FOLDER / "drawings.h").write_text(
        "/* Digits of scikit-learn's set that train.py, which writes this, did not train with: 8 by 8 pixels of 0 to 16. */\n"
        f"/* clang-format off */\nstatic const unsigned char drawings[10][64] = {{\n{text}}};\n")


if __name__ == "__main__":
    main()
