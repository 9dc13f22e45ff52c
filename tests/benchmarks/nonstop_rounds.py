"""Rounds of a given length; process 0 says each one, so that whoever reads sees how long it took.

Run as: bsprun ... nonstop_rounds.py ROUNDS SECONDS [busy|sleep] [words]
"""

import sys
import time

import numpy as np

import bsp

rounds, seconds, how = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
words = int(sys.argv[4]) if len(sys.argv) > 4 else 10
proc = bsp.process()
x, values = proc.coarray(words), np.ones(words)
state = bsp.State(total=0.0)
for k in proc.rounds(rounds, state):
    if how == "sleep":
        time.sleep(seconds)
    else:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass
    x.put((proc.pid + 1) % proc.nprocs, values + k)
    state.total += float(x.local[0])
    if proc.pid == 0:
        print(k, state.total.hex(), flush=True)
    proc.sync()
