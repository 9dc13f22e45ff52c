"""Not the same in every clone: astray.py HOW, with values drawn unseeded, from the clock, or that name the machine."""

import os
import sys
import time

import numpy as np

import bsp

how = sys.argv[1]
proc = bsp.process()
state = bsp.State(x=0.0)
for k in proc.rounds(40, state):
    time.sleep(0.01)
    if k >= 10 and proc.pid == 1:  # in every round from then on: a laggard jumps over some
        if how == "rng":
            state.x += float(np.random.default_rng().random())
        elif how == "clock":
            state.x += time.perf_counter()
        else:
            state.x += os.getpid()
    state.x = proc.allreduce(state.x + 1) / proc.nprocs
    if proc.pid == 0:
        print(f"round {k} {state.x.hex()}", flush=True)
