"""kiln verify of a layers file, or of this run's part of it (parts.py), each kernel by the algorithm that was decided:
verify_cases.py FILE --target NAME [OPTIONS]. It is not run for host where that is the AVX2 target, which has a test of its own."""

import os
import sys

import kiln_run
import parts
import targets

spec, target = sys.argv[1], sys.argv[sys.argv.index("--target") + 1]
targets.end_if_done_by_name(target, "x86-64-avx2")
command = [targets.kiln(), "verify", *sys.argv[1:], *parts.part_of_layers(spec), kiln_run.NO_FALLBACK]
os.execv(command[0], [str(word) for word in command])
