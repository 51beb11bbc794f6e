"""Makes the C that emx-onnx-cgen writes fit a network: no heap, no names of its own, little stack, one signature."""

import re

from terms import NodeError

# Bytes of C's types, as emx-onnx-cgen uses them.
SIZES = {"bool": 1, "_Bool": 1, "char": 1, "int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "_Float16": 2,
         "int32_t": 4, "uint32_t": 4, "int": 4, "idx_t": 4, "float": 4, "int64_t": 8, "uint64_t": 8, "double": 8, "size_t": 8}
ALIGNMENT = 64
# Larger arrays of functions become scratch: a stack may have a few KiB in all.
MOST_STACK_BYTES = 256
SEQUENCE_ITEMS = 32  # what emx-onnx-cgen's code takes a sequence to hold at most
TYPES = "|".join(SIZES)
LOCAL_ARRAY = re.compile(rf"^(\s+)(static |)({TYPES}) (\w+)((?:\[\d+\])+);$", re.M)
ALLOCATION = re.compile(rf"^    ({TYPES}) (?:\*(\w+)|\(\*(\w+)\)((?:\[\d+\])+)) = malloc\(sizeof\(\*\w+\) \* (\d+)\);\n"
                        r"    if \(\w+ == NULL\) \{\n\s+return;\n\s+\}\n", re.M)
FUNCTION = re.compile(r"^((?:EMX_NODE_FN|static|inline|_Bool|[\w ])+?[ *])(\w+)\(", re.M)
WEIGHT = re.compile(r"^const EMX_UNUSED ", re.M)


