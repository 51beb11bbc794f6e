#!/usr/bin/env python3
"""Reads an ONNX model and writes its convolutions as Kiln layers, in JSON.

    python3 onnx_import MODEL OUT.json [--weights DIR] [--shape NAME=1x3x224x224]... [--output-name NAME]...
        [--network [--size NAME=160,320]...]

OUT.json holds {"name", "layers", "convolutions", "notes", "failures"}: layers are tables as in a layers file, with
"weights" and "bias_values" paths where --weights names a folder for them, and with their place in the model, {"node",
"operator", "inputs", "output"}, as "source"; convolutions are all that the model has, of any kind and anywhere; notes say
what was folded, fused, renamed and skipped; failures are convolutions that could not be made layers of, {"layer", "node",
"code", "message"}.

With --network, for which --weights is needed, matrices become convolutions too, and "networks" say how the whole model is
computed, one for each combination of the "sizes", {"name", "field", "values"}, that have several values: its "sizes", {name:
value}; its "inputs" and "outputs", {"name", "field", "tensor"}; its "tensors", {"name", "dtype", "shape", "logical",
"order", "constant", "view"}, of which shape is physical and order tells for each of its axes which of the model's it is; its
"steps", each a layer or an operation between tensors; and its "failures", nodes that Kiln has no kernel for.

Exit status: 0; 1, the model is not usable (the message is on stderr); 2, usage; 3, there is no `onnx` package.
"""

import argparse
import json
import os
import sys

try:
    import numpy as np
    import onnx  # the modules below import it where it is there
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)

from convolutions.importer import Importer
from names import to_identifier
from networks.merging import Merged
from networks.network import Network
from reading.folding import Folder
from reading.graph import Graph
from reading.loading import load_model, load_small_tensors, open_inputs, parse_shapes, set_outputs, set_shapes, shape_option
from reading.sizes import Sizes, parse_sizes
from rewriting import rewrite
from terms import ModelError, NodeError, count_convolutions


def import_model(path, shapes, weights_folder, whole=True, as_network=False, callbacks=False, outputs=(), sizes=None):
    """The importer's answer for a model; `whole` as in Folder. `outputs` are names of values in place of the model's own;
    `sizes` are values of its open sizes, several of which make several networks."""
    model, folder = load_model(path)
    set_shapes(path, model.graph, shapes)
    set_outputs(path, model.graph, outputs)
    load_small_tensors(model, folder)
    if not as_network:
        importer = import_layers(path, model, folder, shapes, {}, weights_folder, whole, False)
        if not importer.tables and not importer.failures:
            raise ModelError(f"{path} has no convolution: " + "; ".join(importer.notes))
        return answer_of(path, importer)
    sizes, merged = Sizes(path, model.graph, sizes or {}), Merged()
    combinations = sizes.combinations()
    for place, combination in enumerate(combinations):
        sized, values = model, os.path.join(weights_folder, str(place))
        if len(combinations) > 1:
            sized = onnx.ModelProto()
            sized.CopyFrom(model)
        sizes.set(sized.graph, combination)
        importer = import_layers(path, sized, folder, shapes, combination, values, whole, True)
        network = network_of(path, importer, values, callbacks, combination, sizes.several())
        merged.add({**answer_of(path, importer), "notes": notes_of_network(importer), "network": network},
                   {name: combination[name] for name in sizes.several()})
    return merged.answer({name: sizes.values[name] for name in sizes.several()})


def import_layers(path, model, folder, shapes, sizes, weights_folder, whole, as_network):
    """An Importer that has made layers of a model's convolutions, with all of its matrices where it is to be a network.
    `shapes` and `sizes` are what the user gave it."""
    with np.errstate(all="ignore"):  # what overflows is told with its layer's name
        folded = fold(path, model, folder, whole, as_network)
        if (shapes or sizes) and folded.misfits:
            raise ModelError(f"{path} with {given_text(shapes, sizes)}: {folded.misfits[0]}")
        if weights_folder:
            os.makedirs(weights_folder, exist_ok=True)
        graph = Graph(folded, open_inputs(model.graph, shapes))
        importer = Importer(graph, weights_folder)
        importer.convolutions = count_convolutions(graph.nodes)
        if as_network:
            rewrite(graph)
        importer.run()
    return importer


