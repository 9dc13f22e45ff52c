"""One superstep a round, and places where all clones wait for who strikes them: steps.py ROUNDS PLACES BUSY

ROUNDS rounds, in each of which a process computes for BUSY seconds.  PLACES is a list with commas of "round K", "loop
is over", "text is over" and "start on HOST"; a clone that comes to such a place leaves a mark in the folder REACHED,
then waits until the test lets it go (sabotage.py).  "spare rounds" are rounds behind the others that change nothing and
print nothing, so many as it takes until the test lets them end.  In each round, each process adds a line to the file
EFFECTS by `proc.once`, if the variable is set.
"""

import os
import sys
import time

import numpy as np
import sabotage

import bsp

rounds, places, busy = int(sys.argv[1]), sys.argv[2].split(","), float(sys.argv[3])
host = os.uname().nodename
proc = bsp.process()


def reached(place: str) -> None:
    if place in places:
        with open(os.path.join(os.environ["REACHED"], f"{place}, process {proc.pid} on {host}"), "w"):
            pass
        sabotage.await_strikes(place)


def effect(k: int) -> int:
    with open(os.environ["EFFECTS"], "a") as file:
        file.write(f"{k} {proc.pid}\n")
    return k


def spare() -> bool:
    """One process looks, in one of its clones, so that all agree."""
    time.sleep(0.005)
    more = "spare rounds" in places and (
        proc.pid > 0 or proc.once(lambda: sabotage.strikes_are_to_come("spare rounds"))
    )
    return proc.allreduce(int(more)) == proc.nprocs


reached(f"start on {host}")
left = proc.coarray(3)
state = bsp.State(x=np.linspace(proc.pid, proc.pid + 1, 3))
for k in proc.rounds(1_000_000, state):
    if k >= rounds:
        if spare():
            continue
        break
    until = time.thread_time() + busy
    while time.thread_time() < until:
        pass
    reached(f"round {k}")
    if "EFFECTS" in os.environ:
        proc.once(lambda k=k: effect(k))
    left.put((proc.pid + 1) % proc.nprocs, state.x)
    print(f"round {k} of process {proc.pid}: {float(state.x.sum()).hex()}", flush=True)
    proc.sync()
    state.x = 0.5 * state.x + 0.25 * left.local + proc.rng.random(3)
reached("loop is over")
print(f"process {proc.pid}: {float(state.x.sum()).hex()}", flush=True)
proc.sync()
reached("text is over")
