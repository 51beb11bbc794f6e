"""Compiled operations in a C program, for processors that this one is not: built by a cross compiler, run by an emulator."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import operation_runs

sys.path.append(str(Path(__file__).resolve().parents[1] / "kernels"))

import targets  # noqa: E402

HEAD = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
"""
MAIN = r"""
#define GUARD 64
static uint8_t *data;
static int failed(const uint8_t *out, long size) {
    for (int i = 1; i <= GUARD; i++) {
        if (out[-i] != 0xa5 || out[size + i - 1] != 0xa5) return 1;
    }
    return 0;
}
int main(int argc, char **argv) {
    FILE *file = fopen(argv[1], "rb"), *result = fopen(argv[2], "wb");
    data = aligned_alloc(64, DATA_BYTES);
    if (fread(data, 1, DATA_BYTES, file) != DATA_BYTES) return 2;
    for (int i = 0; i < CALLS; i++) {
        uint8_t *memory = aligned_alloc(64, (out_bytes[i] + 3 * GUARD) / 64 * 64), *out = memory + GUARD;
        void *workspace = aligned_alloc(64, workspace_bytes[i] / 64 * 64 + 64);
        memset(memory, 0xa5, out_bytes[i] + 2 * GUARD);
        int32_t code = call(i, out, workspace);
        if (code != 0 || failed(out, out_bytes[i])) {
            fprintf(stderr, "%d returned %d\n", i, code);
            return 1;
        }
        fwrite(out, 1, out_bytes[i], result);
        free(workspace);
        free(memory);
    }
    return fclose(result);
}
"""


def write_program(path, calls, facts):
    """`calls` are (text, arrays, dtype, shape); returns what their arrays are together, as the program reads it."""
    lines, cases, blob = [HEAD], [], bytearray()
    for text in dict.fromkeys(call[0] for call in calls):
        lines.append(f"int32_t {facts[text]['symbol']}();")
    for place, (text, arrays, _, _) in enumerate(calls):
        pointers = []
        for array in arrays:
            blob.extend(b"\0" * (-len(blob) % 64))
            pointers.append(f"data + {len(blob)}")
            blob.extend(array.tobytes())
        arguments = ", ".join([*(f"(const void *)({pointer})" for pointer in pointers), "out", "workspace", "(void *)0"])
        cases.append(f"        case {place}: return {facts[text]['symbol']}({arguments});")
    blob.extend(b"\0" * (64 + -len(blob) % 64))
    sizes = [int(np.prod(shape)) * np.dtype(dtype).itemsize for _, _, dtype, shape in calls]
    for name, numbers in (("out_bytes", sizes), ("workspace_bytes", [facts[call[0]]["workspace"] for call in calls])):
        lines.append(f"static const long {name}[] = {{{', '.join(map(str, numbers))}}};")
    lines.append(f"#define CALLS {len(calls)}\n#define DATA_BYTES {len(blob)}\nstatic uint8_t *data;")
    lines += ["static int32_t call(int i, void *out, void *workspace) {", "    switch (i) {", *cases, "    }", "    return 9;", "}"]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + MAIN)
    return bytes(blob)


def tools_for(target):
    """(compiler, emulator) of a target, the emulator empty for this processor; None where the machine lacks one."""
    row = targets.all_targets()[target]
    pair = (row["compiler"], row["emulator"]) if row["emulator"] else (os.environ.get("CC", "cc"), "")
    is_there = all(shutil.which(command) for tool in pair for command in tool.split()[:1])
    return pair if is_there and (pair[1] or row["runs_here"]) else None


def run(calls, target, folder):
    """Results of all calls on a target that there are tools for; raises where one is not compiled or fails."""
    compiler, emulator = tools_for(target)
    facts = operation_runs.compile_texts([call[0] for call in calls], folder, target)
    for answer in facts.values():
        if "error" in answer:
            raise RuntimeError(f"{answer['text']} for {target}: {answer['error']}")
    blob = write_program(os.path.join(folder, "main.c"), calls, facts)
    names = {name: os.path.join(folder, name) for name in ("main.c", "program", "inputs", "results")}
    with open(names["inputs"], "wb") as file:
        file.write(blob)
    runtime = os.path.join(operation_runs.ROOT, "runtime")
    objects = [os.path.join(folder, facts[text]["symbol"] + ".o") for text in dict.fromkeys(call[0] for call in calls)]
    subprocess.run([compiler, "-O1", "-static", "-std=gnu++17", "-I", os.path.join(runtime, "include"), "-o",
                    names["program"], os.path.join(runtime, "parallel_for.cpp"), "-x", "none", *objects,
                    "-x", "c", "-std=gnu11", names["main.c"]], check=True)
    subprocess.run([*emulator.split(), names["program"], names["inputs"], names["results"]], check=True)
    with open(names["results"], "rb") as file:
        bytes_ = file.read()
    results, at = [], 0
    for _, _, dtype, shape in calls:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        results.append(np.frombuffer(bytes_[at:at + size], dtype).reshape(shape))
        at += size
    return results
