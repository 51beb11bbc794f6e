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


# What C and C++ keep for themselves, and what a network's struct of arguments has besides its tensors.
RESERVED = set("""
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const const_cast consteval
    constexpr constinit continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int int8_t int16_t int32_t int64_t long mutable namespace new noexcept
    not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict return short
    signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid
    typename uint8_t uint16_t uint32_t uint64_t union unsigned using virtual void volatile wchar_t while xor xor_eq NULL
    args arena code context features packed_weights threads workers""".split())


class Fields:
    """Makes names of a model fields of a struct, each once."""

    def __init__(self):
        self.taken = set()

    def unique(self, original, prefix):
        base = to_identifier(original, prefix)[:60].rstrip("_") or prefix
        name, count = base, 1
        while name in self.taken or name in RESERVED:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        return name
