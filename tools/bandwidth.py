"""The memory's bandwidth, the slope of a roofline."""

import os
import time

import numpy as np


def of_memory(cpu):
    """GB/s that one processor reads and writes when it copies more than its caches hold."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        source, target = (np.ones(32 << 20) for _ in range(2))  # 256 MiB each
        seconds = []
        for _ in range(4):
            begin = time.perf_counter()
            np.copyto(target, source)
            seconds.append(time.perf_counter() - begin)
        return 2 * source.nbytes / min(seconds) * 1e-9
    finally:
        os.sched_setaffinity(0, before)
