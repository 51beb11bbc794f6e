"""Times a model's convolutions in the model's order, their weights as cold as they are there: ./dev bench MODEL... --in-order.

Of Kiln each is also timed where it runs again and again, so that it finds its weights in the caches as far as they fit: the sum
of these, warm, is what the network's order is compared with. onnxruntime and OpenVINO tell by their own profiling what each of
their nodes takes. All are asked in turn, as in network.py.
"""

import argparse
import collections
import os
import re
import statistics
import subprocess
import sys
import tempfile

import network
import onnx
import run as suite
from sides import Gone, Side
from terms import ModelError

PEERS = ("onnxruntime", "openvino")
IS_CONVOLUTION = re.compile(r"Conv(?!ert)|Deconv")


# ---- Whose a node is


class Convolutions:
    """The convolutions of a model, and which of them others' nodes are, by what these are called."""

    def __init__(self, model):
        self.nodes = [node for node in model.graph.node if IS_CONVOLUTION.search(node.op_type)]
        self.names = [node.name for node in self.nodes]
        self.makers = {name: node for node in model.graph.node for name in node.output}

    def are_others(self, names):
        """Whether Kiln's layer of these names is none of the model's, but a product of matrices."""
        return not set(self.names).intersection(names)

    def before(self, value):
        """The convolutions that a value may be the result of, with what is fused behind them: the nearest first."""
        found, queue, seen = [], collections.deque([value]), set()
        while queue:
            node = self.makers.get(queue.popleft())
            if node is None or id(node) in seen:
                continue
            seen.add(id(node))
            if IS_CONVOLUTION.search(node.op_type):
                found.append(node.name)
            else:
                queue.extend(node.input)
        return found

    def owners(self, called):
        """{a convolution's name: what it is called} of lists of names: of nodes, or of values that they make."""
        owners, left = {}, []
        for key, names in called.items():
            own = next((name for name in self.names if name in names), None)
            if own is not None and own not in owners:
                owners[own] = key
            else:
                left.append(key)
        for key in left:
            own = next((name for value in called[key] for name in self.before(value) if name not in owners), None)
            if own is not None:
                owners[own] = key
        return owners


# ---- Measuring


def ask_in_turn(sides, rounds, seconds, calls):
    """{name: what its nodes take} of all sides, asked in turn, and {name: the seconds of a whole call}."""
    samples = collections.defaultdict(list)
    for _ in range(rounds):
        for side in sides:
            samples[side.name].append(side.ask("time", key="network", seconds=seconds)["seconds"])
            answer = side.ask("order", key="network", calls=calls)
            if "failed" in answer:
                raise suite.BenchError(f"{side.name}: {answer['failed']}")
    return {side.name: side.ask("profile", key="network")["nodes"] for side in sides}, \
        {name: statistics.median(times) for name, times in samples.items()}


def milliseconds(nodes, key):
    return sum(statistics.median(node[key]) for node in nodes) * 1e3


def way_of(nodes, seconds, convolutions):
    """What is told of one library, and the times of each convolution by its name."""
    called = {str(place): node["names"] for place, node in enumerate(nodes)
              if IS_CONVOLUTION.search(node["kind"]) and not ("warm" in node and convolutions.are_others(node["names"]))}
    owners = convolutions.owners(called)
    own = [nodes[int(place)] for place in called]
    way = {"ms": seconds * 1e3, "nodes_ms": milliseconds(nodes, "seconds"), "convolutions": len(own),
           "convolutions_ms": milliseconds(own, "seconds")}
    if own and "warm" in own[0]:
        way["warm_ms"] = milliseconds(own, "warm")
    return way, {name: nodes[int(place)] for name, place in owners.items()}


