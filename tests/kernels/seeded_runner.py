#!/usr/bin/env python3
"""A runner for kiln tune: puts times that follow from a candidate's own schedule in place of those that it took."""

import hashlib
import json
import subprocess
import sys

rounds = int(sys.argv[sys.argv.index("--rounds") + 1])
program = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
for line in program.stdout:
    said = json.loads(line)
    if "begin" in said:
        schedule = said["algorithm"] + said["schedule"]
    if said.get("verdict") == "ok":
        share = int(hashlib.sha256(schedule.encode()).hexdigest()[:8], 16) / 2**32
        seconds = 1e-3 if said["kernel"] == 0 else 0.7e-3 + 0.6e-3 * share
        said["seconds"] = [seconds] * rounds
        said["beside"] = [[1e-3] * rounds for _ in said["beside"]]
    print(json.dumps(said), flush=True)
sys.exit(program.wait())
