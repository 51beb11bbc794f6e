"""The Python package: kernels from Python beside NumPy's sums, and what is refused.

    package_test.py FOLDER

FOLDER holds the package `kiln`; without it, the installed one is tested. It is compiled into ten small libraries.
"""

import gc
import json
import os
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

if len(sys.argv) > 1 and Path(sys.argv[1]).is_dir():
    sys.path.insert(0, sys.argv.pop(1))

import numpy as np

import kiln
from kiln import _dlpack

CONV = {"name": "conv", "operator": "Conv", "x": [1, 4, 9, 10], "w": [8, 4, 3, 3], "pads": [1, 1, 1, 1], "bias": True}


def conv2d(x, w, bias=None, pad=1):
    """The sum as ONNX has it, stride 1, in float64."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    y = np.einsum("nchwij,mcij->nmhw", windows, w.astype(np.float64))
    return y if bias is None else y + np.asarray(bias, np.float64)[:, None, None]


def random(*shape, dtype=np.float32):
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(dtype)


class Foreign:
    """A tensor of another library: nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class ForeignBits(Foreign):
    """A tensor of bfloat16, which NumPy takes by DLPack from nobody, such as PyTorch's and JAX's; of its bits."""

    def __dlpack__(self, **options):
        capsule = self.array.__dlpack__(**options)
        _dlpack.opened(capsule)[0].code = _dlpack.BFLOAT
        return capsule


class ForeignBitsWithoutVersions(ForeignBits):
    """One of a library that is older than DLPack's versions."""

    def __dlpack__(self):
        return super().__dlpack__()


class ForeignGradient(Foreign):
    """One that its library does not hand out, such as PyTorch's that require a gradient."""

    def __dlpack__(self, **options):
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")


class ForeignDevice(Foreign):
    def __dlpack_device__(self):
        return 2, 0  # kDLCUDA


