"""Texts of operations that make no sense: each is refused, in words that say what is wrong."""

import tempfile
import unittest

import numpy as np
import operation_runs
from operations.base import number_text

BAD = {
    "copy-f32[4],s32[4]-f32[4]-n4-i0,1": "not as many inputs",
    "": "no such kind",
    "pool-median-f32[1x4x4x1]-f32[1x2x2x1]-a1,2-k2x2-s2x2-d1x1-p0x0": "no such kind",
    "map-f33[3]-f32[3]-a": "no type of elements",
    "map-f32[3-f32[3]-a": 'expected "]"',
    "map-f32[-3]-f32[3]-a": "not from 0",
    "map-f32[99999x99999]-f32[99999x99999]-a": "more than",
    "map-f32[3]-f32[3]-b": "neither one of the 1 operands",
    "map-f32[3]-f32[3]-frob(a)": "is no function",
    "map-f32[3]-f32[3]-add(a)": 'expected ","',
    "map-f32[3]-f32[3]-add(a,1)x": "the expression has ended",
    "map-f32[3]-s32[3]-a": "the output of s32",
    "map-f32[3],s32[3]-f32[3]-add(a,b)": "add of float32 and int32",
    "map-f64[3]-f64[3]-sin(a)": "is not computed",
    "map-s32[3]-s32[3]-add(a,0.5)": "stands beside whole numbers",
    "map-f32[3]-s8[3]-saturate_s8(add(saturate_s32(a),0.5))": "stands beside whole numbers",
    "map-f32[3]-f32[3]-cast_f32(sub(cast_s32(saturate_s8(saturate_s32(a))),0.5))": "stands beside whole numbers",
    "map-f32[3],f32[2]-f32[3]-add(a,b)": "is broadcast to size 3",
    "map-f32[2x3]-f32[3]-a": "axes is broadcast to 1",
    "pool-max-f32[1x4x4x1]-f32[1x2x2x1]-a2,1-k2x2-s2x2-d1x1-p0x0": "axes are ascending",
    "pool-max-f32[1x4x4x1]-f32[1x2x2x1]-a1,2-k2-s2x2-d1x1-p0x0": "expected 2 numbers",
    "pool-max-f32[1x4x4x1]-f32[1x2x2x2]-a1,2-k2x2-s2x2-d1x1-p0x0": "sizes differ",
    "pool-max-f32[1x4x4x1]-f32[1x2x2x1]-a1,2-k0x2-s2x2-d1x1-p0x0": "above 0",
    "pool-average-u8[1x4x4x1]-u8[1x2x2x1]-a1,2-k2x2-s2x2-d1x1-p0x0": "computed of floats",
    "reduce-sum-f32[2x3]-f32[2]-a2": "below 2",
    "reduce-sum-f32[2x3]-f32[3]-a1": "the shape of the axes that are left",
    "reduce-argmax-f32[2x3]-f32[2]-a1": "the output is of s64",
    "softmax-f32[2x3]-f32[3x2]-a1": "its input's type and shape",
    "softmax-s32[2x3]-s32[2x3]-a1": "computed of floats",
    "normalize-f32[2x3]-f32[2x3]-a1": 'expected "-e"',
    "lrn-f32[2x3]-f32[2x3]-a1-n0-alpha1-beta1-bias1": "neighbours are",
    "interpolate-f32[1x4],s32[8x2]-f32[1x8]-a1": "inputs, not 3",
    "interpolate-f32[1x4],s32[7]-f32[1x8]-a1": "tables are",
    "copy-f32[4]-f32[8]-n4-i0,1": "do not make the output's elements",
    "copy-f32[4]-f32[4]-n4-i1,1": "elements 1 to 4 are read of 4",
    "copy-f32[4]-f32[4]-n4-i0,1-t0:4": "a table is an input",
    "copy-f32[4]-f32[4]-n4-i0,1-v0,5-f0": "not within its steps",
    "concat-f32[4],f32[4]-f32[9]-a0": "inputs have 8 together",
    "matmul-f32[2x3],f32[4x5]-f32[2x5]-nn": "sizes do not fit",
    "matmul-f32[2x3],f32[3x5]-f32[2x5]-nn-then2-add(a,b)": "of which the first is",
    "matmul-f32[2x3],f32[3x5]-f32[2x5]-nn-then1-a": "inputs, not 2",
    "matmul-f32[2x3],f32[3x5],f32[4]-f32[2x5]-nn-then1-add(a,b)": "is broadcast to size 5",
    "matmul-f32[2x3],f32[3x5]-f32[2x5]-nn-then0-less(a,0)": "has not the output's type",
    "normalize-f32[2x3]-f32[2x3]-a1-e1-then0-b": "neither one of the 1 operands",
    "matmul-f32[2x3],f16[3x5]-f32[2x5]-nn": "both sides have the output's type",
}


class OperationTexts(unittest.TestCase):
    def test_bad(self):
        with tempfile.TemporaryDirectory() as folder:
            answers = operation_runs.compile_texts(BAD, folder)
        for text, words in BAD.items():
            with self.subTest(text):
                self.assertIn(words, answers[text].get("error", "it was compiled"))

    def test_numbers(self):
        for value, text in ((np.float32(255), "255"), (np.float32([255]), "255"), (np.float32([[0.1]]), "0.1"),
                            (np.int64([-3]), "-3"), (np.array([True]), "1"), (np.float32([np.nan]), "nan")):
            with self.subTest(repr(value)):
                self.assertEqual(number_text(value), text)


if __name__ == "__main__":
    unittest.main()
