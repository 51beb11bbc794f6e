#!/usr/bin/env python3
"""A runner for kiln tune: puts times that follow from a candidate's own schedule in place of those that it took, at each size that
it is timed at."""

import hashlib
import json
import math
import subprocess
import sys

rounds = int(sys.argv[sys.argv.index("--rounds") + 1])
program = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
for line in program.stdout:
    said = json.loads(line)
    if "begin" in said:
        schedule = said["algorithm"] + said["schedule"]
    if said.get("verdict") == "ok":
        times = []
        for size in range(len(said.get("sizes", [None]))):
            digest = hashlib.sha256((schedule + "/" * size).encode()).hexdigest()
            times.append(1e-3 if said["kernel"] == 0 else 0.7e-3 + 0.6e-3 * int(digest[:8], 16) / 2**32)
        said["seconds"] = [math.prod(times) ** (1 / len(times))] * rounds
        said["beside"] = [[1e-3] * rounds for _ in said["beside"]]
        if "sizes" in said:
            said["sizes"] = [[seconds, seconds / 1e-3] for seconds in times]
    print(json.dumps(said), flush=True)
sys.exit(program.wait())
