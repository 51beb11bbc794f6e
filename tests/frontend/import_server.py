"""Runs tools/onnx_import for each line of stdin, the JSON of its arguments, and answers with the JSON of {"status", "stdout",
"stderr"}. Each run is a process of its own, forked from this one, which has loaded what the program does: that takes most of
its time where models are small.

    import_server.py FOLDER_OF_THE_PROGRAM
"""

import importlib.util
import json
import os
import sys
import tempfile
import traceback


def load(folder):
    sys.path[0] = folder  # as of a program that is a folder
    spec = importlib.util.spec_from_file_location("program", os.path.join(folder, "__main__.py"))
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


def run(program, arguments, out, err):
    """In a child: never returns."""
    status = 1
    try:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.argv = arguments
        status = program.main()
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status or 0)


def main():
    program = load(sys.argv[1])
    for line in sys.stdin:
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            child = os.fork()
            if child == 0:
                run(program, [sys.argv[1], *json.loads(line)], out, err)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            out.seek(0)
            err.seek(0)
            print(json.dumps({"status": status, "stdout": out.read(), "stderr": err.read()}), flush=True)


if __name__ == "__main__":
    main()
