"""A mistake in the program: process 2 divides by zero in round 20, in every clone."""

import time

import bsp

proc = bsp.process()
state = bsp.State(x=1.0)
for k in proc.rounds(40, state):
    time.sleep(0.01)
    if proc.pid == 0:
        print(f"round {k}", flush=True)
    state.x = proc.allreduce(state.x / (20 - k if proc.pid == 2 else 1)) / proc.nprocs