def given_text(shapes, sizes):
    """"--shape x=1x3x?x? --size width=160"."""
    return " ".join([*(f"--shape {name}={shape_option(given)}" for name, given in shapes.items()),
                     *(f"--size {name}={value}" for name, value in sizes.items())])


def answer_of(path, importer):
    name = to_identifier(os.path.splitext(os.path.basename(path))[0], "model")
    return {"name": name, "layers": importer.tables, "convolutions": importer.convolutions, "notes": importer.notes,
            "failures": importer.failures}


def notes_of_network(importer):
    """What no layer takes becomes a step."""
    notes = [note for note in importer.notes if not note.startswith("skipped") and "stays outside" not in note]
    return notes + importer.graph.left_out


def network_of(path, importer, folder, callbacks, sizes, fields):
    try:
        with np.errstate(all="ignore"):
            return Network(importer.graph, importer, folder, callbacks, fields).build()
    except NodeError as error:
        raise ModelError(f"{path}: {error}") from error
    except ModelError as error:
        raise ModelError(f"{path} with {given_text({}, sizes)}: {error}" if sizes else str(error)) from error


def fold(path, model, folder, whole, as_network):
    try:
        return Folder(model, folder, whole, as_network)
    except ModelError as error:
        raise ModelError(f"{path} makes no sense as a model: {error}") from error


def main():
    parser = argparse.ArgumentParser(description="Writes the convolutions of an ONNX model as Kiln layers, in JSON.")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("answer", metavar="OUT.json")
    parser.add_argument("--weights", metavar="DIR", default="", help="write weights and biases as .npy here")
    parser.add_argument("--shape", metavar="NAME=1x3x224x224", action="append", default=[],
                        help="the shape of an input that the model leaves open, ? for a size that is known when it runs; "
                             "may be given again")
    parser.add_argument("--output-name", metavar="NAME", action="append", default=[],
                        help="a value that is an output in place of the model's own; may be given again")
    parser.add_argument("--size", metavar="NAME=160,320", action="append", default=[],
                        help="of a network: values of a dimension that the model leaves open, by its name or as INPUT.AXIS; "
                             "may be given again")
    parser.add_argument("--network", action="store_true", help="also say how the whole model is computed")
    parser.add_argument("--callbacks", action="store_true", help="of a network: its program may compute nodes itself")
    arguments = parser.parse_args()
    if arguments.network and not arguments.weights:
        parser.error("--network needs --weights")
    if arguments.size and not arguments.network:
        parser.error("--size needs --network")
    for whole in (True, False):
        status = in_child(lambda: write_answer(arguments, whole))
        if status is not None:
            return status
    print(f"{arguments.model} makes no sense as a model: the onnx package crashes on it", file=sys.stderr)
    return 1


def in_child(act):
    """The exit status of a function in a process of its own; None where a signal ended it, as onnx's C++ code may crash on
    a model that makes no sense."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = act()
            sys.stderr.flush()
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None


def write_answer(arguments, whole):
    """Imports the model and writes the answer; the exit status."""
    try:
        answer = import_model(arguments.model, parse_shapes(arguments.shape), arguments.weights, whole,
                              arguments.network, arguments.callbacks, arguments.output_name, parse_sizes(arguments.size))
        with open(arguments.answer, "w", encoding="utf-8") as file:
            json.dump(answer, file, indent=1)
    except (ModelError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except Exception as error:  # a broken file can hold anything, a name that is no text for one
        print(f"{arguments.model} makes no sense as a model: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
