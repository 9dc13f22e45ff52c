"""Heat in a rod: every process owns a piece, and puts its two outer values into its neighbours' borders.

Run as: bsprun -p 4 rod_by_puts.py
"""

import sys

import numpy as np

import bsp

CELLS, STEPS = 1000, 200

proc = bsp.process()
first, last = (CELLS * k // proc.nprocs for k in (proc.pid, proc.pid + 1))

wave = np.sin(np.pi * np.arange(CELLS + 2) / (CELLS + 1))  # the rod, and its two ends, which stay cold
rod = proc.coarray(last - first + 2)  # my piece, with one border cell on each side
rod.local = wave[first : last + 2]

for _ in range(STEPS):
    if proc.pid > 0:
        rod.put(proc.pid - 1, rod.local[1], at=-1)
    if proc.pid < proc.nprocs - 1:
        rod.put(proc.pid + 1, rod.local[-2], at=0)
    proc.sync(label="borders")
    rod.local[1:-1] = (rod.local[:-2] + rod.local[2:]) / 2

hottest = proc.allreduce(float(rod.local[1:-1].max()), op="max")
expected = wave.max() * np.cos(np.pi / (CELLS + 1)) ** STEPS  # what the theory says
if proc.pid == 0:
    print(f"after {STEPS} steps the hottest cell has {hottest:.6f}; expected {expected:.6f}")
if abs(hottest - expected) > 1e-9:
    sys.exit("the rod cools at the wrong rate")
