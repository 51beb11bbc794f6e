"""Networks of several sizes as one: what they have in common is there once."""

import hashlib
import json
import os

from names import Names


class Merged:
    """Grows by the answer about each combination of sizes, and makes one answer of all."""

    def __init__(self):
        self.files = {}  # by what they hold
        self.first_files = {}  # by path: the first file that holds the same
        self.layers = {}  # by all of a layer's table but its name and source: the table, and the sizes that it is met at
        self.notes, self.failures, self.networks, self.first = {}, [], [], None
        self.sizes = []  # of each network, by fields

    def add(self, answer, sizes):
        """`sizes` are {name: value} of those sizes that have several values."""
        network, at = answer["network"], sizes_text(sizes)
        self.sizes.append(dict(zip(network["size_fields"], sizes.values())))
        for tensor in network["tensors"]:
            if tensor["constant"]:
                tensor["constant"] = self.file(tensor["constant"])
        keys = {}
        for table in answer["layers"]:
            for key in ("weights", "bias_values"):
                if key in table:
                    table[key] = self.file(table[key])
            own = json.dumps({key: value for key, value in table.items() if key not in ("name", "source")}, sort_keys=True)
            keys[table["name"]] = own
            self.layers.setdefault(own, (table, []))[1].append(self.sizes[-1])
        for step in network["steps"]:
            if "layer" in step:
                step["layer"] = keys[step["layer"]]
        for failure in network["failures"]:
            failure["message"] += f" (at {at})" if at else ""
        for note in answer["notes"]:
            self.notes.setdefault(note, []).append(at)
        self.failures += [failure for failure in answer["failures"] if failure not in self.failures]
        self.networks.append({"sizes": sizes, **network})
        self.first = self.first or answer

    def file(self, path):
        """The first file that holds the same; a later one is not kept. Several layers may name one."""
        if path not in self.first_files:
            with open(path, "rb") as file:
                first = self.files.setdefault(hashlib.sha256(file.read()).digest(), path)
            if first != path:
                os.remove(path)
            self.first_files[path] = first
        return self.first_files[path]

    def answer(self, sizes):
        """`sizes` are {name: values} of those of several values."""
        names = self.layer_names()
        steps = [step for network in self.networks for step in network["steps"] if "layer" in step]
        used = {step["layer"] for step in steps}
        for step in steps:
            step["layer"] = names[step["layer"]]
        fields = self.first["network"]["size_fields"]
        return {"name": self.first["name"], "convolutions": self.first["convolutions"], "failures": self.failures,
                "layers": [{**table, "name": names[key]} for key, (table, _) in self.layers.items() if key in used],
                "notes": [note if len(ats) == len(self.networks) else f"at {'; '.join(ats)}: {note}"
                          for note, ats in self.notes.items()],
                "sizes": [{"name": name, "field": field, "values": values} for (name, values), field in zip(sizes.items(), fields)],
                "networks": self.networks}

    def layer_names(self):
        """A layer has its own name where it is the same at all sizes, else one that says the sizes that all who use it have, or
        the first has."""
        counts = {}
        for table, _ in self.layers.values():
            counts[table["name"]] = counts.get(table["name"], 0) + 1
        names, own = {}, Names()
        own.taken.update(f"{what}{suffix}" for what in ("run", "run_kept", "run_traced", "call", "network", "arena_bytes")
                         for suffix in ("", *(suffix_of(each) for each in self.sizes)))
        for key, (table, sizes) in self.layers.items():
            name = table["name"]
            if counts[name] > 1:
                common = dict(set(sizes[0].items()).intersection(*(other.items() for other in sizes[1:])))
                name += suffix_of({field: value for field, value in sizes[0].items() if field in (common or sizes[0])})
            names[key] = own.unique(name)
        return names


def suffix_of(sizes):
    """Of names at these sizes of fields: "_width160_batch1"."""
    return "".join(f"_{field}{'_' if field[-1].isdigit() else ''}{value}" for field, value in sizes.items())


def sizes_text(sizes):
    return ", ".join(f"{name}={value}" for name, value in sizes.items())
