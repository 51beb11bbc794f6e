"""Tests of tools/onnx_import: the layers of a model, their names, and nodes that are none."""

import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx_importing import LIGHT, ImportTest
from onnx_models import model_of, tensor, value


class Networks(ImportTest):
    def test_resnet50(self):
        answer = self.read(LIGHT / "light_resnet50.onnx")
        layers = answer["layers"]
        self.assertEqual(answer["name"], "light_resnet50")
        self.assertEqual(answer["failures"], [])
        self.assertEqual(len(layers), 53)
        self.assertEqual(sum("residual" in layer for layer in layers), 16)
        self.assertEqual(sum(layer.get("activation") == "Relu" for layer in layers), 49)
        self.assertTrue(all(layer["bias"] for layer in layers))
        self.assertEqual((layers[0]["x"], layers[0]["w"]), ([1, 3, 224, 224], [64, 3, 7, 7]))
        self.assertEqual((layers[-1]["x"], layers[-1]["w"]), ([1, 512, 7, 7], [2048, 512, 1, 1]))
        notes = answer["notes"]
        self.assertIn("folded: BatchNormalization x53", notes)
        self.assertIn("fused: residual sum x16", notes)
        self.assertIn("fused: Relu x49", notes)
        self.assertIn("skipped: MaxPool x1, AveragePool x1, Reshape x1, Gemm x1, Softmax x1", notes)
        # One at the head of each of the four stages.
        self.assertEqual(sum("the sum is fused into" in note for note in notes), 4)

    def test_every_network_of_the_wheel(self):
        counts = {"bvlc_alexnet": 5, "densenet121": 121, "inception_v1": 57, "inception_v2": 69, "shufflenet": 49,
                  "squeezenet": 26, "vgg19": 16, "zfnet512": 5}
        for name, count in counts.items():
            with self.subTest(name):
                answer = self.read(LIGHT / f"light_{name}.onnx")
                self.assertEqual((len(answer["layers"]), answer["failures"]), (count, []))

    def test_resnet50_weights(self):
        weights = self.folder / "weights"
        answer = self.read(LIGHT / "light_resnet50.onnx", "--weights", weights)
        for layer in answer["layers"]:
            self.assertEqual(list(np.load(layer["weights"], mmap_mode="r").shape), layer["w"])
            self.assertEqual(np.load(layer["bias_values"]).shape, (layer["w"][0],))


class ChannelsLast(ImportTest):
    NHWC = "com.ms.internal.nhwc"

    def imported(self, nodes, inputs, outputs, initializers):
        model = model_of(nodes, inputs, outputs, initializers)
        model.opset_import.append(helper.make_opsetid(self.NHWC, 1))
        return self.read(model)

    def test_transposed(self):
        nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["a"], "first", domain=self.NHWC, strides=[2, 2],
                                  activation="LeakyRelu", activation_params=[0.25]),
                 helper.make_node("ConvTranspose", ["a", "v"], ["c"], "second", domain=self.NHWC),
                 helper.make_node("Add", ["c", "k"], ["d"]), helper.make_node("Add", ["d", "r"], ["s"]),
                 helper.make_node("Sigmoid", ["s"], ["y"])]
        answer = self.imported(nodes, [value("x", [1, 5, 6, 3]), value("r", [1, 10, 12, 2])], [value("y", None)],
                               [tensor("w", np.ones((3, 4, 2, 2))), tensor("v", np.ones((4, 2, 1, 1))),
                                tensor("k", [1, 2])])
        first, second = answer["layers"]
        self.assertEqual((first["dialect"], first["x"], first["w"]), ("ms-nhwc", [1, 5, 6, 3], [3, 4, 2, 2]))
        self.assertEqual((first["activation"], first["activation_params"]), ("LeakyRelu", [0.25]))
        self.assertEqual((second["x"], second["bias"], second["residual"]), ([1, 10, 12, 4], True, True))
        self.assertEqual(second["activation"], "Sigmoid")
        self.assertNotIn("opset", first)

    def test_what_is_behind_an_activation_stays_outside(self):
        nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["c"], domain=self.NHWC, activation="Relu"),
                 helper.make_node("Sigmoid", ["c"], ["y"])]
        answer = self.imported(nodes, [value("x", [1, 5, 6, 3])], [value("y", None)],
                               [tensor("w", np.ones((3, 4, 2, 2)))])
        self.assertEqual(answer["layers"][0]["activation"], "Relu")
        self.assertEqual(answer["notes"], ["the Sigmoid behind c stays outside: it is behind an activation, which is the "
                                           "last that a layer does", "skipped: Sigmoid x1"])

    def test_conv_is_onnx_in_another_layout(self):
        norm = helper.make_node("BatchNormalization", ["c", *"sbmv"], ["y"])
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv", domain=self.NHWC, pads=[1, 1, 1, 1]), norm]
        answer = self.imported(nodes, [value("x", [1, 5, 6, 3])], [value("y", None)],
                               [tensor("w", np.ones((4, 3, 3, 3))), *(tensor(name, np.ones(5)) for name in "sbmv")])
        layer, = answer["layers"]
        self.assertEqual((layer["dialect"], layer["x"], layer["w"]), ("onnx", [1, 3, 5, 6], [4, 3, 3, 3]))
        self.assertEqual(layer["layouts"], {"x": "NXC", "y": "NXC"})
        self.assertIn("the BatchNormalization behind conv stays outside: it does not scale whole channels",
                      answer["notes"])


