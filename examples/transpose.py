"""Transpose of a matrix dealt by rows: every process puts its columns' blocks into the others' rows.

One superstep, h = n^2 (p - 1) / p^2 words: the total exchange in its purest form.
Run as: bsprun -p 4 examples/transpose.py [n]
"""

import sys

import numpy as np

import bsp

proc = bsp.process()
n = int(sys.argv[1]) if len(sys.argv) > 1 else 500
cuts = [n * k // proc.nprocs for k in range(proc.nprocs + 1)]
first, last = cuts[proc.pid], cuts[proc.pid + 1]

a = np.arange(first, last)[:, None] * n + np.arange(n)  # my rows of the matrix a[i, j] = i n + j
t = proc.coarray((last - first, n), dtype=a.dtype)  # my rows of its transpose

for dest in range(proc.nprocs):
    t.put(dest, a[:, cuts[dest] : cuts[dest + 1]].T, at=(slice(None), slice(first, last)))
proc.sync(label="transpose")

wrong = np.any(t.local != np.arange(first, last)[:, None] + np.arange(n) * n)
if bsp.expect(wrong, times=0):
    sys.exit("not the transpose")
if proc.pid == 0:
    print(f"{n} x {n} transposed on {proc.nprocs} processes")
