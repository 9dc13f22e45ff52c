"""A program of one superstep, `bsprun -m bsp.command.trial`: whether elements reach each other."""

from __future__ import annotations

from bsp.world import process

proc = process()
assert proc.allreduce(proc.pid) == sum(range(proc.nprocs))
