"""PyTorch (cuDNN, TF32 off) on a CUDA device: calls in a CUDA graph, timed by the device's events.

What is timed has bias and ReLU, in every way that PyTorch has for a layer: channels first and last, a convolution with relu_ behind it
and, where cuDNN has it, both as one. A convolution of one axis is tried as one of two as well, since only that has channels last.
DeformConv is torchvision's, or where that is missing gathers of the four corners and a product of matrices.
"""

import math
import statistics
import time

import gpu_layers

CALLS, MOST_MS = 20, 10.0  # in a graph: so many, or fewer where they would take longer than that
REPLAYS, WARM_UP = 50, 5
FIRST_WARM_UP = 0.2  # seconds before a round: a GPU that was idle raises its clocks only after a while
WRONG = {"float32": 1e-4, "float16": 1e-2}  # of the largest value; TF32 is off by more
WRONG_DEFORMED = {"float32": 1e-4, "float16": 0.2}  # torchvision has positions in float16 too


def load():
    """(torch, torchvision or None), set up; None where there is no PyTorch that has a CUDA device."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.set_grad_enabled(False)
    try:
        import torchvision
    except (ImportError, RuntimeError):  # RuntimeError: one that was built for another PyTorch
        torchvision = None
    return torch, torchvision


def versions(torch, torchvision):
    return {"PyTorch": torch.__version__, "cuDNN": str(torch.backends.cudnn.version()),
            "torchvision": torchvision.__version__ if torchvision else None}  # fmt: skip


def deform_grid(torch, shape, x, device):
    """Where each tap of each output is without its offset: a tensor for rows and one for columns."""
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    (oh, ow), (kh, kw) = shape.out, shape.kernel
    rows = torch.arange(oh, dtype=kind).view(1, 1, oh, 1) * shape.strides[0] - shape.begin[0]
    columns = torch.arange(ow, dtype=kind).view(1, 1, 1, ow) * shape.strides[1] - shape.begin[1]
    tap_rows = torch.arange(kh, dtype=kind).repeat_interleave(kw).view(1, -1, 1, 1) * shape.dilations[0]
    tap_columns = torch.arange(kw, dtype=kind).repeat(kh).view(1, -1, 1, 1) * shape.dilations[1]
    return (rows + tap_rows).to(device), (columns + tap_columns).to(device)


def deform_by_gathers(torch, shape, grid, x, w, bias, offset, mask):
    """DeformConv of one image."""
    _, channels, height, width = x.shape
    (oh, ow), taps, groups = shape.out, shape.kernel[0] * shape.kernel[1], shape.offset_group
    offset = offset.view(groups, taps, 2, oh, ow)
    py, px = offset[:, :, 0] + grid[0], offset[:, :, 1] + grid[1]
    y0, x0 = py.floor(), px.floor()
    ly, lx = py - y0, px - x0
    y0, x0 = y0.long(), x0.long()
    scale = mask.view(groups, taps, oh, ow)
    data = x.view(groups, channels // groups, height * width)
    sampled = 0
    for dy in (0, 1):
        for dx in (0, 1):
            yy, xx = y0 + dy, x0 + dx
            inside = (yy >= 0) & (yy < height) & (xx >= 0) & (xx < width)
            factor = (ly if dy else 1 - ly) * (lx if dx else 1 - lx) * inside * scale
            at = yy.clamp(0, height - 1) * width + xx.clamp(0, width - 1)
            corner = data.gather(2, at.view(groups, 1, -1).expand(-1, channels // groups, -1))
            sampled = sampled + corner * factor.to(x.dtype).view(groups, 1, -1)
    columns = sampled.view(shape.group, channels // shape.group * taps, oh * ow)
    y = torch.bmm(w.view(shape.group, w.shape[0] // shape.group, -1), columns).view(1, -1, oh, ow)
    return y + bias.view(1, -1, 1, 1)


def operands(torch, layer):
    """x, w, bias, and offset and mask where the operator has them, on the processor: results are about 1."""
    shape = gpu_layers.Shape(layer)
    terms = gpu_layers.products(layer) / (layer["x"][0] * shape.channels * math.prod(shape.out))
    sizes = [layer["x"], layer["w"], [shape.channels]]
    tensors = [torch.randn(size) for size in sizes]
    tensors[1] /= terms**0.5
    if layer["operator"] == "DeformConv":
        each = shape.offset_group * math.prod(shape.kernel)
        tensors += [torch.randn([1, 2 * each, *shape.out]), torch.rand([1, each, *shape.out])]
    return [tensor.to(getattr(torch, layer["dtype"])) for tensor in tensors]


def function_of(torch, layer, rank, flat):
    """A layer's function in torch.nn.functional and its options, over an axis of extent 1 before the layer's where `flat`."""
    shape = gpu_layers.Shape(layer)
    if shape.begin != shape.end:
        return None
    options = {"stride": shape.strides, "padding": shape.begin, "dilation": shape.dilations}
    if shape.transposed:
        options["output_padding"] = shape.output_padding
    if flat:
        options = {name: [1 if name in ("stride", "dilation") else 0, *value] for name, value in options.items()}
    options["groups"] = shape.group
    return getattr(torch.nn.functional, f"conv{'_transpose' if shape.transposed else ''}{rank}d"), options


def ways(torch, torchvision, layer, tensors, device):
    """{words: call} of all ways in which PyTorch computes a layer."""
    shape = gpu_layers.Shape(layer)
    calls = {}
    if layer["operator"] == "DeformConv":
        x, w, bias, offset, mask = (tensor.to(device) for tensor in tensors)
        grid = deform_grid(torch, shape, x, device)
        calls["gathers + bmm"] = lambda: torch.relu_(deform_by_gathers(torch, shape, grid, x, w, bias, offset, mask))
        if torchvision:
            calls["torchvision"] = lambda: torch.relu_(
                torchvision.ops.deform_conv2d(x, offset, w, bias, stride=shape.strides, padding=shape.begin,
                                              dilation=shape.dilations, mask=mask))  # fmt: skip
        return calls
    formats = {1: [torch.contiguous_format], 2: [torch.contiguous_format, torch.channels_last],
               3: [torch.contiguous_format, torch.channels_last_3d]}  # fmt: skip
    for rank, flat in ((shape.rank, False), (2, True))[: 2 if shape.rank == 1 else 1]:
        found = function_of(torch, layer, rank, flat)
        if found is None:
            continue
        function, options = found
        for memory in formats[rank]:
            x, w, bias = (tensor.to(device) for tensor in tensors)
            if flat:
                x, w = x.unsqueeze(2), w.unsqueeze(2)
            x, w = x.to(memory_format=memory), w.to(memory_format=memory)
            words = ("as 2-D, " if flat else "") + ("channels first" if memory == torch.contiguous_format else "channels last")

            def separate(x=x, w=w, bias=bias, function=function, options=options, flat=flat):
                y = torch.relu_(function(x, w, bias, **options))
                return y.squeeze(2) if flat else y

            def fused(x=x, w=w, bias=bias, options=options, flat=flat):
                y = torch.cudnn_convolution_relu(x, w, bias, *(options[key] for key in ("stride", "padding", "dilation", "groups")))
                return y.squeeze(2) if flat else y

            calls[words] = separate
            if not shape.transposed and rank > 1:
                calls[words + ", fused ReLU"] = fused
    return calls


def reference(torch, layer, tensors):
    """The result in float64, by the processor."""
    doubles = [tensor.double() for tensor in tensors]
    shape = gpu_layers.Shape(layer)
    if layer["operator"] == "DeformConv":
        return torch.relu(deform_by_gathers(torch, shape, deform_grid(torch, shape, doubles[0], "cpu"), *doubles))
    function, options = function_of(torch, layer, shape.rank, False)
    return torch.relu(function(*doubles, **options))


def between_events(torch, call):
    """Milliseconds of what `call` queues in the current stream."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


