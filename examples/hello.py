"""A ring: every process tells its right neighbour its pid.

One superstep, h = 1 word.  Run as: bsprun -p 4 examples/hello.py
"""

import bsp

proc = bsp.process()
x = proc.coarray(1)

x.put((proc.pid + 1) % proc.nprocs, proc.pid)
proc.sync()

left = int(x.local[0])
print(f"process {proc.pid} of {proc.nprocs}: my left neighbour is {left}")
if left != (proc.pid - 1) % proc.nprocs:
    raise SystemExit("the ring is broken")