def measured(path, arguments, missing):
    """All that is measured of one model."""
    kiln = os.path.join(arguments.build, "bin", "kiln")
    cpu = max(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        model, inputs = network.fixed_model(path, arguments.shape, folder)
        kept = os.path.join(arguments.keep, os.path.splitext(os.path.basename(path))[0]) if arguments.keep else folder
        os.makedirs(kept, exist_ok=True)
        library, facts = network.compile_network(kiln, model, arguments.target, kept, traced=True)
        if arguments.compile_only:
            return None
        network.set_examples(inputs, facts)
        python = os.path.join(suite.VENV, "bin", "python")
        sides = [Side("kiln", "networks.kiln", cpu=cpu, environment={"KILN_BENCH_LIBRARY": library})]
        sides += [Side(name, "networks." + name, python, cpu, timeout=900.0) for name in arguments.peers if name not in missing]
        running, versions = suite.start(sides)
        try:
            outputs, failed = network.ask_all(running, model, inputs, folder)
            if "kiln" in failed:
                raise suite.BenchError(f"Kiln's network does not run: {failed['kiln']}")
            profiles, times = ask_in_turn(list(outputs), arguments.rounds, arguments.seconds, arguments.calls)
        finally:
            for side in sides:
                side.stop()
        convolutions = Convolutions(onnx.load(model, load_external_data=False))
    failed.update(missing)
    failed.update({name: said["failed"] for name, said in versions.items() if "failed" in said})
    ways, each = {}, {}
    for name, nodes in profiles.items():
        ways[name], each[name] = way_of(nodes, times[name], convolutions)
        ways[name]["version"] = versions[name]["version"]
    rows = []
    for name in convolutions.names:
        found = {way: nodes[name] for way, nodes in each.items() if name in nodes}
        rows.append({"node": name, "what": found.get("kiln", {}).get("what", ""),
                     **{f"{way}_ms": milliseconds([node], "seconds") for way, node in found.items()},
                     **({"warm_ms": milliseconds([found["kiln"]], "warm")} if "kiln" in found else {})})
    return {"model": os.path.basename(path), "processor": suite.processor_name()[0], "failed": failed, "ways": ways, "nodes": rows}


# ---- Telling


def cell(number, width=10):
    return f"{number:{width}.3f}" if number is not None else f"{'-':>{width}}"


def text_of_nodes(result):
    """A line for each convolution, in the model's order."""
    peers = [name for name in result["ways"] if name != "kiln"]
    lines = [f"{'kiln':>10}{'warm':>10}{'ratio':>7}" + "".join(f"{name:>13}" for name in peers) + "  ms of the convolution"]
    for row in result["nodes"]:
        ours, warm = row.get("kiln_ms"), row.get("warm_ms")
        ratio = f"{ours / warm:7.2f}" if ours and warm else f"{'-':>7}"
        lines.append(cell(ours) + cell(warm) + ratio + "".join(cell(row.get(f"{name}_ms"), 13) for name in peers)
                     + f"  {row['node']} {row['what']}".rstrip())
    return "\n".join(lines)


def row_of(result):
    """What the table has of a model: (cells, ...)."""
    ours = result["ways"]["kiln"]
    peers = [(name, way) for name, way in result["ways"].items() if name != "kiln"]
    return [result["model"], str(ours["convolutions"]), f"{ours['ms']:.3f}", f"{ours['convolutions_ms']:.3f}", f"{ours['warm_ms']:.3f}",
            f"{ours['convolutions_ms'] / ours['warm_ms']:.2f}" if ours["warm_ms"] else "-",
            *(text for _, way in peers for text in (f"{way['ms']:.3f}", f"{way['convolutions_ms']:.3f}"))]


def head_of(results):
    peers = [name for name in results[0]["ways"] if name != "kiln"]
    return ["model", "convolutions", "ms", "convolutions' ms", "warm", "ratio",
            *(text for name in peers for text in (name, "convolutions'"))]


def text_of(results):
    lines = [head_of(results), *map(row_of, results)]
    widths = [max(len(line[place]) for line in lines if place < len(line)) for place in range(len(lines[0]))]
    told = [f"one thread of {results[0]['processor']}, each in turn; ms of a whole call, of its convolutions in the model's order, and "
            "of the same, each run again and again (warm)"]
    told += ["  ".join(text.rjust(width) if place else text.ljust(width) for place, (text, width) in enumerate(zip(line, widths)))
             for line in lines]
    told += [f"{result['model']}: {name}: {why}" for result in results for name, why in result["failed"].items()]
    return "\n".join(told)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench", description="Times models' convolutions in the models' order.")
    parser.add_argument("models", metavar="MODEL", nargs="+", help="an ONNX model")
    parser.add_argument("--in-order", action="store_true", required=True)
    network.add_options(parser, PEERS)
    parser.add_argument("--calls", type=int, default=5, help="in a round of which the nodes' times are taken")
    return network.parse_options(parser, PEERS, " whose nodes are timed")


def main():
    arguments = parse_arguments()
    try:
        missing = suite.install(arguments.peers, "networks") if arguments.peers else {}
        results = []
        for path in arguments.models:
            result = measured(path, arguments, missing)
            if result:
                results.append(result)
                print(text_of_nodes(result), flush=True)
        if results:
            print(text_of(results))
        if results and arguments.json:
            suite.write_json(arguments.json, results)
    except (suite.BenchError, ModelError, Gone, OSError, subprocess.CalledProcessError) as error:
        suite.say(f"bench: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