class Calling(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        layers = [
            CONV,
            {**CONV, "name": "last", "layouts": {"x": "NXC", "y": "NXC"}, "activation": "Relu"},
            {"name": "open", "operator": "Conv", "x": [None, 4, None, None], "w": [8, 4, 3, 3], "pads": [1, 1, 1, 1]},
            {"name": "bytes", "operator": "ConvInteger", "dtype": "int8", "x": [1, 4, 9, 10], "w": [8, 4, 3, 3], "pads": [1] * 4},
            {"name": "half", "operator": "Conv", "dtype": "float16", "x": [1, 4, 9, 10], "w": [8, 4, 3, 3], "pads": [1] * 4},
            {"name": "brain", "operator": "Conv", "dtype": "bfloat16", "x": [1, 4, 9, 10], "w": [8, 4, 3, 3], "pads": [1] * 4},
            {"name": "bent", "operator": "DeformConv", "x": [1, 4, 9, 10], "w": [8, 4, 3, 3], "pads": [1] * 4, "mask": True},
            {"name": "nhwc", "dialect": "onednn-graph", "operator": "ConvTranspose", "x": [1, 9, 10, 4], "w": [3, 3, 4, 8],
             "strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]},
        ]
        cls.compiled = kiln.compile(layers, name="some", threads=2)
        cls.x, cls.w, cls.bias = random(1, 4, 9, 10), random(8, 4, 3, 3), random(8)

    def close(self, y, expected, tolerance=1e-5):
        self.assertEqual(y.shape, expected.shape)
        self.assertLess(np.abs(y.astype(np.float64) - expected).max(), tolerance)

    def test_channels_first(self):
        self.close(self.compiled["conv"](self.x, self.w, self.bias), conv2d(self.x, self.w, self.bias))

    def test_channels_last(self):
        expected = np.maximum(conv2d(self.x, self.w, self.bias), 0)
        last = np.ascontiguousarray(np.moveaxis(self.x, 1, -1))
        for x in (self.x, np.moveaxis(last, -1, 1)):  # copied, and as it lies
            y = self.compiled["last"](x, self.w, self.bias)
            self.close(y, expected)
            self.assertTrue(np.moveaxis(y, 1, -1).flags.c_contiguous)

    def test_no_copy_where_memory_fits(self):
        layer = self.compiled["last"]
        tensor = layer._plan(self.x.shape, self.w.shape).tensors["x"]
        lying = np.moveaxis(np.ascontiguousarray(np.moveaxis(self.x, 1, -1)), -1, 1)
        self.assertTrue(np.shares_memory(tensor.in_memory(lying, "last"), lying))
        self.assertFalse(np.shares_memory(tensor.in_memory(self.x, "last"), self.x))

    def test_dlpack(self):
        y = self.compiled["conv"](Foreign(self.x), Foreign(self.w), Foreign(self.bias))
        self.close(np.from_dlpack(Foreign(y)), conv2d(self.x, self.w, self.bias))
        self.assertTrue(np.shares_memory(np.from_dlpack(Foreign(y)), y))
        tensors = self.compiled["conv"]._plan(self.x.shape, self.w.shape).tensors
        self.assertTrue(np.shares_memory(tensors["x"].in_memory(Foreign(self.x), "conv"), self.x))
        for foreign, words in ((ForeignGradient, "a ForeignGradient cannot be read: .*detach"),
                               (ForeignDevice, "a ForeignDevice lies on another device")):
            with self.assertRaisesRegex(kiln.InvalidArgument, words):
                self.compiled["conv"](foreign(self.x), self.w, self.bias)

    def test_bfloat16_by_dlpack(self):
        layer = self.compiled["brain"]
        x, w = ((array.view(np.uint32) >> 16).astype(np.uint16) for array in (self.x, self.w))
        expected = layer(x, w).view(np.uint16)
        for foreign in (ForeignBits, ForeignBitsWithoutVersions):
            np.testing.assert_array_equal(layer(foreign(x), foreign(w)).view(np.uint16), expected)
            turned = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
            np.testing.assert_array_equal(layer(foreign(turned), foreign(w)).view(np.uint16), expected)
        out = np.zeros_like(expected)
        layer(x, w, out=ForeignBits(out))
        np.testing.assert_array_equal(out, expected)
        with self.assertRaisesRegex(kiln.InvalidArgument, "read-only"):
            layer(x, w, out=ForeignBitsWithoutVersions(out))

    def test_out_by_dlpack(self):
        out = np.zeros((1, 8, 9, 10), np.float32)
        y = self.compiled["conv"](self.x, self.w, self.bias, out=Foreign(out))
        self.assertTrue(np.shares_memory(y, out))
        self.close(out, conv2d(self.x, self.w, self.bias))
        out.flags.writeable = False
        for wrong, words in ((out, "read-only"), (np.zeros(8, np.float32), "out is float32.8."), ([1.0], "a list is no tensor")):
            with self.assertRaisesRegex(kiln.InvalidArgument, words):
                self.compiled["conv"](self.x, self.w, self.bias, out=wrong)

    def test_result_channels_last_by_dlpack(self):
        """What was written channels last leaves by DLPack as it lies."""
        y = self.compiled["last"](self.x, self.w, self.bias)
        taken = np.from_dlpack(Foreign(y))
        self.assertTrue(np.shares_memory(taken, y))
        self.assertEqual((taken.shape, taken.strides), (y.shape, y.strides))

    def test_open_sizes(self):
        for shape in ((1, 4, 5, 6), (3, 4, 8, 3)):
            x = random(*shape)
            self.close(self.compiled["open"](x, self.w), conv2d(x, self.w))
        with self.assertRaisesRegex(kiln.InvalidArgument, r"x is of shape \[1, 5, 5, 6\]: it must be \[\?, 4, \?, \?\]"):
            self.compiled["open"](random(1, 5, 5, 6), self.w)

    def test_types(self):
        integers = np.random.default_rng(1)
        x, w = (integers.integers(-128, 128, shape, np.int8) for shape in (self.x.shape, self.w.shape))
        y = self.compiled["bytes"](x, w)
        self.assertEqual(y.dtype, np.int32)
        np.testing.assert_array_equal(y, conv2d(x, w))
        half = self.x.astype(np.float16), self.w.astype(np.float16)
        self.close(self.compiled["half"](*half), conv2d(*half), 1e-2)
        bits = [(array.view(np.uint32) >> 16).astype(np.uint16) for array in (self.x, self.w)]
        floats = [(array.astype(np.uint32) << 16).view(np.float32) for array in bits]
        y = np.ascontiguousarray(self.compiled["brain"](*bits)).view(np.uint16)
        self.close((y.astype(np.uint32) << 16).view(np.float32), conv2d(*floats), 8e-2)

    def test_deformable(self):
        offset, mask = np.zeros([1, 18, 9, 10], np.float32), np.ones([1, 9, 9, 10], np.float32)
        self.close(self.compiled["bent"](self.x, self.w, offset=offset, mask=mask), conv2d(self.x, self.w))

    def test_order_of_another_dialect(self):
        """oneDNN Graph's, channels last and the filter XIO; transposed at stride 1 it is a convolution by the mirrored filter."""
        x, w = np.ascontiguousarray(np.moveaxis(self.x, 1, -1)), self.w[:, :, ::-1, ::-1].transpose(2, 3, 1, 0)
        self.close(np.moveaxis(self.compiled["nhwc"](x, w), -1, 1), conv2d(self.x, self.w))

    def test_packed_once(self):
        packed = self.compiled["conv"].pack(self.w)
        self.assertGreaterEqual(packed.nbytes, self.w.nbytes)
        first = self.compiled["conv"](self.x, packed, self.bias)
        again = self.compiled["conv"](self.x, packed, self.bias, out=first)
        self.assertIs(again, first)
        self.close(first, conv2d(self.x, self.w, self.bias))
        with self.assertRaisesRegex(kiln.InvalidArgument, "packed for the layer conv"):
            self.compiled["open"](self.x, packed)

    def test_threads_of_python(self):
        expected, failures = conv2d(self.x, self.w, self.bias), []
        packed = self.compiled["conv"].pack(self.w)

        def work():
            for _ in range(50):
                if np.abs(self.compiled["conv"](self.x, packed, self.bias) - expected).max() > 1e-5:
                    failures.append("wrong")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_interpreter_runs_on(self):
        """While a kernel computes, other threads of Python do: of a call of 2 GFLOP they get their turn many times."""
        layer, x = self.compiled["open"], np.zeros([1, 4, 2000, 2000], np.float32)
        packed, times = layer.pack(self.w, x.shape), []
        out = layer(x, packed)

        def work():
            times.append(time.perf_counter())
            layer(x, packed, out=out)
            times.append(time.perf_counter())

        thread, ticks = threading.Thread(target=work), []
        thread.start()
        while thread.is_alive():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)
        begin, end = times
        # Where the call kept the interpreter's lock, there would be a tick before it and one behind it.
        self.assertGreater(sum(begin < tick < end for tick in ticks), 4, f"a call of {end - begin:.4f} s")

    def test_refused(self):
        layer = self.compiled["conv"]
        for arguments, attribute, words in [
            ((self.x.astype(np.float64), self.w, self.bias), "x", "x is float64: it must be float32"),
            ((self.x[:, :3], self.w, self.bias), "x", r"x is of shape \[1, 3, 9, 10\]"),
            ((self.x, self.w[:4], self.bias), "w", r"w is of shape \[4, 4, 3, 3\]"),
            ((self.x, self.w), "bias", "bias is missing"),
            ((self.x, None, self.bias), "w", "w is missing"),
            ((self.x, self.w, self.bias[:7]), "bias", r"bias is of shape \[7\]: it must be \[8\]"),
            (("x", self.w, self.bias), "a", "a str is no tensor"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(kiln.InvalidArgument, words) as raised:
                layer(*arguments)
            if attribute != "a":
                self.assertEqual((raised.exception.attribute, raised.exception.code), (attribute, "invalid_argument"))
        with self.assertRaisesRegex(kiln.InvalidArgument, "out is"):
            layer(self.x, self.w, self.bias, out=np.empty([1, 8, 9, 9], np.float32))
        with self.assertRaisesRegex(kiln.InvalidArgument, "mask is given"):
            layer(self.x, self.w, self.bias, mask=self.x)
        with self.assertRaises(KeyError):
            self.compiled["conf"]

    def test_what_it_is(self):
        self.assertEqual(len(self.compiled), 8)
        self.assertIn("conv", self.compiled)
        facts = self.compiled["conv"].plan()
        self.assertTrue(facts["problem"].startswith("conv2d-f32-n1-c4-i9x10"))
        self.assertEqual(self.compiled.manifest["name"], "some")
        self.assertIn("conv", repr(self.compiled))


class Compiling(unittest.TestCase):
    def test_errors(self):
        for layer, kind, attribute, words in [
            ({**CONV, "strides": [-1, 1]}, kiln.InvalidArgument, "strides", r"strides\[0\] is -1: strides must be positive"),
            ({**CONV, "stride": [1, 1]}, kiln.InvalidArgument, "stride", "stride.*strides"),
            ({**CONV, "w": object()}, kiln.InvalidArgument, None, "of type object"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(kind, words) as raised:
                kiln.compile([layer])
            self.assertEqual(raised.exception.attribute, attribute)
        with self.assertRaisesRegex(kiln.Error, "no-such-target"):
            kiln.compile([CONV], "no-such-target")
        for target, words in (("arm-64-linux", "run on this machine, x86-64"), ("opencl", "run on the processor")):
            with self.subTest(target), self.assertRaisesRegex(kiln.Unsupported, f"target is {target}: .*{words}"):
                kiln.compile([CONV], ["x86-64-avx2", target])
        with self.assertRaisesRegex(kiln.Failed, "there is no C\\+\\+ compiler no-such-compiler"):
            kiln.compile([CONV], cxx="no-such-compiler")
        with self.assertRaisesRegex(kiln.InvalidArgument, "threads is 0"):
            kiln.compile([CONV], threads=0)

    def test_weights_of_files(self):
        """A layers file's own weights and bias are taken where the call gives none."""
        with tempfile.TemporaryDirectory() as folder:
            w, bias, x = random(8, 4, 3, 3), random(8), random(1, 4, 9, 10)
            np.save(f"{folder}/w.npy", w)
            np.save(f"{folder}/b.npy", bias)
            library = kiln.compile([{**CONV, "weights": f"{folder}/w.npy", "bias_values": f"{folder}/b.npy"}], output=folder)
            self.assertLess(np.abs(library["conv"](x) - conv2d(x, w, bias)).max(), 1e-5)
            self.assertTrue(Path(folder, "liblayers.a").exists())

    def test_nothing_is_left(self):
        library = kiln.compile([CONV])
        folder = library.folder
        self.assertTrue(folder.exists())
        del library
        gc.collect()
        self.assertFalse(folder.exists())

    def test_manifests_of_other_versions(self):
        from kiln._library import read_manifest

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "old.json")
            path.write_text('{"format": 1, "kiln": "0.1.0", "name": "old"}')
            self.assertEqual(read_manifest(path)["name"], "old")
            path.write_text('{"format": 2, "kiln": "9.0.0"}')
            with self.assertRaisesRegex(kiln.Unsupported, "format is 2: .* format 1; Kiln 9.0.0 wrote"):
                read_manifest(path)

    def test_models(self):
        try:
            import onnx
            from onnx import helper
        except ImportError:
            self.skipTest("there is no onnx")
        w, x = random(8, 4, 3, 3), random(1, 4, 9, 10)
        node = helper.make_node("Conv", ["x", "w"], ["y"], name="first", pads=[1, 1, 1, 1])
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, [1, 4, "h", "w"])],
                                  [helper.make_tensor_value_info("y", 1, None)], [onnx.numpy_helper.from_array(w, "w")])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.onnx")
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
            library = kiln.compile(path, shapes={"x": [1, 4, 9, 10]})
            self.assertLess(np.abs(library["first"](x) - conv2d(x, w)).max(), 1e-5)


class Telling(unittest.TestCase):
    def test_size(self):
        """The goal reaches the compiler: the manifest tells what was chosen, and values stay right."""
        with tempfile.TemporaryDirectory() as folder:
            library = kiln.compile([CONV], "x86-64-avx2", name="small", output=folder, optimize="size")
            (kernel,) = json.loads((Path(folder) / "small.json").read_text())["kernels"]
            size = kernel["size"]
            self.assertLessEqual(size["code_bytes"] + size["packed_bytes"],
                                 size["for_speed"]["code_bytes"] + size["for_speed"]["packed_bytes"])
            x, w = random(1, 4, 9, 10), random(8, 4, 3, 3)
            self.assertLess(np.abs(library["conv"](x, w, np.zeros(8, np.float32)) - conv2d(x, w)).max(), 1e-5)
        with self.assertRaisesRegex(kiln.InvalidArgument, "it may be speed or size"):
            kiln.compile([CONV], optimize="small")

    def test_explain(self):
        one = kiln.explain([{**CONV, "x": [1, 4, None, 10]}])[0]
        self.assertEqual((one.layer, one.y, one.pads_begin), ("conv", (1, 8, None, 10), (1, 1)))
        with self.assertRaises(kiln.InvalidArgument) as raised:
            kiln.explain([{**CONV, "group": 3}])
        self.assertEqual(raised.exception.layer, "conv")

    def test_verify(self):
        one = kiln.verify([CONV], "x86-64-avx2")[0]
        self.assertTrue(one.ok and one.max_error <= one.bound and one.kernel == "x86-64-avx2")

    def test_targets(self):
        self.assertTrue(next(target for target in kiln.targets() if target.name == "x86-64-avx2").runs_here)

    def test_version(self):
        self.assertRegex(kiln.__version__, r"^\d+\.\d+\.\d+$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
