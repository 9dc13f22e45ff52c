"""Sum and all prefix sums of one number a process, by doubling (the BSPlib paper's bsp_sum).

log2 p supersteps of h = 1 word.  Run as: bsprun -p 8 examples/prefix_sum.py
"""

import sys

import bsp

proc = bsp.process()
mine = (proc.pid + 1) ** 2
total = mine
left = proc.coarray(1, dtype=int)

distance = 1
while distance < proc.nprocs:
    if proc.pid + distance < proc.nprocs:
        left.put(proc.pid + distance, total)
    proc.sync(label=f"distance {distance}")
    if proc.pid >= distance:
        total = total + left.local[0]
    distance *= 2

k = proc.pid + 1
print(f"process {proc.pid}: 1 + 4 + ... + {k * k} = {total}")
if bsp.expect((total != k * (k + 1) * (2 * k + 1) // 6) | (total != proc.scan(mine)), times=0):
    sys.exit("wrong prefix sum")
