"""Writes a small ONNX model: a convolution, its normalisation and its activation."""

import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

random = np.random.default_rng(1)
weights = {"w": random.standard_normal([16, 3, 3, 3]), "s": np.ones(16), "b": np.zeros(16), "m": np.zeros(16), "v": np.ones(16)}
nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="first", pads=[1, 1, 1, 1], strides=[2, 2]),
         helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]), helper.make_node("Relu", ["n"], ["y"])]
graph = helper.make_graph(nodes, "small", [helper.make_tensor_value_info("x", 1, [1, 3, 32, 32])],
                          [helper.make_tensor_value_info("y", 1, [1, 16, 16, 16])],
                          [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), sys.argv[1])
