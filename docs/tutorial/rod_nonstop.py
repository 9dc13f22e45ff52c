"""Heat in a rod, as a job that survives the loss of its elements: rounds, and a state.

Run as: bsprun -p 8 -n 2 --clones 2 --standby 1 rod_nonstop.py
"""

import sys

import numpy as np

import bsp
import bsp.arrays as ba

CELLS, STEPS = 1000, 200

proc = bsp.process()
cells = ba.arange(CELLS + 2, dtype=float, grid=(proc.nprocs,))
wave = ba.sin(np.pi * cells / (CELLS + 1))
start = wave.max().compute()
state = bsp.State(rod=wave.persist())  # all that a round needs of the one before
for k in proc.rounds(STEPS, state):  # each head of a round is a point of recovery
    rod = state.rod.copy()
    rod[1:-1] = (state.rod[:-2] + state.rod[2:]) / 2
    state.rod = rod.persist()
    if proc.pid == 0 and k % 50 == 0:
        print(f"step {k}", flush=True)

hottest = state.rod.max().compute()
expected = start * np.cos(np.pi / (CELLS + 1)) ** STEPS
if proc.pid == 0:
    print(f"after {STEPS} steps the hottest cell has {hottest:.6f}; expected {expected:.6f}")
if bsp.expect(abs(hottest - expected) > 1e-9, times=0):
    sys.exit("the rod cools at the wrong rate")
