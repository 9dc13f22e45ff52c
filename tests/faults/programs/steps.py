"""One superstep a round, and a place where all clones wait for who strikes them: steps.py ROUNDS PLACE BUSY

ROUNDS rounds, in each of which a process computes for BUSY seconds.  PLACE is "round K", "loop is over", "text is
over", or "start on HOST"; a clone that comes there leaves a mark in the folder REACHED, then waits as sabotage.py
says (any other word: nobody waits).  In each round, each process adds a line to the file EFFECTS by `proc.once`, if
the variable is set.
"""

import os
import sys
import time

import numpy as np
import sabotage

import bsp

rounds, place, busy = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
host = os.uname().nodename
proc = bsp.process()


def reached(where: str) -> None:
    if where == place:
        with open(os.path.join(os.environ["REACHED"], f"process {proc.pid} on {host}"), "w"):
            pass
        sabotage.await_strikes()


def effect(k: int) -> int:
    with open(os.environ["EFFECTS"], "a") as file:
        file.write(f"{k} {proc.pid}\n")
    return k


reached(f"start on {host}")
left = proc.coarray(3)
state = bsp.State(x=np.linspace(proc.pid, proc.pid + 1, 3))
for k in proc.rounds(rounds, state):
    until = time.thread_time() + busy
    while time.thread_time() < until:
        pass
    reached(f"round {k}")
    if "EFFECTS" in os.environ:
        proc.once(lambda k=k: effect(k))
    left.put((proc.pid + 1) % proc.nprocs, state.x)
    print(f"round {k}, process {proc.pid}: {float(state.x.sum()).hex()}", flush=True)
    proc.sync()
    state.x = 0.5 * state.x + 0.25 * left.local + proc.rng.random(3)
reached("loop is over")
print(f"process {proc.pid}: {float(state.x.sum()).hex()}", flush=True)
proc.sync()
reached("text is over")
