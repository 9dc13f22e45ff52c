"""Heat in a rod, as one distributed array: neighbours are slices, and the library finds out what has to move.

Run as: bsprun -p 4 rod_by_slices.py [cells]
"""

import sys

import numpy as np

import bsp
import bsp.arrays as ba

CELLS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
STEPS = 200

proc = bsp.process()
cells = ba.arange(CELLS + 2, dtype=float, grid=(proc.nprocs,))  # as many blocks as processes
rod = ba.sin(np.pi * cells / (CELLS + 1))
start = rod.max().compute()
for _ in range(STEPS):
    before = rod
    rod = rod.copy()
    rod[1:-1] = (before[:-2] + before[2:]) / 2
    rod.persist()  # compute it, and leave it where it is

hottest = rod.max().compute()
expected = start * np.cos(np.pi / (CELLS + 1)) ** STEPS
if proc.pid == 0:
    print(f"after {STEPS} steps the hottest cell has {hottest:.6f}; expected {expected:.6f}")
if bsp.expect(abs(hottest - expected) > 1e-9, times=0):
    sys.exit("the rod cools at the wrong rate")