class Timed:
    """A call that was captured some times in a CUDA graph."""

    def __init__(self, torch, call):
        self.torch = torch
        self.call = call  # which holds the tensors that the graph reads: PyTorch gives unused memory back when it captures the next
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):  # cuDNN looks for its fastest algorithm in the first
                call()
            side.synchronize()
            one = between_events(torch, call)
        torch.cuda.current_stream().wait_stream(side)
        self.calls = max(1, min(CALLS, int(MOST_MS / max(one, 1e-3))))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(self.calls):
                call()

    def microseconds(self):
        """Of one call, the median of all replays. They are queued before the first is waited for, so that none has the processor's
        time in it."""
        events = [self.torch.cuda.Event(enable_timing=True) for _ in range(WARM_UP + REPLAYS + 1)]
        events[0].record()
        for event in events[1:]:
            self.graph.replay()
            event.record()
        events[-1].synchronize()
        times = [begin.elapsed_time(end) for begin, end in zip(events, events[1:])]
        return statistics.median(times[WARM_UP:]) * 1e3 / self.calls


class Peers:
    """All ways of all layers, captured; each round times every one."""

    def __init__(self, torch, torchvision, layers):
        self.timed = {}  # by layer, by words
        self.errors = {}
        for layer in layers:
            name = layer["name"]
            self.timed[name], self.errors[name] = {}, {}
            torch.manual_seed(1)
            tensors = operands(torch, layer)
            calls = ways(torch, torchvision, layer, tensors, "cuda")
            expected = reference(torch, layer, tensors) if calls else None
            for words, call in calls.items():
                try:
                    error = ((call().double().cpu() - expected).abs().max() / expected.abs().max()).item()
                    limits = WRONG_DEFORMED if layer["operator"] == "DeformConv" else WRONG
                    if error > limits[layer["dtype"]]:
                        self.errors[name][words] = f"off by {error:.1e} of the largest value"
                    else:
                        self.timed[name][words] = Timed(torch, call)
                except RuntimeError as failure:  # what cuDNN lacks
                    self.errors[name][words] = str(failure).splitlines()[0][:200]

    def round(self):
        """{layer: {words: us}}"""
        begin, first = time.time(), next((timed for each in self.timed.values() for timed in each.values()), None)
        while first and time.time() - begin < FIRST_WARM_UP:
            first.microseconds()
        return {name: {words: timed.microseconds() for words, timed in each.items()} for name, each in self.timed.items()}


def ceilings(torch):
    """TFLOP/s of products of matrices and GB/s of a copy, the best of several."""

    def best(call):
        return min(between_events(torch, call) for _ in range(8))

    a, b = (torch.randn(8192, 8192, device="cuda") for _ in range(2))
    found = {"matmul_f32_tflops": 2 * 8192**3 / best(lambda: torch.mm(a, b)) / 1e9}
    a, b = a.half(), b.half()
    found["matmul_f16_tflops"] = 2 * 8192**3 / best(lambda: torch.mm(a, b)) / 1e9
    source = torch.empty(1 << 28, device="cuda")
    target = torch.empty_like(source)
    found["copy_gb_s"] = 2 * source.numel() * 4 / best(lambda: target.copy_(source)) / 1e6
    return found
