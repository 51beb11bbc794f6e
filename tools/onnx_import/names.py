"""Names of layers."""

import re


def to_identifier(text, prefix):
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)
    if not name.strip("_"):  # of another script
        return prefix
    return f"{prefix}_{name}" if not name or name[0].isdigit() else name


class Names:
    """Makes names C identifiers that stay different in a library's header: it adds to them and has them in capitals."""

    def __init__(self):
        self.taken = {"library", "pack_all"}  # what a header has besides
        self.counts = {}  # of names that were wanted again
        self.renamed, self.collided = [], []

    def _collides(self, name):
        lower = name.lower()
        return any(other in self.taken
                   for suffix in ("_pack", "_args")
                   for other in (lower, lower + suffix, lower.removesuffix(suffix)))

    def unique(self, original):
        base = to_identifier(original, "layer")
        name, count = base, self.counts.get(base, 1)
        while self._collides(name):
            count += 1
            name = f"{base}_{count}"
        self.counts[base] = count
        self.taken.add(name.lower())
        if name != base:
            self.collided.append((original, name))
        elif name != original:
            self.renamed.append((original, name))
        return name

    def notes(self):
        shown = ", ".join(f'"{original}" to {name}' for original, name in self.renamed[:3])
        if self.renamed:
            more = f" and {len(self.renamed) - 3} more likewise" if len(self.renamed) > 3 else ""
            yield f"renamed, to be C identifiers: {shown}{more}"
        for original, name in self.collided:
            yield f'renamed, because another layer has the name: "{original}" to {name}'