class Names(ImportTest):
    def test_made_identifiers_and_unique(self):
        names = ["a/b:0", "a b 0", "1st", "", "conv", "Conv", "conv_pack", "library", "é"]
        nodes = [helper.make_node("Conv", ["x", "w"], [f"out.{i}"], name) for i, name in enumerate(names)]
        outputs = [value(f"out.{i}", None) for i in range(len(names))]
        answer = self.read(model_of(nodes, [value("x", [1, 1, 4])], outputs, [tensor("w", [[[1]]])]))
        made = [layer["name"] for layer in answer["layers"]]
        self.assertEqual(made, ["a_b_0", "a_b_0_2", "layer_1st", "out_3", "conv", "Conv_2", "conv_pack_2", "library_2",
                                "layer"])
        notes = "\n".join(answer["notes"])
        self.assertIn('renamed, to be C identifiers: "a/b:0" to a_b_0', notes)
        self.assertIn('renamed, because another layer has the name: "a b 0" to a_b_0_2', notes)
        self.assertIn('"Conv" to Conv_2', notes)

    def test_the_library_is_named_after_the_file(self):
        model = model_of([helper.make_node("Conv", ["x", "w"], ["y"])], [value("x", [1, 1, 4])], [value("y", None)],
                         [tensor("w", [[[1]]])])
        self.assertEqual(self.read(self.save(model, "my-net v2.onnx"))["name"], "my_net_v2")


