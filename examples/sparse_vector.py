"""All-gather of a sparse vector: everybody gets everybody's nonzeros (the BSPlib paper's fourth program).

Nobody knows how many nonzeros the others have: one message for each pair of processes brings indices
and values together, and the inbox says how many came.  One superstep, h = all nonzeros of the others.
Run as: bsprun -p 4 examples/sparse_vector.py
"""

import sys

import numpy as np

import bsp

proc = bsp.process()
length = 64 * proc.nprocs
dense = np.zeros(length)
mine = proc.rng.choice(np.arange(proc.pid, length, proc.nprocs), size=3 + proc.pid % 4, replace=False)
values = proc.rng.standard_normal(mine.size)

for dest in range(proc.nprocs):
    proc.send(dest, values, tag=mine)
proc.sync()

for message in proc.inbox:
    dense[message.tag] = message.payload

count = proc.allreduce(mine.size)
if np.count_nonzero(dense) != count or not np.array_equal(dense[mine], values):
    sys.exit("nonzeros are missing")
if len(set(proc.allgather(dense.tobytes()))) != 1:
    sys.exit("the processes hold different vectors")
if proc.pid == 0:
    print(f"{count} nonzeros of a vector of length {length} on all {proc.nprocs} processes")
