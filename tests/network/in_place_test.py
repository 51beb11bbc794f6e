"""Residuals that are added in their own memory: where nothing else needs them, and only there."""

import json
import unittest

import models
from network_testing import NetworkTest, kiln

CHANNELS, SIDE = 16, 24  # whole tiles of the kernels' cover so many pixels: others overlap, and are not added in place


class InPlace(NetworkTest):
    def setUp(self):
        super().setUp()
        self.net = models.Builder()
        self.net.channels["x"] = CHANNELS

    def conv(self, x, *, relu=True, residual=""):
        made = self.net.conv(x, CHANNELS, kernel=1)  # which needs no workspace
        made = self.net.node("Add", made, residual) if residual else made
        return self.net.node("Relu", made) if relu else made

    def tensors_at_once(self, result):
        """How many tensors the arena of the network has room for, whose numbers are checked."""
        image = [1, CHANNELS, SIDE, SIDE]
        self.verify(self.net.model({"x": image}, {self.conv(result): image}), "--target", "x86-64-avx2")
        kiln("compile", self.folder / "model.onnx", "--network", "-o", self.folder / "lib", "--target", "x86-64-avx2")
        manifest = json.loads((self.folder / "lib/model.json").read_text())
        self.assertTrue(all(kernel["residual_in_place"] for kernel in manifest["kernels"] if "residual" in kernel["problem"]))
        return manifest["network"]["arena_bytes"] / (4 * CHANNELS * SIDE * SIDE)

    def test_blocks_one_after_the_other(self):
        first = self.conv("x")
        second = self.conv(self.conv(first), residual=first)
        self.assertEqual(self.tensors_at_once(self.conv(self.conv(second), residual=second)), 2)

    def test_not_of_what_is_needed_later(self):
        first = self.conv("x")
        second = self.conv(self.conv(first), residual=first)
        self.assertEqual(self.tensors_at_once(self.conv(second, residual=first)), 3)

    def test_not_of_what_the_layer_reads_too(self):
        first = self.conv("x")
        self.assertEqual(self.tensors_at_once(self.conv(first, residual=first)), 2)

    def test_not_of_inputs_and_outputs(self):
        """Which lie where the program says."""
        image = [1, CHANNELS, SIDE, SIDE]
        last = self.conv(self.conv("x"), residual="x")
        self.verify(self.net.model({"x": image}, {last: image}), "--target", "x86-64-avx2")


if __name__ == "__main__":
    unittest.main()
