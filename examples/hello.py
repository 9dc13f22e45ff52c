"""A ring: every process tells its right neighbour its pid.

One superstep, h = 1 word.  Run as: bsprun -p 4 examples/hello.py
"""

import bsp

proc = bsp.process()
x = proc.coarray(1)

x.put((proc.pid + 1) % proc.nprocs, proc.pid)
proc.sync()

left = x.local[0]
print(f"process {proc.pid} of {proc.nprocs}: my left neighbour is {left:.0f}")
if bsp.expect(left != (proc.pid - 1) % proc.nprocs, times=0):
    raise SystemExit("the ring is broken")
