"""A deterministic iteration with everything that a newcomer must be given: ring.py ROUNDS SECONDS WORDS [anything]

Its last round waits for whoever strikes it from outside, and rounds of its second half take a second while somebody
needs them (sabotage.py).

A State, a coarray with puts, an allreduce, proc.rng, text of several processes, and a value that
nobody is told before the end.  Rounds sleep SECONDS; each puts WORDS words.
"""

import sys
import time

import numpy as np
import sabotage

import bsp

rounds, seconds, words = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
proc = bsp.process()
left = proc.coarray(words)
sums = np.zeros(3)
state = bsp.State(
    kept=np.arange(4.0), sums=sums, x=np.linspace(proc.pid, proc.pid + 1, words), total=0.0, hidden=proc.pid
)
for k in proc.rounds(rounds, state):
    time.sleep(seconds)
    sabotage.linger(k, rounds)
    sabotage.at(k, state)
    if k == rounds - 1:
        sabotage.await_strikes()
    left.put((proc.pid + 1) % proc.nprocs, state.x)
    state.total = proc.allreduce(float(state.x.sum()))
    state.x = 0.5 * state.x + 0.25 * left.local + proc.rng.random(words) / (1 + abs(state.total))
    sums[k % 3] += state.total
    state.hidden = (3 * state.hidden + k) % (1 << 61)
    if proc.pid == 0:
        print(f"round {k} {state.total.hex()}", flush=True)
    elif k % 7 == proc.pid:
        print(f"process {proc.pid} in round {k}: {state.x[0].hex()}")
print(f"process {proc.pid}: {state.hidden} {float(state.x.sum()).hex()} {state.kept.sum().hex()} {sums.sum().hex()}")
