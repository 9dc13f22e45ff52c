"""Rounds of a given length with much in their State, of which each round changes a little; process 0 says each one.

Run as: bsprun ... nonstop_state.py ROUNDS SECONDS MEGABYTES
"""

import sys
import time

import numpy as np

import bsp

rounds, seconds, megabytes = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
proc = bsp.process()
state = bsp.State(x=np.zeros(int(megabytes * 125_000)), total=0.0)
for k in proc.rounds(rounds, state):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
    state.x[k::512] += 1.0
    state.total = proc.allreduce(1.0)
    if proc.pid == 0:
        print(k, flush=True)
