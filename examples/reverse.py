"""Reverse: process i's value to process p - 1 - i (Hill et al. 1998, the BSPlib paper's first program).

One superstep, h = 1 word.  Run as: bsprun -p 8 examples/reverse.py
"""

import sys

import bsp

proc = bsp.process()
x = proc.coarray(1, dtype=int, fill=proc.pid)

x.put(proc.nprocs - 1 - proc.pid, x.local)
proc.sync()

print(f"process {proc.pid} holds {x.local[0]}")
if bsp.expect(x.local[0] != proc.nprocs - 1 - proc.pid, times=0):
    sys.exit("not reversed")
