"""Process 0 knows a number; after one superstep its right neighbour knows it, too."""

import bsp

proc = bsp.process()
box = proc.coarray(1)  # one array of one number on every process

if proc.pid == 0:
    box.put(1 % proc.nprocs, 42.0)  # into the box of process 1
proc.sync()  # the superstep ends: now it is there

print(f"process {proc.pid} of {proc.nprocs} has {box.local[0]:.0f}")
