#!/usr/bin/env python3
"""On a machine with a GPU: checks and times Kiln's kernels there, beside cuDNN (PyTorch, TF32 off) where torch is there.

    python3 bench/gpu.py [--target cuda|opencl] [--layers C1,C2] [--kiln build/bin/kiln]

Prints a row a layer: Kiln's time in NXC and in NCX, PyTorch's in its best of channels first and last, and how many times as
fast Kiln is in its better one. All with bias and ReLU; calls are queued one after the other, tensors and packed weights being on
the device. Not run on an NVIDIA GPU yet; on PoCL, without PyTorch, it is a test.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUITE = ROOT / "bench/suite.toml"
DEFAULT = "C1,C2,C3,C4,C5,C6,C9,C10,C11,T1,T2,T5,D1"


def layers_text(names, layout):
    """The suite's float32 layers as a layers file, with ReLU, in a layout."""
    suite = tomllib.loads(SUITE.read_text())
    text = ""
    for layer in suite["layer"]:
        if layer["name"] in names:
            layer = {**suite["defaults"], **layer, "activation": "Relu"}
            layer.pop("layouts", None)
            text += "[[layer]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in layer.items())
            text += f'layouts = {{ x = "{layout}", y = "{layout}" }}\n'
    return text


def kiln_times(kiln, target, names, layout):
    """Milliseconds by layer. Stops where a kernel is wrong, or has no time."""
    with tempfile.TemporaryDirectory() as folder:
        spec, result = Path(folder) / "layers.toml", Path(folder) / "bench.json"
        spec.write_text(layers_text(names, layout))
        if subprocess.run([kiln, "verify", spec, "--target", target], check=False).returncode:
            sys.exit(f"kernels in {layout} are wrong, or do not run here")
        subprocess.run([kiln, "bench", spec, "--target", target, "--json", result], check=True, stdout=subprocess.DEVNULL)
        times = {row["layer"]: row.get("ms") for row in json.loads(result.read_text())["rows"]}
    failed = [name for name in names if not times.get(name)]
    if failed:
        sys.exit(f"kernels in {layout} were not timed: {', '.join(failed)}")
    return times


def torch_call(layer):
    """The name of a layer's function in torch.nn.functional and its options; None where PyTorch has none."""
    rank = len(layer["x"]) - 2
    pads = layer.get("pads", [0] * 2 * rank)
    names = {"Conv": "conv", "ConvTranspose": "conv_transpose"}
    others = {"auto_pad", "output_shape"} & layer.keys()
    if layer["operator"] not in names or rank > 3 or pads[:rank] != pads[rank:] or others:
        return None
    options = {"stride": layer.get("strides", [1] * rank), "padding": pads[:rank], "groups": layer.get("group", 1),
               "dilation": layer.get("dilations", [1] * rank)}  # fmt: skip
    if layer["operator"] == "ConvTranspose":
        options["output_padding"] = layer.get("output_padding", [0] * rank)
    return f"{names[layer['operator']]}{rank}d", options


def torch_time(torch, layer):
    """The best of both memory formats, in milliseconds; None where PyTorch has no such operator."""
    call = torch_call(layer)
    if call is None:
        return None
    function, options = getattr(torch.nn.functional, call[0]), call[1]
    rank = len(layer["x"]) - 2
    formats = {1: [torch.contiguous_format], 2: [torch.contiguous_format, torch.channels_last],
               3: [torch.contiguous_format, torch.channels_last_3d]}[rank]  # fmt: skip
    channels = layer["w"][0] if layer["operator"] == "Conv" else layer["w"][1] * layer.get("group", 1)
    best = None
    for memory_format in formats:
        x = torch.randn(layer["x"], device="cuda").to(memory_format=memory_format)
        w = torch.randn(layer["w"], device="cuda").to(memory_format=memory_format)
        bias = torch.randn(channels, device="cuda")

        def run(x=x, w=w, bias=bias):
            return torch.relu_(function(x, w, bias, **options))

        expected = torch.relu(function(x.double(), w.double(), bias.double(), **options))
        error = (run() - expected).abs().max().item() / expected.abs().max().item()
        if error > 1e-4:
            sys.exit(f"{layer['name']}: PyTorch's result is off by {error:.1e} of the largest: is TF32 on?")
        for _ in range(20):
            run()
        for _ in range(5):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(100):
                run()
            end.record()
            end.synchronize()
            each = begin.elapsed_time(end) / 100
            best = each if best is None else min(best, each)
    return best


def load_torch():
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.set_grad_enabled(False)
    return torch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda", choices=["cuda", "opencl"])
    parser.add_argument("--layers", default=DEFAULT)
    parser.add_argument("--kiln", default=ROOT / "build/bin/kiln")
    options = parser.parse_args()
    names = options.layers.split(",")
    times = {layout: kiln_times(options.kiln, options.target, names, layout) for layout in ("NXC", "NCX")}
    torch = load_torch()
    if torch is None:
        print("PyTorch with CUDA is not here: Kiln's times alone")
    print(f"{'layer':8}{'NXC ms':>10}{'NCX ms':>10}{'PyTorch ms':>12}{'ratio':>8}")
    for layer in tomllib.loads(SUITE.read_text())["layer"]:
        name = layer["name"]
        if name not in times["NXC"]:
            continue
        row = f"{name:8}{times['NXC'][name]:10.4f}{times['NCX'][name]:10.4f}"
        peer = torch_time(torch, layer) if torch else None
        if peer is not None:
            row += f"{peer:12.4f}{peer / min(times[layout][name] for layout in times):8.2f}"
        print(row)


if __name__ == "__main__":
    main()
