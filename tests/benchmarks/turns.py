"""What contenders have in common: they do a work when told to, and say how long it took.

    <contender>.py FOLDER NAME

All contenders are there at once and take turns; those who wait sleep, so that they take no time from the one whose
turn it is.  A work of less than LEAST seconds is done several times in a turn, and the median counts: a machine that
has slept is slow at first.  The n-th work stands in FOLDER/<n>; its time (the slowest rank's), and numbers that show
that the answer is right, are written to FOLDER/<n>.<name>.  Data are float64 and the same for all.  Imported before
NumPy: it says how many threads a BLAS has.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

FOLDER, NAME = sys.argv[1:3]
WITH_TWO_THREADS = ("numpy", "sklearn", "glum")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "2" if NAME in WITH_TWO_THREADS else "1"

import numpy as np  # noqa: E402 - the number of threads is told before

LEAST, MOST = 0.05, 100
Answer = float | list[float]
Work = tuple[Callable[[], Any], Callable[[Any], Answer]]  # what is timed, and the answer in one number, or more


def vector(seed: int, size: int, start: int = 0, stop: int | None = None) -> np.ndarray:
    """Numbers in (0, 1) that do not depend on who makes which part: a hash of their place."""
    k = np.arange(start, size if stop is None else stop, dtype=np.uint64)
    k = (k + np.uint64(seed << 40)) * np.uint64(0x9E3779B97F4A7C15)
    k ^= k >> np.uint64(29)
    k *= np.uint64(0xBF58476D1CE4E5B9)
    k ^= k >> np.uint64(32)
    return (k >> np.uint64(11)) * (1.0 / (1 << 53))


def timed(work: Callable[[], Any], together: Callable[[], None]) -> tuple[float, Any]:
    """How long a work takes once all have come together, and its result."""
    together()
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def serve(
    made: dict[str, Callable[[], Work]], together: Callable[[], None], slowest: Callable[[float], float], first: bool
) -> None:
    """Works in the order of the files 1, 2, ... until one says quit."""
    ready: tuple[str, Work, int] | None = None
    for number in range(1, 1 << 30):
        path = os.path.join(FOLDER, str(number))
        while not os.path.exists(path):
            time.sleep(0.01)
        with open(path) as file:
            task = json.load(file)
        if task["who"] not in (NAME, "all"):
            continue
        if task["work"] == "quit":
            return
        found: dict[str, Any] = {"seconds": None}
        if task["work"] in made:
            if ready is None or ready[0] != task["work"]:
                ready = None  # the last work's data go first
                work, answer = made[task["work"]]()
                timed(work, together)  # once to warm up: the first of ours makes a plan
                took = slowest(timed(work, together)[0])
                ready = task["work"], (work, answer), max(1, min(MOST, int(LEAST / took)))
            _, (work, answer), times = ready
            each = []
            for _ in range(times):
                took, result = timed(work, together)
                each.append(took)
            found = {"seconds": slowest(statistics.median(each)), "answer": answer(result)}
            del result
        if first:
            with open(path + f".{NAME}.part", "w") as file:
                json.dump(found, file)
            os.replace(path + f".{NAME}.part", path + f".{NAME}")


def serve_alone(made: dict[str, Callable[[], Work]]) -> None:
    """In one process."""
    serve(made, lambda: None, lambda seconds: seconds, True)


def serve_ranks(made: dict[str, Callable[[], Work]]) -> None:
    """Under mpiexec."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    serve(made, world.Barrier, lambda seconds: world.allreduce(seconds, MPI.MAX), world.rank == 0)


def serve_processes(made: dict[str, Callable[[], Work]]) -> None:
    """Under bsprun."""
    import bsp

    proc = bsp.process()
    serve(made, proc.sync, lambda seconds: proc.allreduce(seconds, op="max"), proc.pid == 0)
