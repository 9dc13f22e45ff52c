"""Sample sort by regular sampling (Shi and Schaeffer 1992): sort, sample, split, exchange, merge.

Two boundaries: samples to all, then every key to its owner.  H <= p^2 + 2n/p words, balanced to a factor
of two whatever the keys are.  Run as: bsprun -p 8 examples/sample_sort.py [keys per process]
"""

import sys
from itertools import pairwise

import numpy as np

import bsp

proc = bsp.process()
p, count = proc.nprocs, int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
keys = np.sort(proc.rng.integers(0, 1_000_000, count + 7 * proc.pid))  # ragged on purpose

samples = keys[np.linspace(0, keys.size - 1, p).astype(int)]
every = np.sort(np.concatenate(proc.allgather(samples)))
splitters = every[np.arange(1, p) * p + p // 2 - 1]

counts = np.diff(np.concatenate([[0], np.searchsorted(keys, splitters, side="right"), [keys.size]]))
received, _ = proc.total_exchange(keys, counts)
mine = np.sort(received, kind="stable")

total, checksum = proc.allreduce(np.array([keys.size, keys.sum()]))
total_after, checksum_after = proc.allreduce(np.array([mine.size, mine.sum()]))
edges = proc.allgather((int(mine[0]), int(mine[-1])) if mine.size else None)
ranges = [edge for edge in edges if edge is not None]
if (total, checksum) != (total_after, checksum_after):
    sys.exit("keys were lost")
if any(low[1] > high[0] for low, high in pairwise(ranges)):
    sys.exit("not in order")
largest = proc.allreduce(mine.size, op="max")
if proc.pid == 0:
    print(f"{total} keys in order on {p} processes, at most {largest} on one")
