"""Memory traded for words: one product of two matrices, by every method, counted and checked.

Method 1 fetches all it needs at once, method 2 a pair of blocks at a time, method 4 works on cubes; the recursive one
is told how much memory it may use, and is between them (McColl 1.6.2, 1.6.3).  What each moves and holds is known
before it runs; the products are compared with NumPy's.

Run as: bsprun -p 64 examples/matmul_study.py [n]
"""

import sys

import numpy as np

import bsp
import bsp.algorithms.matmul as mm

proc = bsp.process()
n = int(sys.argv[1]) if len(sys.argv) > 1 else 256
p = proc.nprocs
i = np.arange(n)
a, b = (i[:, None] * 7 + i * 3) % 11 - 5.0, (i[:, None] * 5 - i * 2) % 13 - 6.0  # small integers: sums are exact

costs = {method: mm.cost(n, n, n, p, method, machine=proc.machine) for method in (1, 2, 4, "summa")}
half_way = 8 * (costs[2].memory * costs[4].memory) ** 0.5  # bytes
budget: dict[int | str, float] = {"recursive": max(half_way, 8 * costs[2].memory)}
costs["recursive"] = mm.cost(n, n, n, p, "recursive", budget["recursive"], proc.machine)

if proc.pid == 0:
    print(f"{n} x {n} on {p} processes; words and memory of the busiest, a process's share of a matrix is {n * n // p}")
    print(f"{'method':<10} {'grid':>12} {'words':>9} {'supersteps':>11} {'memory':>9}")
wrong = []
for method, cost in costs.items():
    product = mm.matmul(a, b, method, memory=budget.get(method, 0)).compute()
    if bsp.expect(abs(product - a @ b).max() > 0, times=0):
        wrong.append(f"method {method} is wrong")
    if proc.pid == 0:
        grid = "x".join(map(str, cost.schedule[3:6]))
        print(f"{method:<10} {grid:>12} {cost.words:>9} {cost.supersteps:>11} {cost.memory:>9}")

x = a[0]
if bsp.expect(abs(mm.matvec(a, x).compute() - a @ x).max() > 0, times=0):
    wrong.append("the product with a vector is wrong")
if wrong:
    sys.exit("; ".join(wrong))
