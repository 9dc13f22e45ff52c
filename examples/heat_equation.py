"""Heat on a plate by slices: Jacobi sweeps of the five-point stencil, until nothing changes.

heat.py does this with puts, border by border; here the array finds out what has to move.  A round is ten sweeps in
one expression: neighbours are slices, the edge stays because what is assigned covers the inside alone.  What a round
needs of the last one is an array in a bsp.State, so elements may crash while it runs:

    bsprun -p 8 -n 4 --clones 2 --standby 1 examples/heat_equation.py

The left side is held at 1, the others at 0; known is the middle of a square: a quarter.
Run as: bsprun -p 4 examples/heat_equation.py [n]
"""

import sys

import bsp
import bsp.arrays as ba

TOLERANCE = 1e-5

proc = bsp.process()
n = int(sys.argv[1]) if len(sys.argv) > 1 else 17
if n % 2 == 0:
    sys.exit("n is odd, so that the plate has a middle")

plate = ba.zeros((n, n), grid=(proc.nprocs, 1))
plate[:, 0] = 1.0
state = bsp.State(plate=plate.persist(), change=ba.ones(()), rounds=0)
for k in proc.rounds(1000, state):
    before = u = state.plate
    for _ in range(10):
        before = u
        u = u.copy()
        u[1:-1, 1:-1] = (before[:-2, 1:-1] + before[2:, 1:-1] + before[1:-1, :-2] + before[1:-1, 2:]) / 4
    state.change = abs(u - before).max()
    state.plate = u
    ba.persist(state.plate, state.change)  # in one plan
    state.rounds = k + 1
    if not bsp.expect(state.change.compute() >= TOLERANCE, times=35):
        break

middle = state.plate[n // 2, n // 2].compute()
if proc.pid == 0:
    print(f"a plate of {n} x {n} on {proc.nprocs} processes, {state.rounds} rounds: middle {middle:.6f}")
if bsp.expect(abs(middle - 0.25) > 1e-3, times=0):
    sys.exit("the middle of the plate has the wrong temperature")
