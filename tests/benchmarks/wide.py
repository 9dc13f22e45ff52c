"""Supersteps of many processes on two elements, as a BSP program: medians of their times, in milliseconds.

Arguments: the rounds, and the works by name.  A round does a work several times, one after the other: process 0, whose
clock counts, is the first to come back from a superstep, when the others have yet to have their turn, but from the
last of many it comes back as late as from all.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import bsp

REPEAT = 20
proc = bsp.process()
x = proc.coarray(1)
value = np.ones(1)
proc.sync()


def put_to_the_neighbour() -> None:
    """A word for the next process."""
    x.put((proc.pid + 1) % proc.nprocs, value)
    proc.sync()


WORKS: dict[str, Callable[[], object]] = {
    "put": put_to_the_neighbour,
    "allreduce": lambda: proc.allreduce(1.0),
    "exscan": lambda: proc.exscan(1),
    "alltoall": lambda: proc.alltoall([1] * proc.nprocs),
}

if __name__ == "__main__":
    rounds, works = int(sys.argv[1]), sys.argv[2:]
    measured = {}
    for name in works:
        work = WORKS[name]
        times = []
        for _ in range(rounds + 1):  # the first warms up
            proc.sync()
            began = time.perf_counter()
            for _ in range(REPEAT):
                work()
            times.append((time.perf_counter() - began) / REPEAT)
        measured[name] = statistics.median(times[1:]) * 1e3
    if proc.pid == 0:
        print(json.dumps(measured))
