"""Heat on a square plate: Jacobi sweeps of the five-point stencil on a 2-D grid of processes.

Each process owns a block and a border one cell wide.  A sweep is one superstep: every process puts its
edges into its neighbours' borders, then computes.  h = 4n/sqrt(p) words, W = 4 n^2 / p flops.
The plate starts in its slowest mode of decay, so the answer is known: every sweep multiplies it by
cos(pi / (n + 1)).  Run as: bsprun -p 4 examples/heat.py [n] [sweeps]
"""

import sys

import numpy as np

import bsp

proc = bsp.process()
n = int(sys.argv[1]) if len(sys.argv) > 1 else 96
sweeps = int(sys.argv[2]) if len(sys.argv) > 2 else 50

down = max(k for k in range(1, int(proc.nprocs**0.5) + 1) if proc.nprocs % k == 0)
across = proc.nprocs // down
row, column = divmod(proc.pid, across)
if down > n or across > n:
    sys.exit(f"a plate of {n} x {n} cells is too small for {down} x {across} processes")
top, bottom = n * row // down, n * (row + 1) // down
left, right = n * column // across, n * (column + 1) // across

plate = proc.coarray((bottom - top + 2, right - left + 2))
shape = np.sin(np.pi * np.arange(n + 2) / (n + 1))
mode = np.outer(shape[top : bottom + 2], shape[left : right + 2])
plate.local[1:-1, 1:-1] = mode[1:-1, 1:-1]

inner = slice(1, -1)
for _ in proc.rounds(sweeps):
    u = plate.local
    if row > 0:
        plate.put(proc.pid - across, u[1, inner], at=(-1, inner))
    if row < down - 1:
        plate.put(proc.pid + across, u[-2, inner], at=(0, inner))
    if column > 0:
        plate.put(proc.pid - 1, u[inner, 1], at=(inner, -1))
    if column < across - 1:
        plate.put(proc.pid + 1, u[inner, -2], at=(inner, 0))
    proc.sync(label="borders")
    u[inner, inner] = (u[:-2, inner] + u[2:, inner] + u[inner, :-2] + u[inner, 2:]) / 4

expected = mode[inner, inner] * np.cos(np.pi / (n + 1)) ** sweeps
error = proc.allreduce(np.max(np.abs(plate.local[inner, inner] - expected)), op="max")
if proc.pid == 0:
    print(f"{sweeps} sweeps of {n} x {n} cells on {down} x {across} processes: largest error {error:.1e}")
if bsp.expect(error > 1e-12, times=0):
    sys.exit("the plate cools at the wrong rate")
