"""NumPy's lines on more processes than one: least squares on rows that are dealt.

Ten lines as one would write them with NumPy.  Arithmetic is lazy, so the whole chain can be looked at before it
runs: `explain()` tells its supersteps, `cost()` their price, `compute()` brings the answer to every process.
X'X and X'y are partial sums of d² + d words from each process; the rows never move.

Run as: bsprun -p 4 examples/arrays_tour.py [rows] [columns]
"""

import sys

import numpy as np

import bsp
import bsp.arrays as ba

proc = bsp.process()
n = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
d = int(sys.argv[2]) if len(sys.argv) > 2 else 12

rng = ba.random.default_rng(1)  # the same numbers for any p
x = rng.normal(3.0, 2.0, size=(n, d))
y = x @ np.arange(d) + rng.normal(size=n)
x = (x - x.mean(axis=0)) / x.std(axis=0)
gram, right = x.T @ x, x.T @ (y - y.mean())

if proc.pid == 0:  # what it is going to do is known everywhere: no process has to be asked
    print(ba.explain(gram, right))
    price = gram.cost()
    print(f"X'X alone: {price.S} supersteps, {price.H} words for {n} x {d} numbers on {proc.nprocs} processes")

ba.persist(gram, right)  # by one plan; what they have in common is computed once
beta = ba.linalg.solve(gram, right)
residual = y - y.mean() - x @ beta
spread = ba.percentile(residual, [5, 50, 95])
slope = abs(x.T @ residual).max() / n

found, quantiles = beta.compute(), spread.compute()
if bsp.expect(slope.compute() < 1e-10, times=1):  # the normal equations hold
    if proc.pid == 0:
        print("coefficients", found.round(2))
        print("residual, 5, 50 and 95 %:", quantiles.round(3))
else:
    sys.exit("the normal equations do not hold")
