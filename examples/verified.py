"""Four SPMD functions that promise to compute what a sequential function does: bsp verify examples/verified.py

Each is checked for all small sizes and numbers of processes, with exact values; with --mutate, faults are put into
them, to see whether the checks would find these.
"""

import sys

import numpy as np

import bsp
from bsp import verify


@verify.spec(np.cumsum)
def running_sums(proc, x):
    """Each process sums its block, and adds what comes before."""
    before = proc.exscan(x.sum())
    return np.cumsum(x) if before is None else before + np.cumsum(x)


@verify.spec(lambda x: x[::-1])
def reversed_order(proc, x):
    """Block k of the reversed vector comes from the mirrored processes, element by element."""
    n, p, first = proc.allreduce(len(x)), proc.nprocs, proc.exscan(len(x)) or 0
    for k, value in enumerate(x):
        place = n - 1 - first - k
        proc.send((p * (place + 1) - 1) // n, value, tag=place)
    proc.sync()
    found = sorted(proc.inbox, key=lambda message: message.tag)
    return np.array([message.payload for message in found], x.dtype)


@verify.spec(lambda a: a.T, shapes=(("n", "m"),), sizes=range(5))
def transposed(proc, a):
    """Rows of blocks become columns of blocks: one total exchange."""
    p, columns = proc.nprocs, a.shape[1]
    cuts = [columns * k // p for k in range(p + 1)]
    parts = proc.alltoall([a[:, cuts[k] : cuts[k + 1]] for k in range(p)])
    return np.concatenate([part.T for part in parts], axis=1)


@verify.spec(lambda x, y: x @ y, collect=verify.Everywhere())
def inner_product(proc, x, y):
    """Every process sums its products, and all sums are summed everywhere."""
    return proc.allreduce((x * y).sum())


if __name__ == "__main__":
    proc = bsp.process()
    own = verify.Blocks().take(np.arange(10), proc.pid, proc.nprocs)
    total = inner_product(proc, own, own)
    if total != 285:
        sys.exit(f"the squares of 0 to 9 sum to 285, not to {total}")
    if proc.pid == 0:
        print(f"the squares of 0 to 9 sum to {total}")
