"""Both sides of every speed claim, in one job: this library and mpi4py + NumPy by hand, taking turns.

Run by `tests/benchmarks/run.py` as a BSP program of p processes on 2 elements.  Each figure is a ratio of
two times taken in the same round, one right after the other; the report gives medians and quartiles.
"""

import gc
import json
import sys
import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

import bsp

proc = bsp.process()
comm = MPI.COMM_WORLD
first_here = proc.nprocs == comm.size or proc.pid in (0, proc.nprocs // 2)
other = 1 - comm.rank
ROUNDS = 15


def seconds(work: Callable[[], object], repeat: int) -> float:
    """The time of one call, the ranks starting together."""
    comm.Barrier()
    began = time.perf_counter()
    for _ in range(repeat):
        work()
    return (time.perf_counter() - began) / repeat


def compare(ours: Callable[[], object], theirs: Callable[[], object], repeat: int) -> dict[str, list[float]]:
    """`ROUNDS` times both, in alternating order; the slower rank's time counts."""
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    ours(), theirs()
    gc.collect()
    gc.disable()
    for k in range(ROUNDS):
        for name, work in sorted({"ours": ours, "theirs": theirs}.items(), reverse=bool(k % 2)):
            times[name].append(comm.allreduce(seconds(work, repeat), MPI.MAX))
    gc.enable()
    return times


def empty() -> dict[str, list[float]]:
    """An empty superstep against `Alltoall` of counts and an empty `Alltoallv`."""
    counts, back = np.zeros(comm.size, "i4"), np.zeros(comm.size, "i4")
    nothing, none = np.empty(0), [0] * comm.size

    def theirs() -> None:
        comm.Alltoall(counts, back)
        comm.Alltoallv([nothing, (none, none), MPI.DOUBLE], [nothing, (none, none), MPI.DOUBLE])

    return compare(proc.sync, theirs, 2000)


def word() -> dict[str, list[float]]:
    """A put of a word each way and a boundary, against Isend and Irecv of the word."""
    x = proc.coarray(1)
    value, target = np.ones(1), np.empty(1)
    proc.sync()

    def ours() -> None:
        x.put(other, value)
        proc.sync()

    def theirs() -> None:
        MPI.Request.Waitall([comm.Irecv(target, other), comm.Isend(value, other)])

    return compare(ours, theirs, 2000)


def column() -> dict[str, list[float]]:
    """A column of a block put into the border of the other, each way, against Isend and Irecv of copies."""
    x = proc.coarray((102, 102))
    inner = slice(1, -1)
    out, into, border = np.empty(100), np.empty(100), np.zeros((102, 102))
    proc.sync()
    block = x.local

    def ours() -> None:
        x.put(other, block[inner, 1], at=(inner, -1))
        proc.sync()

    def theirs() -> None:
        out[:] = block[inner, 1]
        MPI.Request.Waitall([comm.Irecv(into, other), comm.Isend(out, other)])
        border[inner, -1] = into

    return compare(ours, theirs, 2000)


def added() -> dict[str, list[float]]:
    """A put of 100 numbers that are added, each way, against Isend and Irecv of copies, and an addition."""
    x, values = proc.coarray(100), np.ones(100)
    out, into, total = np.empty(100), np.empty(100), np.zeros(100)
    proc.sync()

    def ours() -> None:
        x.put(other, values, op="add")
        proc.sync()

    def theirs() -> None:
        out[:] = values
        MPI.Request.Waitall([comm.Irecv(into, other), comm.Isend(out, other)])
        np.add(total, into, out=total)

    return compare(ours, theirs, 2000)


def number() -> dict[str, list[float]]:
    """An allreduce of a Python number against mpi4py's for Python objects."""
    return compare(lambda: proc.allreduce(1.0), lambda: comm.allreduce(1.0), 2000)


def scalar() -> dict[str, list[float]]:
    """An allreduce of a NumPy scalar, as a sum gives it, against mpi4py's for Python objects."""
    value = np.ones(3).sum()
    return compare(lambda: proc.allreduce(value), lambda: comm.allreduce(value), 2000)


def few() -> dict[str, list[float]]:
    """An allreduce of three numbers against Allreduce into an array that is there."""
    values, total = np.ones(3), np.empty(3)
    return compare(lambda: proc.allreduce(values), lambda: comm.Allreduce(values, total), 2000)


def message() -> dict[str, list[float]]:
    """A message of a tuple each way against mpi4py's for Python objects."""
    value = ("step", 1, 0.5)

    def ours() -> None:
        proc.send(other, value)
        proc.sync()
        assert proc.inbox[0].payload == value

    def theirs() -> None:
        request = comm.isend(value, other)
        assert comm.recv(source=other) == value
        request.wait()

    return compare(ours, theirs, 2000)


def get() -> dict[str, list[float]]:
    """A get of a word each way against a request and a reply by Isend and Irecv."""
    x = proc.coarray(8)
    asked, told, sent, got = np.zeros(1, int), np.empty(1, int), np.empty(1), np.empty(1)
    proc.sync()

    def ours() -> None:
        pending = x.get(other, 3)
        proc.sync()
        assert pending.value == 0

    def theirs() -> None:
        MPI.Request.Waitall([comm.Irecv(told, other), comm.Isend(asked, other)])
        sent[0] = x.local[told[0]]
        MPI.Request.Waitall([comm.Irecv(got, other), comm.Isend(sent, other)])
        assert got[0] == 0

    return compare(ours, theirs, 500)


def vector(words: int) -> dict[str, list[float]]:
    """An allreduce of an array against Allreduce into an array that is there."""
    values, total = np.ones(words), np.empty(words)
    return compare(lambda: proc.allreduce(values), lambda: comm.Allreduce(values, total), 20)


def both_ways(mebibytes: int, buffered: bool) -> dict[str, list[float]]:
    """A put of one block each way against Isend and Irecv of the same blocks."""
    words = mebibytes << 17
    x = proc.coarray(words)
    values, target = np.ones(words), np.empty(words)
    proc.sync()

    def ours() -> None:
        x.put(other, values, buffered=buffered)
        proc.sync()

    def theirs() -> None:
        MPI.Request.Waitall([comm.Irecv(target, other), comm.Isend(values, other)])

    times = compare(ours, theirs, max(1, 64 // mebibytes))
    assert (x.local == 1).all()
    return times


def block(mebibytes: int, buffered: bool) -> dict[str, list[float]]:
    """A put of one block from process 0 to 1 against Isend and Irecv of the same block."""
    words = mebibytes << 17
    x = proc.coarray(words)
    values, target = np.ones(words), np.empty(words)
    proc.sync()

    def ours() -> None:
        if proc.pid == 0:
            x.put(1, values, buffered=buffered)
        proc.sync()

    def theirs() -> None:
        request = comm.Isend(values, other) if comm.rank == 0 else comm.Irecv(target, other)
        request.Wait()

    times = compare(ours, theirs, max(1, 64 // mebibytes))
    assert proc.pid == 0 or (x.local == 1).all()
    return times


def random_puts() -> dict[str, list[float]]:
    """A million puts to random places against a mask per process, int32 positions and two Alltoallv."""
    count = 1_000_000
    x = proc.coarray(count)
    rng = np.random.default_rng(proc.pid)
    dests, at, values = rng.integers(0, 2, count), rng.integers(0, count, count), rng.random(count)
    local = np.zeros(count)
    proc.sync()

    def ours() -> None:
        x.put_each(dests, at, values)
        proc.sync()

    def theirs() -> None:
        chosen = [np.flatnonzero(dests == dest) for dest in range(comm.size)]
        positions = np.concatenate([at[items] for items in chosen]).astype(np.int32)
        data = np.concatenate([values[items] for items in chosen])
        counts = np.array([items.size for items in chosen], np.int32)
        back = np.empty_like(counts)
        comm.Alltoall(counts, back)
        where, what = np.empty(back.sum(), np.int32), np.empty(back.sum())
        comm.Alltoallv([positions, counts], [where, back])
        comm.Alltoallv([data, counts], [what, back])
        local[where] = what

    times = compare(ours, theirs, 1)
    assert (x.local == local).all()
    return times


def scalar_puts() -> dict[str, list[float]]:
    """Ten thousand puts of a float in a loop against as many interleaved isend and recv."""
    count = 10_000
    x = proc.coarray(count)
    proc.sync()

    def ours() -> None:
        for k in range(count):
            x.put(other, 1.5, at=k)
        proc.sync()

    def theirs() -> None:
        for _ in range(count):
            request = comm.isend(1.5, other)
            comm.recv(source=other)
            request.wait()

    return compare(ours, theirs, 1)


def many_processes() -> dict[str, list[float]]:
    """The time of an empty superstep with all p processes, in seconds; nothing beside it."""
    times = []
    for _ in range(ROUNDS):
        proc.sync()
        began = time.perf_counter()
        for _ in range(200):
            proc.sync()
        times.append((time.perf_counter() - began) / 200)
    return {"ours": times, "theirs": []}


WORKS = {
    "empty": empty,
    "word": word,
    "column": column,
    "added": added,
    "number": number,
    "scalar": scalar,
    "few": few,
    "message": message,
    "get": get,
    "vector": lambda: vector(1_000_000),
    "both 1 MiB": lambda: both_ways(1, False),
    "both 4 MiB": lambda: both_ways(4, False),
    "both buffered 1 MiB": lambda: both_ways(1, True),
    "both buffered 4 MiB": lambda: both_ways(4, True),
    "put 1 MiB": lambda: block(1, False),
    "put 16 MiB": lambda: block(16, False),
    "buffered 1 MiB": lambda: block(1, True),
    "buffered 16 MiB": lambda: block(16, True),
    "put_each": random_puts,
    "scalar puts": scalar_puts,
    "many": many_processes,
}

if __name__ == "__main__":
    measured = {name: WORKS[name]() for name in sys.argv[1:]}
    if proc.pid == 0:
        print(json.dumps(measured))
