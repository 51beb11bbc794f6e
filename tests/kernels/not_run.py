"""Stands in for an emulator where there is none, as a kiln run's --runner: each request is answered that it was not run.

    not_run.py PROGRAM run REQUESTS
"""

import sys

MESSAGE = "compiled and linked, not run"

if __name__ == "__main__":
    if sys.argv[2:3] != ["run"]:
        sys.exit("not_run.py: only requests of kiln run are answered")
    with open(sys.argv[3], encoding="utf-8") as requests:
        for line in requests:
            print("error", line.split("\t")[0], "unsupported", MESSAGE, sep="\t")
    sys.exit(1)
