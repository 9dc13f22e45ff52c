"""300 supersteps of a millisecond of work and a small put each; prints the median seconds of one.

Run as: bsprun -p 2 -n 2 traced.py, with and without --trace
"""

import json
import statistics
import time

import numpy as np

import bsp

proc = bsp.process()
x, values = proc.coarray(16), np.ones(16)
work = np.ones(1 << 15)
times = []
for _ in range(300):
    began = time.perf_counter()
    while time.perf_counter() - began < 1e-3:
        work.sum()
    x.put((proc.pid + 1) % proc.nprocs, values)
    proc.sync(label="step")
    times.append(time.perf_counter() - began)
if proc.pid == 0:
    print(json.dumps(statistics.median(times)))
