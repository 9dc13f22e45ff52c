"""What an element holds beyond the program's own arrays, in MiB.  Run by tests/benchmarks/run.py.

`peak` is the growth of the high-water mark of resident memory (VmHWM) while something is exchanged;
`unique` is the unique set size that psutil reports.
"""

import json
import sys
from collections.abc import Callable

import numpy as np
import psutil

import bsp

MIB = 1 << 20
proc = bsp.process()


def unique() -> float:
    """Memory that this operating-system process alone holds."""
    return float(psutil.Process().memory_full_info().uss) / MIB


def peak(work: Callable[[], None]) -> float:
    """How far `work` pushes the high-water mark above what is resident when it starts; the worst element's."""
    proc.sync()
    before = psutil.Process().memory_info().rss / MIB
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the high-water mark starts again from here
    work()
    with open("/proc/self/status") as file:
        high = next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))
    return float(proc.allreduce(high - before, op="max"))


def put(mebibytes: int, buffered: bool) -> float:
    """A put of one block from process 0 to the last."""
    x = proc.coarray(mebibytes * MIB // 8, fill=1)
    values = np.ones(mebibytes * MIB // 8)
    proc.sync()

    def work() -> None:
        if proc.pid == 0:
            x.put(proc.nprocs - 1, values, buffered=buffered)
        proc.sync()

    return peak(work)


def exchange(mebibytes: int, way: str) -> float:
    """Every element sends and receives `mebibytes` (one process an element)."""
    n = mebibytes * MIB // 8
    share = n // max(proc.nprocs - 1, 1)
    others = [pid for pid in range(proc.nprocs) if pid != proc.pid]
    x = proc.coarray(n + share, fill=1)
    values = np.ones(share)
    proc.sync()

    def work() -> None:
        for k, dest in enumerate(others):
            if way == "put":
                x.put(dest, values + k, at=slice(proc.pid * share, (proc.pid + 1) * share))
            else:
                proc.send(dest, values)
        proc.sync()
        _ = [message.payload.sum() for message in proc.inbox]

    return peak(work)


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    proc.sync()
    if kind == "idle":
        figure = unique()
    elif kind == "put":
        figure = put(int(arguments[0]), arguments[1] == "buffered")
    else:
        figure = exchange(int(arguments[0]), arguments[1])
    if proc.pid == 0:
        print(json.dumps(figure))
