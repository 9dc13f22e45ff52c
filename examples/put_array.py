"""A block-distributed array, permuted: element i goes to place perm[i] (the BSPlib paper's put_array).

The paper puts one element at a time; `put_each` takes all of a process's elements in one call.
One superstep, h <= 2n/p words.  Run as: bsprun -p 4 examples/put_array.py
"""

import sys

import numpy as np

import bsp

proc = bsp.process()
n = 1000
cuts = np.array([n * k // proc.nprocs for k in range(proc.nprocs + 1)])
first, last = cuts[proc.pid : proc.pid + 2]

# the same permutation everywhere: drawn by process 0
permutation = proc.broadcast(proc.rng.permutation(n) if proc.pid == 0 else None)
target = proc.coarray(last - first, dtype=int)

places = permutation[first:last]
owners = np.searchsorted(cuts, places, side="right") - 1
target.put_each(owners, places - cuts[owners], np.arange(first, last))
proc.sync()

if not np.array_equal(permutation[target.local], np.arange(first, last)):
    sys.exit("some element is not in its place")
if proc.pid == 0:
    print(f"{n} elements permuted over {proc.nprocs} processes")