class Operators(ImportTest):
    def test_others_are_counted(self):
        nodes = [helper.make_node("Conv", ["x", "w"], ["a"], "conv"), helper.make_node("Round", ["a"], ["b"]),
                 helper.make_node("Round", ["b"], ["c"]), helper.make_node("Fancy", ["c"], ["y"], domain="my.own")]
        model = model_of(nodes, [value("x", [1, 1, 4])], [value("y", None)], [tensor("w", [[[1]]])])
        model.opset_import.append(helper.make_opsetid("my.own", 1))
        self.assertEqual(self.read(model)["notes"], ["skipped: Round x2, my.own.Fancy x1"])

    def test_convolutions_in_loops_are_told(self):
        body = helper.make_graph([helper.make_node("Conv", ["state", "w"], ["next"]),
                                  helper.make_node("Identity", ["on"], ["on_again"])], "body",
                                 [value("i", [], TensorProto.INT64), value("on", [], TensorProto.BOOL), value("state", None)],
                                 [value("on_again", [], TensorProto.BOOL), value("next", None)])
        nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "conv"),
                 helper.make_node("Loop", ["n", "", "x"], ["z"], body=body)]
        model = model_of(nodes, [value("x", [1, 1, 4]), value("n", [], TensorProto.INT64)],
                         [value("y", None), value("z", None)], [tensor("w", [[[1]]])])
        answer = self.read(model)
        self.assertEqual([layer["name"] for layer in answer["layers"]], ["conv"])
        self.assertIn("skipped inside Loop or Scan: Conv x1", answer["notes"])

    def test_functions_are_inlined(self):
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
        function = helper.make_function("my.own", "Block", ["x", "w"], ["y"], nodes, [helper.make_opsetid("", 17)])
        model = model_of([helper.make_node("Block", ["x", "w"], ["y"], domain="my.own")], [value("x", [1, 1, 4])],
                         [value("y", None)], [tensor("w", [[[1]]])])
        model.opset_import.append(helper.make_opsetid("my.own", 1))
        model.functions.append(function)
        layer, = self.read(model)["layers"]
        self.assertEqual((layer["x"], layer["activation"]), ([1, 1, 4], "Relu"))

    def test_quantised_and_deformable_are_passed_on(self):
        byte = TensorProto.UINT8
        scales = [tensor("s", 0.5), numpy_helper.from_array(np.uint8(3), "z"),
                  numpy_helper.from_array(np.ones((1, 1, 2, 2), np.uint8), "wq")]
        nodes = [helper.make_node("QLinearConv", ["q", "s", "z", "wq", "s", "z", "s", "z"], ["a"], "qlinear"),
                 helper.make_node("ConvInteger", ["q", "wq", "z"], ["b"], "integer"),
                 helper.make_node("DeformConv", ["x", "w", "o", "", "m"], ["c"], "deform", offset_group=1)]
        model = model_of(nodes, [value("q", [1, 1, 4, 4], byte), value("x", [1, 1, 4, 4]), value("o", [1, 8, 3, 3]),
                                 value("m", [1, 4, 3, 3])],
                         [value(name, None) for name in "abc"], [*scales, tensor("w", np.ones((1, 1, 2, 2)))], opset=19)
        qlinear, integer, deform = self.read(model)["layers"]
        self.assertEqual((qlinear["operator"], qlinear["dtype"], qlinear["w"]), ("QLinearConv", "uint8", [1, 1, 2, 2]))
        self.assertEqual((integer["operator"], integer["dtype"]), ("ConvInteger", "uint8"))
        self.assertEqual((deform["offset"], deform["mask"], deform["offset_group"], deform.get("bias")),
                         (True, True, 1, None))

    def test_weights_that_are_not_constants(self):
        model = model_of([helper.make_node("Conv", ["x", "w", "b"], ["y"], "conv")],
                         [value("x", [1, 1, 4]), value("w", [2, 1, 3]), value("b", [2])], [value("y", None)])
        layer, = self.read(model, "--weights", self.folder)["layers"]
        self.assertEqual((layer["w"], layer["bias"]), ([2, 1, 3], True))
        self.assertFalse("weights" in layer or "bias_values" in layer)

    def test_one_bad_node_leaves_the_others(self):
        nodes = [helper.make_node("Conv", ["x", "w"], ["a"], "good"),
                 helper.make_node("Conv", ["x", "w"], ["b"], "odd", flavour=3),
                 helper.make_node("Conv", ["i", "w"], ["c"], "typed"),
                 helper.make_node("Mystery", ["x"], ["m"], domain="my.own"),
                 helper.make_node("Conv", ["m", "w"], ["d"], "shapeless")]
        model = model_of(nodes, [value("x", [1, 1, 4]), value("i", [1, 1, 4], TensorProto.INT64)],
                         [value(name, None) for name in "abcd"], [tensor("w", [[[1]]])])
        model.opset_import.append(helper.make_opsetid("my.own", 1))
        answer = self.read(model)
        self.assertEqual([(layer["name"], layer["x"]) for layer in answer["layers"]],
                         [("good", [1, 1, 4]), ("shapeless", ["?", 1, "?"])])
        failures = {failure["layer"]: failure for failure in answer["failures"]}
        self.assertEqual(failures["odd"]["message"], "unknown attribute flavour")
        self.assertEqual(failures["typed"]["message"], 'its input "i" is of type INT64')
        self.assertEqual(failures["typed"]["code"], "unsupported")

    def test_tensors_of_a_layer_have_one_type(self):
        half = numpy_helper.from_array(np.ones((1, 1, 1), np.float16), "w")
        model = model_of([helper.make_node("Conv", ["x", "w"], ["y"], "conv")], [value("x", [1, 1, 4])], [value("y", None)], [half])
        failure, = self.read(model, "--weights", self.folder)["failures"]
        self.assertEqual(failure["message"], 'its w "w" is of type FLOAT16, its x "x" of FLOAT: they must be of one type')

    def test_normalization_of_another_size(self):
        numbers = [tensor(name, np.ones(3)) for name in "sbmv"]
        model = model_of([helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
                          helper.make_node("BatchNormalization", ["c", *"sbmv"], ["y"])],
                         [value("x", [1, 1, 4])], [value("y", None)], [tensor("w", [[[1]]]), *numbers])
        self.assertIn("the BatchNormalization behind conv stays outside: it has [3] scales for 1 channels",
                      self.read(model, "--weights", self.folder)["notes"])

    def test_a_fill_too_large_to_compute(self):
        size = numpy_helper.from_array(np.array([1 << 20, 1 << 20, 3], np.int64), "size")
        model = model_of([helper.make_node("ConstantOfShape", ["size"], ["w"]),
                          helper.make_node("Conv", ["x", "w"], ["y"], "conv")],
                         [value("x", [1, 1 << 20, 4])], [value("y", None)], [size])
        failure, = self.read(model, "--weights", self.folder)["failures"]
        self.assertIn('constant "w" of shape [1048576, 1048576, 3] is too large', failure["message"])


if __name__ == "__main__":
    unittest.main()