class Source:
    """C of one model, whose function was called `entry`, as a part of a network: the functions' names begin with `name`,
    which is also the only one that others see; `scratch_bytes` is the workspace that it wants."""

    def __init__(self, text, entry, name, inputs, outputs):
        """`inputs` and `outputs` are how many tensors it reads and makes. Raises NodeError where its form is not known."""
        self.entry, self.name = entry, name
        text = re.sub(r"^extern .*;\n", "", text, flags=re.M)
        text = WEIGHT.sub("static const EMX_UNUSED ", text).replace("[EMX_SEQUENCE_MAX_LEN]", f"[{SEQUENCE_ITEMS}]")
        head, *functions = split(text)
        self.functions = {function_name(text): text for text in functions}
        if f"{entry}_load" in self.functions:
            del self.functions[f"{entry}_load"]
        if entry not in self.functions or len(arguments(self.functions[entry])) != inputs + outputs:
            raise NodeError("its C has another signature than its tensors", "unsupported")
        self.scratch_bytes = self.place_temporaries()
        self.scratch_bytes += self.place_local_arrays()
        self.head = head
        self.check()
        self.text = self.finished(inputs, outputs)

    def place_temporaries(self):
        """Puts what the entry takes from a heap into the workspace, what is not needed at once at one place."""
        body = self.functions[self.entry]
        found = [(match[2] or match[3], match[1], match[4] or "", size_of(match[1], f"[{match[5]}]{match[4] or ''}"))
                 for match in ALLOCATION.finditer(body)]
        body = re.sub(r"^    free\(\w+\);\n", "", ALLOCATION.sub("", body), flags=re.M)
        lines = body.splitlines()
        lives = {name: [place for place, line in enumerate(lines) if re.search(rf"\b{name}\b", line)] for name, *_ in found}
        offsets, total = place({name: (lives[name][0], lives[name][-1], size) for name, _, _, size in found if lives[name]})
        declarations = "".join(f"    {kind} (*{name}){inner} = (void *)(kiln_scratch + {offsets[name]});\n" if inner else
                               f"    {kind} *{name} = (void *)(kiln_scratch + {offsets[name]});\n"
                               for name, kind, inner, _ in found if name in offsets)
        opening = body.index("{\n") + 2
        self.functions[self.entry] = body[:opening] + declarations + body[opening:]
        return total

    def place_local_arrays(self):
        """Puts large arrays of the functions that the entry calls, and its own, behind its temporaries."""
        base, most = self.scratch_bytes, 0
        own = self.hoisted(self.entry, base)
        base += own
        for name in list(self.functions):
            if name == self.entry or not re.search(rf"^    {name}\(", self.functions[self.entry], re.M):
                continue
            if bytes_taken := self.hoisted(name, 0):
                self.functions[name] = self.functions[name].replace(f"{name}(", f"{name}(unsigned char *kiln_scratch, ", 1)
                self.functions[self.entry] = re.sub(rf"^    {name}\(", f"    {name}(kiln_scratch + {base}, ",
                                                    self.functions[self.entry], flags=re.M)
                most = max(most, bytes_taken)
        return own + most

    def hoisted(self, function, base):
        """Makes pointers into the scratch of a function's large arrays; how many bytes these take."""
        text, taken = self.functions[function], 0
        opening = text.index("{\n")
        signature, body = text[:opening], text[opening:]
        for match in list(LOCAL_ARRAY.finditer(body)):
            indent, static, kind, name, dims = match.groups()
            size = size_of(kind, dims)
            if size <= MOST_STACK_BYTES and not static:
                continue
            if len(re.findall(rf"\b(?:{TYPES}) {name}\b", body)) > 1 or re.search(rf"\b{name}\b", signature):
                if size > MOST_STACK_BYTES * 16 or static:
                    raise NodeError(f"its C has {size} bytes on the stack under a name that it uses twice", "unsupported")
                continue
            body = re.sub(rf"\b{name}\b", f"(*{name})", body)
            body = body.replace(f"{indent}{static}{kind} (*{name}){dims};",
                                f"{indent}{kind} (*{name}){dims} = (void *)(kiln_scratch + {base + taken});")
            taken += -(-size // ALIGNMENT) * ALIGNMENT
        self.functions[function] = signature + body
        return taken

    def check(self):
        """Raises NodeError where the code would still need a heap or keep something between two calls."""
        text = "\n".join(self.functions.values())
        if re.search(r"\b(malloc|calloc|realloc|free|alloca)\(", text):
            raise NodeError("its C takes memory from a heap", "unsupported")
        kept = [line.strip() for line in (self.head + text).splitlines()
                if re.match(r"\s*static (?!inline\b|const\b)", line) and not FUNCTION.match(line.strip())]
        if kept:
            raise NodeError(f'its C keeps state between calls: "{kept[0]}"', "unsupported")
        if re.search(rf"^\s+(?:{TYPES}) \w+(\[\w+\])*\[[A-Za-z]\w*\]", text, re.M):
            raise NodeError("its C has arrays whose size is known when it runs", "unsupported")

    def finished(self, inputs, outputs):
        """All of it, with names of its own, and behind it the function that others call."""
        text = self.head + "".join(self.functions.values())
        own = {*self.functions, *re.findall(r"^static const EMX_UNUSED \w+ (\w+)\[", self.head, re.M)}
        text = re.sub(r"\b\w+\b", lambda word: f"{self.name}_{word[0]}" if word[0] in own else word[0], text)
        entry = f"{self.name}_{self.entry}"
        text = re.sub(rf"^void {entry}\(", f"static void {entry}(unsigned char *kiln_scratch, ", text, flags=re.M)
        names = [*(f"in{place}" for place in range(inputs)), *(f"out{place}" for place in range(outputs))]
        tensors = [("const " if name.startswith("in") else "") + f"void *{name}" for name in names]
        function = f"int32_t {self.name}({', '.join(tensors)}, void *workspace, const void *threads)"
        return text + "\n".join(["", f"{function};", f"{function} {{", "    (void)threads;",
                                 f"    {entry}((unsigned char *)workspace, {', '.join(names)});", "    return 0;", "}", ""])


def split(text):
    """What stands in front of the first function, then each function."""
    starts = [match.start() for match in FUNCTION.finditer(text) if is_definition(text, match)]
    if not starts:
        raise NodeError("its C has no function", "unsupported")
    return [text[:starts[0]], *(text[start:end] for start, end in zip(starts, [*starts[1:], len(text)]))]


def is_definition(text, match):
    """Whether what looks like a function is the beginning of one's definition."""
    opening, semicolon = text.find("{", match.end()), text.find(";", match.end())
    return opening >= 0 and (semicolon < 0 or opening < semicolon) and not match[0].startswith("#")


def function_name(text):
    return FUNCTION.match(text)[2]


def arguments(text):
    """The parameters of a function's text; void is none."""
    inside = text[text.index("(") + 1:text.index("{")].rsplit(")", 1)[0]
    parts, depth, part = [], 0, ""
    for letter in inside:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [part.strip() for part in [*parts, part] if part.strip() not in ("", "void")]


def size_of(kind, dims):
    size = SIZES[kind]
    for count in re.findall(r"\d+", dims):
        size *= int(count)
    return size


def place(lives):
    """Offsets of {name: (first line, last line, bytes)}, first fit, and how many bytes that takes."""
    offsets, total, placed = {}, 0, []
    for name, (first, last, size) in sorted(lives.items(), key=lambda item: -item[1][2]):
        size = max(-(-size // ALIGNMENT), 1) * ALIGNMENT
        offset = 0
        for begin, end, start, stop in sorted(placed):
            if start <= last and first <= stop and offset + size > begin:
                offset = max(offset, end)
        placed.append((offset, offset + size, first, last))
        offsets[name], total = offset, max(total, offset + size)
    return offsets, total
