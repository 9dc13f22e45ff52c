"""Collectives on several hosts beside MPI's own, in one job: medians of seconds, as JSON."""

import json
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np
from mpi4py import MPI

import bsp

proc, comm = bsp.process(), MPI.COMM_WORLD
WORDS, REPEAT = int(sys.argv[1]), int(sys.argv[2])
share = WORDS // proc.nprocs

values = np.random.default_rng(proc.pid).standard_normal(WORDS)
rows = values[: share * proc.nprocs].reshape(proc.nprocs, share)
reduced, received = np.empty_like(values), np.empty_like(rows)

CALLS: dict[str, Callable[[], object]] = {
    "allreduce": lambda: proc.allreduce(values),
    "allreduce by MPI": lambda: comm.Allreduce(values, reduced),
    "total exchange": lambda: proc.total_exchange(rows),
    "total exchange by MPI": lambda: comm.Alltoall(rows, received),
}
times: dict[str, list[float]] = {name: [] for name in CALLS}
for _ in range(REPEAT):
    for name, call in CALLS.items():
        comm.Barrier()
        began = perf_counter()
        call()
        times[name].append(proc.allreduce(perf_counter() - began, op="max"))
proc.allreduce(values)
plan = str(proc.plan())
if proc.pid == 0:
    print(json.dumps({name: median(each[1:]) for name, each in times.items()} | {"plan": plan}))
