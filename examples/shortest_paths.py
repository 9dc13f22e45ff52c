"""All shortest paths: the closure of a matrix of distances over (min, +), by repeated squaring.

A comprehension is a matrix product with other operations: D[i,j] = min over k of D[i,k] + D[k,j].  It is planned as
`@` is, and moves the same words; the n³ sums are folded as they are made.  log2(n) squarings reach every path.

Run as: bsprun -p 4 examples/shortest_paths.py [vertices]
"""

import sys
from math import ceil, log2

import numpy as np
from scipy.sparse.csgraph import floyd_warshall

import bsp
import bsp.arrays as ba

proc = bsp.process()
n = int(sys.argv[1]) if len(sys.argv) > 1 else 100

rng = ba.random.default_rng(5)
lengths = rng.uniform(1.0, 9.0, size=(n, n))
roads = rng.random((n, n)) < 4 / n  # about four from each place
distance = ba.where(roads, lengths, np.inf)
distance = ba.where(ba.eye(n, dtype=bool), 0.0, distance).persist()
first = distance

for _ in proc.rounds(ceil(log2(n)), state := bsp.State(distance=distance)):
    d = state.distance
    state.distance = ba.comprehension("E[i,j] = min(D[i,k] + D[k,j])", D=d).persist()

found, given = state.distance.compute(), first.compute()
reached = np.isfinite(found)
if proc.pid == 0:
    print(f"{n} places, {np.count_nonzero(np.isfinite(given)) - n} roads: {np.count_nonzero(reached)} pairs connected")
if bsp.expect(reached.any(), times=0):  # there are values to compare, but in an abstract prediction
    right = floyd_warshall(given)
    if not np.allclose(found, right, rtol=1e-12, atol=0):
        sys.exit("these are not the shortest paths")
