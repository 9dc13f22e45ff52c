"""Each algorithm of some collectives, forced in turn, and the one that the model chooses: seconds, as JSON.

Run as: bsprun -p P -n 2 choices.py COLLECTIVE:WORDS ...
"""

import json
import sys
import time

import numpy as np

import bsp

proc = bsp.process()
ROUNDS, CALLS = 9, 4


def call(name: str, words: int, algorithm: str | None) -> None:
    """The collective once, on values of so many words."""
    value = np.ones(words)
    if name == "alltoall":
        proc.alltoall([value] * proc.nprocs, algorithm=algorithm)
    elif name == "scatter":
        proc.scatter([value] * proc.nprocs if proc.pid == 0 else None, algorithm=algorithm)
    else:
        getattr(proc, name)(value, algorithm=algorithm)


found = {}
for case in sys.argv[1:]:
    collective, words = case.split(":")
    call(collective, int(words), None)
    plan = proc.plan().collective  # of a broadcast, only the root has prices
    chosen, priced = proc.broadcast((plan.chosen, [name for name, _ in plan.priced]) if proc.pid == 0 else None)
    best = dict.fromkeys(priced, float("inf"))
    for _ in range(ROUNDS):
        for algorithm in priced:
            proc.sync()
            began = time.perf_counter()
            for _ in range(CALLS):
                call(collective, int(words), algorithm)
            proc.sync()
            seconds = proc.allreduce((time.perf_counter() - began) / CALLS, op="max")
            best[algorithm] = min(best[algorithm], seconds)
    found[case] = {"chosen": chosen, "seconds": best}
if proc.pid == 0:
    print(json.dumps(found))
